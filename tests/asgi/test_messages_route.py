"""`/v1/messages`: an upstream of this API, one with another, and the other routes on an upstream of this API."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from projector.providers import PROVIDERS
from projector.recording import replay
from projector.server.http.stream_route import caller_headers
from tests.asgi.examples import example, plays
from tests.asgi.test_recorder import cases_in
from tests.dialect_checks import violations_of
from tests.waiting import wait_until

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
    "gemini": example("gemini-text", "gemini"),
}
PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
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
    assert error["error"]["message"] == "A valid API key is required, sent as `x-api-key: KEY` or as bearer token."
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


async def test_a_message_of_which_nothing_goes_back_is_left_out(site_of: Any, upstream: Any) -> None:
    provider = await upstream(plays(*ANSWERS["anthropic_messages"]))
    turns = [TURNS[0], {"role": "assistant", "content": ASSISTANT[:2]}, TURNS[0]]
    await (await site_of("anthropic_messages").ask(MESSAGES, {**BODY, "messages": turns})).rest()
    assert (await provider.peers.get()).body["messages"] == [TURNS[0], TURNS[0]]


@pytest.mark.parametrize(("betas", "is_shown"), [("one", True), ("one,dev-full-thinking-2025-05-14", False)])
async def test_betas_of_the_caller_decide_what_thinking_is(
    site_of: Any, upstream: Any, betas: str, *, is_shown: bool
) -> None:
    await upstream(plays(*example("messages-thinking", "anthropic_messages_input")))
    answer = await site_of("anthropic_messages").ask(MESSAGES, {**BODY, "stream": True}, anthropic_beta=betas)
    assert ("The user wants a number" in (await answer.rest()).decode()) == is_shown


async def test_a_silence_has_pings_after_the_first_event(site_of: Any, upstream: Any) -> None:
    heard = [asyncio.Event(), asyncio.Event()]

    async def script(peer: Any) -> None:
        await peer.start()
        await heard[0].wait()
        [events] = ANSWERS["anthropic_messages"]
        for event in events[:4]:
            await peer.chunk(b"data: " + event + b"\n\n")
        await heard[1].wait()
        for event in events[4:]:
            await peer.chunk(b"data: " + event + b"\n\n")
        await peer.end()

    await upstream(script)
    answer = await site_of("anthropic_messages", heartbeat_s=0.1).ask(MESSAGES, {**BODY, "stream": True})
    first = await answer.chunk()
    heard[0].set()
    said = b""
    while PING not in said:
        said += await answer.chunk()
    heard[1].set()
    said += await answer.rest()
    assert first.startswith(b": heartbeat")
    assert PING not in said.partition(b"event: message_start")[0]
    lines = [line.removeprefix(b"data: ") for line in said.splitlines() if line.startswith(b"data: ")]
    assert violations_of("anthropic_messages", lines) == []


@pytest.mark.parametrize("api", ANSWERS)
async def test_a_stream_is_read_again_after_each_event(site_of: Any, upstream: Any, api: str) -> None:
    await upstream(plays(*ANSWERS[api]))
    site = site_of(api)
    answer = await site.ask(MESSAGES, {**BODY, "stream": True})
    whole = [event + b"\n\n" for event in (await answer.rest()).split(b"\n\n") if event]
    address = f"{answer.headers['location']}/events"
    for count in range(len(whole)):
        later = await site.get(address, last_event_id=str(count))
        assert (later.status, await later.rest()) == (200, b"".join(whole[count:])), count
    assert (await site.get(address, last_event_id=str(len(whole)))).status == 204
    assert (await site.get(address, last_event_id=str(len(whole) + 1))).status == 400


@pytest.mark.parametrize("api", ANSWERS)
async def test_a_broken_connection_is_continued(serve: Any, upstream: Any, upstream_port: int, api: str) -> None:
    """The client has some events and a part of one; it comes back while the provider still sends."""
    has_left = asyncio.Event()

    async def script(peer: Any) -> None:
        await peer.start()
        [events] = ANSWERS[api]
        for event in events[:-1]:
            await peer.chunk(b"data: " + event + b"\n\n")
        await has_left.wait()
        await peer.chunk(b"data: " + events[-1] + b"\n\n")
        await peer.end()

    await upstream(script)
    one = {"api": api, "base_url": f"http://localhost:{upstream_port}/v1"}
    agent = {"upstream": "one", "model": "m", "dialects": ["anthropic_messages"], "on_disconnect": "continue"}
    site = serve(api_key=None, base_url=None, upstreams={"one": one}, agents={"default": agent})
    answer = await site.ask("/api/v1/chat/stream?dialect=anthropic_messages")
    said = b""
    while b"content_block_delta" not in said:
        said += await answer.chunk()
    answer.leave()
    events = said.split(b"\n\n")[:-1]
    later = await site.get(f"{answer.headers['location']}/events", last_event_id=str(len(events) - 1))
    has_left.set()
    whole = b"\n\n".join([*events[:-1], await later.rest()])
    lines = [line.removeprefix(b"data: ") for line in whole.splitlines() if line.startswith(b"data: ")]
    assert violations_of("anthropic_messages", lines) == []
    assert whole.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


async def test_a_stream_is_recorded_and_counted(serve: Any, upstream: Any, upstream_port: int, tmp_path: Path) -> None:
    await upstream(plays(*ANSWERS["anthropic_messages"]))
    one = {"api": "anthropic_messages", "base_url": f"http://localhost:{upstream_port}/v1"}
    route = {"messages": "one", "record": {"folder": str(tmp_path)}}
    site = serve(api_key=None, base_url=None, upstreams={"one": one}, passthrough=route)
    said = await (await site.ask(MESSAGES, {**BODY, "stream": True})).rest()
    await wait_until(lambda: bool(cases_in(tmp_path)))
    [case] = cases_in(tmp_path)
    lines = [line.removeprefix(b"data: ") for line in said.splitlines() if line.startswith(b"data: ")]
    assert replay.play(case, "anthropic_messages").splitlines()[1:] == lines[1:]  # the first has an estimate of tokens
    assert await site.is_quiet()  # a stream is counted after its last byte
    metrics = (await (await site.get("/metrics")).rest()).decode()
    assert re.search(r'\nprojector_tokens_total{[^}]*upstream="one"[^}]*} 131\.0\n', metrics)


SEARCHES: Final = {
    "anthropic_messages": example("messages-web-search", "anthropic_messages_input"),
    "openai_responses": example("chat-web-search"),
}
SHOWN_AS: Final = ("server_tool_use", "web_search", "web_search_tool_result")


@pytest.mark.parametrize("api", SEARCHES)
async def test_searches_are_shown_to_clients_that_ask_for_them(site_of: Any, upstream: Any, api: str) -> None:
    """They do not go back: the provider's own form of them does."""
    provider = await upstream(plays(*SEARCHES[api]))
    site = site_of(api)
    plain = json.loads(await (await site.ask(MESSAGES, BODY)).rest())["content"]
    shown = json.loads(await (await site.ask(f"{MESSAGES}?extensions=true", BODY)).rest())["content"]
    streamed = await (await site.ask(f"{MESSAGES}?extensions=true", {**BODY, "stream": True})).rest()
    lines = [line.removeprefix(b"data: ") for line in streamed.splitlines() if line.startswith(b"data: ")]
    assert violations_of("anthropic_messages", lines) == []
    search, result, *_ = [block for block in shown if block not in plain]
    started = [event["content_block"] for line in lines if "content_block" in (event := json.loads(line))]
    assert ({**search, "input": {}} in started, result in started) == (True, True)
    assert (search["type"], search["name"], result["type"]) == SHOWN_AS
    assert (bool(search["input"]["query"]), search["id"]) == (True, result["tool_use_id"])
    assert all(page["url"].startswith("https://") for page in result["content"])
    turns = [TURNS[0], {"role": "assistant", "content": shown}, TURNS[0]]
    assert (await site.ask(MESSAGES, {**BODY, "messages": turns})).status == 200
    *_, peer = [await provider.peers.get() for _ in range(4)]
    assert "web_search" not in json.dumps(peer.body)


async def test_tools_and_history_in_another_api(site_of: Any, upstream: Any) -> None:
    provider = await upstream(plays(*ANSWERS["openai_chat"]))
    tool = {"name": "tide", "input_schema": {"type": "object"}, "defer_loading": True}
    more = {"system": [{"type": "text", "text": "Be brief."}], "tools": [tool], "tool_choice": {"type": "any"}}
    hints = {"thinking": {"type": "adaptive"}, "context_management": {"edits": []}}
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


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"tools": [{"type": "web_search_20250305"}]}, "`tools[0].type` (`web_search_20250305`) has"),
        (
            {"tools": [{"name": "f"}, *({"type": one} for one in ("bash_20250124", "custom", "acme_20250124"))]},
            "`tools[1].type` (`bash_20250124`), `tools[3].type` each have",
        ),
        ({"mcp_servers": [{"type": "url", "name": "notes"}]}, "`mcp_servers` is not supported"),
    ],
)
@pytest.mark.parametrize("api", [api for api in ANSWERS if api != "anthropic_messages"])
async def test_tools_that_another_api_lacks_are_named(site_of: Any, api: str, members: Any, named: str) -> None:
    refused = await site_of(api).ask(MESSAGES, {**BODY, **members})
    error = json.loads(await refused.rest())
    assert (refused.status, error["error"]["type"]) == (400, "invalid_request_error")
    assert error["error"]["message"].startswith(named)


@pytest.mark.parametrize("api", ANSWERS)
async def test_a_conversation_that_the_provider_holds_is_refused(site_of: Any, api: str) -> None:
    """Tool runners of the package go on with the whole history after an error with this code."""
    refused = await site_of(api).ask(MESSAGES, {**BODY, "thread": {"type": "create"}})
    error = json.loads(await refused.rest())["error"]
    assert (refused.status, error["type"]) == (400, "invalid_request_error")
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


COUNT: Final = f"{MESSAGES}/count_tokens"
ASKED: Final[dict[str, Any]] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def answers(value: object, status: str = "200 OK", *headers: str) -> Any:
    """Return a script that answers with JSON."""
    body = json.dumps(value).encode()
    lines = ["content-type: application/json", f"content-length: {len(body)}", "connection: close", *headers]

    async def script(peer: Any) -> None:
        await peer.send("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body)

    return script


def failing(kind: str, message: str = "No.") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_of_the_provider"}


async def error_of(answer: Any) -> tuple[int, str, str | None]:
    """Return status, type and `x-should-retry` of an error, whose form is checked."""
    error = json.loads(await answer.rest())
    assert error.keys() == {"type", "error", "request_id"}
    assert error["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert error["error"].keys() == {"type", "message"}
    return answer.status, error["error"]["type"], answer.headers.get("x-should-retry")


async def test_the_provider_counts(site_of: Any, upstream: Any) -> None:
    managed = {"original_input_tokens": 9}
    provider = await upstream(answers({"input_tokens": 7, "context_management": managed, "other": "secret"}))
    sent = {"anthropic_beta": "one,two", "anthropic_version": "2026-10-21"}
    body = {**ASKED, "messages": TURNS, "context_management": {"edits": []}}
    answer = await site_of("anthropic_messages").ask(f"{COUNT}?beta=true", body, **sent)
    assert json.loads(await answer.rest()) == {"input_tokens": 7, "context_management": managed}
    assert (answer.status, answer.headers["request-id"]) == (200, answer.headers["x-request-id"])
    peer = await provider.peers.get()
    head = peer.head.decode().lower()
    assert head.startswith("post /v1/messages/count_tokens http/1.1\r\n")
    for line in ("anthropic-beta: one,two", "anthropic-version: 2026-10-21", "accept: application/json"):
        assert head.count(f"{line}\r\n") == head.count(f"{line.partition(':')[0]}: ") == 1
    assert peer.body.keys() == body.keys()
    assert peer.body["messages"][1]["content"][0] == ASSISTANT[2]  # without what only this server has signed


def test_a_header_of_several_lines_goes_on_whole() -> None:
    route = PROVIDERS["anthropic_messages"].passthrough
    assert route is not None
    lines = [(b"anthropic-beta", b"one"), (b"anthropic-beta", b"two"), (b"x-other", b"three")]
    assert caller_headers({"type": "http", "headers": lines}, route) == {"anthropic-beta": "one, two"}


@pytest.mark.parametrize(("api", "profile"), [("openai_chat", {}), ("anthropic_messages", {"platform": "bedrock"})])
async def test_other_upstreams_have_an_estimate(serve: Any, upstream_port: int, api: str, profile: Any) -> None:
    """No request is sent. Texts count by their size, beyond the limit of reservations, and an image does not."""
    one = {"api": api, "base_url": f"http://localhost:{upstream_port}/v1", "profile": profile}
    site = serve(api_key=None, base_url=None, upstreams={"one": one}, passthrough={"messages": "one"})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO" * 100_000}}
    counts = []
    for content in ("Hi", "Some words. " * 30_000, [image]):
        answer = await site.ask(COUNT, {**ASKED, "messages": [{"role": "user", "content": content}]})
        assert answer.status == 200
        counts.append(json.loads(await answer.rest())["input_tokens"])
    assert 5 < counts[0] < 50
    assert 90_000 < counts[1] < 90_100
    assert 1_600 < counts[2] < 1_700


@pytest.mark.parametrize("path", [MESSAGES, COUNT])
@pytest.mark.parametrize(
    ("status", "sent", "headers", "expected", "calls"),
    [
        (400, failing("invalid_request_error"), (), (400, "invalid_request_error", "false"), 1),
        (401, failing("authentication_error"), (), (401, "authentication_error", "false"), 1),
        (404, failing("not_found_error"), (), (404, "not_found_error", "false"), 1),
        (413, failing("request_too_large"), (), (413, "request_too_large", "false"), 1),
        (429, failing("rate_limit_error"), (), (429, "rate_limit_error", "false"), 3),
        (429, failing("rate_limit_error"), ("retry-after: 60",), (429, "rate_limit_error", "true"), 1),
        (500, failing("api_error"), (), (500, "api_error", "false"), 3),
        (503, {}, (), (529, "overloaded_error", "false"), 3),
        (529, failing("overloaded_error"), (), (529, "overloaded_error", "false"), 3),
        (529, failing("overloaded_error"), ("x-should-retry: false",), (529, "overloaded_error", "false"), 1),
    ],
)
async def test_an_error_of_the_provider(
    site_of: Any, upstream: Any, path: str, status: int, sent: Any, headers: Any, expected: Any, calls: int
) -> None:
    provider = await upstream(answers(sent, f"{status} No", *headers))
    site = site_of("anthropic_messages", retries={"max": 2, "initial_backoff_s": 0.01})
    answer = await site.ask(path, {**BODY, "stream": False} if path == MESSAGES else ASKED)
    assert await error_of(answer) == expected
    assert answer.headers.get("retry-after") == (headers[0][-2:] if "retry-after: 60" in headers else None)
    assert provider.peers.qsize() == calls


@pytest.mark.parametrize(
    ("status", "kind", "code", "expected"),
    [
        (401, "invalid_request_error", "invalid_api_key", "authentication_error"),
        (403, "invalid_request_error", "unsupported_country_region_territory", "permission_error"),
        (404, "invalid_request_error", "model_not_found", "not_found_error"),
        (429, "invalid_request_error", "rate_limit_exceeded", "rate_limit_error"),
        (400, "invalid_request_error", "context_length_exceeded", "invalid_request_error"),
        (422, "invalid_request_error", None, "invalid_request_error"),
        (500, "server_error", None, "api_error"),
        (429, "tokens", "rate_limit_exceeded", "rate_limit_error"),
    ],
)
async def test_an_error_of_another_provider(
    site_of: Any, upstream: Any, status: int, kind: str, code: str | None, expected: str
) -> None:
    """Nearly every client error of OpenAI has the type that the Messages API has for 400."""
    error = {"error": {"message": "No.", "type": kind, "param": None, "code": code}}
    await upstream(answers(error, f"{status} No"))
    answer = await site_of("openai_chat", retries={"max": 0}).ask(MESSAGES, BODY)
    assert (await error_of(answer))[:2] == (status, expected)


@pytest.mark.parametrize(
    "value", [{}, {"input_tokens": "7"}, {"input_tokens": -1}, [], {"input_tokens": 7, "x": "y" * 99_999}]
)
async def test_an_answer_that_is_no_count(site_of: Any, upstream: Any, value: object) -> None:
    await upstream(answers(value))
    assert await error_of(await site_of("anthropic_messages").ask(COUNT, ASKED)) == (502, "api_error", "false")


async def test_an_error_in_place_of_a_count(site_of: Any, upstream: Any) -> None:
    await upstream(answers(failing("overloaded_error")))
    found = await error_of(await site_of("anthropic_messages").ask(COUNT, ASKED))
    assert found == (529, "overloaded_error", "true")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([failing("overloaded_error")], (529, "overloaded_error", "true")),
        ([failing("rate_limit_error")], (429, "rate_limit_error", "true")),
        ([failing("invalid_request_error")], (400, "invalid_request_error", "false")),
        ([], (529, "overloaded_error", "true")),
    ],
)
async def test_a_json_answer_that_fails_in_the_middle(site_of: Any, upstream: Any, events: Any, expected: Any) -> None:
    begun = ANSWERS["anthropic_messages"][0][:4]
    provider = await upstream(plays([*begun, *(json.dumps(event).encode() for event in events)]))
    assert await error_of(await site_of("anthropic_messages").ask(MESSAGES, BODY)) == expected
    assert provider.peers.qsize() == 1


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (COUNT, {"model": "m"}, (400, "invalid_request_error", "false")),
        (COUNT, {**ASKED, "tools": [{"type": "web_search_20250305"}]}, (400, "invalid_request_error", "false")),
        (COUNT, {**ASKED, "model": "other"}, (404, "not_found_error", "false")),
        (COUNT, b"{", (400, "invalid_request_error", "false")),
        (COUNT, b"x" * 9_000_000, (413, "request_too_large", "false")),
        (MESSAGES, {**BODY, "stream": "yes"}, (400, "invalid_request_error", "false")),
        (f"{MESSAGES}/batches", {}, (404, "not_found_error", "false")),
    ],
)
async def test_a_refusal(serve: Any, upstream_port: int, path: str, body: Any, expected: Any) -> None:
    one = {"api": "openai_chat", "base_url": f"http://localhost:{upstream_port}/v1", "models": ["m"]}
    site = serve(api_key=None, base_url=None, upstreams={"one": one}, passthrough={"messages": "one"})
    assert await error_of(await site.ask(path, body)) == expected


async def test_limits_and_rights_of_callers(serve: Any, upstream: Any, upstream_port: int) -> None:
    await upstream(answers({"input_tokens": 7}))
    one = {"api": "anthropic_messages", "base_url": f"http://localhost:{upstream_port}/v1"}
    keys = {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("once", "never")}
    callers = {
        "key:once": {"rate_limits": {"requests_per_minute": 1}, "models": ["m"]},
        "key:never": {"routes": ["chat"]},
    }
    more = {"auth": {"api_keys": keys}, "callers": callers, "upstreams": {"one": one}}
    site = serve(api_key=None, base_url=None, passthrough={"messages": "one"}, **more)
    assert await error_of(await site.ask(COUNT, ASKED)) == (401, "authentication_error", "false")
    assert await error_of(await site.ask(COUNT, ASKED, x_api_key="never")) == (403, "permission_error", "false")
    assert (await site.ask(COUNT, ASKED, x_api_key="once")).status == 200
    limited = await site.ask(COUNT, ASKED, x_api_key="once")
    assert limited.headers["x-ratelimit-limit-requests"] == "1"
    assert await error_of(limited) == (429, "rate_limit_error", "true")


async def test_a_failed_count_is_redacted_logged_and_keeps_no_answer_away(site_of: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        is_count = b"count_tokens" in peer.head
        said = failing("api_error", f"Key sk-{'a1B2' * 8} is odd.")
        await (answers(said, "500 No") if is_count else plays(*ANSWERS["anthropic_messages"]))(peer)

    await upstream(script)
    site = site_of("anthropic_messages", retries={"max": 0}, circuit_breaker={"failures": 1})
    with capture_logs() as logs:
        for _ in range(2):
            refused = await site.ask(COUNT, ASKED)
            assert json.loads(await refused.rest())["error"]["message"] == "Key <redacted> is odd."
    found = [line for line in logs if line["event"] == "provider_error"]
    assert [(line["status"], line["message"]) for line in found] == [(500, "Key <redacted> is odd.")] * 2
    assert (await site.ask(MESSAGES, BODY)).status == 200
    assert await error_of(await site.get(COUNT)) == (405, "invalid_request_error", "false")


async def test_a_client_that_leaves_frees_the_upstream(site_of: Any, upstream: Any) -> None:
    async def silent(peer: Any) -> None:
        await peer.gone.wait()

    provider = await upstream(silent)
    answer = await site_of("anthropic_messages").post(COUNT, ASKED)
    peer = await provider.peers.get()
    answer.leave()
    await peer.gone.wait()


MODELS: Final[list[dict[str, Any]]] = [
    {"type": "model", "id": "claude-a", "display_name": "Claude A", "created_at": "2026-10-21T00:00:00Z"},
    {"type": "model", "id": "claude-b", "display_name": "key sk-" + "a1B2" * 8, "created_at": "soon"},
    {"id": "local", "created": 1_700_000_000},
]


async def test_models_in_the_form_of_the_client(serve: Any, upstream: Any, upstream_port: int) -> None:
    """One test, because the list is kept."""
    await upstream(answers({"data": MODELS, "has_more": False}))
    url = {"base_url": f"http://localhost:{upstream_port}/v1"}
    upstreams = {"one": {**url, "api": "anthropic_messages"}, "two": {**url, "models": ["gpt"]}}
    auth = {"api_keys": {"caller": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"}}
    more = {"upstreams": upstreams, "passthrough": {"messages": "one", "responses": "two"}, "auth": auth}
    site = serve(api_key=None, base_url=None, **more)
    version = {"anthropic_version": "2023-06-01", "x_api_key": KEY}

    async def get(path: str, **headers: str) -> Any:
        answer = await site.get(path, **headers)
        assert (answer.status, answer.headers.get("request-id")) == (200, answer.headers["x-request-id"])
        return json.loads(await answer.rest())

    def entry(model_id: str, name: str, created: str) -> dict[str, Any]:
        dates = {"created_at": created, "lifecycle": "active"}
        return {"type": "model", "id": model_id, "display_name": name, **dates}

    found = [
        entry("claude-a", "Claude A", "2026-10-21T00:00:00Z"),
        entry("claude-b", "claude-b", "1970-01-01T00:00:00Z"),
        entry("local", "local", "2023-11-14T22:13:20Z"),
    ]
    whole = await get("/v1/models", **version)
    assert whole == {"data": found, "has_more": False, "first_id": "claude-a", "last_id": "local"}
    assert await get("/v1/models/claude-b", **version) == found[1]
    for query, expected, has_more in (
        ("limit=2", found[:2], True),
        ("limit=2&after_id=claude-a", found[1:], False),
        ("limit=1&before_id=local", found[1:2], True),
        ("after_id=local", [], False),
    ):
        page = await get(f"/v1/models?{query}", **version)
        assert (page["data"], page["has_more"]) == (expected, has_more), query
    openai = await site.get("/v1/models", authorization=f"Bearer {KEY}")
    listed = json.loads(await openai.rest())
    assert "request-id" not in openai.headers
    assert (listed["object"], [one["id"] for one in listed["data"]]) == (
        "list",
        ["gpt", "claude-a", "claude-b", "local"],
    )
    assert listed["data"][3] == {"id": "local", "object": "model", "created": 1_700_000_000, "owned_by": "system"}
    assert (await site.get("/v1/models", x_api_key=KEY)).status == 401
    for query, kind in (
        ("?limit=0", "invalid_request_error"),
        ("?after_id=x", "invalid_request_error"),
        ("/gpt", "not_found_error"),
    ):
        assert (await error_of(await site.get(f"/v1/models{query}", **version)))[1:] == (kind, "false")
