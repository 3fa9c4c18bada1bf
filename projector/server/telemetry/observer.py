"""Runs a stream and tells of its end: one line of log, metrics, the trace, the host's hook. None of it can break it."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
import structlog
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.types import Receive, Scope, Send

from projector.server.http.problems import Problem
from projector.server.streaming.session import StreamSession
from projector.server.telemetry import tracing
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.stream_stats import StreamStats, Terminal, terminal_of

log: Final = structlog.get_logger()

OnTerminal: TypeAlias = Callable[[Terminal], Awaitable[None] | None]

HOOK_S: Final = 10.0
"""How long a hook may take: it runs after the stream, but a server that ends waits for it."""
_THREADS_MAX: Final = 40
"""Of hooks that run at once; as many as anyio's own, which are for large events: those must not wait for a hook."""
_THREADS: Final[RunVar[CapacityLimiter]] = RunVar("threads of hooks")


class Observer:
    """Tells of streams."""

    def __init__(self, metrics: Metrics | None = None, on_terminal: OnTerminal | None = None) -> None:
        self._metrics = metrics
        self._on_terminal = on_terminal

    async def run(self, session: StreamSession, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a stream to its end, whatever that is.

        Raises:
            Problem: as `StreamSession.run`.
        """
        stats = session.stats
        try:
            await session.run(scope, receive, send)
        except Problem as refusal:
            stats.problem_code = refusal.code
            raise
        finally:
            with anyio.CancelScope(shield=True):  # whoever left, what happened is told
                await self.tell(stats)

    async def tell(self, stats: StreamStats) -> None:
        """Tell of a stream that ended."""
        stats.ended_at = time.monotonic()
        tracing.end_stream(stats)
        if self._metrics is not None:
            self._metrics.count(stats)
        log.info("stream_end", **_line(stats))
        if self._on_terminal is not None:
            await _call(self._on_terminal, stats)
        stats.release_texts()


async def _call(hook: OnTerminal, stats: StreamStats) -> None:
    """Call the hook: one that is a plain function in a thread, because it may wait as well."""
    cancelled_before = _times_cancelled()
    try:
        with anyio.fail_after(HOOK_S):
            if inspect.iscoroutinefunction(hook):
                await hook(terminal_of(stats))
                return
            waits = await to_thread.run_sync(hook, terminal_of(stats), abandon_on_cancel=True, limiter=_threads())
            if waits is not None:
                await waits
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and _times_cancelled() > cancelled_before:
            raise  # it is the server that wants no more, not something that the hook waited for
        log.error("hook_failed", stream_id=stats.stream_id, error_type=type(error).__name__)  # noqa: TRY400 - no text


def _times_cancelled() -> int:
    """Give how often somebody asked for the end of this task."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _threads() -> CapacityLimiter:
    """Give the limit of this event loop."""
    try:
        return _THREADS.get()
    except LookupError:
        limiter = CapacityLimiter(_THREADS_MAX)
        _THREADS.set(limiter)
        return limiter


def _line(stats: StreamStats) -> dict[str, object]:
    """Give the fields of a log line: ids, names and numbers; no payload."""
    first_byte_s = stats.first_byte_s
    fields = {
        "stream_id": stats.stream_id,
        "request_id": stats.request_id,
        "trace_id": stats.trace.trace_id,
        "caller": stats.caller,
        "agent": stats.agent,
        "workflow": stats.workflow,
        "workflow_run_id": stats.workflow_run_id,
        "upstream": stats.upstream or None,
        "model": stats.model or None,
        "dialect": stats.dialect,
        "response_id": stats.terminal.get("response_id"),
        "outcome": stats.outcome,
        "code": stats.code,
        "duration_s": round(stats.duration_s, 3),
        "first_byte_s": None if first_byte_s is None else round(first_byte_s, 3),
        "overhead_s": round(stats.overhead_s, 6),
        "events": stats.terminal.get("event_id"),
        "heartbeats": stats.heartbeats,
        **stats.usage,
    }
    return {name: value for name, value in fields.items() if value is not None}
