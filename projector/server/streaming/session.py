"""One stream: a source produces it, a session writes it to its client and to its log.

The task of the request runs the source and writes its output, so that a client that does not read stops its upstream
by backpressure. Beside it, the watcher waits for the client to disconnect, and the clock checks deadlines and starts
heartbeats.

The HTTP status is committed when an upstream's headers arrive, at the latest when the first heartbeat is due. A
failure before that is a problem document, a failure after it is a terminal event: `response_state` decides. However a
stream ends, its source exits the context manager of its upstream, which closes the connection.

A disconnect of the client cancels the stream, unless it survives that: then it goes on for other readers of its log.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from math import inf
from typing import Final, Protocol

import anyio
from starlette.types import Message, Receive, Scope, Send

from projector import Pipeline, UsageError
from projector.core.faults import FAULTS, Fault
from projector.core.sse import encode_comment
from projector.dialects import DIALECTS
from projector.server.config.settings import Timeouts
from projector.server.http.problems import Problem, problem_of_failure, problem_of_fault
from projector.server.streaming.deadlines import Clock, Timer
from projector.server.streaming.memory import Account
from projector.server.streaming.response_state import Phase, ResponseState, Signal
from projector.server.streaming.response_writer import SHOULD_RETRY, AbortableSend, ResponseWriter, Write
from projector.server.streaming.side_tasks import SideTasks
from projector.server.streaming.stored_stream import NOTHING, Keeping
from projector.server.streaming.stream_logs import Loss, StreamLog, StreamLogs
from projector.server.telemetry.ending import ending_of
from projector.server.telemetry.logs import log
from projector.server.telemetry.request_facts import facts_of
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderFailure, UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.targets import Target

ANTHROPIC: Final = "anthropic_messages"
"""Dialect whose clients read the ID of a request from another header."""


class StreamSource(Protocol):
    """Source of a stream: a provider's response, a workflow, or an agent run."""

    pipeline: Pipeline
    """Encodes the stream; the session closes it."""

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is pending, or its response is being read."""

    async def run(self, write: Write, clock: Clock) -> None:
        """Write everything but the end of the stream; raise `UpstreamError` if an upstream fails or is too slow."""

    def stop(self) -> None:
        """Stop reading from upstreams: `run` returns soon, and chunks that were received are written."""


class ProviderSource:
    """The response of one upstream: a provider's, or a host's own iterator or agent run (`PublicSSEResponse`)."""

    def __init__(self, pipeline: Pipeline, reader: UpstreamReader) -> None:
        self.pipeline = pipeline
        self._reader = reader

    @property
    def target(self) -> Target:
        """The target of the last attempt."""
        return self._reader.target

    @property
    def is_upstream_open(self) -> bool:
        """See `StreamSource`."""
        return self._reader.is_open

    async def run(self, write: Write, clock: Clock) -> None:
        """Write the response; see `StreamSource`."""

        async def on_chunk(chunk: bytes) -> bool:
            await write(await self._reader.feed(self.pipeline.feed, chunk))
            return self.pipeline.ended

        await self._reader.run(clock, lambda: write(b""), on_chunk)

    def stop(self) -> None:
        """Stop reading; see `StreamSource`."""
        self._reader.stop()


class _EndedSource:
    """In place of a source that has ended, with its request and everything that it received."""

    is_upstream_open = False

    def stop(self) -> None:
        """Do nothing."""


_ENDED: Final = _EndedSource()


class StreamSession:
    """One stream; `run` it once. The headers are in addition to those of every stream."""

    def __init__(
        self,
        stats: StreamStats,
        source: StreamSource,
        account: Account,
        *,
        timeouts: Timeouts,
        heartbeat_s: float = inf,
        headers: Sequence[tuple[bytes, bytes]] = (),
        writer_type: type[ResponseWriter] = ResponseWriter,
        keeping: Keeping = NOTHING,
    ) -> None:
        self.stats = stats
        self.keeping = keeping
        self.writer_type = writer_type
        self._source: StreamSource | _EndedSource = source
        self._pipeline = source.pipeline
        self._account = account
        self._stall_s = timeouts.client_stall_timeout_s
        self._heartbeat_s = heartbeat_s
        self._headers = [*headers]
        self._log: StreamLog | None = None
        self._is_logged = False
        self._is_detached = False
        self._is_ended_elsewhere = False
        self._state = ResponseState()
        self._scope = anyio.CancelScope()
        self._problem: Problem | None = None
        self._last_bytes: Callable[[], bytes] = self._pipeline.close

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is pending, or its response is being read."""
        return self._source.is_upstream_open

    def write_log(
        self, logs: StreamLogs, producer: str, location: str, name_of: Callable[[str], tuple[str, str]] | None = None
    ) -> None:
        """Write a log of the stream too, if it is to be stored.

        Args:
            logs: the logs of this process.
            producer: ID of this process.
            location: address of the stream.
            name_of: returns kind and key of the name that the ID of a response gives the stream.
        """
        if self.keeping.stored is not None:
            head = self.keeping.stored.head(self.stats.stream_id, self.stats.caller, producer)
            begun = self._log = logs.begin(head, self.cancel, self._on_loss)
            begun.describe = lambda: ending_of(self.stats, self._pipeline.dropped)
            if name_of is not None:
                self.stats.on_response_id = lambda response_id: begun.add_name(*name_of(response_id))
            self._pipeline.on_output = self._log.add
            self._pipeline.has_event_ids = DIALECTS[self.stats.dialect].has_event_ids
            self._headers.append((b"location", location.encode()))

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; raise `Problem` if the stream failed before its status was committed: nothing was sent."""
        dialect, headers = DIALECTS[self.stats.dialect], self._response_headers(scope)
        line = AbortableSend(send) if self._survives else None
        send_body = facts_of(scope).send_body if line is None else None
        out = (line or send, dialect, headers, self._account, self._state, self._disconnect, send_body)
        writer = self.writer_type(*out)
        stall = self._disconnect if line is None else line.abort
        clock, source = Clock(), self._source
        if isinstance(source, _EndedSource):
            raise UsageError("expected a session that has not run")
        try:
            with (
                self._scope,
                SideTasks(self._break_off) as beside,
                clock.watch(
                    Timer(lambda: (writer.sending_since or inf) + self._stall_s, stall, self._stall_s),
                    Timer(
                        lambda: writer.sent_at + self._heartbeat_s,
                        lambda: beside.start(self._beat, writer),  # a task, because sending may take a while
                        self._heartbeat_s,
                    ),
                ),
            ):
                beside.watch(receive, self._disconnect)
                await self._produce(source, writer, clock)
        finally:
            is_refused = self._state.phase is Phase.REFUSED
            if self._is_ended_elsewhere or (is_refused and self._is_logged):
                self._last_bytes()  # its log ends like the answer
            if self._is_logged or not is_refused:  # otherwise there is neither a client nor a log to write an end for
                self._pipeline.cancel()  # if the client is gone, what it received is the end of the stream
            if self._log is not None:
                self._log.end()
                self._log = self.stats.on_response_id = None  # they have methods of this session
            self._source = _ENDED  # cancelled tasks keep the session until the next garbage collection
            self.stats.dropped = self._pipeline.dropped
            self.stats.provider_errors = self._pipeline.provider_errors
        if self._problem is not None and self._state.phase is Phase.REFUSED:
            raise self._problem

    async def run_without_http(self, write: Write) -> None:
        """Pass the stream to a callable, and raise what it raises; a failure of the stream is a terminal event."""
        failure: Exception | None = None

        async def send(message: Message) -> None:
            nonlocal failure
            try:
                if data := message.get("body"):
                    await write(data)
            except Exception as error:
                failure = error
                raise OSError from error  # as after a client disconnect

        self._stall_s = inf
        self._state.apply(Signal.SEND)  # there is no status, so a failure is a terminal event from the start
        await self.run({"http_version": "2"}, _never, send)
        if failure is not None:
            raise failure

    def cancel(self) -> None:
        """End the stream with `final` `cancelled`. Idempotent."""
        self._stop(Signal.STOP, self._pipeline.cancel)

    def fail(self, fault: Fault) -> None:
        """End the stream with a fault: with a problem document, or with a terminal event once the status is sent."""
        self._fail(UpstreamError(fault))

    def _fail(self, error: UpstreamError) -> None:
        failure = report_failure(self._pipeline, error)
        self.stats.failure_reason = error.reason
        fault = shown_fault(self._pipeline, error, failure)
        if self._stop(Signal.FAIL, lambda: self._pipeline.close(fault)) and self._state.phase is Phase.REFUSED:
            self._problem = problem_of_failure(error, fault, failure)

    def _stop(self, signal: Signal, last_bytes: Callable[[], bytes]) -> bool:
        """Choose the end of the stream, and stop the source; return False if the end was chosen before."""
        if self._pipeline.ended or not (self._is_detached or self._state.apply(signal)):
            return False
        self._last_bytes = last_bytes
        self._source.stop()
        return True

    def _crash(self, error: Exception) -> None:
        """Log an internal error; it fails the stream, or the response if the stream is complete but not sent."""
        log_crash("stream_crashed", error, stream_id=self.stats.stream_id, request_id=self.stats.request_id)
        fault = FAULTS["internal_error"]
        if not self._pipeline.ended:
            self.fail(fault)
        elif self._state.apply(Signal.BREAK):
            self._problem = problem_of_fault(fault)

    def _disconnect(self) -> None:
        """Cancel the stream after a client disconnect."""
        if self._state.apply(Signal.LEAVE):  # servers also report a disconnect after the whole response
            if self._survives and self._log is not None:
                self._is_detached = True
                self._log.left_at = time.monotonic()
                return
            self.stats.is_client_gone = True
            self._scope.cancel()

    def _leave(self) -> None:
        """Break the connection off between two events, if its status was sent."""
        if self._state.phase is not Phase.REFUSED and self._state.apply(Signal.LEAVE):
            self._scope.cancel()

    def _break_off(self, error: Exception) -> None:
        """Log the failure of a task beside the stream, and give the connection up: its state is not known."""
        log_crash("stream_crashed", error, stream_id=self.stats.stream_id, request_id=self.stats.request_id)
        self._state.apply(Signal.LEAVE)
        self.stats.is_client_gone = True
        self._scope.cancel()

    async def _store(self) -> None:
        """Have the frames of the last step stored before they are sent, unless the store is away.

        The pipeline may run in a thread, the log does not.
        """
        one = self._log
        if one is not None:
            self._is_logged = True
            one.notify()
            if self._is_detached:
                await one.keep_up()  # without a client, its log sets the pace
            elif one.is_pending:
                await one.stored()

    @property
    def has_begun(self) -> bool:
        """Whether the stream has a log, and its request was not refused."""
        return self._is_logged and self._state.phase is not Phase.REFUSED

    @property
    def _survives(self) -> bool:
        return self.keeping.survives and self._log is not None

    def _on_loss(self, reason: Loss) -> None:
        """Go on without the log, unless another process has ended it, or nobody can read the stream any more."""
        is_ahead, self._log = self._log is not None and self._log.is_ahead, None
        if self._is_detached:
            self.cancel()
        elif reason == "sealed" and not is_ahead:
            self._is_ended_elsewhere = True
            self.fail(FAULTS["stream_interrupted"])
            self._leave()  # what was not sent is not in the log: the client reads the end there

    async def _produce(self, source: StreamSource, writer: ResponseWriter, clock: Clock) -> None:
        """Write the whole stream; however the source ends, write the end of the stream."""
        pipeline, account = self._pipeline, self._account

        async def write(data: bytes) -> None:
            await self._store()
            if pipeline.ended:
                await self._end(writer, data)  # before the upstream is closed, which may take a moment
                return
            await writer.write(data)
            if account.text_bytes != pipeline.kept_bytes and account.keep(pipeline.kept_bytes):
                raise UpstreamError(FAULTS["upstream_response_too_large"])

        try:
            await source.run(write, clock)
        except UpstreamError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the stream must get its terminal event
            self._crash(error)
        await self._end(writer)

    async def _end(self, writer: ResponseWriter, data: bytes = b"") -> None:
        """Write data and the end of the stream, unless the request is refused or the client gone. Idempotent."""
        self._state.apply(Signal.STOP)
        is_sent = self._state.accepts(Signal.SEND)
        if not is_sent and not self._is_detached:
            return
        try:
            is_heavy = self._account.is_heavy
            last = await self._account.memory.process(self._last_bytes) if is_heavy else self._last_bytes()
            await self._store()
            if not is_sent:
                return
            if self.stats.terminal.get("error", {}).get("is_retryable") is False:
                writer.add_header(SHOULD_RETRY, b"false")
            await writer.end(data + last)
        except Exception as error:  # noqa: BLE001 - the client must get an error response
            self._crash(error)

    def _response_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        facts_of(scope).is_projected = True
        headers = [
            *self._headers,
            (b"x-stream-id", self.stats.stream_id.encode()),
            (b"x-request-id", self.stats.request_id.encode()),
        ]
        if DIALECTS[self.stats.dialect].names_requests:
            headers.append((b"request-id", self.stats.request_id.encode()))
        if scope["http_version"] == "1.1":
            headers.append((b"connection", b"keep-alive"))
        return headers

    async def _beat(self, writer: ResponseWriter) -> None:
        """Send a comment, unless other output is being sent."""
        await self._store()
        if await writer.beat(encode_comment(f"heartbeat {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")):
            self.stats.heartbeats += 1


async def byte_stream(session: StreamSession) -> AsyncGenerator[bytes, None]:
    """Run a session, and yield its stream. The next chunk is produced on demand; closing ends the session."""
    async with AsyncExitStack() as stack:
        sender, receiver = anyio.create_memory_object_stream[bytes](0)

        async def produce() -> None:
            async with sender:
                await session.run_without_http(sender.send)

        producer = asyncio.create_task(produce())
        stack.push_async_callback(asyncio.wait, [producer])
        stack.callback(producer.cancel)  # runs before the callback above
        async with receiver:
            async for data in receiver:
                yield data
        await producer


def shown_fault(pipeline: Pipeline, error: UpstreamError, failure: ProviderFailure | None) -> Fault:
    """Return the fault of an error, with the provider's message if the policy shows it."""
    if failure is not None and failure.message is not None and pipeline.shows_provider_messages:
        return error.fault._replace(message=failure.message)
    return error.fault


def report_failure(pipeline: Pipeline, error: UpstreamError) -> ProviderFailure | None:
    """Record the provider's error response; return what may be shown of it, None if its body reported nothing."""
    failure = error.failure
    if failure is None:
        return None
    clean = pipeline.report_error(
        status=failure.status, message=failure.message, code=failure.code, type_=failure.type, param=failure.param
    )
    if failure.message is None and failure.type is None and failure.code is None:
        return None
    shown = None if clean.message is None else clean.message.value
    return ProviderFailure(failure.status, shown, clean.type, clean.code, clean.param)


async def _never() -> Message:
    await anyio.sleep_forever()
    return {}


def log_crash(event: str, error: BaseException, **ids: str | None) -> None:
    """Log the type and location of an internal error; its message may contain payload, unless it is one of ours."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    detail = {"detail": str(error)} if isinstance(error, UsageError) else {}
    log.error(event, **ids, error_type=type(error).__name__, **detail, place=f"{place.filename}:{place.lineno}")
