"""The admin listener: what is served there and not at the public address, through a drain and a reload."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.cli import servers
from projector.cli.servers import health_failure
from projector.server.config.settings import Settings
from tests.asgi.process import lines_of, running
from tests.waiting import wait_until

ADMIN = {"port": 0}
INTERNAL = ("/metrics", "/openapi.json")
HEALTH = ("/livez", "/healthz", "/readyz")
SERVE = "from projector.cli import main; raise SystemExit(main(['serve', '--port', '0', '--config', {file!r}]))"
CREATED = b'data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}\n\n'


@pytest.mark.parametrize("path", [*INTERNAL, *HEALTH])
async def test_what_is_served_where(serve: Any, path: str) -> None:
    without, site = serve(), serve(admin=ADMIN)
    assert (await without.get(path)).status == 200
    assert (await site.get(path, port=site.admin_port)).status == 200
    assert (await site.get(path)).status == (404 if path in INTERNAL else 200)


async def test_streams_are_not_served_to_operators(serve: Any) -> None:
    site = serve(admin=ADMIN)
    answer = await site.get("/api/v1/chat/stream", port=site.admin_port)
    assert (answer.status, await answer.error_code()) == (404, "not_found")


async def test_the_document_is_that_of_the_public_address(serve: Any) -> None:
    site = serve(admin=ADMIN)
    document = json.loads(await (await site.get("/openapi.json", port=site.admin_port)).rest())
    assert "/api/v1/chat/stream" in document["paths"]
    assert not document["paths"].keys() & set(INTERNAL)


async def test_metrics_are_those_of_the_server(serve: Any) -> None:
    site = serve(admin=ADMIN, heartbeat_s=14)
    (await site.get("/unknown")).leave()
    text = (await (await site.get("/metrics", port=site.admin_port)).rest()).decode()
    assert 'projector_requests_total{route="other",status="404"} 1.0' in text


async def test_neither_callers_nor_hosts_are_checked(serve: Any) -> None:
    digest = f"sha256:{hashlib.sha256(b'key').hexdigest()}"
    site = serve(admin=ADMIN, auth={"api_keys": {"ann": digest}}, allowed_hosts=["api.example"])
    assert (await site.get("/metrics", port=site.admin_port)).status == 200
    assert (await site.ask()).status == 400


async def test_requests_are_logged_like_others(serve: Any) -> None:
    site = serve(admin=ADMIN)
    with capture_logs() as lines:
        await (await site.get("/metrics", port=site.admin_port)).rest()
        await (await site.get("/nothing", port=site.admin_port)).rest()
        assert await site.is_quiet()  # a line is written after its response
    found = [(line["log_level"], line["status"]) for line in lines if line["event"] == "request"]
    assert found == [("debug", 200), ("info", 404)]


def test_it_needs_no_authentication_at_another_address() -> None:
    settings = Settings.model_validate({"admin": {"host": "0.0.0.0", "port": 9000}})  # noqa: S104 - that is the test
    assert settings.admin is not None


async def test_it_outlasts_a_drain_and_a_reload(
    upstream: Any, upstream_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_HEALTH_TIMEOUT_S", 60.0)

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(CREATED)
        await peer.gone.wait()

    await upstream(script)
    file = tmp_path / "projector.toml"
    text = (
        f'[admin]\nport = 0\n[upstreams.one]\nbase_url = "http://127.0.0.1:{upstream_port}/v1"\n'
        '[agents.default]\nupstream = "one"\nmodel = "m"\n'
    )
    file.write_text(text)
    async with running(SERVE.format(file=str(file)), 2, log=tmp_path / "log") as server:
        (port,) = map(int, re.findall(r"^Metrics and health on http://127\.0\.0\.1:(\d+)$", server.lines[1]))
        for one in (port, server.port):
            assert await asyncio.to_thread(health_failure, f"http://127.0.0.1:{one}") is None
        file.write_text(
            "drain_timeout_s = 300\n"
            + text.replace("port = 0", "port = 1")
            + '[agents.other]\nupstream = "one"\nmodel = "m"\n'
        )
        server.process.send_signal(signal.SIGHUP)
        log = tmp_path / "log"
        await wait_until(lambda: any(line["event"] == "reloaded" for line in lines_of(log)))
        assert [line["needs_restart"] for line in lines_of(log) if line["event"] == "reloaded"] == [["admin"]]
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        server.stop()
        while "503 Service Unavailable" not in await server.get("/readyz", port=port):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert "projector_streams_active 1.0" in await server.get("/metrics", port=port)
        assert "200 OK" in await server.get("/livez", port=port)
        server.stop()  # ends the drain
        assert b'"code":"server_shutdown"' in await stream.read()
        assert await server.exit_code() == 0
