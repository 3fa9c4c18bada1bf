"""deploy/nginx.conf, run by a real nginx between a client and real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from structlog.testing import capture_logs

from bench.redis_server import free_port
from projector.server.config.settings import Settings
from tests.asgi.conftest import plays
from tests.deploy.browser import CREATED, ENDED, Dictation, asking, delta
from tests.deploy.front import SNIPPET, running

Front: TypeAlias = Callable[..., AbstractAsyncContextManager[int]]

SILENCE_S: Final = 5
"""What nginx allows here between two bytes of a stream: longer than a busy machine may stop a server."""
HEARTBEAT_S: Final = 0.2


@pytest.fixture
def front(nginx: str, tmp_path: Path) -> Front:
    """Starts nginx with the file in front of servers on these ports; returns its own port."""

    @contextlib.asynccontextmanager
    async def start(*servers: int, silence_s: int = 60) -> AsyncGenerator[int, None]:
        async with running(nginx, tmp_path, *servers, silence_s=silence_s) as ports:
            yield ports.plain

    return start


async def test_frames_come_one_by_one(front: Front, serve: Any, upstream: Any) -> None:
    dictation = Dictation()
    await upstream(dictation.script)
    async with front(serve().port) as port, asking(port, accept_encoding="gzip") as browser:
        assert browser.answer.status == 200
        assert browser.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert browser.answer.headers["cache-control"] == "no-cache, no-transform"
        assert "content-encoding" not in browser.answer.headers
        await dictation.is_received_by(browser)


async def test_heartbeats_keep_a_silent_stream(front: Front, serve: Any, upstream: Any) -> None:
    """The provider is silent for longer than nginx allows, until so many heartbeats have arrived."""

    async def script(peer: Any) -> None:
        await peer.start()
        await has_heartbeats.wait()
        await peer.event(CREATED)
        await peer.event(ENDED)
        await peer.end()

    has_heartbeats = asyncio.Event()
    await upstream(script)
    site = serve(heartbeat_s=HEARTBEAT_S)
    async with front(site.port, silence_s=SILENCE_S) as port, asking(port) as browser:
        for _ in range(int(SILENCE_S / HEARTBEAT_S) + 5):
            assert (await browser.message()).startswith(b": heartbeat ")
        has_heartbeats.set()
        assert (await browser.until("final"))["final"]["status"] == "completed"


async def test_without_heartbeats_nginx_cuts_a_silent_stream(front: Front, serve: Any, upstream: Any) -> None:
    """Without this the test above would prove nothing."""

    await upstream(plays([CREATED], ends=False))
    async with front(serve().port, silence_s=SILENCE_S) as port, asking(port) as browser:
        await browser.until("lifecycle")
        with pytest.raises(asyncio.IncompleteReadError):
            await browser.message()


async def test_an_answer_in_one_piece_may_take_its_time(front: Front, serve: Any, upstream: Any) -> None:
    """There are no heartbeats; the silence is twice what streams are allowed here."""

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await asyncio.sleep(2)
        await peer.event(ENDED)
        await peer.end()

    await upstream(script)
    body = {"input": "hello", "stream": False}
    async with front(serve().port, silence_s=1) as port, asking(port, "/v1/responses", body) as browser:
        assert browser.answer.status == 200
        assert json.loads(await browser.answer.rest())["status"] == "completed"


async def test_a_cancel_passes(front: Front, serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await peer.event(delta("so far"))
        await peer.gone.wait()

    provider = await upstream(script)
    async with front(serve().port) as port, asking(port) as browser:
        stream_id = browser.answer.headers["x-stream-id"]
        await browser.until("message.delta")
        async with asking(port, f"/api/v1/streams/{stream_id}/cancel", b"") as cancelling:
            assert cancelling.answer.status == 204
        final = (await browser.until("final"))["final"]
        assert (final["status"], final["response_text"]) == ("cancelled", "so far")
        peer = await provider.peers.get()
        await peer.gone.wait()


async def test_a_client_that_leaves_closes_the_upstream(front: Front, serve: Any, upstream: Any) -> None:
    provider = await upstream(plays([CREATED], ends=False))
    site = serve()
    async with front(site.port) as port:
        async with asking(port) as browser:
            await browser.until("lifecycle")
        peer = await provider.peers.get()
        await asyncio.wait_for(peer.gone.wait(), 60)
        assert await site.is_quiet()


async def test_a_body_that_is_too_large_is_refused_by_the_projector(front: Front, serve: Any) -> None:
    site = serve()
    body = b" " * (Settings().limits.max_body_bytes + 1)
    async with front(site.port) as port, asking(port, body=body) as browser:
        assert browser.answer.status == 413
        assert (await browser.answer.problem())["code"] == "body_too_large"


async def test_a_body_that_nginx_refuses_is_a_problem_like_others(front: Front, serve: Any) -> None:
    site = serve()
    async with front(site.port) as port, asking(port, body=b" " * (9 * 2**20 + 1)) as browser:
        assert browser.answer.status == 413
        problem = await browser.answer.problem()
    assert (problem["code"], problem["status"], problem["is_retryable"]) == ("body_too_large", 413, False)
    assert re.fullmatch(r"req_[0-9a-f]{32}", problem["request_id"])


async def test_a_large_body_is_in_no_file(front: Front, serve: Any, upstream: Any, tmp_path: Path) -> None:
    """nginx would write a conversation of more than 16 KB to its disk, in plain text."""
    said = "a long conversation " * 50_000
    received: list[Any] = []

    async def script(peer: Any) -> None:
        received.append(peer.body)
        await plays([CREATED, ENDED])(peer)

    await upstream(script)
    body = json.dumps({"message": said}).encode()
    async with front(free_port(), serve().port) as port:  # one is away: the body goes to the other
        for number in range(8):
            async with asking(port, body=body, x_sticky=f"session-{number}") as browser:
                assert (await browser.until("final"))["final"]["status"] == "completed"
    assert [said in json.dumps(one) for one in received] == [True] * 8
    assert "Connection refused" in (tmp_path / "error.log").read_text(encoding="utf-8")
    assert "buffered to a temporary file" not in (tmp_path / "error.log").read_text(encoding="utf-8")


async def test_the_demo_plays_through_it(front: Front, serve: Any) -> None:
    """The arrangement of deploy/compose.yaml."""
    async with front(serve(demo=True).port) as port, asking(port) as browser:
        assert (await browser.until("final"))["final"]["status"] == "completed"


async def test_metrics_stay_inside(front: Front, serve: Any) -> None:
    site = serve()
    async with front(site.port) as port:
        for path, status in (("/metrics", "404"), ("/livez", "200")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n".encode())
            assert (await reader.read()).split()[1] == status.encode()
            writer.close()


async def test_no_server_is_a_problem_like_others(front: Front, serve: Any) -> None:
    site = serve()
    unused = free_port()
    async with front(site.port) as port, asking(port, body=b"{") as browser:
        ours = await browser.answer.problem()
    async with front(unused) as port, asking(port) as browser:
        assert (browser.answer.status, browser.answer.headers["retry-after"]) == (503, "5")
        problem = await browser.answer.problem()
    assert ours.keys() - problem.keys() == {"instance"}
    assert (problem["status"], problem["code"], problem["is_retryable"]) == (503, "server_shutdown", True)
    assert re.fullmatch(r"req_[0-9a-f]{32}", problem["request_id"])


@pytest.mark.parametrize(
    ("given", "form"), [("", r"req_[0-9a-f]{32}"), ("chat:7.a_b-c", r"chat:7\.a_b-c"), ("a b", r"req_[0-9a-f]{32}")]
)
async def test_a_request_has_one_id_in_all_logs(
    front: Front, serve: Any, tmp_path: Path, given: str, form: str
) -> None:
    site = serve()
    with capture_logs() as logs:
        async with front(site.port) as port, asking(port, body=b"{", x_request_id=given) as browser:
            ours = (await browser.answer.problem())["request_id"]
            assert await site.is_quiet()
    async with front(free_port()) as port, asking(port, x_request_id=given) as browser:
        of_nginx = (await browser.answer.problem())["request_id"]
    assert re.fullmatch(form, ours)
    assert [line["request_id"] for line in logs if line["event"] == "request"] == [ours]
    lines = (tmp_path / "access.log").read_text(encoding="utf-8").splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == [ours, of_nginx]


async def test_what_a_client_must_not_pass_on_and_the_log_must_not_have(front: Front, tmp_path: Path) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        writer.close()

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0) as server,
        front(server.sockets[0].getsockname()[1]) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET /v1/interrupts/heron-7?a=/v1/interrupts/1 HTTP/1.1\r\nhost: test\r\nforwarded: for=192.0.2.1\r\n"
            b"x-forwarded-for: 192.0.2.1\r\nconnection: close\r\n\r\n"
        )
        assert (await reader.read()).startswith(b"HTTP/1.1 204 ")
        writer.close()
    assert heads[0].startswith(b"GET /v1/interrupts/heron-7?a=/v1/interrupts/1 ")
    assert b"192.0.2.1" not in heads[0]
    log = (tmp_path / "access.log").read_text(encoding="utf-8")
    assert '"GET /v1/interrupts/-?a=/v1/interrupts/1 HTTP/1.1" 204' in log
    assert "heron" not in log


@pytest.mark.parametrize(
    "stays",
    [
        pytest.param(lambda number: {"x_sticky": f"session-{number}", "authorization": "Bearer same"}, id="person"),
        pytest.param(lambda number: {"authorization": f"Bearer {number}"}, id="key"),
    ],
)
async def test_several_servers_with_a_caller_at_one(
    front: Front, serve: Any, upstream: Any, stays: Callable[[int], dict[str, str]]
) -> None:
    """Callers connect until both servers have some; each cancel reaches its stream."""

    await upstream(plays([CREATED], ends=False))
    servers = {"one": serve(model="one"), "two": serve(model="two")}
    met: set[str] = set()
    async with front(*(site.port for site in servers.values())) as port:
        for number in range(100):
            async with asking(port, **stays(number)) as browser:
                await browser.until("lifecycle")
                stream_id = browser.answer.headers["x-stream-id"]
                met |= {name for name, site in servers.items() if site.streams.active}
                async with asking(port, f"/api/v1/streams/{stream_id}/cancel", b"", **stays(number)) as cancelling:
                    assert cancelling.answer.status == 204
                assert (await browser.until("final"))["final"]["status"] == "cancelled"
            if met == servers.keys():
                break
    assert met == servers.keys()


def test_its_numbers_fit_the_settings() -> None:
    settings = Settings()
    (body_mib,) = re.findall(r"client_max_body_size (\d+)m;", SNIPPET)
    assert int(body_mib) * 2**20 > settings.limits.max_body_bytes
    silence_s, one_piece_s = map(int, re.findall(r"proxy_read_timeout (\d+)s;", SNIPPET))
    assert silence_s >= 4 * settings.heartbeat_s
    assert one_piece_s > settings.timeouts.total_s
    assert f"server {settings.host}:{settings.port};" in SNIPPET
    assert json.loads(re.findall(r"return 503 '(.*)';", SNIPPET)[0])["title"] == "Service Unavailable"
