"""The work of a run that reads streams of upstreams: its log, its limits, its approvals and its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from projector import Pipeline
from projector.core.faults import Fault
from projector.openwop.dialect.writer import OpenWopWriter
from projector.openwop.event_log import present
from projector.openwop.host.host_errors import LOG_FULL, HostError
from projector.openwop.host.interrupts import Decision
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.runs import Answers, HostRun, RunFailedError, RunStoppedError, Work
from projector.redaction.redactor import Redactor
from projector.server.control.rate_limits import Admission
from projector.server.control.token_meter import TokenMeter
from projector.server.http.stream_route import Site
from projector.server.streaming.deadlines import Clock
from projector.server.streaming.memory import Account
from projector.server.streaming.session import StreamSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream
from projector.server.upstream.protocol import UpstreamError
from projector.store.budgets import Limit


class StreamWork(Work):
    """Work that projects responses of upstreams into the log of a run; raises `Problem` if there is no room for it.

    `n_bytes` is the size of the request, which is held in memory with the stream.
    """

    def __init__(
        self, run: HostRun, stats: StreamStats, site: Site, pipeline: Pipeline, redactor: Redactor, n_bytes: int
    ) -> None:
        self.stats = stats
        self.redactor = redactor
        self._responses: dict[str, str] = {}
        """Id of an approval request -> id of its response."""
        stats.on_approval = self._responses.__setitem__
        self._is_parked = False
        self._run = run
        self._site = site
        self._pipeline = pipeline
        self._source: StreamSource | None = None
        self._is_complete = False
        """Whether the rest of the source is not needed."""
        self._admission = ExitStack()
        self._account: Account | None = None
        self._rate_limits: Admission | None = None
        self._admit().hold(n_bytes)

    def use(self, admission: Admission) -> None:
        """Count the tokens of the run, and settle them at its end."""
        self._rate_limits = admission
        self.stats.meter = admission.meter

    def record(self) -> dict[str, Any]:
        """See `Work`."""
        assert isinstance(self._pipeline.writer, OpenWopWriter)  # noqa: S101 - the dialect of all runs
        self._is_parked = True
        stats = self.stats
        return {
            "pipeline": self._pipeline.record(),
            "log": self._pipeline.writer.record(),
            "responses": self._responses,
            "verbosity": self.redactor.policy.reasoning,
            "conversation_id": stats.conversation_id,
            "metadata": stats.metadata,
            "headers": {**stats.trace.headers, "x-request-id": stats.request_id},
            "limits": [] if self._rate_limits is None else self._rate_limits.token_limits,
        }

    def restore(self, record: Mapping[str, Any], agents: Sequence[str]) -> None:
        """Continue what another process has recorded; `agents` use the tokens from now on."""
        assert isinstance(self._pipeline.writer, OpenWopWriter)  # noqa: S101 - the dialect of all runs
        self._pipeline.restore(record["pipeline"])
        self._pipeline.writer.restore(record["log"])
        self._responses.update(record["responses"])
        if limits := [Limit(*limit) for limit in record["limits"]]:
            budgets = self._site.limiter.budgets
            self.use(Admission.continued(budgets, self._run.caller, limits, TokenMeter(agents, {})))
        headers = [(name.encode(), value.encode()) for name, value in record["headers"].items()]
        begin_stream({"type": "http", "headers": headers}, self.stats)

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is open."""
        return self._source is not None and self._source.is_upstream_open

    def check_answer(self, _run: HostRun, interrupt: Interrupt) -> None:
        """Check that the provider waits for the answer."""
        if interrupt.subject_id not in self._responses:
            raise HostError("interrupt_not_found", "The approval request has expired at the provider.")

    def halt(self) -> None:
        """Stop reading from upstreams."""
        if self._source is not None:
            self._source.stop()

    def cancel(self) -> None:
        """End the run with `run.cancelled`."""
        self._run.stop(None)

    def fail(self, fault: Fault) -> None:
        """End the run with `run.failed`."""
        self._run.stop(fault)

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run."""
        run.log.extend(self._pipeline.cancel() if fault is None else self._pipeline.close(fault))

    async def close(self) -> None:
        """Release resources and report the outcome."""
        self._release()
        if self._is_parked:
            self._pipeline.close()  # its part of the run has ended
        else:
            self._pipeline.cancel()
        self.stats.dropped = self._pipeline.dropped
        if self._rate_limits is not None:
            await self._rate_limits.close(self.stats.code)
        await self._site.observer.report(self.stats)

    async def _read(self, source: StreamSource) -> None:
        self._source = source
        try:
            await source.run(self._write, Clock())
        except UpstreamError as error:
            raise RunFailedError(error.fault) from None
        if self._run.is_stopped:
            raise RunStoppedError
        if self._run.log.is_full and not self._pipeline.ended:
            raise RunFailedError(LOG_FULL)

    async def _write(self, lines: bytes) -> None:
        self._run.log.extend(lines)
        if self._is_complete or self._run.log.is_full:
            self.halt()

    def _approval_body(self, kept: Mapping[str, Any], answers: Answers) -> Mapping[str, Any]:
        """Return a request with the answers to approvals, which continues the response that asked for them."""
        approvals = [approval_response(subject_id, answer) for subject_id, answer in answers.items()]
        return {**kept, "input": approvals, "previous_response_id": self._responses[next(iter(answers))]}

    def _admit(self) -> Account:
        """Count as a stream of the caller; return the account of its memory."""
        streams = self._site.streams
        self._account = account = self._admission.enter_context(streams.admitted(self._run.caller))
        self._admission.enter_context(streams.running(self))
        return account

    def _release(self) -> None:
        self._account = None
        self._admission.close()


def approval_response(subject_id: str, answer: Decision) -> dict[str, Any]:
    """Return the input item of the provider that answers an approval request."""
    item = {"type": "mcp_approval_response", "approval_request_id": subject_id, "approve": answer.is_accepted}
    return item | present(reason=None if answer.is_accepted else answer.reason)


def only(names: Collection[str]) -> str | None:
    """Return the only name, None if there are several."""
    return next(iter(names)) if len(names) == 1 else None
