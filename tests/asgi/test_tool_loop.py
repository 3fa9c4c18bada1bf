"""The loop of model and tools as one public stream: with the real SDK on loopback, and with streams made here."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic import BaseModel
from structlog.testing import capture_logs

from projector import UsageError
from projector.contracts.stream_rules import check_stream
from projector.core.faults import FAULTS
from projector.core.sse import encode_sse
from projector.providers import PROVIDERS, profile_of
from projector.server import (
    Projection,
    PublicSSEResponse,
    Terminal,
    Timeouts,
    ToolLoop,
    Turn,
    UpstreamError,
    public_stream,
)
from projector.server.tools import tool_loop
from projector.server.tools.turns import ENDS, TurnReader
from tests.asgi.conftest import Peer
from tests.asgi.in_process import post

Event = dict[str, Any]

ASKED: Final = {"role": "user", "content": "How is the weather in Rome?"}
ROME: Final = '{"city": "Rome"}'


def call(call_id: str = "call_1", name: str = "get_weather", arguments: str = ROME) -> Event:
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}


def message(text: str) -> Event:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{text[:4]}", "role": "assistant", "status": "completed", "content": content}


def response(*items: Event, number: int = 1, end: str = "completed", **members: object) -> list[Event]:
    """Return the events of a response with these items."""
    about = {"id": f"resp_{number}", "output": []}
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)]
    return [
        {"type": "response.created", "response": {**about, "status": "in_progress"}},
        *done,
        {"type": f"response.{end}", "response": {**about, "status": end, "usage": usage, **members}},
    ]


BLUE: Final = response(message("Blue."), number=2)


class Model:
    """Answers each turn with the next stream, and keeps the turns."""

    def __init__(self, *streams: Sequence[object]) -> None:
        self._streams = list(streams)
        self.turns: list[Turn] = []

    async def __call__(self, turn: Turn) -> AsyncIterator[object]:
        self.turns.append(turn)
        return self._read(self._streams[len(self.turns) - 1])

    async def _read(self, events: Sequence[object]) -> AsyncIterator[object]:
        for event in events:
            await asyncio.sleep(0)
            if isinstance(event, Exception):
                raise event
            yield event


def get_weather(city: str) -> dict[str, str]:
    return {"city": city, "sky": "blue", "token": "t-8"}


async def frames(loop: ToolLoop, projection: Projection | None = None, **options: Any) -> list[Event]:
    """Return the public stream of a loop, which obeys the rules of the contract."""
    data = b"".join([part async for part in public_stream(loop, projection, **options)])
    lines = [one.removeprefix(b"data: ") for one in data.split(b"\n\n") if one and not one.startswith(b":")]
    assert check_stream(lines) == []
    return [json.loads(line) for line in lines]


def outline(shown: Sequence[Event]) -> list[str]:
    """Return the kinds of a stream, with what happens to its tools."""
    return [
        f"{frame['kind']} {frame['tool']['status']}" if frame["kind"] == "tool.status" else frame["kind"]
        for frame in shown
        if frame["kind"] not in {"lifecycle", "output_item.added", "output_item.done", "tool.arguments.done"}
    ]


# with the real SDK


CHAT_CHUNK: Final = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test"}


def chunk(finish: str | None = None, **delta: object) -> Event:
    return {**CHAT_CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def fragment(arguments: str, **members: object) -> list[Event]:
    return [{"index": 0, "function": {"arguments": arguments, **members.pop("function", {})}, **members}]  # type: ignore[dict-item]  # a mapping


CHAT: Final = [
    [
        chunk(role="assistant", content="I look."),
        chunk(tool_calls=fragment('{"city"', id="call_1", type="function", function={"name": "get_weather"})),
        chunk(tool_calls=fragment(': "Rome"}')),
        chunk("tool_calls"),
        {**CHAT_CHUNK, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
    ],
    [
        chunk(role="assistant", content="Blue."),
        chunk("stop"),
        {**CHAT_CHUNK, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
    ],
]
RESPONSES: Final = [response({"type": "reasoning", "id": "rs_1", "summary": []}, call()), BLUE]


@pytest.fixture
async def client(upstream_port: int) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="sk-test", base_url=f"http://127.0.0.1:{upstream_port}/v1", max_retries=0) as one:
        yield one


def provider(*turns: Sequence[Event]) -> Callable[[Peer], Any]:
    """Return a provider that answers requests in turn."""
    waiting = list(turns)

    async def script(peer: Peer) -> None:
        await peer.start()
        for number, event in enumerate(waiting.pop(0)):
            await peer.event({"sequence_number": number, **event} if "type" in event else event)
        await peer.chunk(b"data: [DONE]\n\n")
        await peer.end()

    return script


SHOWN: Final = ["tool.status in_progress", "tool.output", "tool.status completed", "message.delta", "final"]


async def run_on_loopback(loop: ToolLoop) -> list[Event]:
    answer = await post(PublicSSEResponse(loop), "/chat")
    assert answer.status == 200
    shown = [json.loads(one.removeprefix("data: ")) for one in answer.text.split("\n\n") if one]
    assert check_stream(answer.text.replace("data: ", "").strip().split("\n\n")) == []
    [output] = [frame for frame in shown if frame["kind"] == "tool.output"]
    assert output["output"] == {"city": "Rome", "sky": "blue", "token": "<redacted>"}
    assert [notice["path"] for notice in output["notices"]] == ["output.token"]
    assert shown[-1]["final"]["status"] == "completed"
    assert shown[-1]["final"]["usage"]["total_tokens"] == 14, "of both responses"
    return shown


OUTPUT: Final = '{"city":"Rome","sky":"blue","token":"t-8"}'
RESULT: Final = {"type": "function_call_output", "call_id": "call_1", "output": OUTPUT}


@pytest.mark.parametrize("is_stored", [True, False])
async def test_responses(client: AsyncOpenAI, upstream: Any, is_stored: bool) -> None:  # noqa: FBT001 - a row
    scripted = await upstream(provider(*RESPONSES))

    def ask(turn: Turn) -> Any:
        if is_stored:
            given: Any = {"input": turn.new_items, "previous_response_id": turn.previous_response_id}
        else:
            given = {"input": turn.items, "store": False}
        return client.responses.create(model="gpt-test", stream=True, **given)

    shown = await run_on_loopback(ToolLoop(ask, {"get_weather": get_weather}, input="How is the weather in Rome?"))
    assert outline(shown) == SHOWN
    assert [frame["response_id"] for frame in shown if "response_id" in frame][-1] == "resp_2"
    first, second = [(await scripted.peers.get()).body for _ in range(2)]
    assert first["input"] == [ASKED]
    if is_stored:
        assert (second["input"], second["previous_response_id"]) == ([RESULT], "resp_1")
    else:
        assert second["input"] == [ASKED, {"type": "reasoning", "id": "rs_1", "summary": []}, call(), RESULT]


async def test_chat_completions(client: AsyncOpenAI, upstream: Any) -> None:
    scripted = await upstream(provider(*CHAT))

    def ask(turn: Turn) -> Any:
        return client.chat.completions.create(model="gpt-test", messages=turn.messages, stream=True)  # type: ignore[call-overload]  # dictionaries

    loop = ToolLoop(ask, {"get_weather": get_weather}, input=[ASKED], provider="openai_chat")
    shown = await run_on_loopback(loop)
    assert [kind for kind in outline(shown) if kind != "tool.arguments.delta"] == ["message.delta", *SHOWN]
    asks = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ROME}}
    bodies = [(await scripted.peers.get()).body["messages"] for _ in range(2)]
    assert bodies[0] == [ASKED]
    assert bodies[1] == [
        ASKED,
        {"role": "assistant", "content": "I look.", "tool_calls": [asks]},
        {"role": "tool", "tool_call_id": "call_1", "content": OUTPUT},
    ]
    assert [item["type"] for item in loop.items[1:]] == ["message", "function_call", "function_call_output", "message"]


@pytest.mark.parametrize("number", [0, 1])
async def test_a_refused_request(client: AsyncOpenAI, upstream: Any, number: int) -> None:
    body = b'{"error": {"message": "No.", "code": "bad"}}'
    answers = provider(RESPONSES[0])

    async def script(peer: Peer) -> None:
        if scripted.peers.qsize() <= number:
            await answers(peer)
        else:
            await peer.send(b"HTTP/1.1 400 No\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    scripted = await upstream(script)
    loop = ToolLoop(
        lambda turn: client.responses.create(model="m", input=list(turn.items), stream=True),  # type: ignore[arg-type]  # mappings
        {"get_weather": get_weather},
        input="Hi",
    )
    answer = await post(PublicSSEResponse(loop), "/chat")
    assert answer.status == (502 if number == 0 else 200)
    assert answer.text.count('"code":"upstream_http_400"') == 1
    assert answer.text.count('"kind":"error"') == number


# tools


async def run_call(*calls: Event, **tools: Any) -> tuple[list[Event], list[Any]]:
    """Run calls of one response; return the public outputs with their last status, and what the model is told."""
    model = Model(response(*calls), BLUE)
    options = {name: tools.pop(name) for name in ("tool_timeout_s", "max_parallel") if name in tools}
    shown = await frames(ToolLoop(model, tools, input="Hi", **options))
    assert shown[-1]["final"]["response_text"] == "Blue."
    outputs = [frame for frame in shown if frame["kind"] == "tool.output"]
    statuses = {frame["tool"]["tool_call_id"]: frame["tool"]["status"] for frame in shown if "tool" in frame}
    known = [{"output": one["output"], "status": statuses[one["tool_call_id"]]} for one in outputs]
    return known, [json.loads(item["output"]) for item in model.turns[1].new_items]


class Weather(BaseModel):
    sky: str


@dataclasses.dataclass
class Sky:
    sky: str


async def async_tool(city: str) -> Weather:
    await asyncio.sleep(0)
    return Weather(sky=f"{city} blue")


def returns_awaitable(city: str) -> Any:
    return async_tool(city)


@pytest.mark.parametrize(
    "tool",
    [async_tool, returns_awaitable, lambda city: Sky(f"{city} blue"), lambda **given: {"sky": f"{given['city']} blue"}],
    ids=["async", "returns an awaitable", "dataclass", "any arguments"],
)
async def test_kinds_of_tools(tool: Any) -> None:
    result = {"sky": "Rome blue"}
    assert await run_call(call(), get_weather=tool) == ([{"output": result, "status": "completed"}], [result])


@dataclasses.dataclass
class Day:
    price: Decimal
    date: dt.date
    weather: Weather


DAY: Final = Day(Decimal("1.50"), dt.date(2026, 1, 2), Weather(sky="blue"))
WRITTEN_DAY: Final = {"price": "1.50", "date": "2026-01-02", "weather": {"sky": "blue"}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (DAY, WRITTEN_DAY),
        ([DAY, {"day": DAY}], [WRITTEN_DAY, {"day": WRITTEN_DAY}]),
        ([Weather(sky="blue\ud800")], [{"sky": "blue\ufffd"}]),
        ({"prices": (Decimal("1.50"),)}, {"prices": ["1.50"]}),
    ],
)
async def test_models_and_dataclasses_within_a_result(result: object, expected: object) -> None:
    outputs, told = await run_call(call(), get_weather=lambda city: city and result)
    assert (outputs, told) == ([{"output": expected, "status": "completed"}], [expected])


async def test_a_plain_function_runs_in_a_thread() -> None:
    threads = []
    await run_call(call(arguments=""), get_weather=lambda: threads.append(threading.get_ident()))
    assert threads != [threading.get_ident()]


async def test_calls_of_a_response_run_in_parallel_and_are_answered_in_order() -> None:
    both = asyncio.Barrier(2)

    async def tool(city: str) -> str:
        await both.wait()
        if city == "Rome":
            await asyncio.sleep(0.05)
        return json.dumps(city)

    calls = [call("call_1"), call("call_2", arguments='{"city": "Oslo"}')]
    outputs, told = await run_call(*calls, get_weather=tool)
    assert [one["output"] for one in outputs] == ['"Oslo"', '"Rome"']
    assert told == ["Rome", "Oslo"]


async def test_calls_beyond_the_limit_wait() -> None:
    running, most = 0, 0

    async def tool(city: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return json.dumps(city)

    await run_call(*(call(f"call_{at}") for at in range(6)), get_weather=tool, max_parallel=2)
    assert most == 2


async def typed(count: int, weather: Weather, day: Literal["today"] = "today") -> Any:
    return {"count": count + 1, "sky": weather.sky, "day": day}


async def of_unknown_types(city: str, _loop: ToolLoop | None = None) -> Any:
    return city


TYPED: Final = {"count": 4, "sky": "blue", "day": "today"}


@pytest.mark.parametrize(
    ("arguments", "tool", "expected"),
    [
        ('{"count": 3, "weather": {"sky": "blue"}}', typed, TYPED),
        ('{"count": "3", "weather": {"sky": "blue"}, "day": "today"}', typed, TYPED),
        (ROME, partial(of_unknown_types, _loop=None), "Rome"),
        ('{"city": 3}', of_unknown_types, 3),  # its names only are checked
        ("{}", dict, {}),  # it has no signature
    ],
)
async def test_arguments_have_the_types_of_the_parameters(arguments: str, tool: Any, expected: Any) -> None:
    model = Model(response(call(arguments=arguments)), BLUE)
    shown = await frames(ToolLoop(model, {"get_weather": tool}, input="Hi"))
    assert [frame["output"] for frame in shown if frame["kind"] == "tool.output"] == [expected]


async def raises(city: str) -> None:
    raise RuntimeError(f"payload {city}")


async def hangs(city: str) -> None:
    await asyncio.sleep(60)
    raise AssertionError(city)


async def awaits_what_was_cancelled(city: str) -> None:
    over = asyncio.get_running_loop().create_future()
    over.cancel(city)
    await over


FAILED: Final = {"error": "The tool failed."}
BAD: Final = {"error": "The arguments are not a JSON object that fits the parameters of the tool."}


@pytest.mark.parametrize(
    ("arguments", "tool", "expected"),
    [
        (ROME, raises, FAILED),
        (ROME, awaits_what_was_cancelled, FAILED),
        (ROME, lambda city: {city: object()}, FAILED),
        (ROME, hangs, {"error": "The tool did not finish in time."}),
        ('{"city": ', get_weather, BAD),
        ('["Rome"]', get_weather, BAD),
        ('{"town": "Rome"}', get_weather, BAD),
        ('{"city": ["Rome"]}', get_weather, BAD),
        ('{"count": "abc", "weather": {"sky": "blue"}}', typed, BAD),
        ('{"count": 3, "weather": {"sky": 5}}', typed, BAD),
        ('{"count": 3, "weather": {"sky": "blue"}, "day": "monday"}', typed, BAD),
        ('{"town": "Rome"}', of_unknown_types, BAD),
        (ROME, None, {"error": "There is no tool of this name."}),
    ],
)
async def test_a_call_that_fails(arguments: str, tool: Any, expected: Event) -> None:
    tools = {} if tool is None else {"get_weather": tool}
    with capture_logs() as lines:
        limit = 0.1 if tool is hangs else 60
        outputs, told = await run_call(call(arguments=arguments), tool_timeout_s=limit, **tools)
    assert outputs == [{"output": expected, "status": "failed"}]
    assert told == [expected]
    assert "payload" not in repr(lines)
    assert [line["tool"] for line in lines if line["event"] == "tool_failed"] == ["get_weather"] * (expected == FAILED)


CIRCULAR: Final[list[object]] = []
CIRCULAR.append(CIRCULAR)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (b"a", "bytes"),
        ({"a"}, "set"),
        ((one for one in "a"), "generator"),
        (Sky(object()), "Sky"),
        (CIRCULAR, "list"),
        ([(one for one in "a")], "list"),
    ],
)
async def test_a_result_that_is_no_json_is_named_in_the_log(result: object, kind: str) -> None:
    with capture_logs() as lines:
        outputs, _ = await run_call(call(), get_weather=lambda city: city and result)
    assert outputs == [{"output": FAILED, "status": "failed"}]
    [line] = [line for line in lines if line["event"] == "tool_failed"]
    assert line["detail"].endswith(f"JSON types, a pydantic model or a dataclass; the tool returned `{kind}`")


async def test_a_custom_tool_receives_its_text() -> None:
    asked = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql", "input": "select 1"}
    model = Model(response(asked), BLUE)
    await frames(ToolLoop(model, {"sql": str.upper}, input="Hi"))
    assert model.turns[1].new_items == [
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "SELECT 1"},
    ]


@pytest.mark.parametrize(
    ("given", "shown_ids"),
    [
        (("get_weather", "get_weather"), ["get_weather", "get_weather_1"]),
        (("call", "call_1", "call"), ["call", "call_1", "call_2"]),
        (("call_2", "call", "call"), ["call_2", "call", "call_2_2"]),
        ((None, None), ["fc_0", "fc_1"]),
        ((None, "", "call"), ["fc_0", "fc_1", "call"]),
    ],
)
@pytest.mark.parametrize("place", ["events", "end", "events and end", "events and end with other items"])
async def test_calls_that_share_an_id_or_have_none(
    given: Sequence[str | None], shown_ids: list[str], place: str
) -> None:
    """Some servers send the name of the function as the ID of each of its calls."""
    items = [
        {"type": "function_call", "id": f"fc_{at}", "call_id": one, "name": "echo", "arguments": f'{{"at": {at}}}'}
        for at, one in enumerate(given)
    ]
    same = {"type": "message", "id": "call", "role": "assistant", "content": []}
    ends: dict[str, list[Any]] = {"events": [], "events and end with other items": [same, *items]}
    events = response(*items if "events" in place else (), output=ends.get(place, items))
    model = Model(events, BLUE)
    shown = await frames(ToolLoop(model, {"echo": lambda at: at}, input="Hi"))
    outputs = {frame["output"]: frame["tool_call_id"] for frame in shown if frame["kind"] == "tool.output"}
    assert [outputs[at] for at in range(len(items))] == shown_ids
    assert [item["call_id"] for item in model.turns[1].items[1:] if "call_id" in item] == shown_ids * 2
    assert [item["output"] for item in model.turns[1].new_items] == [str(at) for at in range(len(items))]


@pytest.mark.parametrize(
    ("added", "done"),
    [({}, {"output_index": 0}), ({"output_index": 0}, {}), ({"output_index": 0}, {"output_index": 1})],
)
async def test_a_call_keeps_its_id_if_its_events_disagree_on_the_index(
    added: dict[str, Any], done: dict[str, Any]
) -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "call", "name": "echo", "arguments": '{"at": 0}'}
    events = [
        {"type": "response.created", "response": {"id": "resp"}},
        {"type": "response.output_item.added", "item": item, **added},
        {"type": "response.output_item.done", "item": item, **done},
        {"type": "response.completed", "response": {"id": "resp", "status": "completed"}},
    ]
    model = Model(events, BLUE)
    await frames(ToolLoop(model, {"echo": lambda at: at}, input="Hi"))
    assert [item["call_id"] for item in model.turns[1].items[1:]] == ["call", "call"]


@pytest.mark.parametrize("event", ["delta", "done"])
@pytest.mark.parametrize("item_id", [{}, {"item_id": "fc"}], ids=["no ID", "one ID"])
async def test_no_call_gets_the_arguments_of_another(item_id: dict[str, str], event: str) -> None:
    """Some servers send one ID for all items, or none: then the index tells the calls apart."""
    texts = ('{"at": 0}', '{"at": 1}')
    member = "delta" if event == "delta" else "arguments"
    events: list[Event] = [{"type": "response.created", "response": {"id": "resp"}}]
    for at, text in enumerate(texts):
        name = f"response.function_call_arguments.{event}"
        events.append({"type": name, "output_index": at, member: text, **item_id})
    for at in range(3):
        item = {"type": "function_call", "call_id": f"call_{at}", "name": "echo", "arguments": ""}
        item["id"] = item_id.get("item_id", "")
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    model = Model([*events, response()[-1]], BLUE)
    await frames(ToolLoop(model, {"echo": lambda at=None: at}, input="Hi"))
    assert [item["output"] for item in model.turns[1].new_items] == ["0", "1", "null"]


@pytest.mark.parametrize("event", ["delta", "done"])
@pytest.mark.parametrize("places", [(0, 0, 0, 1), (0, 0, 0, 0), (1, 2, 0, 1), (1, 0, 0, 1)])
async def test_the_arguments_of_a_call_are_those_with_its_id(places: tuple[int, ...], event: str) -> None:
    """Some servers send an item and its arguments with different indexes, or one index for all."""
    member = "delta" if event == "delta" else "arguments"
    events: list[Event] = [{"type": "response.created", "response": {"id": "resp"}}]
    for at, place in enumerate(places[:2]):
        named = {"type": f"response.function_call_arguments.{event}", "item_id": f"fc_{at}", "output_index": place}
        events.append({**named, member: f'{{"at": {at}}}'})
    for at, place in enumerate(places[2:]):
        item = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": "echo", "arguments": ""}
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    model = Model([*events, response()[-1]], BLUE)
    await frames(ToolLoop(model, {"echo": lambda at=None: at}, input="Hi"))
    assert [item["output"] for item in model.turns[1].new_items] == ["0", "1"]


@pytest.mark.parametrize("kind", [[], {}, None, 5])
async def test_an_item_with_a_type_that_is_no_text_does_not_end_the_loop(kind: Any) -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": {"type": kind, "id": "x"}}
    shown = await frames(ToolLoop(Model([done, *BLUE]), {}, input="Hi"))
    assert shown[-1]["kind"] == "final"
    assert shown[-1].get("error") is None


# how a loop ends


async def test_the_end_of_the_turns() -> None:
    model = Model(*(response(call(f"call_{at}"), number=at) for at in range(3)))
    seen: list[str] = []
    shown = await frames(ToolLoop(model, {"get_weather": seen.append}, input="Hi", max_turns=3))
    assert (shown[-1]["kind"], shown[-1]["error"]["code"]) == ("error", "run_max_turns")
    assert len(model.turns) == 3


STOPPED: Final = {"error": "The tool was not run, or its result is unknown."}


@pytest.mark.parametrize(
    ("end", "max_turns", "total_s", "told"),
    [
        ("completed", 1, 60, [STOPPED, STOPPED]),
        ("incomplete", 2, 60, [STOPPED, STOPPED]),
        ("completed", 2, 0.5, [get_weather("Rome"), STOPPED]),
    ],
)
async def test_each_call_of_a_loop_that_was_stopped_has_an_output(
    end: str, max_turns: int, total_s: float, told: list[object]
) -> None:
    """Providers refuse a conversation with a call without an output."""
    model = Model(response(call(), call("call_2", "hangs"), end=end))
    loop = ToolLoop(model, {"get_weather": get_weather, "hangs": hangs}, input="Hi", max_turns=max_turns)
    await frames(loop, timeouts=Timeouts(total_s=total_s))
    calls, outputs = loop.items[1:3], loop.items[3:]
    assert [item["call_id"] for item in outputs] == [item["call_id"] for item in calls] == ["call_1", "call_2"]
    assert [json.loads(item["output"]) for item in outputs] == told


async def test_a_result_that_was_not_sent_is_kept() -> None:
    """A client may read slowly, and leave while a second tool has ended."""

    async def charge() -> str:
        await asyncio.sleep(0.05)
        return "charged"

    model = Model(response(call(), call("call_2", "charge", "{}")))
    loop = ToolLoop(model, {"get_weather": get_weather, "charge": charge}, input="Hi")
    async for data in loop:
        if b"projector.tool_output" in data:
            break
    await asyncio.sleep(0.2)
    await loop.aclose()
    assert [item["output"] for item in loop.items[3:]] == [
        json.dumps(get_weather("Rome"), separators=(",", ":")),
        "charged",
    ]


async def test_a_tool_of_the_client_ends_the_loop() -> None:
    model = Model(response(call(), call("call_2", "pick_colour", "{}")))
    loop = ToolLoop(model, {"get_weather": get_weather}, input="Hi", client_tools=["pick_colour"])
    shown = await frames(loop)
    statuses = {frame["tool"]["tool_call_id"]: frame["tool"]["status"] for frame in shown if "tool" in frame}
    assert statuses == {"call_1": "completed", "call_2": "in_progress"}
    assert shown[-1]["final"]["status"] == "completed"
    assert [item.get("call_id") for item in loop.items[1:]] == ["call_1", "call_2", "call_1"]


async def test_an_approval_request_ends_the_loop() -> None:
    request = {"type": "mcp_approval_request", "id": "m_1", "name": "pay", "server_label": "s", "arguments": "{}"}
    shown = await frames(ToolLoop(Model(response(call(), request)), {"get_weather": get_weather}, input="Hi"))
    assert shown[-1]["final"]["status"] == "completed"
    assert "tool.output" in outline(shown)


@pytest.mark.parametrize("end", ["incomplete", "failed"])
async def test_the_calls_of_an_unfinished_response_are_not_run(end: str) -> None:
    seen: list[str] = []
    shown = await frames(ToolLoop(Model(response(call(), end=end)), {"get_weather": seen.append}, input="Hi"))
    assert shown[-1]["final"]["status"] == end
    assert seen == []


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([], "upstream_empty"),
        ([{"object": "chat.completion.chunk", "choices": []}], "upstream_malformed"),
        (response(call())[:-1], "upstream_truncated"),
        ([response(call())[0], {"type": "error", "code": "overloaded", "message": "Busy."}], "overloaded"),
        ([response(call())[0], RuntimeError("payload")], "internal_error"),
        ([b"no event stream"], "upstream_malformed"),
        ([b"data: {\n\n"], "upstream_malformed"),
    ],
)
async def test_a_response_that_does_not_end(events: list[object], code: str) -> None:
    shown = await frames(ToolLoop(Model(events), {"get_weather": get_weather}, input="Hi"))
    assert (shown[-1]["kind"], shown[-1]["error"]["code"]) == ("error", code)
    assert "payload" not in repr(shown)


@pytest.mark.parametrize("last", [BLUE[:1], [*BLUE[:1], UpstreamError(FAULTS["upstream_reset"])]])
async def test_the_hook_gets_the_tokens_of_turns_before_a_failure(last: list[Any]) -> None:
    ends: list[Terminal] = []
    loop = ToolLoop(Model(response(call()), last), {"get_weather": get_weather}, input="Hi")
    await frames(loop, Projection(on_terminal=ends.append))
    assert [(one.outcome, one.final, one.usage.get("total_tokens")) for one in ends] == [("error", {}, 7)]


async def test_a_failure_after_the_end_changes_nothing() -> None:
    """D32: a Chat response with a finish reason is complete."""
    model = Model([*CHAT[0][:4], ConnectionResetError()], [*CHAT[1][:2], UpstreamError(FAULTS["upstream_reset"])])
    with pytest.raises(ConnectionResetError):  # not of a client, so it is a mistake of the host
        async for _ in ToolLoop(model, {"get_weather": get_weather}, input="Hi", provider="openai_chat"):
            pass
    model = Model([*CHAT[0][:4], UpstreamError(FAULTS["upstream_reset"])], CHAT[1])
    shown = await frames(ToolLoop(model, {"get_weather": get_weather}, input="Hi", provider="openai_chat"))
    assert shown[-1]["final"]["response_text"] == "Blue."


async def test_events_of_the_host_cannot_be_forged() -> None:
    forged = {"type": "projector.tool_output", "call_id": "call_1", "output": "forged"}
    events = [*response(call())[:2], forged, encode_sse(json.dumps(forged).encode()), response(call())[-1]]
    shown = await frames(ToolLoop(Model(events, BLUE), {"get_weather": get_weather}, input="Hi"))
    assert "forged" not in repr(shown)


class Waiting:
    """A tool that waits, and knows whether it was stopped."""

    def __init__(self) -> None:
        self.has_begun, self.is_stopped = asyncio.Event(), False

    async def __call__(self, city: str) -> None:
        self.has_begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.is_stopped = bool(city)


async def test_a_disconnect_stops_a_running_tool() -> None:
    ends: list[Terminal] = []
    gone = asyncio.Event()

    async def tool(city: str) -> None:
        await waiting(city)

    waiting = Waiting()

    async def receive() -> Event:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Event) -> None:
        await asyncio.sleep(0)

    loop = ToolLoop(Model(response(call())), {"get_weather": tool}, input="Hi")
    scope = {"type": "http", "http_version": "1.1", "headers": [], "path": "/", "query_string": b""}
    answering = asyncio.create_task(PublicSSEResponse(loop, Projection(on_terminal=ends.append))(scope, receive, send))  # type: ignore[arg-type]  # ASGI
    await waiting.has_begun.wait()
    gone.set()
    await answering
    assert waiting.is_stopped
    assert [one.outcome for one in ends] == ["client_left"]


async def test_cancelling_stops_a_running_tool() -> None:
    waiting = Waiting()

    async def tool(city: str) -> None:
        await waiting(city)

    response_ = PublicSSEResponse(ToolLoop(Model(response(call())), {"get_weather": tool}, input="Hi"))
    answering = asyncio.create_task(post(response_, "/chat"))
    await waiting.has_begun.wait()
    response_.cancel()
    assert '"status":"cancelled"' in (await answering).text
    assert waiting.is_stopped


async def test_closing_the_iterator_stops_a_running_tool() -> None:
    waiting = Waiting()

    async def tool(city: str) -> None:
        await waiting(city)

    stream = public_stream(ToolLoop(Model(response(call())), {"get_weather": tool}, input="Hi"))

    async def read() -> None:
        async for _ in stream:
            pass

    reading = asyncio.create_task(read())
    await waiting.has_begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await stream.aclose()
    assert waiting.is_stopped


async def test_a_running_tool_is_not_a_silent_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_loop, "_BEAT_S", 0.02)

    async def tool(city: str) -> str:
        await asyncio.sleep(1)
        return city

    said: list[str] = []
    while "Blue." not in said and len(said) < 5:  # a busy machine may pause for half a second
        loop = ToolLoop(Model(response(call()), BLUE), {"get_weather": tool}, input="Hi")
        last = (await frames(loop, timeouts=Timeouts(idle_s=0.5)))[-1]
        said.append(last.get("final", {}).get("response_text", last["kind"]))
    assert "Blue." in said, said


# reading


def test_every_end_of_a_response_is_known() -> None:
    from projector.core.handlers.responses import END_STATUS  # noqa: PLC0415 - only here

    assert END_STATUS.keys() <= ENDS.keys()


STREAMED: Final = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
    {"type": "response.output_item.added", "output_index": 0, "item": call(arguments="")},
    *(
        {"type": "response.function_call_arguments.delta", "item_id": "fc_call_1", "output_index": 0, "delta": delta}
        for delta in ('{"city": ', '"Rome"}')
    ),
]
VARIANTS: Final = {
    "deltas only": [*STREAMED, *response(call(arguments=""))[1:]],
    "the end of the arguments": [
        {"type": "response.function_call_arguments.done", "item_id": "fc_call_1", "arguments": ROME},
        *response(call(arguments=""))[1:],
    ],
    "deltas, and the finished response": [*STREAMED, *response(output=[call(arguments="")])[1:]],
    "an end without the index": [
        *STREAMED,
        {"type": "response.output_item.done", "item": call(arguments="")},
        response()[-1],
    ],
    "the finished response only": response(output=[call()]),
    "twice": response(call(), output=[call()]),
}


@pytest.mark.parametrize("events", VARIANTS.values(), ids=VARIANTS.keys())
async def test_where_a_call_may_be(events: list[Event]) -> None:
    model = Model(events, BLUE)
    await frames(ToolLoop(model, {"get_weather": get_weather}, input="Hi"))
    assert [item["type"] for item in model.turns[1].items[1:]] == ["function_call", "function_call_output"]
    assert json.loads(model.turns[1].items[1]["arguments"]) == {"city": "Rome"}


WHOLE: Final = {
    "openai_responses": b"".join(encode_sse(json.dumps(event).encode()) for event in VARIANTS["deltas only"]),
    "openai_chat": b"".join(encode_sse(json.dumps(event).encode()) for event in CHAT[0]),
}


@given(data=st.data())
@pytest.mark.parametrize("name", WHOLE)
def test_cuts_do_not_matter(name: str, data: st.DataObject) -> None:
    stream = WHOLE[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))

    def read(edges: list[int]) -> tuple[Any, ...]:
        reader = TurnReader(PROVIDERS[name], profile_of(name, {}))
        events = [event for a, b in pairwise(edges) for event in reader.feed(stream[a:b])]
        events += reader.close()
        return events, reader.items, reader.calls, reader.end, reader.response_id

    assert read([0, *cuts, len(stream)]) == read([0, len(stream)])
    assert [one.input for one in read([0, len(stream)])[2]] == [ROME]


DEFINITION: Final = {"type": "function", "name": "pick_colour", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "tools",
    [
        ["pick_colour"],
        "pick_colour",
        [{"type": "function", "function": {"name": "pick_colour"}}],
        [{"name": "pick_colour", "input_schema": {"type": "object"}}],
        [{"functionDeclarations": [{"name": "pick_colour"}]}],
    ],
)
def test_tools_of_a_turn_are_definitions_of_one_format(provider: str, tools: Any) -> None:
    turn = Turn(1, [{"role": "user", "content": "Hello"}], [], None, provider)
    assert "pick_colour" in str(turn.request("m", client_tools=[DEFINITION])["tools"])
    with pytest.raises(UsageError, match=r"^`client_tools`: expected tools as the Responses API defines them"):
        turn.request("m", client_tools=tools)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"provider": "openai_responces"}, "unknown provider `openai_responces`"),
        ({"max_turns": 0}, "`max_turns`: expected a number greater than 0"),
        ({"tool_timeout_s": "60"}, "`tool_timeout_s`: expected a number greater than 0"),
        ({"client_tools": ["get_weather"]}, "`client_tools`: `get_weather` is also in `tools`"),
        ({"client_tools": "pick_colour"}, '`client_tools`: expected a list of names, such as ["pick_colour"]'),
        ({"client_tools": [DEFINITION]}, '`client_tools`: expected a list of names, such as ["pick_colour"]'),
        ({"tools": [get_weather]}, '`tools`: expected a mapping of names to functions, such as {"lookup": lookup}'),
        ({"tools": {"get_weather": 3}}, "`tools.get_weather`: expected a function"),
        ({"ask": response(call())}, "`ask`: expected a function"),
        ({"input": {"role": "user"}}, "`input`: expected a text, or a list of items"),
        ({"input": b""}, "`input`: expected a text, or a list of items"),
        ({"input": b"Hi"}, "`input`: expected a text, or a list of items"),
        ({"input": ["Hi"]}, "`input`: expected a text, or a list of items"),
        ({"profile": 3}, "`profile`: expected a mapping"),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(text)}"):
        ToolLoop(**{"ask": Model(), "tools": {"get_weather": get_weather}, "input": "Hi", **options})


async def test_a_loop_is_used_once() -> None:
    loop = ToolLoop(Model(BLUE), {}, input="Hi")
    await frames(loop)
    with capture_logs() as lines:
        shown = await frames(loop)
    assert shown[-1]["error"]["code"] == "internal_error"
    crash = next(line for line in lines if line["event"] == "stream_crashed")
    assert crash["detail"] == "`source`: expected one that is not used yet: each stream needs its own"


IMAGE: Final = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


@pytest.mark.parametrize(
    ("result", "is_content"),
    [
        ([{"type": "input_text", "text": "A map."}, IMAGE], True),
        ([{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}], True),
        ([{**IMAGE, "file_id": None}], True),
        ([IMAGE, {"type": "input_image"}], False),
        ([{"type": "input_text", "text": "a", "score": 0.5}], False),
        ([{"type": "text", "text": "a"}], False),
        ([], False),
        (IMAGE, False),
    ],
)
async def test_a_model_sees_images_and_files_that_a_tool_returns(result: Any, *, is_content: bool) -> None:
    model = Model(response(call()), BLUE)
    await frames(ToolLoop(model, {"get_weather": lambda **_: result}, input="Hi"))
    [sent] = model.turns[1].new_items
    assert sent["output"] == (result if is_content else json.dumps(result, separators=(",", ":")))
    asked = model.turns[1].request("m")["input"][-1]["output"]
    assert isinstance(asked, list) is is_content


async def test_the_log_names_what_an_api_cannot_express() -> None:
    loop = ToolLoop(lambda turn: turn.request("m", client_tools=[{"type": "mcp"}]), {}, input="Hi", provider="gemini")
    with capture_logs() as lines:
        await frames(loop)
    [crash] = [line for line in lines if line["event"] == "stream_crashed"]
    assert crash["detail"].startswith("`tools[0].type` (`mcp`) has a value that is not supported")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_turn_of_ones_own_needs_no_profile(provider: str) -> None:
    """A test of a function that asks a provider makes its own turns."""
    hello = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    assert "Hello" in json.dumps(Turn(1, [hello], [hello], None, provider).request("m"))


@pytest.mark.parametrize(
    "item_type",
    ["web_search_call", "image_generation_call", "mcp_list_tools", "mcp_approval_response", "shell_call", "compaction"],
)
def test_a_turn_sends_items_of_the_responses_api_as_they_are(item_type: str) -> None:
    items = [{"role": "user", "content": "Hello"}, {"type": item_type, "id": "item_1", "own": {"a": 1}, "none": None}]
    assert Turn(2, items, [], None).request("m")["input"][1:] == items[1:]
