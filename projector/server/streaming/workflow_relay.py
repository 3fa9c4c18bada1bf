"""One run of a workflow over one ASGI request."""

from __future__ import annotations

from math import inf

from projector import Pipeline
from projector.server.config.settings import Timeouts
from projector.server.streaming.memory import Account
from projector.server.streaming.response_writer import ResponseWriter
from projector.server.streaming.session import StreamSession
from projector.server.streaming.workflow_run import WorkflowRun
from projector.server.telemetry.stream_stats import StreamStats


class WorkflowRelay(StreamSession):
    """One stream; `run` it once."""

    def __init__(
        self,
        stats: StreamStats,
        pipeline: Pipeline,
        run: WorkflowRun,
        account: Account,
        *,
        timeouts: Timeouts,
        heartbeat_s: float,
    ) -> None:
        super().__init__(stats, pipeline, account, timeouts=timeouts, heartbeat_s=heartbeat_s)
        self._run = run

    @property
    def is_upstream_open(self) -> bool:
        """Whether any upstream is asked, or answers."""
        return self._run.upstreams_open > 0

    async def _bring(self, line: ResponseWriter) -> None:
        await self._run.bring(line.say)

    def _halt(self) -> None:
        self._run.halt()

    def _deadline(self) -> tuple[float, str]:
        return inf, ""  # a run keeps its own time
