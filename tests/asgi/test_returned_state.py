"""Conversations of every client API with providers that want something back unchanged: strict fakes answer 400."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from projector.conversation.entries import Message, ToolCall, ToolOutput, user_text
from projector.conversation.model_request import ModelRequest
from projector.conversation.opaque import KeptCall, OpaqueCollector, Place, with_opaque
from projector.providers import PROVIDERS as PROVIDER_ROWS
from projector.providers import profile_of
from projector.server.http.problems import Problem
from projector.server.kept_calls import CallKeeper
from projector.store.memory import MemoryStore
from projector.store.protocol import StoreLimits
from tests.asgi.conftest import Peer

SECRET: Final = "sk-proj-" + "a1B2c3D4" * 6
"""A credential in the reasoning, which no client may see."""
REASONING: Final = f"The key is {SECRET}."
SIGNATURE: Final = "CiQB0e2Kb5kq3d9sSIGNATURE=="
IMAGE: Final = "data:image/png;base64,iVBORw0KGgo="
PAGE: Final = Path(__file__).parents[2] / "docs" / "providers.md"
FAILED: Final = "It failed."


class Row(NamedTuple):
    """A provider: what it says, and what it wants back of each message with calls."""

    title: str
    reasoning: dict[str, str]
    extra: dict[str, Any]


EXTRA: Final = {"google": {"thought_signature": SIGNATURE}}
PROVIDERS: Final[dict[str, Row]] = {
    "plain": Row("Chat Completions", {}, {}),
    "deepseek": Row("DeepSeek: `reasoning_content`", {"reasoning_content": REASONING}, {}),
    "gemini": Row("Gemini's compatible endpoint: `extra_content`", {}, {"extra_content": EXTRA}),
    "unreturned": Row("Groq and others: `reasoning`, not sent back", {"reasoning": REASONING}, {}),
}
WANTED: Final = {"deepseek": {"reasoning_content": REASONING}}
"""Provider -> members of a message with calls; all others are a 400."""
TURNS: Final = [[("call_a", "look"), ("call_b", "find")], [("call_c", "look")], []]
"""The calls of each answer, the first two parallel."""


def mistakes(provider: str, messages: list[dict[str, Any]]) -> list[str]:
    """Return why the provider would refuse messages."""
    found: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            found += [] if message["tool_call_id"] in waiting else ["an output without its call"]
            waiting = [one for one in waiting if one != message["tool_call_id"]]
            continue
        found += ["a call without its output"] if waiting else []
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        members = {name: one for name, one in message.items() if name not in {"role", "content", "tool_calls"}}
        found += [] if members == (WANTED.get(provider, {}) if calls else {}) else [f"members {sorted(members)}"]
        for at, call in enumerate(calls):
            wanted = PROVIDERS[provider].extra if at == 0 else {}
            own = {name: one for name, one in call.items() if name not in {"id", "type", "function"}}
            found += [] if own == wanted else [f"call {call['id']}: {own}"]
    return found + (["a call without its output"] if waiting else [])


def strict(provider: str) -> Callable[[Peer], Any]:
    """Return the script of a provider that plays `TURNS` by the number of outputs it has received."""

    async def script(peer: Peer) -> None:
        found = mistakes(provider, peer.body["messages"])
        if found:
            text = json.dumps({"error": {"message": "; ".join(found), "type": "invalid_request_error"}}).encode()
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
            await peer.send(head.encode() + text)
            return
        done = sum(message["role"] == "tool" for message in peer.body["messages"])
        row, calls = PROVIDERS[provider], TURNS[{0: 0, 2: 1}.get(done, 2)]
        deltas: list[dict[str, Any]] = [row.reasoning] if row.reasoning else []
        for at, (call_id, name) in enumerate(calls):
            call = {"index": at, "id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
            deltas.append({"tool_calls": [call | (row.extra if at == 0 else {})]})
        await peer.start()
        for delta in deltas if calls else [*deltas, {"content": "Done."}]:
            await peer.event({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]})
        await peer.event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await peer.chunk(b"data: [DONE]\n\n")
        await peer.end()

    return script


Step = tuple[str, Any]
STEPS: Final[list[list[Step]]] = [
    [("user", "Look")],
    [("calls", TURNS[0]), ("output", ("call_a", "1")), ("output", ("call_b", FAILED))],
    [("calls", TURNS[1]), ("output", ("call_c", "2"))],
    [("text", "Done."), ("user", "And now?")],
]
"""What each request adds to the conversation."""


def as_items(steps: list[Step]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for kind, what in steps:
        if kind == "user":
            parts = [{"type": "input_text", "text": what}, {"type": "input_image", "image_url": IMAGE}]
            items.append({"type": "message", "role": "user", "content": parts})
        elif kind == "calls":
            items += [{"type": "function_call", "call_id": one, "name": name, "arguments": "{}"} for one, name in what]
        elif kind == "output":
            items.append({"type": "function_call_output", "call_id": what[0], "output": what[1]})
        else:
            items.append({"type": "message", "role": "assistant", "content": what})
    return items


def as_messages(steps: list[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for kind, what in steps:
        if kind == "user":
            parts = [{"type": "text", "text": what}, {"type": "image_url", "image_url": {"url": IMAGE}}]
            messages.append({"role": "user", "content": parts})
        elif kind == "calls":
            calls = [
                {"id": one, "type": "function", "function": {"name": name, "arguments": "{}"}} for one, name in what
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif kind == "output":
            messages.append({"role": "tool", "tool_call_id": what[0], "content": what[1]})
        else:
            messages.append({"role": "assistant", "content": what})
    return messages


def as_ag_ui(steps: list[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for at, (kind, what) in enumerate(steps):
        head = {"id": f"m{at}"}
        if kind == "user":
            image = {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}}
            messages.append({**head, "role": "user", "content": [{"type": "text", "text": what}, image]})
        elif kind == "calls":
            calls = [
                {"id": one, "type": "function", "function": {"name": name, "arguments": "{}"}} for one, name in what
            ]
            messages.append({**head, "role": "assistant", "toolCalls": calls})
        elif kind == "output":
            failed = {"error": what[1]} if what[1] == FAILED else {}
            messages.append({**head, "role": "tool", "toolCallId": what[0], "content": what[1], **failed})
        else:
            messages.append({**head, "role": "assistant", "content": what})
    return messages


def as_ui_messages(steps: list[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    outputs = {what[0]: what[1] for kind, what in steps if kind == "output"}
    for at, (kind, what) in enumerate(steps):
        if kind == "user":
            image = {"type": "file", "mediaType": "image/png", "url": IMAGE}
            messages.append({"id": f"m{at}", "role": "user", "parts": [{"type": "text", "text": what}, image]})
        elif kind in {"text", "calls"}:
            if messages[-1]["role"] == "user":
                messages.append({"id": f"m{at}", "role": "assistant", "parts": []})
            parts: list[dict[str, Any]] = [{"type": "text", "text": what}] if kind == "text" else []
            for one, name in what if kind == "calls" else ():
                said = outputs[one]
                end = {"errorText": said} if said == FAILED else {"output": said}
                state = "output-error" if said == FAILED else "output-available"
                parts.append({"type": f"tool-{name}", "toolCallId": one, "state": state, "input": {}, **end})
            messages[-1]["parts"] += [{"type": "step-start"}, *parts]
    return messages


class Client(NamedTuple):
    """A client API: its path, and the body of a request with a conversation."""

    path: str
    body: Callable[[list[Step]], dict[str, Any]]


RUNS: Final = itertools.count()
CLIENTS: Final[dict[str, Client]] = {
    "responses": Client("/v1/responses", lambda steps: {"model": "m", "stream": True, "input": as_items(steps)}),
    "chat_completions": Client(
        "/v1/chat/completions", lambda steps: {"model": "m", "stream": True, "messages": as_messages(steps)}
    ),
    "chat_stream": Client("/api/v1/chat/stream", lambda steps: {"input": as_items(steps)}),
    "ag_ui": Client(
        "/api/v1/ag-ui/default",
        lambda steps: {"threadId": "t", "runId": f"r{next(RUNS)}", "messages": as_ag_ui(steps)},
    ),
    "ai_sdk": Client("/api/v1/ai-sdk/default", lambda steps: {"id": "c", "messages": as_ui_messages(steps)}),
}


def settings(base_url: str, **agent: Any) -> dict[str, Any]:
    default = {"upstream": "one", "model": "m", "dialects": ["public_sse_v1", "ag_ui", "ai_sdk"], **agent}
    policy = {"reasoning": "full"}
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {"one": {"api": "openai_chat", "base_url": base_url}},
        "agents": {"default": default | {"policy": policy}},
        "passthrough": {"responses": "one", "chat_completions": "one", "policy": policy},
    }


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_conversation_of_three_turns(
    serve: Any, upstream: Any, upstream_port: int, client: str, provider: str
) -> None:
    scripted = await upstream(strict(provider))
    site = serve(**settings(f"http://localhost:{upstream_port}/v1"))
    row = CLIENTS[client]
    steps: list[Step] = []
    for more, calls in zip(STEPS, [*TURNS, []], strict=True):
        steps += more
        answer = await site.ask(row.path, row.body(steps))
        text = (await answer.rest()).decode()
        assert answer.status == 200, text
        assert SECRET not in text
        assert SIGNATURE not in text
        assert all(call_id in text for call_id, _ in calls)
        assert ("Done." in text) is (not calls)
    bodies = [(await scripted.peers.get()).body for _ in STEPS]
    assert [mistakes(provider, body["messages"]) for body in bodies] == [[]] * len(STEPS)
    assert IMAGE in json.dumps(bodies[-1])


@pytest.mark.parametrize("provider", ["deepseek", "gemini"])
async def test_a_conversation_stays_at_the_target_that_its_state_is_from(
    serve: Any, upstream: Any, upstream_port: int, provider: str
) -> None:
    scripted = await upstream(strict(provider))
    given = settings(f"http://localhost:{upstream_port}/a")
    given["upstreams"]["two"] = {"api": "openai_chat", "base_url": f"http://localhost:{upstream_port}/b"}
    targets = [{"upstream": name, "model": "m"} for name in ("one", "two")]
    given["agents"]["balanced"] = {"targets": targets, "balance": "weight"}
    site = serve(**given)
    for begun in range(2):
        steps: list[Step] = []
        places = set()
        for more in STEPS[:-1]:
            steps += more
            answer = await site.ask(body={"agent": "balanced", "input": as_items(steps)})
            assert (await answer.frames())[-1]["kind"] == "final"
            places.add((await scripted.peers.get()).head.split()[1][:2])
        assert len(places) == 1, begun


def test_the_page_has_the_pairs() -> None:
    lines = [
        "| client | " + " | ".join(row.title for row in PROVIDERS.values()) + " |",
        "|---" * (len(PROVIDERS) + 1) + "|",
        *(f"| `{row.path}` |" + " three turns |" * len(PROVIDERS) for row in CLIENTS.values()),
    ]
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")


async def test_the_calls_of_another_caller_are_unknown() -> None:
    times = iter([10.0, 20.0, 20.0, 100.0])
    keeper = CallKeeper(None, 50, clock=lambda: next(times))
    keeper.keep("alice", "call_a", Place("openai_chat", "one", "m"), {"x": 1}, ({"y": 2},))
    body = {"input": [{"type": "function_call", "call_id": "call_a"}]}
    found = await keeper.load(body, "alice")
    assert [(one.own, one.before) for one in found.values()] == [({"x": 1}, ({"y": 2},))]
    assert await keeper.load(body, "bob") == {}
    assert await keeper.load(body, "alice") == {}, "it is too old"


async def test_a_call_that_reuses_an_id_forgets_what_the_earlier_one_had() -> None:
    keeper = CallKeeper(None, 50)
    for own in ({"x": 1}, None):
        keeper.keep("alice", "call_0", Place("openai_chat", "one", "m"), own, ())
    assert await keeper.load({"call_id": "call_0"}, "alice") == {}


async def test_values_outlast_the_process_and_stay_bounded() -> None:
    store = MemoryStore(StoreLimits())
    place = Place("openai_chat", "one", "m")
    first = CallKeeper(store, 50, max_bytes=400)
    for number in range(9):
        first.keep("alice", f"call_{number}", place, {"text": "x" * 100}, ())
    await first.aclose()
    second = CallKeeper(store, 50)
    assert [*await second.load({"call_id": "call_0"}, "alice")] == ["call_0"]
    await second.aclose()
    assert [*await CallKeeper(None, 50).load({"call_id": "call_0"}, "alice")] == []


async def test_a_store_that_is_away_is_an_error() -> None:
    class Away(MemoryStore):
        async def get_many(self, *_: Any) -> Any:
            from projector.store.protocol import StoreUnavailableError  # noqa: PLC0415

            raise StoreUnavailableError

    with pytest.raises(Problem):
        await CallKeeper(Away(StoreLimits()), 50).load({"call_id": "call_0"}, "alice")


def test_thinking_goes_back_with_the_call_that_followed_it() -> None:
    place = Place("anthropic_messages", "one", "m")
    kept: dict[str, KeptCall] = {}
    collector = OpaqueCollector(
        lambda call_id, own, before: kept.update({call_id: KeptCall(place, 0, own, before)}),
    )
    thinking = {"thinking": REASONING, "signature": SIGNATURE}
    collector.add("reasoning", None, thinking)
    collector.add("function_call", "toolu_1", None)
    text = Message("assistant", "I look.")
    asked = [user_text("Hi"), text, ToolCall("toolu_1", "look", "{}"), ToolOutput("toolu_1", "1")]
    request = ModelRequest(model="m", input=with_opaque(asked, kept, place))
    profile = profile_of("anthropic_messages", {})
    messages = PROVIDER_ROWS["anthropic_messages"].request_writer(request, profile)["messages"]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "text", "tool_use"]
    assert messages[1]["content"][0] == {"type": "thinking", **thinking}
    assert with_opaque(asked, kept, place._replace(upstream="two")) == asked
