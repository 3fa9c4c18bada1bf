"""`PublicSSEResponse`: a stream of the host's own as the answer of a route, in Starlette, FastAPI or plain ASGI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Literal

import anyio
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from projector.contracts import codec
from projector.core.sse import encode_sse
from projector.providers import PROVIDERS
from projector.server.config.settings import Limits, Retries, Settings, Timeouts
from projector.server.http.problems import Problem, problem_response
from projector.server.projection import Projection
from projector.server.streaming.agents_sdk import AgentRun, StreamedRun
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.session import ProviderSource, StreamSession
from projector.server.telemetry.observer import Observer
from projector.server.upstream.protocol import ProviderRequest
from projector.server.upstream.reader import UpstreamReader

_CLOSE_S: Final = 0.5
_NO_RETRIES: Final = Retries(max=0)
"""A source can be read once."""
_MEMORY: Final = Memory(Limits().max_memory_bytes)
"""One budget for all such responses of the process."""


class PublicSSEResponse(Response):
    """Project what an async iterator gives: a provider's bytes, its events as the SDK gives them, or an agent's run.

    The response owns the source: it is closed when the stream has ended, whoever ended it. A source that fails before
    it gave anything is a problem document; later, it is the terminal of the stream.

    Args:
        source: bytes of an event stream cut anywhere, or events: mappings, JSON texts, pydantic models; or what
            `Runner.run_streamed` of the Agents SDK gave: then the projection's provider and profile do not count.
        projection: provider, dialect, policy, context, hook; the defaults where it is None.
        timeouts: first byte, idle and total of the source, and how long a client may take nothing.
        heartbeat_s: silence before a comment is sent.
        background: runs after the stream, as with other responses.
        status_code: a stream has one; FastAPI reads it here, for the description of a route.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        source: AsyncIterable[object] | StreamedRun,
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
        self._projection = projection or Projection()
        self._is_run = isinstance(source, StreamedRun)
        if isinstance(source, StreamedRun):
            source = AgentRun(source)
            self._projection = replace(self._projection, provider=AgentRun.provider, profile=None)
        self._source: AsyncIterable[object] = source
        self._timeouts = timeouts or Timeouts()
        self._heartbeat_s = heartbeat_s
        self._session: StreamSession | None = None

    def cancel(self) -> None:
        """End the stream with `final` `cancelled`, if it runs."""
        if self._session is not None:
            self._session.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the stream."""
        pipeline, stats = self._projection.begin(scope, is_run=self._is_run)
        account = Account(_MEMORY)
        request = ProviderRequest(self._projection.provider, {})
        reader = UpstreamReader(
            _Source(self._source), request, stats, account, timeouts=self._timeouts, retries=_NO_RETRIES
        )
        self._session = StreamSession(
            stats,
            ProviderSource(pipeline, reader),
            account,
            timeouts=self._timeouts,
            heartbeat_s=self._heartbeat_s,
            headers=self.raw_headers,
        )
        try:
            await Observer(on_terminal=self._projection.on_terminal).run(self._session, scope, receive, send)
        except Problem as problem:
            await problem_response(problem, scope)(scope, receive, send)
        finally:
            account.close()
        if self.background is not None:
            await self.background()


class _Source:
    """The host's iterator as an upstream."""

    providers = frozenset(PROVIDERS)
    is_recording = False

    def __init__(self, source: AsyncIterable[object]) -> None:
        self._source = source

    @asynccontextmanager
    async def open(self, _request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Give its bytes; entered when there are some, so that until then a failure is a problem document."""
        chunks = self._read()
        try:
            first = await anext(chunks, b"")
            yield _joined(first, chunks)
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await chunks.aclose()
                await _close(self._source)

    async def aclose(self) -> None:
        """Nothing is kept."""

    async def _read(self) -> AsyncGenerator[bytes, None]:
        async for item in self._source:
            yield _bytes(item)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for chunk in rest:
        yield chunk


def _bytes(item: Any) -> bytes:
    """Give what one item is as bytes of an event stream: bytes are, everything else is one event."""
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    if isinstance(item, str):
        return encode_sse(item.encode("utf-8", "surrogatepass"))
    if isinstance(item, Mapping):
        return encode_sse(codec.dumps_exact(dict(item)))
    if hasattr(item, "model_dump_json"):
        return encode_sse(_written(item))
    raise TypeError("expected bytes, a JSON text, a mapping, or a pydantic model")


def _written(model: Any) -> bytes:
    """Give a pydantic model as JSON; pydantic itself writes no half of a character, and SDKs read some (D31)."""
    try:
        text: str = model.model_dump_json(exclude_unset=True, by_alias=True)
    except ValueError:
        return codec.dumps_exact(model.model_dump(exclude_unset=True, by_alias=True, warnings=False))
    return text.encode()


async def _close(source: Any) -> None:
    """Close a source by whatever name it has for it: generators and streams of SDKs differ."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is not None:
        waits = close()
        if waits is not None:
            await waits
