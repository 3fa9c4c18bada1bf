"""The session with a scripted source, `receive` and `send`, for any order of events."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from projector import build_pipeline
from projector.core.faults import FAULTS
from projector.server.config.settings import Settings
from projector.server.http.problems import Problem
from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account, Memory
from projector.server.streaming.session import ProviderSource, StreamSession
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from projector.server.upstream.targets import UpstreamBinding, attempts_of
from tests.asgi import in_process
from tests.waiting import wait_until

SCOPE = {"type": "http", "http_version": "1.1", "headers": [], "state": {"request_id": "req_1"}}
TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"a"}\n\n'
DONE = b'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n'


class Upstream:
    """Yields the output of a function, and records whether it is open."""

    providers = frozenset({"openai_responses"})
    is_recording = False

    def __init__(self, play: Callable[[], AsyncGenerator[bytes, None]], opens_after_s: float = 0) -> None:
        self._play = play
        self._opens_after_s = opens_after_s
        self.opened = 0
        self.closed = 0

    @asynccontextmanager
    async def open(self, _request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        self.opened += 1
        chunks = self._play()
        try:
            await anyio.sleep(self._opens_after_s)
            yield chunks
        finally:
            self.closed += 1
            await chunks.aclose()

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


class Client(in_process.Client):
    """A client that takes nothing while `blocks` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = asyncio.Event()
        self.blocks.set()
        self.blocked = asyncio.Event()
        """Set when something was sent that the client does not take."""

    async def send(self, message: dict[str, Any]) -> None:
        if not self.blocks.is_set():
            self.blocked.set()
        await self.blocks.wait()
        await super().send(message)

    @property
    def terminals(self) -> int:
        return self.body.count(b'"kind":"final"') + self.body.count(b'"kind":"error"')


def session(upstream: Upstream, account: Account | None = None, **settings: object) -> StreamSession:
    given = Settings.model_validate(settings)
    stats = StreamStats(stream_id="stream_1", request_id="req_1", dialect="public_sse_v1")
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", on_frame=stats.on_frame)
    account = account or Account(Memory(10**9))
    request = ProviderRequest("openai_responses", {})
    binding = UpstreamBinding("", request.provider, upstream, given.timeouts, given.retries, {}, ("", 0))
    attempts = attempts_of(binding, lambda _: request.body, stats)
    source = ProviderSource(lambda: pipeline, attempts, stats, account)
    return StreamSession(stats, source, account, timeouts=given.timeouts, heartbeat_s=given.heartbeat_s)


async def whole() -> AsyncGenerator[bytes, None]:
    yield TEXT
    yield DONE


async def silent() -> AsyncGenerator[bytes, None]:
    await anyio.sleep_forever()
    yield b""


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield TEXT


async def text_then_silence() -> AsyncGenerator[bytes, None]:
    yield TEXT
    await anyio.sleep_forever()


async def test_a_whole_stream() -> None:
    upstream, client = Upstream(whole), Client()
    await session(upstream).run(SCOPE, client.receive, client.send)
    assert client.sent[0]["status"] == 200
    assert client.terminals == 1
    assert [message["more_body"] for message in client.sent[1:]][-1] is False
    assert (upstream.opened, upstream.closed) == (1, 1)


@pytest.mark.parametrize("play", [silent, endless, text_then_silence])
@pytest.mark.parametrize("moment_s", [0, 0.001, 0.02])
async def test_the_client_leaves(play: Any, moment_s: float) -> None:
    upstream, client = Upstream(play), Client()
    asyncio.get_running_loop().call_later(moment_s, client.left.set)
    with anyio.fail_after(60):
        await session(upstream).run(SCOPE, client.receive, client.send)
    assert upstream.opened == upstream.closed


async def test_the_client_disconnects_before_the_first_byte() -> None:
    upstream, client = Upstream(silent), Client()
    client.left.set()
    with anyio.fail_after(60):
        await session(upstream).run(SCOPE, client.receive, client.send)
    assert upstream.opened == upstream.closed
    assert client.sent == []


async def test_the_client_disconnects_while_a_send_is_blocked() -> None:
    upstream, client = Upstream(endless), Client()
    client.blocks.clear()

    async def receive() -> dict[str, Any]:
        await client.blocked.wait()
        return {"type": "http.disconnect"}

    with anyio.fail_after(60):
        await session(upstream).run(SCOPE, receive, client.send)
    assert upstream.closed == 1


async def test_a_thousand_clients_disconnect_at_random_moments() -> None:
    chance = random.Random(1)
    loop = asyncio.get_running_loop()
    memory = Memory(10**9)

    async def slow() -> AsyncGenerator[bytes, None]:
        for _ in range(20):
            await anyio.sleep(chance.random() / 200)
            yield TEXT
        yield DONE

    async def visit() -> Upstream:
        upstream, client = Upstream(slow, opens_after_s=chance.random() / 100), Client()
        loop.call_later(chance.random() / 20, client.left.set)
        account = Account(memory)
        await session(upstream, account).run(SCOPE, client.receive, client.send)
        account.close()
        assert client.terminals <= 1
        return upstream

    tasks = len(asyncio.all_tasks())
    for _ in range(4):
        for upstream in await asyncio.gather(*(visit() for _ in range(250))):
            assert upstream.opened == upstream.closed
    assert len(asyncio.all_tasks()) == tasks
    assert memory.held_bytes == 0


async def test_a_send_that_raises_is_a_disconnect() -> None:
    upstream, client = Upstream(endless), Client()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            raise OSError

    with anyio.fail_after(60):
        await session(upstream).run(SCOPE, client.receive, send)
    assert upstream.closed == 1


async def test_a_blocked_client_stops_reading_from_the_upstream() -> None:
    """While the output of one read is not received by the client, nothing more is read."""
    read = 0

    async def counted() -> AsyncGenerator[bytes, None]:
        nonlocal read
        while True:
            read += 1
            yield TEXT

    upstream, client = Upstream(counted), Client()
    client.blocks.clear()
    asyncio.get_running_loop().call_later(0.1, client.left.set)
    with anyio.fail_after(60):
        await session(upstream).run(SCOPE, client.receive, client.send)
    assert read == 0  # not even the head was received


async def test_cancelling_the_server_task_closes_the_upstream() -> None:
    upstream, client = Upstream(text_then_silence), Client()
    task = asyncio.create_task(session(upstream).run(SCOPE, client.receive, client.send))
    await wait_until(lambda: len(client.sent) > 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert upstream.closed == 1


async def test_cancel_returns_the_text_so_far() -> None:
    upstream, client = Upstream(text_then_silence), Client()
    one = session(upstream)
    task = asyncio.create_task(one.run(SCOPE, client.receive, client.send))
    await wait_until(lambda: len(client.sent) > 1)
    one.cancel()
    one.cancel()
    await task
    assert b'"status":"cancelled","response_text":"a"' in client.body
    assert client.terminals == 1
    assert upstream.closed == 1


SHUTDOWN = FAULTS["server_shutdown"]
RACES: dict[str, tuple[Callable[[StreamSession], None], ...]] = {
    "cancelled": (StreamSession.cancel, StreamSession.cancel, lambda one: one.fail(SHUTDOWN), StreamSession.cancel),
    "server_shutdown": (lambda one: one.fail(SHUTDOWN), StreamSession.cancel, lambda one: one.fail(SHUTDOWN)),
}


@pytest.mark.parametrize("end", RACES)
@pytest.mark.parametrize("pause_s", [None, 0, 0.002])
async def test_the_first_of_several_ends_wins(end: str, pause_s: float | None) -> None:
    """Cancel during a drain and drain during a cancel, each repeated: at once, or some event-loop turns later."""
    upstream, client = Upstream(text_then_silence), Client()
    one = session(upstream)
    task = asyncio.create_task(one.run(SCOPE, client.receive, client.send))
    await wait_until(lambda: len(client.sent) > 1)
    for act in RACES[end]:
        act(one)
        if pause_s is not None:
            await anyio.sleep(pause_s)
    await task
    assert f'"{end}"'.encode() in client.body
    assert client.terminals == 1
    assert upstream.closed == 1


async def test_cancel_before_the_upstream_responds_is_still_a_stream() -> None:
    upstream, client = Upstream(silent, opens_after_s=60), Client()
    one = session(upstream)
    task = asyncio.create_task(one.run(SCOPE, client.receive, client.send))
    await wait_until(lambda: upstream.opened == 1)
    one.cancel()
    await task
    assert client.sent[0]["status"] == 200
    assert client.terminals == 1


async def test_cancel_while_the_client_is_blocked_drops_no_event() -> None:
    upstream, client = Upstream(endless), Client()
    client.blocks.clear()
    one = session(upstream)
    task = asyncio.create_task(one.run(SCOPE, client.receive, client.send))
    await client.blocked.wait()
    one.cancel()
    await anyio.sleep(0.02)
    client.blocks.set()
    await task
    ids = [int(part.split(b",")[0]) for part in client.body.split(b'"event_id":')[1:]]
    assert ids == list(range(1, len(ids) + 1))
    assert client.terminals == 1


async def test_a_server_fault_before_the_status_is_a_problem() -> None:
    upstream, client = Upstream(silent, opens_after_s=60), Client()
    one = session(upstream)
    task = asyncio.create_task(one.run(SCOPE, client.receive, client.send))
    await wait_until(lambda: upstream.opened)
    one.fail(FAULTS["server_shutdown"])
    with pytest.raises(Problem) as caught:
        await task
    assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "5"})
    assert client.sent == []
    assert upstream.closed == 1


async def test_a_crash_of_the_pipeline_is_reported_without_payload() -> None:
    upstream, client = Upstream(whole), Client()
    one = session(upstream)

    def feed(_data: bytes) -> bytes:
        raise KeyError("sk-secret of a payload")

    one._source.pipeline.feed = feed  # type: ignore[method-assign] - what cannot happen, happens
    with capture_logs() as logs:
        await one.run(SCOPE, client.receive, client.send)
    assert b'"code":"internal_error"' in client.body
    assert b"sk-secret" not in client.body
    assert [line["error_type"] for line in logs if line["event"] == "stream_crashed"] == ["KeyError"]
    assert "sk-secret" not in repr(logs)


async def test_a_failure_of_receive_breaks_the_stream_off() -> None:
    """Whether the client is there is then not known."""
    upstream, client = Upstream(text_then_silence), Client()
    one = session(upstream)

    async def receive() -> Any:
        await wait_until(lambda: b"data: " in client.body)
        raise RuntimeError("of the server")

    with capture_logs() as logs, anyio.fail_after(60):
        await one.run(SCOPE, receive, client.send)
    assert [line["error_type"] for line in logs if line["event"] == "stream_crashed"] == ["RuntimeError"]
    assert upstream.opened == upstream.closed
    assert client.terminals == 0
    assert one.stats.is_client_gone


async def test_a_failure_after_the_terminal_is_ignored() -> None:
    async def breaks() -> AsyncGenerator[bytes, None]:
        yield TEXT
        yield DONE
        raise UpstreamError(FAULTS["upstream_reset"])

    upstream, client = Upstream(breaks), Client()
    await session(upstream).run(SCOPE, client.receive, client.send)
    assert b'"status":"completed"' in client.body
    assert client.terminals == 1


async def test_no_heartbeat_while_a_send_is_blocked() -> None:
    upstream, client = Upstream(text_then_silence), Client()
    client.blocks.clear()
    one = session(upstream, heartbeat_s=0.01)
    task = asyncio.create_task(one.run(SCOPE, client.receive, client.send))
    await anyio.sleep(0.1)
    client.blocks.set()
    one.cancel()
    await task
    assert client.body.count(b": heartbeat") <= 1


async def test_other_tasks_run_between_chunks_without_a_pause() -> None:
    reads = [0]

    async def fast() -> AsyncGenerator[bytes, None]:
        while True:
            reads[-1] += 1
            yield TEXT * 1000  # milliseconds of work

    upstream, client = Upstream(fast), Client()
    task = asyncio.create_task(session(upstream).run(SCOPE, client.receive, client.send))
    while len(reads) < 50:
        await asyncio.sleep(0)
        reads.append(0)
    client.left.set()
    await task
    assert max(reads) <= 3


async def test_chunks_of_one_byte() -> None:
    """Each event is a separate read; nothing is sent for events without output."""

    async def bytewise() -> AsyncGenerator[bytes, None]:
        for byte in TEXT + TEXT + DONE:
            yield bytes([byte])

    upstream, client = Upstream(bytewise), Client()
    await session(upstream).run(SCOPE, client.receive, client.send)
    assert b'"status":"completed","response_text":"aa"' in client.body
    assert client.terminals == 1
    assert all(message["body"] for message in client.sent[1:-1])


@pytest.mark.parametrize(("size", "is_elsewhere"), [(LARGE_EVENT_BYTES // 2, False), (LARGE_EVENT_BYTES, True)])
async def test_a_large_event_is_parsed_off_the_event_loop(*, size: int, is_elsewhere: bool) -> None:
    async def large() -> AsyncGenerator[bytes, None]:
        yield TEXT.replace(b'"a"', b'"%b"' % (b"a" * size))
        yield DONE

    upstream, client = Upstream(large), Client()
    one = session(upstream)
    feed, threads = one._source.pipeline.feed, []

    def spied(data: bytes) -> bytes:
        threads.append(threading.get_ident())
        return feed(data)

    one._source.pipeline.feed = spied  # type: ignore[method-assign] - only to see where it runs
    await one.run(SCOPE, client.receive, client.send)
    assert [thread != threading.get_ident() for thread in threads] == [is_elsewhere, False]
    assert client.terminals == 1


async def test_output_larger_than_one_send_is_split() -> None:
    async def large() -> AsyncGenerator[bytes, None]:
        yield TEXT * 1000
        yield DONE

    upstream, client = Upstream(large), Client()
    await session(upstream).run(SCOPE, client.receive, client.send)
    sizes = [len(message.get("body", b"")) for message in client.sent]
    assert max(sizes) == 65_536
    assert client.terminals == 1


async def test_heartbeats_have_an_interval_while_nothing_else_is_due() -> None:
    """The ticker sleeps until the next beat, not until the next deadline."""
    upstream, client = Upstream(text_then_silence), Client()
    one = session(upstream, heartbeat_s=0.02)
    async with anyio.create_task_group() as group:
        group.start_soon(one.run, SCOPE, client.receive, client.send)
        await wait_until(lambda: client.body.count(b": heartbeat") >= 5)
        one.cancel()
    assert client.terminals == 1
