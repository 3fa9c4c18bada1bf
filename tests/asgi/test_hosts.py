"""Hosts of requests, and clients behind reverse proxies."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from projector.cli.servers import serving_settings
from projector.server.app import create_app
from projector.server.config.loading import SettingsError, load
from projector.server.config.settings import Settings
from projector.server.http.hosts import TrustedProxies
from tests.asgi import in_process
from tests.asgi.conftest import request_bytes

PROXY = "10.0.0.1"


async def exchange(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /livez HTTP/1.1\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: a\r\nhost: a\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: a\r\nHOST: b\r\n", 400),
        (b"GET /livez HTTP/1.0\r\nhost: a\r\nhost: b\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: a/b\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: a, b\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: u@a\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: a:http\r\n", 400),
        (b"GET /livez HTTP/1.0\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nhost: a:80\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nhost: [::1]:80\r\n", 200),
    ],
)
async def test_a_request_has_one_valid_host(serve: Any, head: bytes, status: int) -> None:
    answer = await exchange(serve(demo=True).port, head + b"connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:9", 200),
        ("[::1]:80", 200),
        ("a.example.com", 200),
        ("a.b.EXAMPLE.com:443", 200),
        ("example.com", 400),
        ("badexample.com", 400),
        ("localhost.evil.test", 400),
        ("evil.test", 400),
        ("[::2]", 400),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/chat/stream", "/v1/responses"])
async def test_only_allowed_hosts_are_served(serve: Any, path: str, host: str, status: int) -> None:
    port = serve(demo=True, allowed_hosts=("localhost", "[::1]", "*.example.com")).port
    body = {"message": "hello"} if path.startswith("/api") else {"model": "m", "input": "hello"}
    answer = await exchange(port, request_bytes(path, body, host=host, connection="close"))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"host_not_allowed" in answer) == (status != 200)


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost", "localhost", 200),
        ("http://localhost:80", "evil.test", 200),
        ("http://evil.test", "localhost", 400),
        ("HTTPS://evil.test", "localhost", 400),
        ("http://localhost@evil.test", "localhost", 400),
        ("http://evil.test", "", 400),
    ],
)
async def test_the_host_of_the_target_comes_before_that_of_the_header(
    serve: Any, target: str, host: str, status: int
) -> None:
    """RFC 9112, section 3.2.2: `Host` is ignored if the target is absolute."""
    port = serve(demo=True, allowed_hosts=("localhost",)).port
    head = f"GET {target}/openapi.json HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    assert (await exchange(port, head.encode())).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("environ", "host", "status"),
    [
        ({}, "localhost:9", 200),
        ({}, "app.localhost", 200),
        ({}, "localhost.:9", 200),
        ({}, "[::1]:9", 200),
        ({}, "10.0.0.7", 200),
        ({}, "projector:9", 200),
        ({}, "projector.shop.svc.cluster.local", 200),
        ({}, "", 400),
        ({}, "rebound.test", 400),
        ({}, "local.rebound.test", 400),
        ({}, "127.0.0.1.rebound.test", 400),
        ({"ALLOWED_HOSTS": '["chat.test"]'}, "chat.test", 200),
        ({"ALLOWED_HOSTS": '["chat.test"]'}, "localhost", 400),
        ({"ALLOWED_HOSTS": '["chat.test", "local"]'}, "localhost", 200),
        ({"TRUSTED_PROXIES": '["127.0.0.1"]'}, "chat.test", 200),
        ({"AUTH__API_KEYS": f'{{"ann": "sha256:{"0" * 64}"}}'}, "chat.test", 200),
    ],
)
async def test_a_page_of_another_name_does_not_use_a_server_without_authentication(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], host: str, status: int
) -> None:
    """Its name may resolve to a loopback address; a browser beside the server would send its requests."""
    for name, value in environ.items():
        monkeypatch.setenv(f"PROJECTOR_{name}", value)
    app = create_app(serving_settings(None))
    answer = await in_process.ask(app, "/openapi.json", None, method="GET", headers={"host": host})
    assert answer.status == status


async def test_probes_have_any_host(serve: Any) -> None:
    port = serve(demo=True, allowed_hosts=("localhost", "[::1]", "*.example.com")).port
    for path in (b"/livez", b"/healthz", b"/readyz"):
        answer = await exchange(port, b"GET %b HTTP/1.1\r\nhost: 10.0.0.7\r\nconnection: close\r\n\r\n" % path)
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9", 200),
        ("10.0.0.7:9", 200),
        ("[fd00::7]:9", 200),
        ("a.example.com", 200),
        ("rebound.test", 400),
        ("10.0.0.7.rebound.test", 400),
        ("1.2.3", 400),
        ("", 400),
    ],
)
@pytest.mark.parametrize("allowed", [("*.example.com",), ()])
async def test_a_page_of_another_name_does_not_read_streams_of_the_admin_listener(
    serve: Any, host: str, status: int, allowed: tuple[str, ...]
) -> None:
    """Nobody is authenticated there, so a name that resolves to this server would open it to a page in a browser."""
    site = serve(admin={"port": 0, "streams": True}, allowed_hosts=allowed)
    expected = status if allowed or host != "a.example.com" else 400
    for path in ("/streams", "/streams/recent"):
        request = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        answer = await exchange(site.admin_port, request.encode())
        assert answer.startswith(b"HTTP/1.1 %d " % expected)
    for path in ("/metrics", "/openapi.json", "/livez"):
        request = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        assert (await exchange(site.admin_port, request.encode())).startswith(b"HTTP/1.1 200 ")


async def client_of(peer: str, headers: list[tuple[str, str]], forwarded_header: str) -> str:
    found: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        found.append(scope["client"][0])

    async def unused(*_: Any) -> Any:
        raise AssertionError

    settings = Settings.model_validate(
        {"trusted_proxies": ["10.0.0.0/8", "fd00::/8"], "forwarded_header": forwarded_header}
    )
    raw = [(name.encode(), value.encode()) for name, value in headers]
    await TrustedProxies(app, settings)({"type": "http", "client": (peer, 1), "headers": raw}, unused, unused)
    return found[0]


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        (PROXY, [], PROXY),
        (PROXY, ["192.0.2.1"], "192.0.2.1"),
        (PROXY, ["192.0.2.1:4711"], "192.0.2.1"),
        (PROXY, ["[2001:db8::1]:4711"], "2001:db8::1"),
        (PROXY, ["2001:db8::1"], "2001:db8::1"),
        (PROXY, ["6.6.6.6, 192.0.2.1"], "192.0.2.1"),
        (PROXY, ["6.6.6.6", "192.0.2.1"], "192.0.2.1"),
        (PROXY, ["192.0.2.1, 10.2.0.1"], "192.0.2.1"),
        (PROXY, ["192.0.2.1, unknown"], PROXY),
        (PROXY, ["192.0.2.1, unknown, 10.2.0.1"], "10.2.0.1"),
        (PROXY, ["10.3.0.1, 10.2.0.1"], "10.3.0.1"),
        (PROXY, ["", " , "], PROXY),
        ("::ffff:10.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        ("fd00::1", ["192.0.2.1"], "192.0.2.1"),
        ("192.0.2.9", ["192.0.2.1"], "192.0.2.9"),
        ("testclient", ["192.0.2.1"], "testclient"),
    ],
)
async def test_the_client_of_x_forwarded_for(peer: str, values: list[str], client: str) -> None:
    headers = [("x-forwarded-for", value) for value in values]
    assert await client_of(peer, [*headers, ("forwarded", "for=7.7.7.7")], "x-forwarded-for") == client


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["for=192.0.2.1"], "192.0.2.1"),
        (["For=192.0.2.1;proto=https;by=10.0.0.1"], "192.0.2.1"),
        (['proto=https; for="192.0.2.1:80"'], "192.0.2.1"),
        (['for="[2001:db8::1]:4711"'], "2001:db8::1"),
        (["for=6.6.6.6, for=192.0.2.1", "for=10.2.0.1"], "192.0.2.1"),
        (['for="6.6.6.6, for=1.1.1.1"'], PROXY),
        (["for=192.0.2.1, for=_hidden"], PROXY),
        (["for=192.0.2.1, proto=https"], PROXY),
        (["192.0.2.1"], PROXY),
        (['for=6.6.6.6;by=", for="[2001:db8::1]"'], "2001:db8::1"),
        (['for=6.6.6.6;by=", for="192.0.2.1:80"', "for=10.2.0.1"], "192.0.2.1"),
        (['for=6.6.6.6;by="\\', "for=192.0.2.1"], "192.0.2.1"),
        (['for=6.6.6.6;by="'], PROXY),
        (['host="a;for=6.6.6.6;";for=192.0.2.1;proto=https'], "192.0.2.1"),
        (['host="for=6.6.6.6";for=192.0.2.1, '], "192.0.2.1"),
        (["for=192.0.2.1;;proto=https", ";for=10.2.0.1; "], "192.0.2.1"),
        (["for=192.0.2.1;x.y=1;a!=b"], "192.0.2.1"),
        (["for=192.0.2.1;host=a;for=6.6.6.6;proto=https"], PROXY),
        (['"' + '\\"' * 500_000, "for=192.0.2.1"], "192.0.2.1"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_the_client_of_forwarded(values: list[str], client: str) -> None:
    headers = [("forwarded", value) for value in values]
    assert await client_of(PROXY, [*headers, ("x-forwarded-for", "7.7.7.7")], "forwarded") == client


async def test_limits_count_the_clients_of_a_trusted_proxy(serve: Any, upstream: Any) -> None:
    released = asyncio.Event()

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event({"type": "response.created", "response": {"id": "r", "status": "in_progress"}})
        await released.wait()
        await peer.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
        await peer.end()

    await upstream(script)
    site = serve(trusted_proxies=("127.0.0.1",), limits={"max_streams_per_caller": 1})
    first = await site.ask(x_forwarded_for="192.0.2.1")
    assert (await site.ask(x_forwarded_for="192.0.2.1")).status == 429
    second = await site.ask(x_forwarded_for="192.0.2.2")
    assert (first.status, second.status) == (200, 200)
    released.set()
    for answer in (first, second):
        assert (await answer.frames())[-1]["kind"] == "final"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ALLOWED_HOSTS", ["a:80"], "a host name or address without a port"),
        ("ALLOWED_HOSTS", ["http://a"], "a host name or address without a port"),
        ("TRUSTED_PROXIES", ["proxy.example"], "an IP address or a network such as 10.0.0.0/8"),
        ("TRUSTED_PROXIES", ["10.0.0.1/8"], "an IP address or a network such as 10.0.0.0/8"),
        ("FORWARDED_HEADER", "x-real-ip", "x-forwarded-for"),
    ],
)
def test_invalid_settings(name: str, value: object, message: str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(SettingsError, match=message):
        load({f"PROJECTOR_{name}": text})
