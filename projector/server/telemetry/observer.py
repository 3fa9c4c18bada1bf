"""Reports of ended streams: a log line, metrics, the trace, the `on_terminal` hook. None of them can fail a stream."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.types import Receive, Scope, Send

from projector._errors import check_argument
from projector.core.reported_errors import ProviderError
from projector.server.http.problems import Problem
from projector.server.streaming.session import StreamSession
from projector.server.telemetry import tracing
from projector.server.telemetry.logs import log
from projector.server.telemetry.request_facts import facts_of
from projector.server.telemetry.request_log import CALLER_MAX_CHARS, level_of
from projector.server.telemetry.stream_stats import StreamStats, Terminal, terminal_of

if TYPE_CHECKING:
    from projector.server.telemetry.metrics import Metrics


OnTerminal: TypeAlias = Callable[[Terminal], Awaitable[None] | None]
StatusOf: TypeAlias = Callable[[Problem, Scope], int]
"""Returns the status of the response to a problem."""

HOOK_S: Final = 10.0
"""Time-out of a hook. It runs after the stream, but delays the shutdown of the server."""
_THREADS_MAX: Final = 40
"""Concurrent hooks. They have threads of their own, because anyio's are used for large events, which must not wait."""
_THREADS: Final[RunVar[CapacityLimiter]] = RunVar("hook threads")


def check_hook(on_terminal: object) -> None:
    """Raise `UsageError` if a hook cannot be called."""
    check_argument("on_terminal", "a function or None", holds=on_terminal is None or callable(on_terminal))


class Observer:
    """Runs streams, and reports each one when it ends."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        on_terminal: OnTerminal | None = None,
        status_of: StatusOf = lambda problem, _: problem.status.value,
    ) -> None:
        self._metrics = metrics
        self._on_terminal = on_terminal
        self._status_of = status_of

    async def run(self, session: StreamSession, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a stream to its end, and report it; raises `Problem` like `StreamSession.run`."""
        stats, facts = session.stats, facts_of(scope)
        facts.is_reported = True
        try:
            await session.run(scope, receive, send)
        except Problem as error:
            stats.problem_code = error.code
            stats.status = self._status_of(error, scope)
            raise
        finally:
            stats.status = facts.status or stats.status
            self._record(stats)
            if self._on_terminal is not None:
                with anyio.CancelScope(shield=True):  # also if the client disconnected
                    await _call(self._on_terminal, stats)
            stats.release_texts()

    async def report(self, stats: StreamStats) -> None:
        """Report an ended stream."""
        self._record(stats)
        if self._on_terminal is not None:
            await _call(self._on_terminal, stats)
        stats.release_texts()

    def report_request(self, stats: StreamStats) -> None:
        """Report what failed at the upstreams of a request without a stream; its line is that of every request."""
        if self._metrics is not None:
            self._metrics.count_failures(stats)
        for error in stats.provider_errors:
            _log_provider_error(stats, error)

    def _record(self, stats: StreamStats) -> None:
        """Write the log line, metrics and trace of an ended stream."""
        stats.ended_at = time.monotonic()
        tracing.end_stream(stats)
        if self._metrics is not None:
            self._metrics.count(stats)
        for error in stats.provider_errors:
            _log_provider_error(stats, error)
        log.log(_level(stats), "stream_end", **_line(stats))


async def _call(hook: OnTerminal, stats: StreamStats) -> None:
    """Call the hook; a plain function runs in a thread, because it may block."""
    cancelled_before = _times_cancelled()
    try:
        with anyio.fail_after(HOOK_S):
            if inspect.iscoroutinefunction(hook):
                await hook(terminal_of(stats))
                return
            result = await to_thread.run_sync(hook, terminal_of(stats), abandon_on_cancel=True, limiter=_threads())
            if result is not None:
                await result
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and _times_cancelled() > cancelled_before:
            raise  # the task itself was cancelled, not something that the hook awaited
        log.error("hook_failed", stream_id=stats.stream_id, error_type=type(error).__name__)


def _times_cancelled() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _threads() -> CapacityLimiter:
    try:
        return _THREADS.get()
    except LookupError:
        limiter = CapacityLimiter(_THREADS_MAX)
        _THREADS.set(limiter)
        return limiter


def _log_provider_error(stats: StreamStats, error: ProviderError) -> None:
    """Log what a provider reported: redacted and bounded, whatever the policy shows to clients."""
    log.warning(
        "provider_error",
        stream_id=stats.stream_id,
        request_id=stats.request_id,
        upstream=stats.upstream or None,
        status=error.status,
        code=error.code,
        type=error.type,
        param=error.param,
        message=None if error.message is None else error.message.value,
    )


def _level(stats: StreamStats) -> int:
    """Return the level of the log line: a failure of the server or of a provider is a warning."""
    is_failed = stats.outcome == "error"
    return logging.WARNING if is_failed else level_of(stats.status, stats.code)


def _line(stats: StreamStats) -> dict[str, object]:
    """Return the fields of the log line: IDs, names and numbers, no payload."""
    return {
        "stream_id": stats.stream_id,
        "request_id": stats.request_id,
        "trace_id": stats.trace.trace_id,
        "caller": stats.caller[:CALLER_MAX_CHARS],
        "route": stats.route,
        "status": stats.status,
        "agent": stats.agent,
        "workflow": stats.workflow,
        "workflow_run_id": stats.workflow_run_id,
        "upstream": stats.upstream or None,
        "model": stats.model or None,
        "dialect": stats.dialect,
        "response_id": stats.terminal.get("response_id"),
        "outcome": stats.outcome,
        "code": stats.code,
        "reason": stats.reason,
        "duration_s": round(stats.duration_s, 3),
        "first_byte_s": None if stats.first_byte_s is None else round(stats.first_byte_s, 3),
        "overhead_s": round(stats.overhead_s, 6),
        "events": stats.terminal.get("event_id"),
        "heartbeats": stats.heartbeats,
        "notices": dict(stats.notices) or None,
        **stats.usage,
    }
