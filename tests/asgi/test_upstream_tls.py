"""TLS of requests to upstreams, over real sockets: authorities, client certificates, versions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from projector.server.config.loading import SettingsError
from projector.server.config.upstream_settings import UpstreamSettings, UpstreamTimeouts
from projector.server.upstream.http_upstream import HTTPUpstream
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from tests.asgi.certificates import Authority

REQUEST = ProviderRequest("openai_responses", {"input": "hello"})
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\na"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextlib.asynccontextmanager
async def provider(authority: Authority, *, client_ca: Path | None = None, max_version: str = "") -> AsyncIterator[str]:
    """Serve one response to each connection; yield the base URL.

    The sockets are blocking ones in a thread: these send TLS alerts, as the servers of providers do.
    """

    def serve() -> None:
        while True:
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(listener.accept()[0], server_side=True) as connection,
            ):
                while not connection.recv(65_536).endswith(b"}"):
                    pass
                connection.sendall(ANSWER)
            if is_closing.is_set():
                return

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.load_cert_chain(*authority.issue("server"))
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    if max_version:
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # TLS 1.1 uses SHA-1
        with warnings.catch_warnings(action="ignore"):  # that 1.1 is deprecated
            context.minimum_version = context.maximum_version = ssl.TLSVersion[max_version]
    is_closing = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        address = listener.getsockname()
        try:
            yield f"https://localhost:{address[1]}/v1"
        finally:
            is_closing.set()
            socket.create_connection(address).close()
            await asyncio.to_thread(thread.join)


async def ask(base_url: str, **tls: Any) -> str:
    """Return the response, or the code and reason of the failure."""
    upstream = HTTPUpstream(UpstreamSettings(base_url=base_url, tls=tls), UpstreamTimeouts())
    try:
        async with upstream.open(REQUEST) as chunks:
            return b"".join([chunk async for chunk in chunks]).decode()
    except UpstreamError as error:
        return f"{error.fault.code} {error.reason}"
    finally:
        await upstream.aclose()


async def test_only_the_authorities_of_the_file_are_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    async with provider(authority) as url:
        assert await ask(url) == "upstream_unreachable certificate"
        assert await ask(url, ca_file=other.file) == "upstream_unreachable certificate"
        assert await ask(url, ca_file=authority.file) == "a"
        by_address = url.replace("localhost", "127.0.0.1")  # not in the certificate
        assert await ask(by_address, ca_file=authority.file) == "upstream_unreachable certificate"


@pytest.mark.parametrize(
    ("max_version", "refused"),
    [
        ("TLSv1_2", {"upstream_unreachable tls"}),
        # after the handshake of the client: the request may already have been sent, or fail to be
        ("TLSv1_3", {"upstream_reset tls", "upstream_reset reset"}),
    ],
)
async def test_a_client_certificate(
    authority: Authority, tmp_path: Path, max_version: str, refused: frozenset[str]
) -> None:
    clients, others = Authority(tmp_path, "clients"), Authority(tmp_path, "others")
    async with provider(authority, client_ca=clients.file, max_version=max_version) as url:
        assert await ask(url, ca_file=authority.file) in refused
        for password in ("", "open sesame"):
            cert_file, key_file = clients.issue("client", password=password)
            files = {"cert_file": cert_file, "key_file": key_file, "key_password": password or None}
            assert await ask(url, ca_file=authority.file, **files) == "a"
        cert_file, key_file = clients.issue("client")
        cert_file.write_bytes(cert_file.read_bytes() + key_file.read_bytes())
        assert await ask(url, ca_file=authority.file, cert_file=cert_file) == "a"
        cert_file, key_file = others.issue("stranger")
        files = {"cert_file": cert_file, "key_file": key_file}
        assert await ask(url, ca_file=authority.file, **files) in refused


@pytest.mark.parametrize(
    ("offered", "min_version", "result"),
    [
        ("TLSv1_1", "1.2", "upstream_unreachable tls"),
        ("TLSv1_2", "1.2", "a"),
        ("TLSv1_2", "1.3", "upstream_unreachable tls"),
        ("TLSv1_3", "1.3", "a"),
    ],
)
async def test_the_least_version(authority: Authority, offered: str, min_version: str, result: str) -> None:
    async with provider(authority, max_version=offered) as url:
        assert await ask(url, ca_file=authority.file, min_version=min_version) == result


async def test_an_unknown_authority_is_logged_and_counted(authority: Authority, serve: Any) -> None:
    async with provider(authority) as url:
        tables = {"upstreams": {"one": {"base_url": url}}, "agents": {"default": {"upstream": "one", "model": "m"}}}
        site = serve(base_url=None, api_key=None, retries={"max": 0}, **tables)
        with capture_logs() as lines:
            answer = await site.ask()
            assert (answer.status, (await answer.problem())["code"]) == (502, "upstream_unreachable")
    (line,) = [one for one in lines if one["event"] == "stream_end"]
    assert (line["upstream"], line["code"], line["reason"]) == ("one", "upstream_unreachable", "certificate")
    text = (await (await site.get("/metrics")).rest()).decode()
    counted = {
        json.dumps(sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "projector_upstream_failures_total"
    }
    labels = {"code": "upstream_unreachable", "reason": "certificate", "upstream": "one"}
    assert counted == {json.dumps(labels): 1.0}


async def test_files_are_read_when_the_upstream_is_made(authority: Authority) -> None:
    cert_file, key_file = authority.issue("client")
    key_file.write_text("changed")
    with pytest.raises(SettingsError, match=r"`tls\.key_file`: expected a private key"):
        await ask("https://localhost:1/v1", cert_file=cert_file, key_file=key_file)
