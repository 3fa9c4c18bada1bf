"""One stream over one ASGI request, wherever it comes from: the client's side of it.

Three tasks share it. The first one brings what there is to say, so that an event costs one wake-up and a client that
takes nothing stops its upstream by itself. The watcher waits for the client to leave. The clock ends what takes too
long and says a heartbeat into silence.

The HTTP status is committed when an upstream's headers are there, at the latest when the first heartbeat is due. A
failure before that is a problem document, a failure after it is a terminal event. Whoever ends a stream, what brings it
leaves its upstream's context on the way out, and that closes the connection.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from projector import Pipeline
from projector.core.faults import FAULTS, Fault
from projector.core.sse import encode_comment
from projector.dialects import DIALECTS
from projector.server.config.settings import Timeouts
from projector.server.http.problems import Problem, problem_of_fault
from projector.server.streaming.memory import Account
from projector.server.streaming.response_writer import ResponseWriter
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError

log: Final = structlog.get_logger()


class StreamSession(ABC):
    """One stream; `run` it once."""

    def __init__(
        self,
        stats: StreamStats,
        pipeline: Pipeline,
        account: Account,
        *,
        timeouts: Timeouts,
        heartbeat_s: float,
        headers: Sequence[tuple[bytes, bytes]] = (),
        writer_type: type[ResponseWriter] = ResponseWriter,
    ) -> None:
        self.stats = stats
        self._pipeline = pipeline
        self._account = account
        self._timeouts = timeouts
        self._heartbeat_s = heartbeat_s
        self._more_headers = headers
        self._make_line = writer_type
        self._stream = anyio.CancelScope()
        self._line: ResponseWriter | None = None
        self._refusal: Problem | None = None
        self._last_words: Callable[[], bytes] = pipeline.close
        self._is_stopped = False
        self._is_ending = False
        self._is_sent = False

    @property
    @abstractmethod
    def is_upstream_open(self) -> bool:
        """Whether an upstream is asked, or answers."""

    @abstractmethod
    async def _bring(self, line: ResponseWriter) -> None:
        """Bring everything to the client but the end, or that too.

        Raises:
            UpstreamError: an upstream failed.
        """

    @abstractmethod
    def _halt(self) -> None:
        """Bring no more."""

    @abstractmethod
    def _deadline(self) -> tuple[float, str]:
        """Give the limit that comes first: when, and the code of the fault that it is."""

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with the stream.

        Raises:
            Problem: the stream failed before its status was committed; nothing was sent.
        """
        dialect = DIALECTS[self.stats.dialect]
        line = self._line = self._make_line(send, dialect, self._headers(scope), self._account, self._leave)
        try:
            async with anyio.create_task_group() as stream:
                self._stream = stream.cancel_scope
                stream.start_soon(self._watch, receive)
                stream.start_soon(self._keep_time, stream, line)
                await self._read(line)
                stream.cancel_scope.cancel()
        finally:
            self._pipeline.cancel()  # where the client left: what it had been told is the end of it
            self.stats.dropped = self._pipeline.dropped
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
        self._halt()

    @property
    def _is_committed(self) -> bool:
        return self._line is not None and self._line.is_committed

    def _leave(self) -> None:
        """End everything: nobody is there to be told."""
        self.stats.is_client_gone = True
        self._stream.cancel()

    async def _read(self, line: ResponseWriter) -> None:
        """Bring everything from the upstream to the client; whatever happens, say the end."""
        try:
            await self._bring(line)
        except UpstreamError as error:
            self._on_failure(error.fault, error.retry_after_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told how its stream ended
            log_crash(self.stats, error)
            self._on_failure(FAULTS["internal_error"])
        if self._refusal is None:
            await self._end(line)

    def _on_failure(self, fault: Fault, retry_after_s: int | None = None) -> None:
        if self._is_stopped:
            return
        if self._is_committed:
            self._last_words = lambda: self._pipeline.close(fault)
        else:
            self._refusal = problem_of_fault(fault, retry_after_s)

    async def _end(self, line: ResponseWriter) -> None:
        """Say what is left to say, and that it was all."""
        if self._is_ending:
            return
        self._is_ending = True
        await line.say(self._last_words(), is_last=True)
        self._is_sent = True

    def _headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        headers = [
            *self._more_headers,
            (b"x-stream-id", self.stats.stream_id.encode()),
            (b"x-request-id", self.stats.request_id.encode()),
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

    async def _keep_time(self, stream: TaskGroup, line: ResponseWriter) -> None:
        """End what takes too long; say a heartbeat into silence."""
        client_stall_timeout_s = self._timeouts.client_stall_timeout_s
        while True:
            now = time.monotonic()
            stalls_at = (
                now + client_stall_timeout_s
                if line.sending_since is None
                else line.sending_since + client_stall_timeout_s
            )
            if now >= stalls_at:
                self._leave()
            deadline, code = self._deadline()
            if now >= deadline:
                self.fail(FAULTS[code])
            beats_at = line.sent_at + self._heartbeat_s
            if now >= beats_at:
                stream.start_soon(self._beat, line)  # sending may take longer than the clock has
                beats_at = now + self._heartbeat_s
            # A limit may begin to run while this sleeps, but none of them can run out before this wakes.
            ahead = [at - now for at in (stalls_at, deadline, beats_at) if at > now]
            await anyio.sleep(min(*ahead, client_stall_timeout_s, self._timeouts.idle_s, self._timeouts.first_byte_s))

    async def _beat(self, line: ResponseWriter) -> None:
        """Say that the stream lives, unless the client has something to take."""
        if not line.is_busy and not self._is_ending:
            self.stats.heartbeats += 1
            await line.say(encode_comment(f"heartbeat {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))


def log_crash(stats: StreamStats, error: Exception) -> None:
    """Log a mistake of ours by its kind and place; what it says may be the payload."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    log.error(
        "stream_crashed",
        stream_id=stats.stream_id,
        request_id=stats.request_id,
        error_type=type(error).__name__,
        place=f"{place.filename}:{place.lineno}",
    )
