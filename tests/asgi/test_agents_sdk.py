"""Runs of the real Agents SDK, with models of both APIs on a real socket, behind `PublicSSEResponse`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import pytest
import uvicorn
from openai import AsyncOpenAI
from pydantic import BaseModel

from projector.contracts.stream_rules import check_stream
from projector.server import Projection, PublicSSEResponse, public_stream
from projector.server.config.upstream_settings import Timeouts
from projector.server.telemetry.stream_stats import Terminal
from tests.asgi import in_process
from tests.asgi.agents_model import (
    WRITERS,
    Call,
    Reasoning,
    Refusal,
    Text,
    chat,
    chunk,
    hangs_after,
    refuses,
    resets_after,
    response,
    streams,
    turns,
)

agents = pytest.importorskip("agents", reason="the Agents SDK is not installed (extra agents_sdk)")

APIS: Final = tuple(WRITERS)
WEATHER: Final = Call("call_1", "weather", '{"city":"Oslo"}')


@pytest.fixture(autouse=True)
def _no_tracing() -> Iterator[None]:
    """Disable tracing: by default the SDK sends traces to OpenAI."""
    agents.set_tracing_disabled(True)
    yield
    agents.set_tracing_disabled(True)


@agents.function_tool
def weather(city: str) -> dict[str, str]:
    return {"city": city, "sky": "blue", "api_key": "sk-the-key-of-the-host"}


@agents.function_tool(needs_approval=True)
def delete(path: str) -> str:
    return f"deleted {path}"


@agents.function_tool(failure_error_function=None)
def breaks() -> str:
    raise KeyError("the-words-of-an-exception")


@agents.function_tool(name_override="weather", failure_error_function=None)
async def waits_in_vain(city: str) -> str:
    """Await what was cancelled."""
    over = asyncio.get_running_loop().create_future()
    over.cancel(city)
    return str(await over)


class Client(in_process.Client):
    """A client that knows when it was sent a text."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        await super().send(message)
        if b"message.delta" in message.get("body", b""):
            self.heard.set()

    @property
    def frames(self) -> list[dict[str, Any]]:
        lines = [part.removeprefix(b"data: ") for part in self.body.split(b"\n\n") if part.startswith(b"data: ")]
        assert check_stream(lines) == []
        return [json.loads(line) for line in lines]


class Lab:
    """Agents whose models are the scripted upstream."""

    def __init__(self, upstream: Callable[..., Awaitable[Any]], port: int) -> None:
        self._upstream = upstream
        self.client = AsyncOpenAI(api_key="k", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)
        self.peers: asyncio.Queue[Any] = asyncio.Queue()

    def model(self, api: str) -> Any:
        kinds = {"responses": agents.OpenAIResponsesModel, "chat": agents.OpenAIChatCompletionsModel}
        return kinds[api]("m", self.client)

    def agent(self, api: str = "responses", **settings: Any) -> Any:
        tools = [weather, delete, breaks]
        helper = agents.Agent(name="helper", model=self.model(api), tools=[weather])
        return agents.Agent(
            **{"name": "triage", "model": self.model(api), "tools": tools, "handoffs": [helper], **settings}
        )

    async def answer(self, *scripts: Any) -> None:
        self.peers = (await self._upstream(turns(*scripts))).peers


@pytest.fixture
async def lab(upstream: Any, upstream_port: int) -> AsyncIterator[Lab]:
    one = Lab(upstream, upstream_port)
    yield one
    await one.client.close()


async def play(run: Any, projection: Projection | None = None) -> list[dict[str, Any]]:
    return (await Client().call(PublicSSEResponse(run, projection))).frames


def of_kind(frames: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [frame for frame in frames if frame["kind"] == kind]


def tools_of(frames: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the calls of a stream as (id, name, status), and their outputs as (id, "output")."""
    said = []
    for frame in frames:
        if frame["kind"] == "tool.status":
            tool = frame["tool"]
            said.append((tool["tool_call_id"], tool.get("name") or tool.get("tool_name"), tool["status"]))
        elif frame["kind"] == "tool.output":
            said.append((frame["tool_call_id"], "output"))
    return said


@pytest.mark.parametrize("api", APIS)
async def test_a_tool_is_said_from_its_call_to_its_end(lab: Lab, api: str) -> None:
    write = WRITERS[api]
    await lab.answer(
        streams(write(Text("Let me see."), WEATHER, Call("call_2", "weather", '{"city":"Rome"}'), response_id="r_1")),
        streams(write(Reasoning("Blue, so fair."), Text("It is fair."), response_id="r_2")),
    )
    frames = await play(agents.Runner.run_streamed(lab.agent(api), "hi"))
    assert tools_of(frames) == [
        ("call_1", "weather", "in_progress"),
        ("call_2", "weather", "in_progress"),
        ("call_1", "output"),
        ("call_1", "weather", "completed"),
        ("call_2", "output"),
        ("call_2", "weather", "completed"),
    ]
    assert [frame["output"] for frame in of_kind(frames, "tool.output")] == [
        {"city": city, "sky": "blue", "api_key": "<redacted>"} for city in ("Oslo", "Rome")
    ]
    final = frames[-1]["final"]
    assert (final["status"], final["response_text"]) == ("completed", "It is fair.")
    assert final["reasoning_summary_text"] == "Blue, so fair."
    assert {name: final["usage"][name] for name in ("input_tokens", "output_tokens", "total_tokens")} == {
        "input_tokens": 14,
        "output_tokens": 4,
        "total_tokens": 18,
    }
    assert {frame["agent"] for frame in frames} == {"triage"}
    assert [frame["response_id"] for frame in of_kind(frames, "output_item.added")] == ["r_1"] * 3 + ["r_2"] * 2


@pytest.mark.parametrize("api", APIS)
async def test_items_have_ids_of_their_own(lab: Lab, api: str) -> None:
    write = WRITERS[api]
    await lab.answer(
        streams(write(Text("One."), WEATHER, response_id="r_1")),
        streams(write(Text("Two."), Call("call_2", "weather", '{"city":"Rome"}'), response_id="r_2")),
        streams(write(Text("Three."), response_id="r_3")),
    )
    client = await Client().call(PublicSSEResponse(agents.Runner.run_streamed(lab.agent(api), "hi")))
    added = [(frame["item_type"], frame["item_id"]) for frame in of_kind(client.frames, "output_item.added")]
    assert added == [
        ("message", "msg_r_1_0"),
        ("function_call", "fc_r_1_1"),
        ("message", "msg_r_2_0"),
        ("function_call", "fc_r_2_1"),
        ("message", "msg_r_3_0"),
    ]
    assert {frame["tool"]["tool_call_id"] for frame in of_kind(client.frames, "tool.status")} == {"call_1", "call_2"}


async def test_reasoning_that_comes_late_does_not_take_the_place_of_the_message(lab: Lab) -> None:
    pieces: list[dict[str, Any]] = [{"content": "be"}, {"reasoning_content": "Hm."}, {"content": "fore"}]
    await lab.answer(streams([*map(chunk, pieces), chunk({}, "stop")]))
    frames = await play(agents.Runner.run_streamed(lab.agent("chat"), "hi"))
    final = frames[-1]["final"]
    assert (final["response_text"], final["reasoning_summary_text"]) == ("before", "Hm.")
    places = [(frame["output_index"], frame["item_type"]) for frame in of_kind(frames, "output_item.done")]
    assert sorted(places) == [(0, "message"), (1, "reasoning")]


@pytest.mark.parametrize("api", APIS)
async def test_a_handoff_changes_the_agent(lab: Lab, api: str) -> None:
    write = WRITERS[api]
    await lab.answer(
        streams(write(Call("call_1", "transfer_to_helper"), response_id="r_1")),
        streams(write(Text("I help."), response_id="r_2")),
    )
    frames = await play(agents.Runner.run_streamed(lab.agent(api), "hi"))
    assert tools_of(frames) == [
        ("call_1", "transfer_to_helper", "in_progress"),
        ("call_1", "output"),
        ("call_1", "transfer_to_helper", "completed"),
    ]
    by_response = {(frame["agent"], frame["response_id"]) for frame in of_kind(frames, "output_item.done")}
    assert by_response == {("triage", "r_1"), ("helper", "r_2")}
    assert (frames[-1]["agent"], frames[-1]["final"]["response_text"]) == ("helper", "I help.")


class Answer(BaseModel):
    number: int


@agents.input_guardrail(run_in_parallel=False)
async def stops_input(_context: Any, _agent: Any, _input: Any) -> Any:
    return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


@agents.input_guardrail
async def stops_meanwhile(_context: Any, _agent: Any, _input: Any) -> Any:
    await asyncio.sleep(0.1)
    return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


@agents.output_guardrail
async def stops_output(_context: Any, _agent: Any, _output: Any) -> Any:
    return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


@agents.tool_input_guardrail
def stops_tool(_asked: Any) -> Any:
    return agents.ToolGuardrailFunctionOutput.raise_exception()


@agents.function_tool(tool_input_guardrails=[stops_tool])
def guarded() -> str:
    return "never"


BEGUN: Final = response(Text("So far."))[:-2]
CHAT_BEGUN: Final = chat(Text("So far."))[:-2]
PROVIDER_ERROR: Final = {"type": "error", "code": "overloaded", "message": "Busy.", "param": None}
INCOMPLETE: Final = response(Text("So far."), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
FAILED: Final = response(Text("So far."), status="failed", error={"code": "server_error", "message": "Sorry."})
ONE_TOOL: Final = response(WEATHER, response_id="r_1")


async def takes_its_time(peer: Any) -> None:
    await peer.start()
    for event in response(*[Text("So far.")] * 10):
        await peer.event(event)
        await asyncio.sleep(0.01)  # the runner checks the guardrail's result between events
    await peer.end()


async def words(peer: Any) -> None:
    await peer.start()
    await peer.chunk(b"data: {no json\n\n")
    await peer.end()


@pytest.mark.parametrize(
    ("api", "scripts", "settings", "options", "ended"),
    [
        pytest.param("responses", [INCOMPLETE], {}, {}, ("final", "incomplete", "So far."), id="D12-incomplete"),
        pytest.param("responses", [FAILED], {}, {}, ("final", "failed", "So far."), id="D12-failed"),
        pytest.param(
            "responses", [ONE_TOOL, INCOMPLETE], {}, {}, ("final", "incomplete", "So far."), id="D12-incomplete-later"
        ),
        pytest.param("responses", [response(Refusal("No."))], {}, {}, ("final", "refused", None), id="D12-refused"),
        pytest.param("chat", [chat(Refusal("No."))], {}, {}, ("final", "refused", None), id="D12-chat-refused"),
        pytest.param(
            "responses",
            [response(Refusal("No."))],
            {"output_type": Answer},
            {},
            ("final", "refused", None),
            id="D12-refused-where-an-object-was-asked-for",
        ),
        pytest.param(
            "responses", [[*BEGUN, PROVIDER_ERROR]], {}, {}, ("error", "overloaded", "provider"), id="D12-error-event"
        ),
        pytest.param(
            "responses",
            [[*BEGUN, {"type": "error", "error": {"code": "overloaded", "message": "Busy."}}]],
            {},
            {},
            ("error", "overloaded", "provider"),
            id="D12-nested-error-event",
        ),
        pytest.param(
            "chat",
            [[*CHAT_BEGUN, {"error": {"code": "overloaded", "message": "Busy."}}]],
            {},
            {},
            ("error", "overloaded", "provider"),
            id="D12-chat-error-object",
        ),
        pytest.param("responses", [BEGUN], {}, {}, ("error", "upstream_truncated", "provider"), id="D12-truncated"),
        pytest.param("responses", [[]], {}, {}, ("error", "upstream_empty", "provider"), id="D12-empty"),
        pytest.param(
            "responses", [ONE_TOOL, []], {}, {}, ("error", "upstream_truncated", "provider"), id="D12-empty-later"
        ),
        pytest.param(
            "chat",
            [[chunk({"role": "assistant"}), chunk({}, "length")]],
            {},
            {},
            ("error", "upstream_truncated", "provider"),
            id="D12-nothing-but-a-length",
        ),
        pytest.param(
            "responses", [resets_after(BEGUN)], {}, {}, ("error", "upstream_reset", "provider"), id="D12-reset"
        ),
        pytest.param(
            "responses",
            [ONE_TOOL, words],
            {},
            {},
            ("error", "upstream_malformed", "provider"),
            id="D12-malformed-later",
        ),
        pytest.param(
            "responses",
            [ONE_TOOL, refuses(429)],
            {},
            {},
            ("error", "upstream_http_429", "provider"),
            id="D12-http-status-later",
        ),
        pytest.param(
            "responses",
            [hangs_after(BEGUN)],
            {"model_settings": agents.ModelSettings(timeout=1.5)},
            {},
            ("error", "upstream_timeout_total", "provider"),
            id="D12-time-out",
        ),
        pytest.param(
            "responses", [ONE_TOOL], {}, {"max_turns": 1}, ("error", "run_max_turns", "server"), id="max-turns"
        ),
        pytest.param(
            "responses",
            [response(Call("call_1", "nobody_has_it"))],
            {},
            {},
            ("error", "run_model_behavior", "provider"),
            id="a-tool-that-nobody-has",
        ),
        pytest.param(
            "responses",
            [response(Text("no object"))],
            {"output_type": Answer},
            {},
            ("error", "run_model_behavior", "provider"),
            id="no-object-where-one-was-asked-for",
        ),
        pytest.param(
            "chat",
            [chat(WEATHER), chat(WEATHER._replace(arguments='{"city":"Rome"}'))],
            {},
            {},
            ("error", "run_model_behavior", "provider"),
            id="D8-the-sdk-takes-no-call-id-twice",
        ),
        pytest.param(
            "responses",
            [response(Call("call_1", "breaks"))],
            {},
            {},
            ("error", "internal_error", "server"),
            id="a-tool-that-breaks",
        ),
        pytest.param(
            "responses",
            [ONE_TOOL],
            {"tools": [waits_in_vain]},
            {},
            ("error", "internal_error", "server"),
            id="a-tool-that-awaits-what-was-cancelled",
        ),
        pytest.param(
            "responses",
            [],
            {"input_guardrails": [stops_input]},
            {},
            ("error", "run_guardrail", "server"),
            id="a-guardrail-before-anything-was-said",
        ),
        pytest.param(
            "responses",
            [takes_its_time],
            {"input_guardrails": [stops_meanwhile]},
            {},
            ("error", "run_guardrail", "server"),
            id="a-guardrail-beside-the-model",
        ),
        pytest.param(
            "responses",
            [response(Text("Said."))],
            {"output_guardrails": [stops_output]},
            {},
            ("error", "run_guardrail", "server"),
            id="a-guardrail-behind-the-text",
        ),
        pytest.param(
            "responses",
            [response(Call("call_1", "guarded"))],
            {"tools": [guarded]},
            {},
            ("error", "run_guardrail", "server"),
            id="a-guardrail-of-a-tool",
        ),
        pytest.param(
            "responses",
            [ONE_TOOL],
            {},
            {"max_turns": 1, "error_handlers": {"max_turns": lambda _failed: "Too long."}},
            ("final", "completed", "Too long."),
            id="a-handler-that-writes-a-message",
        ),
        pytest.param(
            "responses",
            [response(Refusal("No."))],
            {},
            {"error_handlers": {"model_refusal": lambda _failed: "Let us talk."}},
            ("final", "completed", "Let us talk."),
            id="a-handler-of-refusals",
        ),
        pytest.param(
            "responses",
            [ONE_TOOL],
            {"tool_use_behavior": "stop_on_first_tool"},
            {},
            ("final", "completed", None),
            id="a-tool-is-the-end",
        ),
    ],
)
async def test_however_a_run_ends(
    lab: Lab,
    api: str,
    scripts: list[Any],
    settings: dict[str, Any],
    options: dict[str, Any],
    ended: tuple[str, str, str | None],
) -> None:
    await lab.answer(*(script if callable(script) else streams(script) for script in scripts))
    client = await Client().call(
        PublicSSEResponse(agents.Runner.run_streamed(lab.agent(api, **settings), "hi", **options))
    )
    last = client.frames[-1]
    if last["kind"] == "final":
        assert ("final", last["final"]["status"], last["final"].get("response_text")) == ended
    else:
        assert ("error", last["error"]["code"], last["error"]["source"]) == ended
    assert last["agent"] == "triage"
    assert b"the-prompt-of-the-host" not in client.body
    assert b"the-words-of-an-exception" not in client.body


async def test_a_slow_reader_of_a_run_that_fails_gets_all_of_its_response(lab: Lab) -> None:
    """The SDK discards what is not read by then, and calls a model's mistake what may be a truncated stream."""
    await lab.answer(streams(response(Text("no object"))))
    run = agents.Runner.run_streamed(lab.agent(output_type=Answer), "hi")
    stream = public_stream(run)
    parts = [await anext(stream)]
    await asyncio.wait({run.run_loop_task})
    parts += [data async for data in stream]
    frames = [json.loads(part.removeprefix(b"data: ")) for part in b"".join(parts).split(b"\n\n") if part]
    assert "".join(frame["delta"] for frame in of_kind(frames, "message.delta")) == "no object"
    assert frames[-1]["error"]["code"] == "run_model_behavior"


async def test_a_run_waits_for_its_reader_between_turns(lab: Lab) -> None:
    ran = asyncio.Event()

    @agents.function_tool(name_override="weather")
    async def notes(city: str) -> str:
        ran.set()
        return city

    await lab.answer(streams(ONE_TOOL), streams(response(Text("Fair."), response_id="r_2")))
    run = agents.Runner.run_streamed(lab.agent(tools=[notes]), "hi")
    stream = public_stream(run)
    await anext(stream)
    await ran.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert (run.current_turn, run.is_complete) == (1, False)
    said = b"".join([data async for data in stream])
    assert (run.current_turn, b'"status":"completed","response_text":"Fair."' in said) == (2, True)


async def awaits_what_was_cancelled(*_anything: Any) -> str:
    over = asyncio.get_running_loop().create_future()
    over.cancel()
    return str(await over)


def fails(*_anything: Any) -> str:
    raise RuntimeError("the-words-of-an-exception")


@pytest.mark.parametrize(
    ("scripts", "settings", "status", "code"),
    [
        ([refuses(429, retry_after=7)], {}, 429, "upstream_http_429"),
        ([refuses(401)], {}, 502, "upstream_http_401"),
        ([words], {}, 502, "upstream_malformed"),
        (None, {}, 502, "upstream_unreachable"),
        ([], {"instructions": fails}, 500, "internal_error"),
        ([], {"instructions": awaits_what_was_cancelled}, 500, "internal_error"),
    ],
)
async def test_what_fails_at_once_is_a_problem_document(
    lab: Lab, scripts: list[Any] | None, settings: dict[str, Any], status: int, code: str
) -> None:
    if scripts is not None:
        await lab.answer(*scripts)
    client = await Client().call(PublicSSEResponse(agents.Runner.run_streamed(lab.agent(**settings), "hi")))
    problem = json.loads(client.body)
    assert (client.status, problem["code"]) == (status, code)
    assert b"the-words-of-an-exception" not in client.body
    assert dict(client.sent[0]["headers"]).get(b"retry-after") == (b"7" if status == 429 else None)


async def ends(run: Any, peer: Any) -> bool:
    """Wait until a run is over, and its connection closed."""
    async with asyncio.timeout(60):
        await peer.gone.wait()
        await asyncio.wait([run.run_loop_task])
    return run.is_complete


async def by_the_response(response_: PublicSSEResponse, _run: Any) -> None:
    response_.cancel()


async def by_the_run(_response: PublicSSEResponse, run: Any) -> None:
    run.cancel()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("cancel", [by_the_response, by_the_run])
async def test_a_cancelled_run_ends_with_its_text(lab: Lab, api: str, cancel: Any) -> None:
    begun = BEGUN if api == "responses" else CHAT_BEGUN
    await lab.answer(hangs_after(begun))
    run = agents.Runner.run_streamed(lab.agent(api), "hi")
    response_ = PublicSSEResponse(run)
    client = Client()
    streaming = asyncio.create_task(client.call(response_))
    await client.heard.wait()
    await cancel(response_, run)
    await streaming
    final = client.frames[-1]["final"]
    assert final["status"] == "cancelled"
    assert "So far.".startswith(final["response_text"])
    assert await ends(run, await lab.peers.get())


@pytest.mark.parametrize(
    ("part", "status", "tool"),
    [
        (WEATHER, "cancelled", ("call_1", "weather", "completed")),
        (Call("call_1", "delete", '{"path":"/a"}'), "completed", ("approval_call_1", "delete", "awaiting_approval")),
        (Text("That is all."), "completed", None),
    ],
)
async def test_a_run_that_is_cancelled_after_its_turn(lab: Lab, part: Any, status: str, tool: Any) -> None:
    may_end = asyncio.Event()

    async def script(peer: Any) -> None:
        *begun, ended = response(Text("Let me see."), part)
        await peer.start()
        for event in begun:
            await peer.event(event)
        await may_end.wait()
        await peer.event(ended)
        await peer.end()

    await lab.answer(script)
    run = agents.Runner.run_streamed(lab.agent(), "hi")
    client = Client()
    streaming = asyncio.create_task(client.call(PublicSSEResponse(run)))
    await client.heard.wait()
    run.cancel(mode="after_turn")
    may_end.set()
    await streaming
    final = client.frames[-1]["final"]
    assert (final["status"], final["response_text"][:11]) == (status, "Let me see.")
    assert (tools_of(client.frames) or [None])[-1] == tool


async def test_a_client_that_leaves_ends_the_run(lab: Lab) -> None:
    told: list[Terminal] = []
    await lab.answer(hangs_after(BEGUN))
    run = agents.Runner.run_streamed(lab.agent(), "hi")
    client = Client()
    streaming = asyncio.create_task(client.call(PublicSSEResponse(run, Projection(on_terminal=told.append))))
    await client.heard.wait()
    client.left.set()
    await streaming
    assert await ends(run, await lab.peers.get())
    assert [terminal.outcome for terminal in told] == ["client_left"]


@pytest.fixture
async def serve_app() -> AsyncIterator[Callable[[Any], Awaitable[int]]]:
    """Serve an app in the loop of the test, where its runs are; return its port."""
    async with contextlib.AsyncExitStack() as stack:

        async def serve(app: Any) -> int:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=5))
            serving = asyncio.create_task(server.serve(sockets=[listener]))

            async def stop() -> None:
                server.should_exit = True
                await serving

            stack.push_async_callback(stop)
            return int(listener.getsockname()[1])

        yield serve


async def test_a_real_client_that_hangs_up_ends_the_run(lab: Lab, serve_app: Any) -> None:
    await lab.answer(hangs_after(BEGUN))
    runs: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        runs.append(agents.Runner.run_streamed(lab.agent(), "hi"))
        await PublicSSEResponse(runs[0])(scope, receive, send)

    reader, writer = await asyncio.open_connection("127.0.0.1", await serve_app(app))
    writer.write(b"GET /run HTTP/1.1\r\nhost: test\r\n\r\n")
    await reader.readuntil(b'"kind":"message.delta"')
    writer.close()
    await writer.wait_closed()
    assert await ends(runs[0], await lab.peers.get())


async def test_a_client_that_leaves_ends_the_tool_that_runs(lab: Lab) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @agents.function_tool
    async def waits() -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    await lab.answer(streams(response(Call("call_1", "waits"))))
    run = agents.Runner.run_streamed(lab.agent(tools=[waits]), "hi")
    client = Client()
    streaming = asyncio.create_task(client.call(PublicSSEResponse(run)))
    await began.wait()
    client.left.set()
    await streaming
    async with asyncio.timeout(60):
        await ended.wait()
    assert run.is_complete


async def test_a_source_that_falls_silent_ends_the_run(lab: Lab) -> None:
    await lab.answer(hangs_after(BEGUN))
    run = agents.Runner.run_streamed(lab.agent(), "hi")
    client = await Client().call(PublicSSEResponse(run, timeouts=Timeouts(idle_s=1.5)))
    assert client.frames[-1]["error"]["code"] == "upstream_timeout_idle"
    assert await ends(run, await lab.peers.get())


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("is_approved", "output"), [(True, "deleted /a"), (False, "Not that one.")])
async def test_a_call_waits_for_approval(lab: Lab, api: str, is_approved: bool, output: str) -> None:  # noqa: FBT001 - a row of the table
    write = WRITERS[api]
    call = Call("call_1", "delete", '{"path":"/a","password":"hush"}')
    await lab.answer(streams(write(call, response_id="r_1")), streams(write(Text("Done."), response_id="r_2")))
    agent = lab.agent(api)
    run = agents.Runner.run_streamed(agent, "hi")
    frames = await play(run)
    waiting = of_kind(frames, "tool.status")[-1]
    assert waiting["item_id"] == "approval_call_1"
    assert waiting["tool"] == {
        "tool_type": "mcp",
        "tool_call_id": "approval_call_1",
        "status": "awaiting_approval",
        "tool_name": "delete",
        "arguments_text": '{"path":"/a","password":"<redacted>"}',
        "arguments_json": {"path": "/a", "password": "<redacted>"},
    }
    assert frames[-1]["final"]["status"] == "completed"

    state = run.to_state()
    if is_approved:
        state.approve(run.interruptions[0])
    else:
        state.reject(run.interruptions[0], rejection_message="Not that one.")
    frames = await play(agents.Runner.run_streamed(agent, state))
    assert tools_of(frames) == [
        ("call_1", "delete", "in_progress"),
        ("call_1", "output"),
        ("call_1", "delete", "completed" if is_approved else "failed"),
    ]
    assert [frame["output"] for frame in of_kind(frames, "tool.output")] == [output]
    assert (frames[-1]["response_id"], frames[-1]["final"]["response_text"]) == ("r_2", "Done.")


def calls_of(frames: list[dict[str, Any]]) -> dict[str, str]:
    """Return the item ID of each call of a function by its call ID."""
    tools = [frame for frame in of_kind(frames, "tool.status") if frame["tool"]["tool_type"] == "function"]
    return {frame["tool"]["tool_call_id"]: frame["item_id"] for frame in tools}


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_a_call_that_waited_keeps_its_id(lab: Lab, api: str, is_stored: bool) -> None:  # noqa: FBT001 - a row of the table
    calls = [Call(f"call_{number}", "delete", f'{{"path":"/{number}"}}') for number in (1, 2, 3)]
    parts = [
        (Text("One."), WEATHER._replace(call_id="call_0")),
        (Reasoning("So."), Text("Two."), *calls[:2]),
        calls[2:],
    ]
    await lab.answer(
        *(streams(WRITERS[api](*some, response_id=f"r_{at}")) for at, some in enumerate(parts)),
        streams(WRITERS[api](Text("Done."), response_id="r_3")),
    )
    agent = lab.agent(api)
    run = agents.Runner.run_streamed(agent, "hi")
    known: dict[str, str] = {}
    for waiting in (2, 1, 0):
        ids = calls_of(await play(run))
        assert ids == {**ids, **{name: known[name] for name in ids if name in known}}
        known |= ids
        assert len({*known.values()}) == len(known)
        assert len(run.interruptions) == waiting
        state = run.to_state()
        if is_stored:
            state = await agents.RunState.from_json(agent, state.to_json())
        for one in state.get_interruptions():
            state.approve(one)
        run = agents.Runner.run_streamed(agent, state)
    assert [*known] == ["call_0", "call_1", "call_2", "call_3"]


@pytest.mark.parametrize("api", APIS)
async def test_a_tool_that_is_always_rejected_fails_at_once(lab: Lab, api: str) -> None:
    write = WRITERS[api]
    calls = [Call(f"call_{number}", "delete", f'{{"path":"/{number}"}}') for number in (1, 2)]
    await lab.answer(*(streams(write(part, response_id=f"r_{part[0]}")) for part in (*calls, Text("Done."))))
    agent = lab.agent(api)
    run = agents.Runner.run_streamed(agent, "hi")
    await play(run)
    state = run.to_state()
    state.reject(run.interruptions[0], always_reject=True)
    frames = await play(agents.Runner.run_streamed(agent, state))
    assert [said for said in tools_of(frames) if said[-1] != "in_progress"] == [
        *(("call_1", "output"), ("call_1", "delete", "failed")),
        *(("call_2", "output"), ("call_2", "delete", "failed")),
    ]
    assert [frame["output"] for frame in of_kind(frames, "tool.output")] == ["Tool execution was not approved."] * 2
    assert frames[-1]["final"]["status"] == "completed"


async def test_a_server_of_the_provider_asks_for_approval_itself(lab: Lab) -> None:
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "drop", "server_label": "db", "arguments": "{}"}
    [created, ended] = [event for event in response() if "response" in event]
    item = {"output_index": 0, "item": request}
    ended["response"]["output"] = [request]
    events = [
        created,
        {"type": "response.output_item.added", **item},
        {"type": "response.output_item.done", **item},
        ended,
    ]
    await lab.answer(streams(events))
    config = {"type": "mcp", "server_label": "db", "server_url": "http://127.0.0.1:1", "require_approval": "always"}
    run = agents.Runner.run_streamed(lab.agent(tools=[agents.HostedMCPTool(tool_config=config)]), "hi")
    assert tools_of(await play(run)) == [("mcpr_1", "drop", "awaiting_approval")]


async def test_tracing_is_off(lab: Lab) -> None:
    traced: list[Any] = []

    class Recorder(agents.TracingProcessor):
        def on_trace_start(self, trace: Any) -> None:
            traced.append(trace)

        def on_trace_end(self, trace: Any) -> None:
            traced.append(trace)

        def on_span_start(self, span: Any) -> None:
            traced.append(span)

        def on_span_end(self, span: Any) -> None:
            traced.append(span)

        def shutdown(self) -> None:
            """Do nothing: there are no connections."""

        def force_flush(self) -> None:
            """Do nothing: there are no connections."""

    agents.set_trace_processors([Recorder()])  # instead of the processor that sends traces
    await lab.answer(streams(response(Text("Hello."))), streams(response(Text("Hello."))))
    assert (await play(agents.Runner.run_streamed(lab.agent(), "hi")))[-1]["final"]["response_text"] == "Hello."
    assert traced == []
    agents.set_tracing_disabled(False)
    await play(agents.Runner.run_streamed(lab.agent(), "hi"))
    assert traced != [], "the recorder hears what would have been sent"
