"""One upstream's answer over one ASGI request: provider bytes in, dialect bytes out."""

from __future__ import annotations

from collections.abc import Sequence

from projector import Pipeline
from projector.server.config.settings import Retries, Timeouts
from projector.server.streaming.memory import Account
from projector.server.streaming.response_writer import ResponseWriter
from projector.server.streaming.session import StreamSession
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, Upstream
from projector.server.upstream.reader import UpstreamReader


class Relay(StreamSession):
    """One stream; `run` it once."""

    def __init__(
        self,
        stats: StreamStats,
        pipeline: Pipeline,
        upstream: Upstream,
        request: ProviderRequest,
        account: Account,
        *,
        timeouts: Timeouts,
        retries: Retries,
        heartbeat_s: float,
        headers: Sequence[tuple[bytes, bytes]] = (),
        writer_type: type[ResponseWriter] = ResponseWriter,
    ) -> None:
        super().__init__(
            stats,
            pipeline,
            account,
            timeouts=timeouts,
            heartbeat_s=heartbeat_s,
            headers=headers,
            writer_type=writer_type,
        )
        self._reading = UpstreamReader(
            stats,
            upstream,
            request,
            account,
            timeouts=timeouts,
            retries=retries,
            on_open=self._commit,
            take=self._take,
        )

    @property
    def is_upstream_open(self) -> bool:
        """Whether the upstream is asked, or answers."""
        return self._reading.is_open

    async def _bring(self, _line: ResponseWriter) -> None:
        await self._reading.run()

    def _halt(self) -> None:
        self._reading.stop()

    def _deadline(self) -> tuple[float, str]:
        return self._reading.deadlines.next()

    async def _commit(self) -> None:
        """Say that there is a stream."""
        if self._line is not None:
            await self._line.say(b"")

    async def _take(self, chunk: bytes) -> bool:
        """Bring what one read says to the client; give whether that was all."""
        said = await self._reading.feed(self._pipeline.feed, chunk)
        if self._line is not None:
            await self._line.say(said)
            if self._pipeline.ended:
                await self._end(self._line)  # before the upstream is closed, which may take a moment
        return self._pipeline.ended
