"""One stream: a source produces it, a session writes it to its client and to its log.

The task of the request runs the source and writes its output, so that a client that does not read stops its upstream
by backpressure. Beside it, the watcher waits for the client to disconnect, and the ticker checks deadlines and starts
heartbeats.

The HTTP status is committed when an upstream's headers arrive, at the latest when the first heartbeat is due. A
failure before that is a problem document, a failure after it is a terminal event: the state of the response decides
(`response_writer`). However a stream ends, its source exits the context manager of its upstream, which closes the
connection.

A disconnect of the client cancels the stream, unless it survives that: then it goes on for other readers of its log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from typing import Protocol

import anyio
from starlette.types import Message, Receive, Scope, Send

from projector import Pipeline, UsageError
from projector.core.faults import FAULTS, Fault
from projector.core.intake import MakeStage
from projector.core.reported_errors import ProviderError, clean_error, generic_message
from projector.dialects import DIALECTS
from projector.redaction.redactor import Redactor
from projector.server.config.upstream_settings import Timeouts
from projector.server.http.problems import problem_of_failure, problem_of_fault
from projector.server.streaming.clock import event_loop, is_cancelled, times_cancelled
from projector.server.streaming.log_session import NOTHING, Keeping
from projector.server.streaming.memory import Account
from projector.server.streaming.response_writer import (
    SHOULD_RETRY,
    AbortableSend,
    Phase,
    ResponseSession,
    ResponseWriter,
    Signal,
    Write,
)
from projector.server.streaming.stream_logs import Loss, StreamLog, StreamLogs
from projector.server.telemetry.logs import log, log_crash
from projector.server.telemetry.stream_stats import StreamStats, ending_of
from projector.server.upstream.protocol import ProviderFailure, UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.targets import Attempts, Target


class StreamSource(Protocol):
    """Source of a stream: a provider's response, a workflow, or an agent run."""

    @property
    def redactor(self) -> Redactor | None:
        """What cleans failures while there is no pipeline; None if the source needs its pipeline at once."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that encodes the stream, made when it is first asked for; the session closes it."""

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is pending, or its response is being read."""

    async def run(self, write: Write) -> None:
        """Write everything but the end of the stream; raise `UpstreamError` if an upstream fails or is too slow."""

    def stop(self) -> None:
        """Stop reading from upstreams: `run` returns soon, and chunks that were received are written."""


class ProviderSource(UpstreamReader):
    """The response of one upstream: a provider's, or a host's own iterator or agent run (`PublicSSEResponse`).

    Args:
        make_pipeline: returns the pipeline, which begins with the stage of `first`.
        attempts: at the targets.
        stats: receive the target of each attempt.
        account: of the stream.
        redactor: None if the pipeline is needed at once.
        first: a target; by default the preferred one of the attempts.
        stage_of: returns the stage of a target, if it is not the target's own.
        feed: processes a chunk, by default as bytes of the provider.
    """

    def __init__(
        self,
        make_pipeline: Callable[[], Pipeline],
        attempts: Attempts,
        stats: StreamStats,
        account: Account,
        redactor: Redactor | None = None,
        *,
        first: Target | None = None,
        stage_of: Callable[[Target], MakeStage] | None = None,
        feed: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(attempts, stats, account)
        self.redactor = redactor
        self._make_pipeline = make_pipeline
        self._pipeline: Pipeline | None = None
        self._first = self._used = first or attempts.target
        self._stage_of = stage_of
        self._process = feed

    @property
    def pipeline(self) -> Pipeline:
        """See `StreamSource`."""
        if self._pipeline is None:
            self._pipeline = self._make_pipeline()
            if self._used is not self._first or self._stage_of is not None:
                self._use_stage(self._pipeline)
        return self._pipeline

    async def run(self, write: Write) -> None:
        """Write the response; see `StreamSource`."""

        async def on_chunk(chunk: bytes) -> bool:
            pipeline = self._pipeline or self.pipeline
            await write(await self.feed(self._process or pipeline.feed, chunk))
            return pipeline.ended

        await self.read(lambda: write(b""), on_chunk)

    def _use(self, target: Target) -> None:
        if target is not self._used:
            target.report_to(self._stats)
            self._used = target
            if self._pipeline is not None:
                self._use_stage(self._pipeline)

    def _report(self, error: UpstreamError) -> None:
        cleaner = self.redactor or (None if self._pipeline is None else self._pipeline.redactor)
        if cleaner is not None:
            report_failure(cleaner, error, self._stats)

    def _use_stage(self, pipeline: Pipeline) -> None:
        pipeline.use_stage(self._used.make_stage if self._stage_of is None else self._stage_of(self._used))


class StreamSession(ResponseSession):
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
        is_json: bool = False,
        keeping: Keeping = NOTHING,
    ) -> None:
        super().__init__(stats, account, timeouts=timeouts, heartbeat_s=heartbeat_s, headers=headers, is_json=is_json)
        self.keeping = keeping
        self.on_end: Callable[[], None] | None = None
        """Is called before the end of the stream is sent."""
        self._source: StreamSource | None = source
        self._pipeline: Pipeline | None = None
        self._redactor = source.redactor
        self._begin_log: Callable[[Pipeline], StreamLog] | None = None
        self._log: StreamLog | None = None
        self._is_logged = False
        self._is_detached = False
        self._is_ended_elsewhere = False
        self._last_bytes: Callable[[Pipeline], bytes] = Pipeline.close  # not a method, which would be a cycle

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is pending, or its response is being read."""
        return self._source is not None and self._source.is_upstream_open

    def write_log(
        self,
        logs: StreamLogs,
        producer: str,
        location: str,
        names: Sequence[tuple[str, str]] = (),
        name_of: Callable[[str], tuple[str, str]] | None = None,
    ) -> None:
        """Write a log of the stream too, if it is to be stored.

        Args:
            logs: the logs of this process.
            producer: ID of this process.
            location: address of the stream.
            names: kinds and keys of its names, which it gets with the log: a request that is refused takes none.
            name_of: returns kind and key of the name that the ID of a response gives the stream.
        """
        stored = self.keeping.stored
        if stored is None:
            return

        def begin_log(pipeline: Pipeline) -> StreamLog:
            begun = logs.begin(stored.head(self.stats, producer), self.cancel, self._on_loss)
            begun.describe = lambda: ending_of(self.stats, pipeline.dropped)
            begun.names += names
            if name_of is not None:
                self.stats.on_response_id = lambda response_id: begun.names.append(name_of(response_id))
            pipeline.on_output = begun.add
            pipeline.has_event_ids = DIALECTS[self.stats.dialect].has_event_ids
            return begun

        self._begin_log = begin_log
        self._headers.append((b"location", location.encode()))

    def _begin(self) -> Pipeline:
        """Return the pipeline. A request that its provider refuses needs neither that nor a log."""
        if self._pipeline is None:
            if self._source is None:
                raise UsageError("expected a session that has not run")
            self._pipeline = self._source.pipeline
            if self._begin_log is not None:
                self._log, self._begin_log = self._begin_log(self._pipeline), None
        return self._pipeline

    @property
    def _is_ended(self) -> bool:
        return self._pipeline is not None and self._pipeline.ended

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; raise `Problem` if the stream failed before its status was committed: nothing was sent."""
        survives = self._survives
        line = AbortableSend(send) if survives else None
        if self._source is None:
            raise UsageError("expected a session that has not run")
        produce = partial(self._produce, self._source, is_stored_first=survives)
        try:
            await self._respond(scope, receive, send, produce, self._disconnect, line)
        finally:
            is_refused = self._state.phase is Phase.REFUSED
            if self._is_ended_elsewhere or (is_refused and self._is_logged):
                self._last_bytes(self._begin())  # its log ends like the answer
            if self._is_logged or not is_refused:  # otherwise there is neither a client nor a log to write an end for
                self._begin().cancel()  # if the client is gone, what it received is the end of the stream
            if self._log is not None:
                self._log.end()
                self._log = self.stats.on_response_id = None  # they have methods of this session
            self._source = self._begin_log = None  # cancelled tasks keep the session until the next garbage collection
            if self._pipeline is not None:
                if self._pipeline.failure is not None:
                    self._log_crash(self._pipeline.failure)
                self.stats.add_dropped(self._pipeline.dropped, self._pipeline.redactor)
                _log_provider_errors(self.stats, self._pipeline.provider_errors)
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
        self._stop(Signal.STOP, Pipeline.cancel)

    def fail(self, fault: Fault) -> None:
        """End the stream with a fault: with a problem document, or with a terminal event once the status is sent."""
        self._fail(UpstreamError(fault))

    def _fail(self, error: UpstreamError) -> None:
        fault, failure = report_failure(self._redactor or self._begin().redactor, error, self.stats)
        self.stats.failure_reason = error.reason
        if self._stop(Signal.FAIL, lambda pipeline: pipeline.close(fault)) and self._state.phase is Phase.REFUSED:
            self._problem = problem_of_failure(error, fault, failure)

    def _stop(self, signal: Signal, last_bytes: Callable[[Pipeline], bytes]) -> bool:
        """Choose the end of the stream, and stop the source; return False if the end was chosen before."""
        if self._is_ended or not (self._is_detached or self._state.apply(signal)):
            return False
        self._last_bytes = last_bytes
        if self._source is not None:
            self._source.stop()
        return True

    def _crash(self, error: BaseException) -> None:
        """Log an internal error; it fails the stream, or the response if the stream is complete but not sent."""
        self._log_crash(error)
        fault = FAULTS["internal_error"]
        if not self._is_ended:
            self.fail(fault)
        elif self._state.apply(Signal.BREAK):
            self._problem = problem_of_fault(fault)

    def _log_crash(self, error: BaseException) -> None:
        log_crash("stream_crashed", error, stream_id=self.stats.stream_id, request_id=self.stats.request_id)

    def _disconnect(self) -> None:
        """Cancel the stream after a client disconnect."""
        if self._state.apply(Signal.LEAVE):  # servers also report a disconnect after the whole response
            if self._survives:
                self._begin()
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

    def _store(self) -> Awaitable[None] | None:
        """Have the frames of the last step stored; return what to await before they are sent, None for nothing.

        The pipeline may run in a thread, the log does not.
        """
        one = self._log
        if one is None:
            return None
        self._is_logged = True
        is_pending = one.notify()
        if self._is_detached:
            return one.keep_up()  # without a client, its log sets the pace
        return one.stored() if is_pending else None

    async def _stored(self) -> None:
        """Wait for what `_store` returns, where an event need not be cheap."""
        if (storing := self._store()) is not None:
            await storing

    @property
    def has_begun(self) -> bool:
        """Whether the stream has a log, and its request was not refused."""
        return self._is_logged and self._state.phase is not Phase.REFUSED

    @property
    def _survives(self) -> bool:
        return self.keeping.survives and (self._log is not None or self._begin_log is not None)

    def _on_loss(self, reason: Loss) -> None:
        """Go on without the log, unless another process has ended it, or nobody can read the stream any more."""
        is_ahead, self._log = self._log is not None and self._log.is_ahead, None
        if self._is_detached:
            self.cancel()
        elif reason == "sealed" and not is_ahead:
            self._is_ended_elsewhere = True
            self.fail(FAULTS["stream_interrupted"])
            self._leave()  # what was not sent is not in the log: the client reads the end there

    async def _produce(self, source: StreamSource, writer: ResponseWriter, *, is_stored_first: bool) -> None:
        """Write the whole stream; however the source ends, write the end of the stream."""
        account, cancelled_before = self._account, times_cancelled()
        if is_stored_first:  # who leaves before the answer must find the stream again, at any server, or stop it
            self._begin()
            await self._stored()
        pipeline: Pipeline | None = None if source.redactor is not None else self._begin()

        async def write(data: bytes) -> None:
            nonlocal pipeline
            if pipeline is None:
                pipeline = self._begin()
            if (storing := self._store()) is not None:
                await storing
            if pipeline.ended:
                await self._end(writer, data)  # before the upstream is closed, which may take a moment
                return
            await writer.write(data)
            if account.text_bytes != pipeline.kept_bytes and account.keep(pipeline.kept_bytes):
                raise UpstreamError(FAULTS["upstream_response_too_large"])

        try:
            await source.run(write)
        except UpstreamError as error:
            self._fail(error)
        except (Exception, asyncio.CancelledError) as error:  # the stream must get its terminal event
            if is_cancelled(error, cancelled_before):
                raise
            self._crash(error)
        await self._end(writer)

    async def _end(self, writer: ResponseWriter, data: bytes = b"") -> None:
        """Write data and the end of the stream, unless the request is refused or the client gone. Idempotent."""
        self._state.apply(Signal.STOP)
        is_sent = self._state.accepts(Signal.SEND)
        if not is_sent and not self._is_detached:
            return
        try:
            account, pipeline = self._account, self._begin()
            is_heavy = account.is_heavy
            last = await account.memory.process(self._last_bytes, pipeline) if is_heavy else self._last_bytes(pipeline)
            await self._stored()
            if self.on_end is not None:
                self.on_end()
            if not is_sent:
                return
            if self.stats.terminal.get("error", {}).get("is_retryable") is False:
                writer.add_header(SHOULD_RETRY, b"false")
            await writer.end(data + last)
        except Exception as error:  # noqa: BLE001 - the client must get an error response
            self._crash(error)

    async def _beat(self, writer: ResponseWriter) -> None:
        self._begin()
        await self._stored()
        await super()._beat(writer)


async def byte_stream(session: StreamSession) -> AsyncGenerator[bytes, None]:
    """Run a session, and yield its stream. The next chunk is produced on demand; closing ends the session."""
    async with AsyncExitStack() as stack:
        sender, receiver = anyio.create_memory_object_stream[bytes](0)

        async def produce() -> None:
            async with sender:
                await session.run_without_http(sender.send)

        producer = event_loop().create_task(produce())
        stack.push_async_callback(asyncio.wait, [producer])
        stack.callback(producer.cancel)  # runs before the callback above
        async with receiver:
            async for data in receiver:
                yield data
        await producer


def report_failure(
    redactor: Redactor, error: UpstreamError, stats: StreamStats | None
) -> tuple[Fault, ProviderFailure | None]:
    """Log the provider's error response; return the fault with the message that may be shown, and what may be of it.

    The second is None if the body reported nothing.
    """
    failure = error.failure
    if stats is not None:
        stats.plain_name = redactor.plain_name
    if failure is None:
        return error.fault, None
    status, param = failure.status, failure.param
    clean = clean_error(
        redactor, status=status, message=failure.message, code=failure.code, type_=failure.type, param=param
    )
    if stats is not None:
        _log_provider_errors(stats, [clean])
    if failure.message is None and failure.type is None and failure.code is None:
        return error.fault, None
    fault, shown = error.fault, generic_message(clean.code, clean.type, str(failure.status))
    if redactor.policy.shows_provider_messages:
        shown = clean.shown(redactor).value
        fault = fault._replace(message=shown)
    return fault, ProviderFailure(failure.status, shown, clean.type, clean.code, clean.param)


def _log_provider_errors(stats: StreamStats, errors: Sequence[ProviderError]) -> None:
    """Log what the current upstream reported: redacted and bounded, whatever the policy shows to clients."""
    for error in errors:
        log.warning(
            "provider_error",
            stream_id=stats.stream_id,
            request_id=stats.request_id,
            upstream=stats.upstream or None,
            provider_request_id=stats.provider_request_id and stats.plain_name(stats.provider_request_id),
            status=error.status,
            code=error.code,
            type=error.type,
            param=error.param,
            message=None if error.message is None else error.message.value,
        )


async def _never() -> Message:
    await anyio.sleep_forever()
    return {}
