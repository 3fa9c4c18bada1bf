"""TLS of this server, over real sockets: streams, clients that offer HTTP/2, versions, renewed certificates."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from projector.cli import servers
from projector.cli.servers import health_failure
from projector.server.config.upstream_settings import ListenerTls
from projector.server.tls import RenewableContext
from tests.asgi.certificates import Authority
from tests.asgi.conftest import plays
from tests.asgi.process import lines_of, running
from tests.waiting import wait_until

SERVE = "from projector.cli import main; raise SystemExit(main(['serve', '--port', '0', '--config', {file!r}]))"
CREATED = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
DONE = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def files(authority: Authority) -> dict[str, str]:
    """Settings of a server with a certificate."""
    cert_file, key_file = authority.issue("server")
    return {"cert_file": str(cert_file), "key_file": str(key_file)}


@pytest.fixture(scope="module")
def trusted(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_HEALTH_TIMEOUT_S", 60.0)


@pytest.fixture
def site(serve: Any, files: dict[str, str], trusted: ssl.SSLContext) -> Any:
    found = serve(tls=files, heartbeat_s=0.2)
    found.trusted = trusted
    return found


async def test_a_stream_with_heartbeats(site: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await has_heartbeat.wait()
        await peer.event(DONE)
        await peer.end()

    has_heartbeat = asyncio.Event()
    await upstream(script)
    answer = await site.ask()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    while not (await answer.chunk()).startswith(b": heartbeat"):
        pass
    has_heartbeat.set()
    assert (await answer.frames())[-1]["final"]["status"] == "completed"


async def test_a_json_response(site: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await peer.event(DONE)
        await peer.end()

    await upstream(script)
    answer = await site.ask("/v1/responses", {"model": "m", "input": "x" * 500_000})
    assert json.loads(await answer.rest())["status"] == "completed"


@pytest.mark.parametrize("how", ["leave", "reset"])
async def test_a_client_that_disconnects_frees_the_upstream(site: Any, upstream: Any, how: str) -> None:
    provider = await upstream(plays([CREATED], ends=False))
    answer = await site.ask()
    await answer.chunk()
    getattr(answer, how)()
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), 60)
    assert await site.is_quiet()


async def test_buffers_are_those_of_plain_connections(site: Any) -> None:
    _, writer = await site.connect()
    await wait_until(lambda: site.connections)
    for connection in site.connections:
        assert connection.transport.get_write_buffer_limits()[1] == 65_536
        assert connection.transport.get_read_buffer_limits()[1] == 65_536
    writer.close()


async def test_a_client_that_stops_reading_frees_the_upstream(
    serve: Any, files: dict[str, str], trusted: ssl.SSLContext, upstream: Any
) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        while not peer.gone.is_set():
            await peer.event({"type": "response.output_text.delta", "item_id": "m", "delta": "a" * 50_000})

    provider = await upstream(script)
    found = serve(tls=files, timeouts={"client_stall_timeout_s": 0.5})
    found.trusted = trusted
    answer = await found.ask()
    answer.stop_reading()
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), 60)
    assert await found.is_quiet()


async def test_an_offered_upgrade_is_ignored(site: Any) -> None:
    reader, writer = await site.connect()
    writer.write(b"GET /livez HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n\r\n")
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_curl(serve: Any, files: dict[str, str], authority: Authority, curl: str, version: str) -> None:
    """HTTP/2 is negotiated in the handshake; this server offers HTTP/1.1 there."""
    port = serve(tls=files, demo=True).port
    command = ("-sN", version, "--cacert", str(authority.file), "-w", "%{http_version}")
    url, kind = f"https://localhost:{port}/api/v1/chat/stream", "content-type: application/json"
    process = await asyncio.create_subprocess_exec(
        curl, *command, "-H", kind, "-d", '{"message": "hello"}', url, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert b'"kind":"final"' in output
    assert output.endswith(b"1.1")


async def test_a_health_check_without_tls_has_a_hint(site: Any) -> None:
    failure = await asyncio.to_thread(health_failure, f"http://127.0.0.1:{site.port}")
    assert str(failure).endswith(f"; it expects TLS: use https://127.0.0.1:{site.port}")
    assert await asyncio.to_thread(health_failure, f"https://127.0.0.1:{site.port}") is None


async def test_bytes_that_are_no_tls(site: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n")
    assert b"HTTP" not in await reader.read()
    writer.close()
    assert (await site.get("/livez")).status == 200


async def connections(site: Any) -> list[str]:
    """Return the metrics of connections."""
    text = (await (await site.get("/metrics", port=site.admin_port)).rest()).decode()
    return [line for line in text.splitlines() if line.startswith("projector_connections_") and "created" not in line]


async def none_is_open(site: Any) -> None:
    while (await connections(site))[0] != "projector_connections_open 0.0":  # noqa: ASYNC110 - it is in another thread
        await asyncio.sleep(0.02)


async def test_a_handshake_has_a_time_limit(serve: Any, files: dict[str, str]) -> None:
    site = serve(tls=files, timeouts={"request_read_s": 0.5}, admin={"port": 0})
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    assert await asyncio.wait_for(reader.read(), 60) == b""
    await none_is_open(site)
    writer.close()


async def test_a_handshake_counts_towards_the_limits(serve: Any, files: dict[str, str]) -> None:
    """A client that does not even begin it takes as much as another one."""
    site = serve(tls=files, limits={"max_connections": 2}, admin={"port": 0})
    peers = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(3)]
    assert await asyncio.wait_for(peers[2][0].read(), 60) == b""
    assert await connections(site) == [
        "projector_connections_open 2.0",
        'projector_connections_closed_total{reason="limit"} 1.0',
    ]
    for _, writer in peers:
        writer.close()
    await none_is_open(site)


@pytest.mark.parametrize(("min_version", "is_accepted"), [("1.2", True), ("1.3", False)])
async def test_the_least_version(
    serve: Any, files: dict[str, str], authority: Authority, min_version: str, *, is_accepted: bool
) -> None:
    found = serve(tls=files | {"min_version": min_version})
    found.trusted = ssl.create_default_context(cafile=authority.file)
    found.trusted.maximum_version = ssl.TLSVersion.TLSv1_2
    if is_accepted:
        assert (await found.get("/livez")).status == 200
    else:
        with pytest.raises(OSError):  # noqa: PT011 - asyncio closes the connection without an alert
            await found.get("/livez")


def handshake(port: int, context: ssl.SSLContext, *, name: str | None = "localhost") -> bytes:
    """Return the certificate of a server; without a name, none is sent in the handshake."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname=name) as one,
    ):
        return one.getpeercert(binary_form=True) or b""


@pytest.mark.parametrize("name", ["localhost", None])
async def test_a_renewed_certificate(authority: Authority, trusted: ssl.SSLContext, name: str | None) -> None:
    """For clients that send a name, and those that do not."""
    cert_file, key_file = authority.issue("renewed")
    renewable = RenewableContext(ListenerTls(cert_file=cert_file, key_file=key_file))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=renewable.context)
    port = server.sockets[0].getsockname()[1]
    if name is None:
        trusted = ssl.create_default_context(cafile=authority.file)
        trusted.check_hostname = False
    async with server:
        old = await asyncio.to_thread(handshake, port, trusted, name=name)
        authority.issue("renewed")
        use = renewable.read()
        assert await asyncio.to_thread(handshake, port, trusted, name=name) == old
        use()
        new = await asyncio.to_thread(handshake, port, trusted, name=name)
        assert new == ssl.PEM_cert_to_DER_cert(cert_file.read_text()) != old


async def test_a_process_renews_its_certificate_and_drains(
    upstream: Any, upstream_port: int, authority: Authority, trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await released.wait()
        await peer.event(DONE)
        await peer.end()

    async def reload(event: str) -> dict[str, Any]:
        before = reports(event)
        server.process.send_signal(signal.SIGHUP)
        await wait_until(lambda: len(reports(event)) > len(before))
        return reports(event)[-1]

    def reports(event: str) -> list[dict[str, Any]]:
        return [line for line in lines_of(log) if line["event"] == event]

    released = asyncio.Event()
    await upstream(script)
    cert_file, key_file = authority.issue("process")
    file, log = tmp_path / "projector.toml", tmp_path / "log"
    file.write_text(
        f'[tls]\ncert_file = "{cert_file}"\nkey_file = "{key_file}"\n'
        f'[upstreams.one]\nbase_url = "http://127.0.0.1:{upstream_port}/v1"\n'
        '[agents.default]\nupstream = "one"\nmodel = "m"\n'
    )
    async with running(SERVE.format(file=str(file)), 1, log=log) as server:
        assert server.lines[0].startswith("Serving on https://127.0.0.1:")
        server.trusted = trusted
        assert await asyncio.to_thread(health_failure, f"https://127.0.0.1:{server.port}") is None
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        old = await asyncio.to_thread(handshake, server.port, trusted)
        authority.issue("process")
        valid = cert_file.read_text()
        cert_file.write_text("no certificate")
        line = await reload("reload_refused")
        assert line["reason"] == "`tls.cert_file`: expected a certificate in PEM format"
        assert "\nprojector_reload_successful 0.0\n" in await server.get("/metrics")
        assert await asyncio.to_thread(handshake, server.port, trusted) == old
        cert_file.write_text(valid)
        assert (await reload("reloaded"))["needs_restart"] == []
        metrics = await server.get("/metrics")
        assert "\nprojector_reload_successful 1.0\n" in metrics
        assert "_created" not in metrics
        [end_s] = re.findall(r'^projector_certificate_expiry\w+{setting="tls.cert_file"} (.+)$', metrics, re.MULTILINE)
        assert float(end_s) == x509.load_pem_x509_certificate(valid.encode()).not_valid_after_utc.timestamp()
        assert await asyncio.to_thread(handshake, server.port, trusted) == ssl.PEM_cert_to_DER_cert(valid)
        server.stop()
        while "503" not in await server.get("/readyz"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        released.set()
        assert b'"status":"completed"' in await stream.read()
        assert await server.exit_code() == 0
