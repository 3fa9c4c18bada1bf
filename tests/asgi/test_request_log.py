"""One log line for each request, refused ones included, and the metrics of requests and refusals."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import structlog

from projector.core.faults import FAULTS
from projector.openwop.requests import HOST_ERRORS
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.server.http.problems import PROBLEMS
from projector.server.telemetry.stream_stats import code_label, status_label
from tests.asgi.process import DEMO, running

DONE = b'data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}\n\n'
KEY = "sight-key"
AUTH = {"api_keys": {"desk": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()}}
CHAT = "/api/v1/chat/stream"


async def answered(peer: Any) -> None:
    await peer.start()
    await peer.chunk(DONE)
    await peer.end()


async def failing(peer: Any) -> None:
    await peer.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")


async def lines_until(logs: list[Any], request_id: str) -> list[dict[str, Any]]:
    """Return the lines of a request; its line is written after the response."""
    while not (found := [line for line in logs if line.get("request_id") == request_id]):  # noqa: ASYNC110 - a thread
        await asyncio.sleep(0.01)
    return found


REQUESTS = {
    "no route": ("/nowhere", {}, {}, ("request", None, 404, "not_found")),
    "no route of the API": ("/v1/nowhere", {}, {}, ("request", "/v1/{path}", 404, "not_found")),
    "no key": (CHAT, {}, {"authorization": ""}, ("request", CHAT, 401, "unauthenticated")),
    "no JSON": (CHAT, b"{", {}, ("request", CHAT, 400, "malformed_json")),
    "invalid": (CHAT, {}, {}, ("request", CHAT, 422, "invalid_request")),
    "invalid, of OpenAI": ("/v1/responses", {"model": 1}, {}, ("request", "/v1/responses", 400, "invalid_request")),
    "unknown stream": (
        "/api/v1/streams/x/cancel",
        {},
        {},
        ("request", "/api/v1/streams/{stream_id}/cancel", 404, "unknown_stream"),
    ),
    "a stream": (CHAT, {"message": "hi"}, {}, ("stream_end", CHAT, 200, None)),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_each_request_has_one_line(serve: Any, upstream: Any, name: str) -> None:
    path, body, headers, expected = REQUESTS[name]
    await upstream(answered)
    with structlog.testing.capture_logs() as logs:
        site = serve(auth=AUTH, passthrough={"responses": "default"}, trusted_proxies=("127.0.0.1",))
        sent = {"x-request-id": "req-sight", "x-forwarded-for": "192.0.2.7", "authorization": f"Bearer {KEY}"}
        answer = await site.ask(path, body, **sent | headers)
        await answer.rest()
        [line] = await lines_until(logs, "req-sight")
        await site.is_quiet()
    assert (line["event"], line.get("route"), line["status"], line.get("code")) == expected
    assert answer.status == line["status"]
    assert line["duration_s"] >= 0
    assert line.get("caller") == (None if line.get("code") in {"not_found", "unauthenticated"} else "key:desk")
    assert line.get("address") == ("192.0.2.7" if line.get("code") == "unauthenticated" else None)
    assert [one for one in logs if one.get("request_id") == "req-sight"] == [line]


@pytest.mark.parametrize(("path", "status"), [(CHAT, 502), ("/v1/responses", 400)])
async def test_a_refused_stream_has_the_status_of_its_response(
    serve: Any, upstream: Any, path: str, status: int
) -> None:
    await upstream(failing)
    with structlog.testing.capture_logs() as logs:
        site = serve(passthrough={"responses": "default"})
        body = {"message": "hi"} if path == CHAT else {"model": "m", "input": "hi"}
        answer = await site.ask(path, body, **{"x-request-id": "req-refused"})
        await answer.rest()
        assert await site.is_quiet()
        text = (await (await site.get("/metrics")).rest()).decode()
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert (answer.status, line["status"], line["code"]) == (status, status, "upstream_http_400")
    assert (line["outcome"], line["log_level"]) == ("no_stream", "warning")
    assert f'projector_refusals_total{{code="upstream_http_400",route="{path}"}} ' in text
    assert f'projector_requests_total{{route="{path}",status="{status}"}} ' in text


async def test_probes_are_logged_at_debug(serve: Any) -> None:
    site = serve()
    with structlog.testing.capture_logs() as logs:
        await (await site.get("/livez", x_request_id="req-probe")).rest()
        [line] = await lines_until(logs, "req-probe")
    assert (line["event"], line["log_level"], line["route"]) == ("request", "debug", "/livez")


async def test_a_client_that_leaves_in_its_body_has_a_line(serve: Any) -> None:
    site = serve()
    with structlog.testing.capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        head = "host: a\r\nx-request-id: req-left\r\ncontent-type: application/json\r\ncontent-length: 9"
        writer.write(f"POST {CHAT} HTTP/1.1\r\n{head}\r\n\r\n{{".encode())
        await asyncio.sleep(0.05)
        writer.close()
        [line] = await lines_until(logs, "req-left")
    assert reader is not None
    assert (line["event"], line["route"], line.get("status")) == ("request", CHAT, None)


async def test_bytes_that_are_no_request_are_reported(serve: Any) -> None:
    site = serve(heartbeat_s=14.25)  # a server of its own: further lines of one would be joined
    with structlog.testing.capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
    assert [line["reason"] for line in logs if line["event"] == "malformed_http"] == ["Invalid HTTP request received."]
    text = (await (await site.get("/metrics")).rest()).decode()
    assert re.search(r'^projector_refusals_total\{code="malformed_http",route="other"\} [1-9]', text, re.MULTILINE)


async def test_the_words_of_a_caller_are_in_no_label(serve: Any) -> None:
    site = serve()
    for path in ("/sight-word", "/v1/sight-word", "/api/v1/streams/sight-word/cancel", "/api/v1/ag-ui/sight-word"):
        await (await site.ask(path, {"message": "sight-word", "agent": "sight-word", "model": "sight-word"})).rest()
    assert b"sight-word" not in await (await site.get("/metrics")).rest()


def test_labels_come_from_tables() -> None:
    known = [*PROBLEMS, *FAULTS, *RUN_FAULTS, *HOST_ERRORS, "upstream_http_500"]
    assert [code_label(code) for code in known] == known
    assert [code_label(code) for code in ("invented", "upstream_http_599")] == ["provider_error"] * 2
    assert [status_label(status) for status in (None, 200, 599)] == ["none", "200", "other"]


@pytest.mark.parametrize(("level", "expected"), [("info", ["start", "ready", "drain", "stop"]), ("warning", [])])
async def test_the_life_of_a_process_is_logged(tmp_path: Path, level: str, expected: list[str]) -> None:
    log = tmp_path / "log"
    to_file = f"import os; os.dup2(os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT), 2); "
    async with running(to_file + DEMO, 3, PROJECTOR_LOG_LEVEL=level) as demo:
        assert "200 OK" in await demo.get("/livez")
        assert "200 OK" in await demo.get("/openapi.json")
        demo.stop()
        assert await demo.exit_code() == 0
    events = [json.loads(line)["event"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert [event for event in events if event != "request"] == expected
    assert events.count("request") == (level == "info")  # that of /openapi.json; probes are at `debug`
