"""Errors on `/v1/...`: OpenAI's error object, the provider's status, and `x-should-retry` (CONTRACT D38)."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import openai
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from structlog.testing import capture_logs

from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.upstream.demo import DemoUpstream
from tests.asgi.in_process import post
from tests.waiting import wait_until

RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"
BODIES: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"model": "m", "input": "hi"},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}


def fails(line: str, *headers: str) -> Any:
    async def script(peer: Any) -> None:
        lines = [f"HTTP/1.1 {line}", *headers, "content-length: 0", "connection: close"]
        await peer.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    return script


async def never_answers(peer: Any) -> None:
    await peer.gone.wait()


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("line", "status", "kind", "code"),
    [
        ("400 Bad Request", 400, "invalid_request_error", "upstream_http_400"),
        ("401 Unauthorized", 401, "authentication_error", "upstream_http_401"),
        ("403 Forbidden", 403, "permission_error", "upstream_http_403"),
        ("404 Not Found", 404, "not_found_error", "upstream_http_404"),
        ("409 Conflict", 409, "conflict_error", "upstream_http_409"),
        ("413 Too Large", 413, "invalid_request_error", "upstream_http_413"),
        ("418 Teapot", 418, "invalid_request_error", "upstream_http_418"),
        ("422 Unprocessable", 422, "invalid_request_error", "upstream_http_422"),
        ("500 Oops", 500, "server_error", "upstream_http_500"),
        ("529 Overloaded", 529, "server_error", "upstream_http_529"),
        ("302 Found", 502, "server_error", "upstream_http_302"),
        ("204 No Content", 502, "server_error", "upstream_http_204"),
    ],
)
async def test_a_failure_of_the_provider_keeps_its_status(
    serve: Any, upstream: Any, path: str, line: str, status: int, kind: str, code: str, *, is_stream: bool
) -> None:
    provider = await upstream(fails(line))
    answer = await serve(retries={"max": 0}).ask(path, BODIES[path] | {"stream": is_stream}, x_request_id="req-1")
    error = await answer.openai_error()
    assert (answer.status, error["type"], error["code"], error["param"]) == (status, kind, code, None)
    assert error["message"].endswith(".")
    assert answer.headers["x-request-id"] == "req-1"
    assert answer.headers["x-should-retry"] == "false"
    assert provider.peers.qsize() == 1


@pytest.mark.parametrize(
    ("status", "retry_after", "calls", "passed_on", "should_retry"),
    [
        (429, None, 3, None, "false"),  # some clients retry only because of the header
        (429, "0", 3, "0", "false"),
        (429, "60", 1, "60", None),  # this server has not waited, so the client may
        (503, "60", 1, "60", None),
        (500, None, 3, None, "false"),
        (400, None, 1, None, "false"),
        (401, "1", 1, None, "false"),
    ],
)
async def test_what_the_server_has_retried_the_client_does_not(
    serve: Any,
    upstream: Any,
    status: int,
    retry_after: str | None,
    calls: int,
    passed_on: str | None,
    should_retry: str | None,
) -> None:
    headers = [] if retry_after is None else [f"retry-after: {retry_after}"]
    provider = await upstream(fails(f"{status} No", *headers))
    site = serve(retries={"initial_backoff_s": 0.01, "max_backoff_s": 1})
    answer = await site.ask(RESPONSES, BODIES[RESPONSES])
    assert (answer.status, (await answer.openai_error())["code"]) == (status, f"upstream_http_{status}")
    assert provider.peers.qsize() == calls
    assert (answer.headers.get("retry-after"), answer.headers.get("x-should-retry")) == (passed_on, should_retry)


def refuses(status: int, error: object) -> Any:
    async def script(peer: Any) -> None:
        body = json.dumps({"error": error}).encode()
        head = [f"HTTP/1.1 {status} No", "content-type: application/json", f"content-length: {len(body)}"]
        await peer.send("\r\n".join([*head, "connection: close"]).encode() + b"\r\n\r\n" + body)

    return script


HOSTILE: Final = {
    "message": "Limit reached in organization org-Tq8RzV1nYt5K at https://gw.fernhill.com:8443/v1, key sk-"
    + "a1B2" * 8,
    "type": "tokens",
    "code": "rate_limit_exceeded",
    "param": "messages[1].content",
}
SHOWN: Final = "Limit reached in organization <redacted> at <redacted>, key <redacted>"
RATE: Final = "The provider's rate limit was reached. Try again later."


@pytest.mark.parametrize(("mode", "message"), [(None, SHOWN), ("auto", SHOWN), ("provider", SHOWN), ("generic", RATE)])
async def test_the_message_of_the_provider_by_policy(
    serve: Any, upstream: Any, upstream_port: int, mode: str | None, message: str
) -> None:
    """The operator's log has the provider's reason in every case (CONTRACT D41)."""
    await upstream(refuses(429, HOSTILE))
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"one": {"base_url": f"http://localhost:{upstream_port}/v1"}},
        passthrough={"responses": "one", "policy": {} if mode is None else {"error_messages": mode}},
        retries={"max": 0},
    )
    with capture_logs() as logs:
        answer = await site.ask(RESPONSES, BODIES[RESPONSES], x_request_id="req-9")
        error = await answer.openai_error()
        assert await site.is_quiet()
    assert answer.status == 429
    assert error == {
        "message": message,
        "type": "tokens",
        "param": "messages[1].content",
        "code": "rate_limit_exceeded",
    }
    [line] = [line for line in logs if line["event"] == "provider_error"]
    assert line.pop("stream_id").startswith("stream_")
    assert line == {
        "event": "provider_error",
        "log_level": "warning",
        "request_id": "req-9",
        "upstream": "one",
        "status": 429,
        "code": "rate_limit_exceeded",
        "type": "tokens",
        "param": "messages[1].content",
        "message": SHOWN,
    }


async def test_the_null_code_of_the_provider_stays_null(serve: Any, upstream: Any) -> None:
    await upstream(refuses(400, {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}))
    answer = await serve().ask(CHAT, BODIES[CHAT])
    assert await answer.openai_error() == {
        "message": "No.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_a_problem_document_has_no_words_of_the_provider(serve: Any, upstream: Any) -> None:
    await upstream(refuses(400, HOSTILE))
    with capture_logs() as logs:
        site = serve(retries={"max": 0})
        answer = await site.ask()
        document = await answer.problem()
        assert await site.is_quiet()
    assert (answer.status, document["code"]) == (502, "upstream_http_400")
    assert document["detail"] == RATE
    assert [line["message"] for line in logs if line["event"] == "provider_error"] == [SHOWN]


async def test_a_failure_after_the_first_heartbeat_has_the_message_too(serve: Any, upstream: Any) -> None:
    has_head = asyncio.Event()

    async def fails_late(peer: Any) -> None:
        await has_head.wait()
        await refuses(400, HOSTILE)(peer)

    await upstream(fails_late)
    answer = await serve(heartbeat_s=0.05, retries={"max": 0}).ask(CHAT, BODIES[CHAT] | {"stream": True})
    has_head.set()
    assert answer.status == 200
    *_, error, end = [line for line in (await answer.rest()).splitlines() if line.startswith(b"data: ")]
    assert json.loads(error.removeprefix(b"data: "))["error"]["message"] == SHOWN
    assert end == b"data: [DONE]"


def reports(error: dict[str, Any]) -> Any:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event({"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]})
        await peer.event({"error": error})
        await peer.end()

    return script


@pytest.mark.parametrize(
    ("reported", "status", "should_retry"),
    [
        ({"message": "Bad tool.", "type": "invalid_request_error", "code": "tool_use_failed"}, 400, "false"),
        ({"message": "Slow.", "type": "requests", "code": "rate_limit_exceeded"}, 429, None),
        ({"message": "Oops.", "type": "server_error", "code": None}, 500, None),
        ({"message": "Odd.", "type": "odd", "code": "odd"}, 500, "false"),
    ],
)
async def test_an_error_in_the_stream_of_a_json_response(
    serve: Any, upstream: Any, reported: dict[str, Any], status: int, should_retry: str | None
) -> None:
    provider = await upstream(reports(reported))
    with capture_logs() as logs:
        site = serve()
        answer = await site.ask(CHAT, BODIES[CHAT])
        error = await answer.openai_error()
        assert await site.is_quiet()
    assert (answer.status, answer.headers.get("x-should-retry")) == (status, should_retry)
    assert (error["message"], error["type"]) == (reported["message"], reported["type"])
    assert provider.peers.qsize() == 1
    [line] = [line for line in logs if line["event"] == "provider_error"]
    assert "status" not in line
    assert (line["type"], line["message"]) == (reported["type"], reported["message"])


@pytest.mark.parametrize(
    ("status", "raised", "calls"),
    [
        (400, openai.BadRequestError, 1),
        (401, openai.AuthenticationError, 1),
        (403, openai.PermissionDeniedError, 1),
        (404, openai.NotFoundError, 1),
        (409, openai.ConflictError, 3),
        (422, openai.UnprocessableEntityError, 1),
        (429, openai.RateLimitError, 3),
        (500, openai.InternalServerError, 3),
        (503, openai.InternalServerError, 3),
    ],
)
@pytest.mark.parametrize("is_stream", [True, False])
async def test_the_openai_client_raises_its_own_error_and_costs_no_further_calls(
    serve: Any, upstream: Any, status: int, raised: type[openai.APIStatusError], calls: int, *, is_stream: bool
) -> None:
    """The client has its default retries; a failure that the server may retry costs `1 + retries.max` calls."""
    provider = await upstream(refuses(status, HOSTILE))
    site = serve(retries={"max": 2, "initial_backoff_s": 0.01})
    async with openai.AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{site.port}/v1") as client:
        with pytest.raises(raised) as caught:
            await client.chat.completions.create(**BODIES[CHAT], stream=is_stream)
        with pytest.raises(raised):
            await client.responses.create(**BODIES[RESPONSES], stream=is_stream)
    assert provider.peers.qsize() == 2 * calls
    assert SHOWN in caught.value.message
    assert (caught.value.code, caught.value.param) == (HOSTILE["code"], HOSTILE["param"])


async def test_the_provider_may_forbid_a_retry(serve: Any, upstream: Any) -> None:
    provider = await upstream(fails("500 No", "x-should-retry: false"))
    answer = await serve(retries={"initial_backoff_s": 0.01}).ask(CHAT, BODIES[CHAT])
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert provider.peers.qsize() == 1


async def test_a_timeout(serve: Any, upstream: Any) -> None:
    await upstream(never_answers)
    answer = await serve(timeouts={"first_byte_s": 0.3}).ask(RESPONSES, BODIES[RESPONSES])
    assert (answer.status, (await answer.openai_error())["code"]) == (504, "upstream_timeout_first_byte")


async def test_an_unreachable_provider(serve: Any) -> None:
    answer = await serve(retries={"max": 0}).ask(CHAT, BODIES[CHAT])
    error = await answer.openai_error()
    assert (answer.status, error["type"], error["code"]) == (502, "server_error", "upstream_unreachable")


@pytest.mark.parametrize(
    ("query", "body", "status", "code", "param"),
    [
        ("", b"{", 400, "malformed_json", None),
        ("", b"[]", 400, "invalid_request", None),
        ("", {"messages": []}, 400, "invalid_request", "input"),
        ("", {"input": "hi", "model": 7}, 400, "invalid_request", "model"),
        ("", {"input": "hi", "model": ""}, 400, "invalid_request", "model"),
        ("", {"input": "hi", "stream": "yes"}, 400, "invalid_request", "stream"),
        ("", {"input": "hi", "conversation": 1}, 400, "invalid_request", "conversation"),
        ("", {"input": "hi", "stream_options": []}, 400, "invalid_request", "stream_options"),
        (
            "",
            {"input": "hi", "stream_options": {"include_usage": "yes"}},
            400,
            "invalid_request",
            "stream_options.include_usage",
        ),
        ("?extensions=1", {"input": "hi"}, 400, "invalid_request", "extensions"),
        ("?dialect=none", {"input": "hi"}, 400, "unknown_dialect", None),
        ("", b"x" * 9_000_000, 413, "body_too_large", None),
    ],
)
async def test_an_invalid_request(
    serve: Any, query: str, body: object, status: int, code: str, param: str | None
) -> None:
    answer = await serve().ask(RESPONSES + query, body)
    error = await answer.openai_error()
    assert (answer.status, error["code"], error["param"]) == (status, code, param)
    assert error["type"] == "invalid_request_error"
    assert "x-should-retry" not in answer.headers


async def test_another_content_type(serve: Any) -> None:
    answer = await serve().ask(RESPONSES, b"hi", content_type="text/plain")
    assert (answer.status, (await answer.openai_error())["code"]) == (415, "unsupported_media_type")


async def test_another_method_and_an_unknown_path(serve: Any) -> None:
    answer = await serve().get(RESPONSES)
    error = await answer.openai_error()
    assert (answer.status, error["type"], error["code"]) == (405, "invalid_request_error", "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    answer = await serve().get("/v1/nothing")
    assert (answer.status, (await answer.openai_error())["type"]) == (404, "not_found_error")


async def test_an_unauthenticated_caller(serve: Any) -> None:
    site = serve(auth={"api_keys": {"ann": "sha256:" + "0" * 64}})
    answer = await site.ask(RESPONSES, BODIES[RESPONSES])
    error = await answer.openai_error()
    assert (answer.status, error["type"], error["code"]) == (401, "authentication_error", "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_limits_of_this_server_are_for_the_client_to_retry(serve: Any, upstream: Any) -> None:
    await upstream(never_answers)
    for limits, status, code in (
        ({"max_streams_per_caller": 1}, 429, "rate_limit_exceeded"),
        ({"max_streams": 1}, 503, "overloaded"),
    ):
        site = serve(limits=limits)
        running = await site.post(RESPONSES, BODIES[RESPONSES])
        await wait_until(lambda site=site: site.streams.active)
        answer = await site.ask(RESPONSES, BODIES[RESPONSES])
        assert (answer.status, (await answer.openai_error())["code"]) == (status, code)
        assert answer.headers["retry-after"] == "5"
        assert "x-should-retry" not in answer.headers
        running.leave()


async def test_draining() -> None:
    app = create_app(Settings(), lambda *_: DemoUpstream(pace_s=0))
    await app.state.streams.drain(0, lambda: True)
    answer = await post(app, RESPONSES, **BODIES[RESPONSES])
    assert (answer.status, json.loads(answer.text)["error"]["code"]) == (503, "server_shutdown")
    assert answer.headers["retry-after"] == "5"


async def test_a_mounted_application_renders_by_its_own_path() -> None:
    """Only the path below the mount point decides."""
    app = create_app(Settings(), lambda *_: DemoUpstream(pace_s=0))
    for outer, path, is_openai in (
        ("/v1", "/api/v1/chat/stream", False),
        ("/v1", "/v1/responses", True),
        ("/gateway", "/v1/responses", True),
        ("/gateway", "/api/v1/chat/stream", False),
    ):
        answer = await post(Starlette(routes=[Mount(outer, app)]), outer + path, stream="no")
        document = json.loads(answer.text)
        assert ("error" in document) is is_openai, (outer, path)
        assert answer.headers["content-type"] == ("application/json" if is_openai else "application/problem+json")


@pytest.mark.parametrize(
    ("failing", "on_failure"), [("first", "fail"), ("first", "continue"), ("last", "fail"), ("last", "continue")]
)
async def test_the_reason_of_a_failed_step_is_in_the_log(
    serve: Any, upstream: Any, failing: str, on_failure: str
) -> None:
    """Before the first output, after it, and where the run continues. The page gets our message."""

    async def script(peer: Any) -> None:
        if peer.body["model"] == failing:
            await refuses(400, HOSTILE)(peer)
            return
        await peer.start()
        await peer.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
        await peer.end()

    await upstream(script)
    names = ("first", "last")
    stages = [{"name": name, "steps": [{"name": name, "agent": name, "on_failure": on_failure}]} for name in names]
    agents = {name: {"upstream": "default", "model": name} for name in names}
    site = serve(agents=agents, workflows={"two": {"stages": stages}}, retries={"max": 0})
    with capture_logs() as logs:
        answer = await site.ask("/api/v1/workflows/two/run-stream", {"message": "hi"})
        shown = (await answer.rest()).decode()
        assert await site.is_quiet()
    assert [(line["status"], line["message"]) for line in logs if line["event"] == "provider_error"] == [(400, SHOWN)]
    assert "Limit reached" not in shown
