"""One stream over one ASGI request: provider bytes in, dialect bytes out.

Three tasks share it. The reader takes bytes from the upstream through the pipeline and sends what they say, so that an
event costs one wake-up and a client that takes nothing stops the upstream by itself; it is the only one that touches
the pipeline. The watcher waits for the client to leave. The clock ends what takes too long and says a heartbeat into
silence.

The HTTP status is committed when the upstream's headers are there, at the latest when the first heartbeat is due. A
failure before that is a problem document, a failure after it is a terminal event. Whoever ends a stream, the reader
leaves the upstream's context on the way out, and that closes the connection.

A stream is stopped (cancelled, timed out, drained) only while the reader waits for its upstream: a read that has come
is said whole first, or not at all.
"""

from __future__ import annotations

import itertools
import random
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from starlette.types import Receive, Scope, Send

from projector import Pipeline
from projector.asgi.deadlines import Deadlines
from projector.asgi.line import Line
from projector.asgi.memory import Account
from projector.asgi.problems import Problem, problem_of_fault
from projector.asgi.record import Record
from projector.asgi.retries import wait_s
from projector.asgi.settings import Retries, Timeouts
from projector.asgi.upstream import ProviderRequest, Upstream, UpstreamError
from projector.faults import FAULTS, Fault
from projector.sse import encode_comment

log: Final = structlog.get_logger()

_TURN_S: Final = 0.001
"""After so much work of the pipeline others get their turn: where both sides are faster than we are, nothing else makes
us wait. Some hundred events."""


class Relay:
    """One stream; `run` it once."""

    def __init__(
        self,
        record: Record,
        pipeline: Pipeline,
        upstream: Upstream,
        request: ProviderRequest,
        account: Account,
        *,
        timeouts: Timeouts,
        retries: Retries,
        heartbeat_s: float,
        headers: Sequence[tuple[bytes, bytes]] = (),
        make_line: type[Line] = Line,
    ) -> None:
        now = time.monotonic()
        self.record = record
        self.is_upstream_open = False
        self._pipeline = pipeline
        self._upstream = upstream
        self._request = request
        self._account = account
        self._timeouts = timeouts
        self._retries = retries
        self._heartbeat_s = heartbeat_s
        self._more_headers = headers
        self._make_line = make_line
        self._deadlines = Deadlines(timeouts, now)
        self._stream = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._line: Line | None = None
        self._refusal: Problem | None = None
        self._last_words: Callable[[], bytes] = pipeline.close
        self._is_stopped = False
        self._is_waiting = True
        self._is_ending = False
        self._is_sent = False

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with the stream.

        Raises:
            Problem: the stream failed before its status was committed; nothing was sent.
        """
        line = self._line = self._make_line(send, self._headers(scope), self._account, self._leave)
        try:
            async with anyio.create_task_group() as stream:
                self._stream = stream.cancel_scope
                stream.start_soon(self._watch, receive)
                stream.start_soon(self._keep_time, stream, line)
                await self._read(line)
                stream.cancel_scope.cancel()
        finally:
            self._pipeline.cancel()  # where the client left: what it had been told is the end of it
            self.record.dropped = self._pipeline.dropped
        if self._refusal is not None:
            raise self._refusal

    def cancel(self) -> None:
        """End the stream with `final` `cancelled`; more than once is no more than once."""
        self._stop(self._pipeline.cancel)

    def fail(self, fault: Fault) -> None:
        """End the stream with a fault."""
        self._stop(lambda: self._pipeline.close(fault), fault)

    def _stop(self, last_words: Callable[[], bytes], fault: Fault | None = None) -> None:
        if self._is_stopped or self._pipeline.ended:
            return
        self._is_stopped = True
        if fault is not None and not self._is_committed:
            self._refusal = problem_of_fault(fault)
        self._last_words = last_words
        if self._is_waiting:
            self._reading.cancel()

    @property
    def _is_committed(self) -> bool:
        return self._line is not None and self._line.is_committed

    def _leave(self) -> None:
        """End everything: nobody is there to be told."""
        self.record.is_client_gone = True
        self._stream.cancel()

    async def _read(self, line: Line) -> None:
        """Bring everything from the upstream to the client; whatever happens, say the end."""
        try:
            with self._reading:
                await self._relay(line)
        except UpstreamError as error:
            self._on_failure(error.fault, error.retry_after_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told how its stream ended
            _log_crash(self.record, error)
            self._on_failure(FAULTS["internal_error"])
        if self._refusal is None:
            await self._end(line)

    async def _relay(self, line: Line) -> None:
        """Relay one answer; a request that failed before the first byte of it may be made again."""
        for attempt in itertools.count(1):
            self._deadlines.on_attempt(time.monotonic())
            self.is_upstream_open = True
            try:
                await self._relay_answer(line)
            except UpstreamError as error:
                chance = random.random()  # noqa: S311 - it spreads load, it guards nothing
                pause_s = wait_s(error, attempt, self._retries, chance)
                if pause_s is None or self.record.first_byte_at is not None or self._is_stopped:
                    raise
            else:
                return
            finally:
                self.is_upstream_open = False
            self._deadlines.on_pause()
            await anyio.sleep(pause_s)

    async def _relay_answer(self, line: Line) -> None:
        async with self._upstream.open(self._request) as chunks:
            self._is_waiting = False
            await line.say(b"")
            await self._wait_again()
            turn_ends_s = self.record.overhead_s + _TURN_S
            async for chunk in chunks:
                if self._reading.cancel_called or self._stream.cancel_called or self.record.overhead_s >= turn_ends_s:
                    turn_ends_s = self.record.overhead_s + _TURN_S
                    await checkpoint()  # bytes that come without a pause leave no other moment for it
                self._is_waiting = False
                await line.say(await self._feed(chunk))
                if self._pipeline.ended:
                    await self._end(line)  # before the upstream is closed, which may take a moment
                    return
                self._is_waiting = True
                if self._is_stopped or self._account.is_spent:
                    await self._wait_again()
                self._deadlines.on_wait(time.monotonic())

    async def _wait_again(self) -> None:
        """Let the stream be stopped again, and wait for memory."""
        self._is_waiting = True
        if self._is_stopped:
            self._reading.cancel()
            await checkpoint()
        await self._account.wait_for_turn()

    async def _feed(self, chunk: bytes) -> bytes:
        """Take a read through the pipeline, a large event not on the event loop."""
        began = time.monotonic()
        if self.record.first_byte_at is None:
            self.record.first_byte_at = began
        self._deadlines.on_bytes()
        if self._account.read(chunk):
            said = await to_thread.run_sync(self._pipeline.feed, chunk)
        else:
            said = self._pipeline.feed(chunk)
        self.record.overhead_s += time.monotonic() - began
        return said

    def _on_failure(self, fault: Fault, retry_after_s: int | None = None) -> None:
        if self._is_stopped:
            return
        if self._is_committed:
            self._last_words = lambda: self._pipeline.close(fault)
        else:
            self._refusal = problem_of_fault(fault, retry_after_s)

    async def _end(self, line: Line) -> None:
        """Say what is left to say, and that it was all."""
        if self._is_ending:
            return
        self._is_ending = True
        self._is_waiting = False
        await line.say(self._last_words(), is_last=True)
        self._is_sent = True

    def _headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        headers = [
            *self._more_headers,
            (b"x-stream-id", self.record.stream_id.encode()),
            (b"x-request-id", self.record.request_id.encode()),
        ]
        if scope["http_version"] == "1.1":
            headers.append((b"connection", b"keep-alive"))
        return headers

    async def _watch(self, receive: Receive) -> None:
        """End everything when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._is_sent:  # after the whole response a server says the same
            self._leave()

    async def _keep_time(self, stream: TaskGroup, line: Line) -> None:
        """End what takes too long; say a heartbeat into silence."""
        client_s = self._timeouts.client_s
        while True:
            now = time.monotonic()
            stalls_at = now + client_s if line.sending_since is None else line.sending_since + client_s
            if now >= stalls_at:
                self._leave()
            deadline, code = self._deadlines.next()
            if now >= deadline:
                self.fail(FAULTS[code])
            beats_at = line.sent_at + self._heartbeat_s
            if now >= beats_at:
                stream.start_soon(self._beat, line)  # sending may take longer than the clock has
                beats_at = now + self._heartbeat_s
            # A limit may begin to run while this sleeps, but none of them can run out before this wakes.
            ahead = [at - now for at in (stalls_at, deadline, beats_at) if at > now]
            await anyio.sleep(min(*ahead, client_s, self._timeouts.idle_s, self._timeouts.first_byte_s))

    async def _beat(self, line: Line) -> None:
        """Say that the stream lives, unless the client has something to take."""
        if not line.is_busy and not self._is_ending:
            self.record.heartbeats += 1
            await line.say(encode_comment(f"heartbeat {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))


def _log_crash(record: Record, error: Exception) -> None:
    """Log a mistake of ours by its kind and place; what it says may be the payload."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    log.error(
        "stream_crashed",
        stream_id=record.stream_id,
        request_id=record.request_id,
        error_type=type(error).__name__,
        place=f"{place.filename}:{place.lineno}",
    )
