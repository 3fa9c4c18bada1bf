"""Streams in other applications: `PublicSSEResponse` and `ProjectingMiddleware`, for Starlette, FastAPI or plain ASGI.

The response projects a stream of the host's own. The middleware is pure ASGI, and projects the streams of an inner app:
provider events in, the public stream out. Only a 200 with `text/event-stream` is projected; every other response passes
unchanged, and so do streams that this project has written. Timeouts and heartbeats are the inner app's. A stream that
is compressed cannot be read, and ends with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from math import inf
from typing import Final, Literal, NamedTuple, TypeAlias

import anyio
from starlette.background import BackgroundTask
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from projector import Pipeline, Policy, StreamContext, build_pipeline
from projector._errors import check_argument, check_positive
from projector.core.faults import FAULTS, Fault
from projector.core.pipeline import check_arguments
from projector.dialects import DIALECTS
from projector.providers import DEFAULT_PROVIDER, profile_of
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.config.settings import Limits, Settings
from projector.server.config.upstream_settings import Retries, Timeouts
from projector.server.http.problems import Problem, problem_response
from projector.server.streaming.clock import is_cancelled, times_cancelled
from projector.server.streaming.host_source import (
    AgentRun,
    HostChunk,
    HostSource,
    HostUpstream,
    StreamedRun,
    check_source,
    check_unused,
)
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.response_writer import HEADERS
from projector.server.streaming.session import ProviderSource, StreamSession, byte_stream
from projector.server.telemetry.reports import Observer, OnTerminal, begin_stream, check_hook
from projector.server.telemetry.request_facts import facts_of
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.tools.tool_loop import ToolLoop
from projector.server.upstream.targets import UpstreamBinding, attempts_of

Source: TypeAlias = HostSource | StreamedRun
"""What a stream is made of; `AgentRun` and `ToolLoop` are async iterables."""

_NO_RETRIES: Final = Retries(max=0)
"""A source can be read once."""
_MEMORY: Final = Memory(Limits().max_memory_bytes)
"""One budget for all such responses of the process."""


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Settings for the streams of a host; raises `UsageError` for an unknown name or a setting of another type."""

    provider: str = DEFAULT_PROVIDER
    """Vocabulary of the source, a name of `projector.providers.PROVIDERS`."""
    dialect: str = DEFAULT_DIALECT
    """Dialect of the output, a name of `projector.dialects.DIALECTS`."""
    policy: Policy | None = None
    """Limits, redaction, images, reasoning; the contract's defaults if None."""
    profile: Mapping[str, object] | None = None
    """Differences of the provider's server from others with the same API."""
    context: StreamContext = field(default_factory=StreamContext)
    """IDs and names of the stream; a stream ID is generated if it has none."""
    on_terminal: OnTerminal | None = None
    """Called after the whole stream has been sent; its failure does not affect the stream."""

    def __post_init__(self) -> None:
        check_arguments(self.provider, self.dialect, self.policy, self.context)
        check_hook(self.on_terminal)
        if self.profile is not None:
            profile_of(self.provider, self.profile)

    def begin(self, scope: Scope, *, is_run: bool = False) -> tuple[Pipeline, StreamStats]:
        """Return the pipeline and the stats of one stream.

        A run of the host has several responses, and the host's own events between them (CONTRACT D12, D35).
        """
        context = self.context
        facts = StreamStats(
            dialect=self.dialect, api=self.provider, conversation_id=context.conversation_id, agent=context.agent
        )
        facts.stream_id = context.stream_id or facts.stream_id
        stats = begin_stream(scope, facts)
        pipeline = build_pipeline(
            provider=self.provider,
            dialect=self.dialect,
            policy=self.policy,
            profile=self.profile,
            run=is_run,
            takes_host_events=is_run,
            context=replace(context, stream_id=stats.stream_id),
            on_frame=stats.on_frame,
            on_deltas=stats.on_deltas,
        )
        return pipeline, stats


def projection_of(projection: Projection | None) -> Projection:
    """Return a projection, the default one for None; raise `UsageError` for anything else."""
    expected = "an instance of `Projection`, or None"
    check_argument("projection", expected, holds=isinstance(projection, Projection | None))
    return projection or Projection()


class PublicSSEResponse(Response):
    """Projects an async iterator: a provider's bytes, its events as the SDK yields them, or an agent's run.

    The response owns the source, and closes it when the stream has ended; each stream needs its own. A source that
    fails before its first item yields a problem document; later, a terminal event. Exceptions of the clients in
    `projector.providers.client_failures` are failures of the provider; a source may raise `UpstreamError` for others.

    Args:
        source: an async iterable of bytes of an event stream, cut anywhere, or of events: mappings, JSON texts,
            pydantic models, and your own (`HostEvent`); or an awaitable or async context manager that returns one,
            such as `client.responses.create(stream=True)`; or a `ToolLoop`, or the result of the Agents SDK's
            `Runner.run_streamed`, which have their own provider and profile instead of the projection's.
        projection: provider, dialect, policy, context, hook; the defaults if None.
        timeouts: first byte, idle and total of the source, and how long a client may stop reading.
        heartbeat_s: silence before a comment is sent.
        background: runs after the stream, as with other responses.
        status_code: always 200; FastAPI reads it here, to describe a route.

    Raises:
        UsageError: an argument of another type, a heartbeat that is not greater than 0, a loop with another provider
            than the projection, or a source that has ended; on a call, a response that was used before.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        source: Source,
        projection: Projection | None = None,
        *,
        timeouts: Timeouts | None = None,
        heartbeat_s: float = Settings().heartbeat_s,
        background: BackgroundTask | None = None,
        status_code: Literal[200] = 200,
    ) -> None:
        self.status_code = status_code
        self.background = background
        self.raw_headers = []
        check_positive("heartbeat_s", heartbeat_s)
        self._stream = _SourceStream(source, projection, timeouts)
        self._heartbeat_s = heartbeat_s
        self._session: StreamSession | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the stream with `final` `cancelled`, also before it begins: then its source is only opened."""
        self._is_cancelled = True
        if self._session is not None:
            self._session.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the stream."""
        stream = self._stream
        with stream.open(scope, heartbeat_s=self._heartbeat_s, headers=self.raw_headers) as self._session:
            if self._is_cancelled:
                self._session.cancel()
            try:
                await stream.observer.run(self._session, scope, receive, send)
            except Problem as problem:
                problem.should_retry = None if problem.is_retryable else False  # no retry of this server came before
                await problem_response(problem, scope)(scope, receive, send)
        if self.background is not None:
            await self.background()


def public_stream(
    source: Source, projection: Projection | None = None, *, timeouts: Timeouts | None = None
) -> AsyncGenerator[bytes, None]:
    """Return the stream of a source without HTTP; a failure of the source is its terminal event.

    The arguments are those of `PublicSSEResponse`. Closing the generator closes the source.
    """
    return _chunks(_SourceStream(source, projection, timeouts))


async def _chunks(stream: _SourceStream) -> AsyncGenerator[bytes, None]:
    with stream.open({"headers": []}) as session:
        chunks = byte_stream(session)
        try:
            async for data in chunks:
                yield data
        finally:
            with anyio.CancelScope(shield=True):
                await chunks.aclose()
                await stream.observer.report(session.stats)


class _SourceStream:
    """The session of a source; a run gets the provider of its events."""

    def __init__(self, source: Source, projection: Projection | None, timeouts: Timeouts | None) -> None:
        projection = projection_of(projection)
        check_argument("timeouts", "`Timeouts` or None", holds=isinstance(timeouts, Timeouts | None))
        if isinstance(source, StreamedRun):
            source = AgentRun(source)
        if isinstance(source, ToolLoop) and projection.provider not in {source.provider, ToolLoop.output_provider}:
            expected = f"a projection without a provider, or with that of the loop, `{source.provider}`"
            check_argument("projection", expected, holds=False)
        self._is_run = isinstance(source, AgentRun | ToolLoop)
        if self._is_run:
            projection = replace(projection, provider=AgentRun.provider, profile=None)
        check_source(source)
        self._source: HostSource = source
        self._projection = projection
        self._timeouts = timeouts or Timeouts()
        self._is_used = False
        self.observer = Observer(on_terminal=projection.on_terminal)

    @contextmanager
    def open(
        self, scope: Scope, *, heartbeat_s: float = inf, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Generator[StreamSession, None, None]:
        check_unused(is_used=self._is_used)
        self._is_used = True
        pipeline, stats = self._projection.begin(scope, is_run=self._is_run)
        account = Account(_MEMORY)
        upstream = HostUpstream(self._source, is_run=self._is_run)
        binding = UpstreamBinding("", self._projection.provider, upstream, self._timeouts, _NO_RETRIES, {}, ("", 0))
        attempts = attempts_of(binding, lambda _: {}, stats)

        def feed(chunk: bytes) -> bytes:
            return pipeline.host(chunk.event) if isinstance(chunk, HostChunk) else pipeline.feed(chunk)

        source = ProviderSource(lambda: pipeline, attempts, stats, account, feed=feed)
        try:
            yield StreamSession(
                stats, source, account, timeouts=self._timeouts, heartbeat_s=heartbeat_s, headers=headers
            )
        finally:
            account.close()


_REMOVED_HEADERS: Final = ("content-length", "content-encoding", "transfer-encoding")
"""Headers of the inner app that do not apply to our output."""


class ProjectingMiddleware:
    """Projects the streams of an app."""

    def __init__(self, app: ASGIApp, projection: Projection | None = None) -> None:
        self._app = app
        self._projection = projection_of(projection)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and project the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response = _Response(self._projection, scope, receive, send)
        cancelled_before = times_cancelled()
        try:
            await self._app(scope, response.receive, response.send)
        except (Exception, asyncio.CancelledError) as error:
            if not is_cancelled(error, cancelled_before):
                await response.end(FAULTS["internal_error"])
            raise
        else:
            await response.end()
        finally:
            await response.report()


class _Stream(NamedTuple):
    pipeline: Pipeline
    stats: StreamStats


class _Response:
    def __init__(self, projection: Projection, scope: Scope, receive: Receive, send: Send) -> None:
        self._projection = projection
        self._scope = scope
        self._facts = facts_of(scope)  # before the inner app may copy the scope
        self._receive = receive
        self._send = send
        self._stream: _Stream | None = None
        self._is_sent = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and self._stream is not None and not self._is_sent:
            self._stream.stats.is_client_gone = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._stream is None:
            await self._send(message)
        elif not self._is_sent:
            pipeline = self._stream.pipeline
            output = pipeline.feed(message.get("body", b""))
            if not message.get("more_body", False):
                output += pipeline.close()
            await self._write(output, self._stream)

    async def end(self, fault: Fault | None = None) -> None:
        """End the stream if the inner app did not: it failed, or returned without its last message."""
        if self._stream is not None and not self._is_sent and not self._stream.stats.is_client_gone:
            await self._write(self._stream.pipeline.close(fault), self._stream)

    async def report(self) -> None:
        if self._stream is not None:
            pipeline, stats = self._stream
            pipeline.cancel()  # if the client is gone
            stats.add_dropped(pipeline.dropped, pipeline.redactor)
            await Observer(on_terminal=self._projection.on_terminal).report(stats)

    async def _start(self, message: Message) -> None:
        headers = MutableHeaders(raw=list(message.get("headers", ())))
        media_type = headers.get("content-type", "").lower()
        is_stream = message["status"] == HTTPStatus.OK and media_type.startswith("text/event-stream")
        if self._facts.is_projected or not is_stream:
            await self._send(message)
            return
        self._facts.is_projected = True
        self._stream = stream = _Stream(*self._projection.begin(self._scope))
        is_readable = headers.get("content-encoding", "identity").lower() == "identity"
        for removed in _REMOVED_HEADERS:
            del headers[removed]
        for name, value in (*HEADERS, *DIALECTS[stream.stats.dialect].headers):
            headers[name.decode()] = value.decode()
        headers["x-stream-id"] = stream.stats.stream_id
        await self._send({**message, "headers": headers.raw})
        if not is_readable:
            await self._write(stream.pipeline.close(FAULTS["internal_error"]), stream)

    async def _write(self, output: bytes, stream: _Stream) -> None:
        self._is_sent = stream.pipeline.ended
        if not output and not self._is_sent:
            return
        try:
            await self._send({"type": "http.response.body", "body": output, "more_body": not self._is_sent})
        except OSError:  # ASGI servers raise it after a disconnect
            stream.stats.is_client_gone = True
            raise
