"""A run of a workflow of the configuration: several agents, one log."""

from __future__ import annotations

from dataclasses import dataclass

from projector import Pipeline, StreamContext
from projector.core.faults import Fault
from projector.dialects.options import DialectOptions
from projector.openwop.host.admission import Admission
from projector.openwop.host.faults import APPROVAL_IN_STEP, LOG_FULL
from projector.openwop.host.names import AGENT_TYPE_ID, DIALECT
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run, RunFailedError, RunStoppedError
from projector.openwop.run_state import Interrupt
from projector.server.catalog import WorkflowBinding
from projector.server.http.routes.stream_route import Site
from projector.server.streaming.deadlines import run_timed
from projector.server.streaming.workflow_source import WorkflowSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError


@dataclass(frozen=True, slots=True)
class StepsAsk:
    """What a run of a workflow is asked.

    Args:
        offer: the workflow, with the verbosity of the run.
        message: what its first steps are asked.
        conversation_id: the caller's own.
    """

    offer: WorkflowBinding
    message: str
    conversation_id: str | None = None


class StepsWork:
    """Brings what the steps of a workflow say into the log of a run, which counts as one stream of its caller.

    Raises:
        Problem: there is no room for a further stream.
    """

    def __init__(self, run: Run, ask: StepsAsk, stats: StreamStats, site: Site) -> None:
        self.stats = stats
        self._run = run
        self._site = site
        self._pipeline = self._open(ask)
        self._admission = Admission(site.streams, run.caller)
        self._admission.enter(self)
        self._admission.account.hold(len(ask.message))
        self._steps = WorkflowSource(
            ask.offer,
            ask.message,
            self._pipeline,
            stats,
            self._admission.account,
            run_id=run.run_id,
            retries=site.settings.retries,
        )

    @property
    def is_upstream_open(self) -> bool:
        """Whether any upstream is asked, or answers."""
        return self._steps.is_upstream_open

    def cancel(self) -> None:
        """End the run with `run.cancelled`."""
        self._run.cancel()

    def fail(self, fault: Fault) -> None:
        """End the run with `run.failed`."""
        self._run.fail(fault)

    async def run(self, run: Run) -> None:
        """Say everything.

        Raises:
            RunFailedError: a step failed before anything was said, one waits for an approval, or the log is full.
            RunStoppedError: the run was stopped.
        """
        try:
            await run_timed(lambda clock: self._steps.run(self._say, clock))
        except UpstreamError as error:
            raise RunFailedError(error.fault) from None
        if run.is_stopped:
            raise RunStoppedError
        if not self._pipeline.ended:
            if run.log.is_full:
                raise RunFailedError(LOG_FULL)
            if run.log.state.pending:
                raise RunFailedError(APPROVAL_IN_STEP)
        run.log.take(self._pipeline.close())

    def halt(self) -> None:
        """Ask no more upstreams, and read no more of any."""
        self._steps.stop()

    def end(self, run: Run, fault: Fault | None) -> None:
        """Say the end of a run that was stopped."""
        run.log.take(self._pipeline.cancel() if fault is None else self._pipeline.close(fault))

    def answer(self, _run: Run, _interrupt: Interrupt, _value: object) -> object:
        """Refuse the answer: a step goes on from no approval.

        Raises:
            Refusal: always.
        """
        raise Refusal("interrupt_not_found", APPROVAL_IN_STEP.message)

    async def close(self) -> None:
        """Give everything back, and tell of the end."""
        self._admission.leave()
        self._pipeline.cancel()
        self.stats.dropped = self._pipeline.dropped
        await self._site.observer.report(self.stats)

    async def _say(self, lines: bytes) -> None:
        self._run.log.take(lines)
        if self._run.log.is_full:
            self._steps.stop()

    def _open(self, ask: StepsAsk) -> Pipeline:
        run, offer = self._run, ask.offer
        workflow = {"workflow_key": offer.name, "workflow_run_id": run.run_id}
        providers = {agent.provider.name for agent in offer.agents.values()}
        return offer.pipeline(
            DIALECT,
            StreamContext(run.run_id, ask.conversation_id, workflow=workflow),
            self.stats.on_frame,
            options=DialectOptions(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                type_id=AGENT_TYPE_ID,
                provider=providers.pop() if len(providers) == 1 else None,
            ),
            output_format="ndjson",
        )
