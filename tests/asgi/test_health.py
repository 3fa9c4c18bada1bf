"""The health check of a container, and the number of workers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from bench.redis_server import free_port
from projector import cli
from projector.cli import servers
from projector.cli.servers import health_failure
from projector.server.config.settings import Settings
from projector.server.process import server

Answered = Callable[[bytes], int]


@pytest.fixture
def answered() -> Any:
    """Starts a server that answers one request with these bytes; returns its port."""
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def respond() -> None:
            with listener, listener.accept()[0] as one:
                one.recv(4096)
                one.sendall(answer)

        threads.append(threading.Thread(target=respond))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join(timeout=5)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_HEALTH_TIMEOUT_S", 60.0)


def test_a_server_is_up(serve: Any, capsys: pytest.CaptureFixture[str]) -> None:
    site = serve(demo=True)
    assert cli.main(["health", f"http://127.0.0.1:{site.port}"]) == 0
    assert cli.main(["health", f"http://localhost:{site.port}/any/path"]) == 0
    assert capsys.readouterr().out == "Server is up.\n" * 2


def test_no_proxy_is_used(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert health_failure(f"http://127.0.0.1:{serve(demo=True).port}") is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", "expected 200, got 503", id="status"),
        pytest.param(b"SSH-2.0-secret\r\n", "no response: BadStatusLine", id="no-http"),
        pytest.param(b"", "no response: RemoteDisconnected", id="silence"),
    ],
)
def test_a_server_that_is_not_up(
    answered: Answered, capsys: pytest.CaptureFixture[str], answer: bytes, expected: str
) -> None:
    port = answered(answer)
    assert cli.main(["health", f"http://127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().out == f"/livez of 127.0.0.1, port {port}: {expected}\n"


def test_no_listener(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert cli.main(["health", f"http://127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().out == f"/livez of 127.0.0.1, port {port}: no response: Connection refused\n"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://a:port", "http://[", ""])
def test_invalid_urls(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["health", url]) == 2
    assert capsys.readouterr().err == "projector: expected the URL of a server, like http://127.0.0.1:8000\n"


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ("0", "projector: --workers must be a number from 1 to 64"),
        ("65", "projector: --workers must be a number from 1 to 64"),
        ("-1", "projector: --workers must be a number from 1 to 64"),
        ("2", 'projector: --workers needs `store.kind = "redis"` for more than 1: with another store, running streams'),
    ],
)
def test_workers_that_cannot_serve_are_refused(workers: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--workers", workers]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(expected)


def test_one_worker_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []
    monkeypatch.setattr(
        "projector.server.process.run", lambda settings, *_, **__: served.append(json.dumps(settings.port))
    )
    assert cli.main(["serve", "--workers", "1", "--port", "8123"]) == 0
    assert served == ["8123"]


def test_the_number_of_workers_in_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    assert server(Settings(), demo=True).config.workers == 1
