"""One stream over one ASGI request: provider bytes in, dialect bytes out.

Four tasks share it. The reader takes bytes from the upstream through the pipeline into the outbox, and is the only one
that touches the pipeline. The writer sends what is in the outbox. The watcher waits for the client to leave. The clock
ends what takes too long and says a heartbeat into silence.

The HTTP status is committed when the upstream's headers are there, at the latest when the first heartbeat is due. A
failure before that is a problem document, a failure after it is a terminal event. Whoever ends a stream, the reader
leaves the upstream's context on the way out, and that closes the connection.
"""

from __future__ import annotations

import itertools
import logging
import random
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint
from starlette.types import Message, Receive, Scope, Send

from projector import Pipeline
from projector.asgi.deadlines import Deadlines
from projector.asgi.memory import Account
from projector.asgi.outbox import Outbox
from projector.asgi.problems import Problem, problem_of_fault
from projector.asgi.retries import wait_s
from projector.asgi.settings import Settings
from projector.asgi.upstream import ProviderRequest, Upstream, UpstreamError
from projector.faults import FAULTS, Fault
from projector.sse import encode_comment

logger = logging.getLogger(__name__)

_SEND_MAX_BYTES: Final = 65_536
"""Of one send: what uvicorn holds before it makes us wait, so that a slow client can be seen to move."""

_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)


class Relay:
    """One stream; `run` it once."""

    def __init__(
        self,
        stream_id: str,
        pipeline: Pipeline,
        upstream: Upstream,
        request: ProviderRequest,
        settings: Settings,
        account: Account,
    ) -> None:
        now = time.monotonic()
        self.stream_id = stream_id
        self.is_upstream_open = False
        self._pipeline = pipeline
        self._upstream = upstream
        self._request = request
        self._settings = settings
        self._account = account
        self._deadlines = Deadlines(settings.timeouts, now)
        self._outbox = Outbox(settings.limits.max_buffer_bytes, account)
        self._stream = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._committed = anyio.Event()
        self._refusal: Problem | None = None
        self._last_words: Callable[[], bytes] = pipeline.close
        self._wrote_at = now
        self._sending_since: float | None = None
        self._has_bytes = False
        self._is_sent = False

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with the stream.

        Raises:
            Problem: the stream failed before its status was committed; nothing was sent.
        """
        async with anyio.create_task_group() as stream:
            self._stream = stream.cancel_scope
            stream.start_soon(self._read)
            async with anyio.create_task_group() as client:
                client.start_soon(self._watch, receive)
                client.start_soon(self._keep_time)
                await self._write(scope, send)
                client.cancel_scope.cancel()
            # all was sent; the reader may still have its upstream to close
        if self._refusal is not None:
            raise self._refusal

    def cancel(self) -> None:
        """End the stream with `final` `cancelled`; more than once is no more than once."""
        self._stop(self._pipeline.cancel)

    def fail(self, fault: Fault) -> None:
        """End the stream with a fault."""
        self._stop(lambda: self._pipeline.close(fault), fault)

    def _stop(self, last_words: Callable[[], bytes], fault: Fault | None = None) -> None:
        if self._reading.cancel_called or self._outbox.is_closed:
            return
        if fault is not None and not self._committed.is_set():
            self._refusal = problem_of_fault(fault)
        self._last_words = last_words
        self._reading.cancel()

    async def _read(self) -> None:
        """Bring everything from the upstream into the outbox; whatever happens, say the end and close it."""
        try:
            with self._reading:
                await self._relay()
        except UpstreamError as error:
            self._on_failure(error.fault, error.retry_after_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told how its stream ended
            _log_crash(self.stream_id, error)
            self._on_failure(FAULTS["internal_error"])
        if self._refusal is None and not self._pipeline.ended:
            self._outbox.add(self._last_words())
        self._outbox.close()
        self._committed.set()

    async def _relay(self) -> None:
        """Relay one answer; a request that failed before the first byte of it may be made again."""
        for attempt in itertools.count(1):
            self._deadlines.on_attempt(time.monotonic())
            self.is_upstream_open = True
            try:
                await self._relay_answer()
            except UpstreamError as error:
                chance = random.random()  # noqa: S311 - it spreads load, it guards nothing
                pause_s = wait_s(error, attempt, self._settings.retries, chance)
                if pause_s is None or self._has_bytes:
                    raise
            else:
                return
            finally:
                self.is_upstream_open = False
            self._deadlines.on_pause()
            await anyio.sleep(pause_s)

    async def _relay_answer(self) -> None:
        async with self._upstream.open(self._request) as chunks:
            self._committed.set()
            async for chunk in chunks:
                if self._reading.cancel_called or self._stream.cancel_called:
                    await checkpoint()  # bytes that come without a pause leave no other moment for it
                self._has_bytes = True
                self._deadlines.on_bytes()
                if self._account.read(chunk):
                    self._outbox.add(await to_thread.run_sync(self._pipeline.feed, chunk))
                else:
                    self._outbox.add(self._pipeline.feed(chunk))
                if self._pipeline.ended:
                    self._outbox.close()  # before the upstream is closed, which may take a moment
                    return
                if self._outbox.is_full:
                    await self._outbox.room()
                if self._account.is_spent:
                    await self._account.wait_for_turn()
                self._deadlines.on_wait(time.monotonic())

    def _on_failure(self, fault: Fault, retry_after_s: int | None = None) -> None:
        if self._committed.is_set():
            self._last_words = lambda: self._pipeline.close(fault)
        else:
            self._refusal = problem_of_fault(fault, retry_after_s)

    async def _write(self, scope: Scope, send: Send) -> None:
        """Send the stream; return when all is sent or there is nothing to send."""
        await self._committed.wait()
        if self._refusal is not None:
            return
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self._headers(scope)})
            while not self._outbox.is_drained:
                for piece in _pieces(await self._outbox.take()):
                    await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True})
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})
            self._is_sent = True
        except OSError:  # what ASGI servers raise when the client is gone
            self._stream.cancel()

    async def _send(self, send: Send, message: Message) -> None:
        self._sending_since = time.monotonic()
        await send(message)
        self._sending_since = None
        self._wrote_at = time.monotonic()

    def _headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        headers = [
            *_HEADERS,
            (b"x-stream-id", self.stream_id.encode()),
            (b"x-request-id", scope["state"]["request_id"].encode()),
        ]
        if scope["http_version"] == "1.1":
            headers.append((b"connection", b"keep-alive"))
        return headers

    async def _watch(self, receive: Receive) -> None:
        """End everything when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._is_sent:  # after the whole response a server says the same
            self._stream.cancel()

    async def _keep_time(self) -> None:
        """End what takes too long; say a heartbeat into silence."""
        timeouts = self._settings.timeouts
        client_s = timeouts.client_s
        while True:
            now = time.monotonic()
            stalls_at = now + client_s if self._sending_since is None else self._sending_since + client_s
            if now >= stalls_at:
                self._stream.cancel()
            deadline, code = self._deadlines.next()
            if now >= deadline:
                self.fail(FAULTS[code])
            beats_at = self._wrote_at + self._settings.heartbeat_s
            if now >= beats_at:
                self._beat()
                beats_at = now + self._settings.heartbeat_s
            # A limit may begin to run while this sleeps, but none of them can run out before this wakes.
            ahead = [at - now for at in (stalls_at, deadline, beats_at) if at > now]
            await anyio.sleep(min(*ahead, client_s, timeouts.idle_s, timeouts.first_byte_s))

    def _beat(self) -> None:
        """Say that the stream lives, unless the client has something to take."""
        self._committed.set()
        if self._sending_since is None and self._outbox.is_empty:
            self._outbox.add(encode_comment(f"heartbeat {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))


def _log_crash(stream_id: str, error: Exception) -> None:
    """Log a mistake of ours by its kind and place; what it says may be the payload."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    logger.error("stream %s: %s at %s:%s", stream_id, type(error).__name__, place.filename, place.lineno)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut what is too much for one send."""
    if len(data) <= _SEND_MAX_BYTES:
        yield data
        return
    for start in range(0, len(data), _SEND_MAX_BYTES):
        yield data[start : start + _SEND_MAX_BYTES]
