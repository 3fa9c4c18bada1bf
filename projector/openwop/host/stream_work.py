"""`StreamWork`: what runs of agents and of workflows share. While admitted, a run counts as a stream of its caller."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack

from projector import Pipeline
from projector.core.faults import Fault
from projector.openwop.host.host_errors import LOG_FULL
from projector.openwop.host.runs import HostRun, RunFailedError, RunStoppedError, Work
from projector.server.http.routes.stream_route import Site
from projector.server.streaming.memory import Account
from projector.server.telemetry.stream_stats import StreamStats


class StreamWork(Work):
    """Work that projects responses of upstreams into the log of a run.

    Args:
        run: the run.
        stats: facts of the stream.
        site: shared parts of the server.
        pipeline: pipeline of the dialect `openwop`.
        n_bytes: size of the request, held in memory with the stream.

    Raises:
        Problem: there is no room for another stream.
    """

    def __init__(self, run: HostRun, stats: StreamStats, site: Site, pipeline: Pipeline, n_bytes: int) -> None:
        self.stats = stats
        self._run = run
        self._site = site
        self._pipeline = pipeline
        self._admission = ExitStack()
        self._account: Account | None = None
        self._admit().hold(n_bytes)

    @property
    @abstractmethod
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is open."""

    def cancel(self) -> None:
        """End the run with `run.cancelled`."""
        self._run.cancel()

    def fail(self, fault: Fault) -> None:
        """End the run with `run.failed`."""
        self._run.fail(fault)

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run."""
        run.log.extend(self._pipeline.cancel() if fault is None else self._pipeline.close(fault))

    async def close(self) -> None:
        """Release resources and report the outcome."""
        self._release()
        self._pipeline.cancel()
        self.stats.dropped = self._pipeline.dropped
        await self._site.observer.report(self.stats)

    def _check_running(self) -> None:
        """Check after reading that the run may continue.

        Raises:
            RunStoppedError: the run was stopped.
            RunFailedError: the log is full.
        """
        if self._run.is_stopped:
            raise RunStoppedError
        if self._run.log.is_full and not self._pipeline.ended:
            raise RunFailedError(LOG_FULL)

    def _admit(self) -> Account:
        """Count as a stream of the caller; return the account of its memory.

        Raises:
            Problem: the server is shutting down or full, or the caller has reached its limit of streams.
        """
        streams = self._site.streams
        self._account = account = self._admission.enter_context(streams.admitted(self._run.caller))
        self._admission.enter_context(streams.running(self))
        return account

    def _release(self) -> None:
        """Stop counting as a stream."""
        self._account = None
        self._admission.close()
