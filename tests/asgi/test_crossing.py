"""Each of the OpenAI-compatible routes on an upstream with the other API, over real sockets."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.examples import example, plays

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
BODIES: Final[dict[str, dict[str, Any]]] = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9},
    RESPONSES: {"model": "m", "input": "Hi", "max_output_tokens": 9},
}
SENT: Final[dict[str, dict[str, Any]]] = {
    CHAT: {"input": [{"type": "message", "role": "user", "content": "Hi"}], "max_output_tokens": 9, "store": False},
    RESPONSES: {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_completion_tokens": 9,
        "stream_options": {"include_usage": True},
    },
}
ANSWERS: Final = {
    CHAT: example("chat-text-citations"),
    RESPONSES: example("chat-completions-text", "openai_chat"),
}
PATHS: Final = {CHAT: "/v1/responses", RESPONSES: "/v1/chat/completions"}
"""Route -> path of the request to the upstream."""


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    base_url = f"http://localhost:{upstream_port}/v1"
    upstreams = {"new": {"base_url": base_url}, "old": {"api": "openai_chat", "base_url": base_url}}
    passthrough = {"chat_completions": "new", "responses": "old"}
    return serve(api_key=None, base_url=None, upstreams=upstreams, passthrough=passthrough)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_answer_has_the_format_of_the_route(site: Any, upstream: Any, path: str, *, stream: bool) -> None:
    provider = await upstream(plays(*ANSWERS[path]))
    answer = await site.ask(path, {**BODIES[path], "stream": stream})
    assert answer.status == 200
    text = (await answer.rest()).decode()
    marks = {CHAT: '"chat.completion', RESPONSES: '"object":"response"'}
    assert marks[path] in text
    assert text.startswith(("data:", "event:")) is stream
    peer = await provider.peers.get()
    assert peer.head.startswith(f"POST {PATHS[path]} HTTP/1.1\r\n".encode())
    assert peer.body == {"model": "m", "stream": True, **SENT[path]}


REFUSED: Final[list[tuple[str, dict[str, Any], str]]] = [
    (CHAT, {"seed": 7}, "seed"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
    (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
    (RESPONSES, {"tools": [{"type": "file_search"}]}, "tools[0].type"),
]


@pytest.mark.parametrize(("path", "members", "param"), REFUSED, ids=[row[2] for row in REFUSED])
async def test_what_the_upstream_cannot_do_is_an_error_of_the_api(
    site: Any, upstream: Any, path: str, members: dict[str, Any], param: str
) -> None:
    provider = await upstream(plays(*ANSWERS[path]))
    refused = await site.ask(path, BODIES[path] | members)
    error = json.loads(await refused.rest())["error"]
    assert (refused.status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"].startswith(f"`{param}`")
    assert provider.peers.empty()


async def test_an_upstream_for_both_routes(serve: Any, upstream: Any, upstream_port: int) -> None:
    upstreams = {"old": {"api": "openai_chat", "base_url": f"http://localhost:{upstream_port}/v1"}}
    passthrough = {"chat_completions": "old", "responses": "old"}
    site = serve(api_key=None, base_url=None, upstreams=upstreams, passthrough=passthrough)
    await upstream(plays(*ANSWERS[RESPONSES]))
    said = [json.loads(await (await site.ask(path, BODIES[path])).rest()) for path in BODIES]
    assert [one["object"] for one in said] == ["chat.completion", "response"]
