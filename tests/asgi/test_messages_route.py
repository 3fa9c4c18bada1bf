"""`/v1/messages`: an upstream of this API, one with another, and the other routes on an upstream of this API."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import pytest

from tests.asgi.examples import example, plays

MESSAGES: Final = "/v1/messages"
BODY: Final[dict[str, Any]] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
OTHERS: Final[dict[str, dict[str, Any]]] = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9},
    "/v1/responses": {"model": "m", "input": "Hi", "max_output_tokens": 9},
}
ANSWERS: Final = {
    "anthropic_messages": example("messages-text", "anthropic_messages_input"),
    "openai_chat": example("chat-completions-text", "openai_chat"),
    "openai_responses": example("chat-text-citations"),
}
KEY: Final = "sk-caller-0123456789"


@pytest.fixture
def site_of(serve: Any, upstream_port: int) -> Any:
    def start(api: str, **more: Any) -> Any:
        upstreams = {"one": {"api": api, "base_url": f"http://localhost:{upstream_port}/v1"}}
        passthrough = dict.fromkeys(("messages", "chat_completions", "responses"), "one")
        return serve(api_key=None, base_url=None, upstreams=upstreams, passthrough=passthrough, **more)

    return start


@pytest.mark.parametrize("api", ANSWERS)
@pytest.mark.parametrize("stream", [True, False])
async def test_every_upstream_answers_in_this_api(site_of: Any, upstream: Any, api: str, *, stream: bool) -> None:
    provider = await upstream(plays(*ANSWERS[api]))
    answer = await site_of(api).ask(MESSAGES, {**BODY, "stream": stream})
    assert answer.status == 200
    text = (await answer.rest()).decode()
    if stream:
        assert text.startswith("event: message_start\ndata: ")
        assert text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    else:
        message = json.loads(text)
        assert (message["type"], message["stop_reason"]) == ("message", "end_turn")
        assert message["content"][0]["text"]
    peer = await provider.peers.get()
    assert "Hi" in json.dumps(peer.body)


@pytest.mark.parametrize("path", OTHERS)
async def test_other_apis_reach_an_upstream_of_this_one(site_of: Any, upstream: Any, path: str) -> None:
    provider = await upstream(plays(*ANSWERS["anthropic_messages"]))
    answer = await site_of("anthropic_messages").ask(path, OTHERS[path])
    assert answer.status == 200
    await answer.rest()
    peer = await provider.peers.get()
    assert peer.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert peer.body["max_tokens"] == 9


async def test_key_version_and_betas_of_the_caller(site_of: Any, upstream: Any) -> None:
    provider = await upstream(plays(*ANSWERS["anthropic_messages"]))
    auth = {"api_keys": {"caller": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"}}
    site = site_of("anthropic_messages", auth=auth)
    sent = {"x_api_key": KEY, "anthropic_beta": "one-2026-01-01,two", "anthropic_version": "2026-10-21"}
    answer = await site.ask(MESSAGES, {**BODY, "metadata": {"user_id": "u"}}, **sent)
    assert (answer.status, answer.headers["request-id"]) == (200, answer.headers["x-request-id"])
    await answer.rest()
    peer = await provider.peers.get()
    head = peer.head.decode().lower()
    assert head.count("anthropic-beta: one-2026-01-01,two\r\n") == head.count("anthropic-beta") == 1
    assert head.count("anthropic-version: 2026-10-21\r\n") == head.count("anthropic-version") == 1
    assert KEY not in head
    assert peer.body == {**BODY, "metadata": {"user_id": "u"}, "stream": True}
    refused = await site.ask(MESSAGES, BODY, x_api_key="another")
    error = json.loads(await refused.rest())
    assert (refused.status, error["type"], error["error"]["type"]) == (401, "error", "authentication_error")
    assert error["request_id"] == refused.headers["request-id"]


ASSISTANT: Final = [
    {"type": "thinking", "thinking": "shown", "signature": "public-sse.abc"},
    {"type": "thinking", "thinking": "shown", "signature": ""},
    {"type": "thinking", "thinking": "own", "signature": "own"},
    {"type": "text", "text": "It rains.", "citations": [{"url": "u", "encrypted_index": ""}]},
    {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"place": "Vik"}},
]
TURNS: Final = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": ASSISTANT},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "low"}]},
]


async def test_a_history_goes_back_as_the_upstream_takes_it(site_of: Any, upstream: Any) -> None:
    provider = await upstream(plays(*ANSWERS["anthropic_messages"]))
    await (await site_of("anthropic_messages").ask(MESSAGES, {**BODY, "messages": TURNS})).rest()
    peer = await provider.peers.get()
    assert peer.body["messages"][1]["content"] == [ASSISTANT[2], {"type": "text", "text": "It rains."}, ASSISTANT[4]]


async def test_tools_and_history_in_another_api(site_of: Any, upstream: Any) -> None:
    provider = await upstream(plays(*ANSWERS["openai_chat"]))
    tool = {"name": "tide", "input_schema": {"type": "object"}, "defer_loading": True}
    more = {"system": [{"type": "text", "text": "Be brief."}], "tools": [tool], "tool_choice": {"type": "any"}}
    hints = {"thinking": {"type": "adaptive"}, "context_management": {"edits": []}, "top_k": 5}
    await (await site_of("openai_chat").ask(MESSAGES, {**BODY, **more, **hints, "messages": TURNS})).rest()
    peer = await provider.peers.get()
    roles = [message["role"] for message in peer.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    [call] = peer.body["messages"][2]["tool_calls"]
    assert (call["id"], call["function"]) == ("toolu_1", {"name": "tide", "arguments": '{"place":"Vik"}'})
    assert peer.body["tools"][0]["function"] == {"name": "tide", "parameters": {"type": "object"}}
    assert peer.body["tool_choice"] == "required"


async def test_a_cut_stream_and_an_overloaded_provider_are_errors(site_of: Any, upstream: Any) -> None:
    await upstream(plays(ANSWERS["anthropic_messages"][0][:4]))
    site = site_of("anthropic_messages")
    said = (await (await site.ask(MESSAGES, {**BODY, "stream": True})).rest()).decode()
    assert "message_stop" not in said
    assert '"type":"overloaded_error"' in said.split("event: error\n")[1]
    whole = await site.ask(MESSAGES, BODY)
    assert (whole.status, json.loads(await whole.rest())["error"]["type"]) == (529, "overloaded_error")


async def test_a_wrong_request_is_an_error_of_this_api(site_of: Any) -> None:
    refused = await site_of("openai_chat").ask(MESSAGES, {**BODY, "tools": [{"type": "web_search_20250305"}]})
    error = json.loads(await refused.rest())
    assert (refused.status, error["error"]["type"]) == (400, "invalid_request_error")
    assert error["error"]["message"].startswith("`tools[0].type`")
