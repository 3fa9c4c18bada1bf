"""Conversations that the client holds, on `/api/v1/chat/stream`: what the upstream receives, and what is rejected."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.asgi.conftest import Peer

SETTINGS: Final = {
    "agents": {
        "chat": {
            "upstream": "chat",
            "model": "gpt-test",
            "instructions": "Be short.",
            "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
        },
        "responses": {"upstream": "responses", "model": "gpt-test", "instructions": "Be short."},
        "locked": {"upstream": "responses", "model": "gpt-test", "allowed_params": ["previous_response_id"]},
    }
}
TOOLS: Final = SETTINGS["agents"]["chat"]["tools"]
USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}

ASKED: Final = {"role": "user", "content": "How is the weather in Rome?"}
CALL: Final = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city": "Rome"}',
}
OUTPUT: Final = {"type": "function_call_output", "call_id": "call_1", "output": '{"sky": "blue"}'}


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    url = f"http://localhost:{upstream_port}/v1"
    upstreams = {
        "chat": {"api": "openai_chat", "base_url": url},
        "responses": {"api": "openai_responses", "base_url": url},
    }
    return serve(upstreams=upstreams, api_key=None, base_url=None, **SETTINGS)


def chunk(finish: str | None = None, usage: object = None, **delta: object) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if usage is None else []
    return {"id": "chat_1", "object": "chat.completion.chunk", "model": "gpt-test", "choices": choices, "usage": usage}


def tool_call(index: int | None = 0, **function: str) -> list[dict[str, Any]]:
    return [{"index": index, "id": "call_1", "type": "function", "function": function}]


async def answer_in_two_turns(peer: Peer) -> None:
    """Call a tool; answer when its output is in the request."""
    await peer.start()
    if peer.body["messages"][-1]["role"] == "tool":
        turn = [chunk(content="Blue "), chunk(content="sky."), chunk("stop")]
    else:
        called = tool_call(name="get_weather", arguments='{"city": "Rome"}')
        turn = [chunk(content="I look."), chunk(tool_calls=called), chunk("tool_calls")]
    for event in [*turn, chunk(usage=USAGE)]:
        await peer.event(event)
    await peer.chunk(b"data: [DONE]\n\n")
    await peer.end()


async def test_two_turns_with_a_tool_on_chat_completions(site: Any, upstream: Any) -> None:
    """The client builds the second request from the frames of the first answer and nothing else."""
    scripted = await upstream(answer_in_two_turns)
    first = await (await site.ask(body={"agent": "chat", "input": [ASKED]})).frames()
    said = "".join(frame["delta"] for frame in first if frame["kind"] == "message.delta")
    [called] = [frame for frame in first if frame["kind"] == "tool.arguments.done"]
    history = [
        ASKED,
        {"role": "assistant", "content": said},
        {
            "type": "function_call",
            "call_id": called["tool_call_id"],
            "name": called["tool_name"],
            "arguments": called["arguments_text"],
        },
        {**OUTPUT, "call_id": called["tool_call_id"]},
    ]
    second = await (await site.ask(body={"agent": "chat", "input": history})).frames()
    assert second[-1]["final"]["response_text"] == "Blue sky."
    assert second[-1]["final"]["usage"]["total_tokens"] == 12

    bodies = [(await scripted.peers.get()).body for _ in range(2)]
    shared = {"model": "gpt-test", "stream": True, "stream_options": {"include_usage": True}, "tools": TOOLS}
    system = {"role": "system", "content": "Be short."}
    asks = tool_call(name="get_weather", arguments='{"city": "Rome"}')
    del asks[0]["index"]
    assert bodies == [
        {**shared, "messages": [system, ASKED]},
        {
            **shared,
            "messages": [
                system,
                ASKED,
                {"role": "assistant", "content": "I look.", "tool_calls": asks},
                {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "blue"}'},
            ],
        },
    ]


async def complete(peer: Peer) -> None:
    await peer.start()
    await peer.event({"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}})
    await peer.end()


async def test_history_on_responses(site: Any, upstream: Any) -> None:
    scripted = await upstream(complete)
    parts = [{"type": "output_text", "text": "Blue ", "annotations": []}, {"type": "output_text", "text": "sky."}]
    refused = [{"type": "refusal", "refusal": "No."}]
    history = [
        ASKED,
        {**CALL, "id": "fc_1", "status": "completed"},
        OUTPUT,
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": parts},
        {"role": "user", "content": "And the key?"},
        {"role": "assistant", "content": refused},
        {"role": "user", "content": "Thanks."},
    ]
    answer = await site.ask(body={"agent": "responses", "input": history})
    assert (await answer.frames())[-1]["kind"] == "final"
    assert (await scripted.peers.get()).body["input"] == [
        {"type": "message", **ASKED},
        CALL,
        OUTPUT,
        {"type": "message", "role": "assistant", "content": "Blue sky."},
        {"type": "message", "role": "user", "content": "And the key?"},
        {"type": "message", "role": "assistant", "content": refused},
        {"type": "message", "role": "user", "content": "Thanks."},
    ]


LONE: Final = "`input[2].call_id` is not the ID of an earlier call. Each output must follow its call in `input`."
THANKS: Final = {"role": "user", "content": "Thanks."}
HISTORY: Final = "Earlier messages and calls in `input` are not allowed: `allowed_params`"


@pytest.mark.parametrize(
    ("agent", "items", "detail"),
    [
        ("chat", [ASKED, THANKS, OUTPUT], LONE),
        ("responses", [ASKED, THANKS, OUTPUT], LONE),
        ("chat", [ASKED, CALL, THANKS], "`input[1]` has no output. Each call needs one before the next message"),
        ("chat", [ASKED, {"role": "assistant", "content": "Sure:"}], "`input` must not end with a message of the"),
        ("chat", [{"role": "system", "content": "Obey."}], "`input[0]` has an unsupported 'role'; expected 'user', "),
        ("chat", [{"role": "developer", "content": "Obey."}], "`input[0]` has an unsupported 'role'; expected "),
        ("locked", [{"role": "assistant", "content": "a"}, THANKS], HISTORY),
        ("locked", [CALL, OUTPUT], HISTORY),
    ],
)
async def test_a_history_that_is_rejected(site: Any, agent: str, items: list[object], detail: str) -> None:
    answer = await site.ask(body={"agent": agent, "input": items})
    problem = await answer.problem()
    assert (answer.status, problem["code"]) == (422, "invalid_request")
    assert problem["detail"].startswith(detail)


async def test_an_output_for_a_stored_call(site: Any, upstream: Any) -> None:
    """A provider that stores responses has the call; one without this feature rejects the request."""
    scripted = await upstream(complete)
    first = await site.ask(body={"agent": "locked", "message": "Hi"})
    assert (await first.frames())[-1]["response_id"] == "resp_1"
    continued = {"input": [OUTPUT], "previous_response_id": "resp_1"}
    second = await site.ask(body={"agent": "locked", **continued})
    assert (await second.frames())[-1]["kind"] == "final"
    await scripted.peers.get()
    assert (await scripted.peers.get()).body["input"] == [OUTPUT]
    answer = await site.ask(body={"agent": "chat", **continued})
    assert (await answer.problem())["detail"] == "`previous_response_id` cannot be set here."
