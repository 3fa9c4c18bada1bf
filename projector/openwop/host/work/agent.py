"""A run of an agent of the configuration: its upstream is asked, and again after each approval that it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from projector import Pipeline, StreamContext, build_pipeline
from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.core.faults import FAULTS, Fault
from projector.dialects.options import DialectOptions
from projector.openwop.host.admission import Admission
from projector.openwop.host.asked import accepts
from projector.openwop.host.faults import LOG_FULL
from projector.openwop.host.names import AGENT_NODE_ID, AGENT_TYPE_ID, DIALECT
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Answers, Run, RunFailedError, RunStoppedError
from projector.openwop.run_state import Interrupt
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding
from projector.server.http.routes.stream_route import Site
from projector.server.streaming.deadlines import run_timed
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.reader import UpstreamReader

UNDER_WAY: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""


@dataclass(frozen=True, slots=True)
class AgentAsk:
    """What a run of an agent is asked.

    Args:
        offer: the agent.
        redactor: what its policy withholds, with the verbosity of the run.
        body: for its upstream.
        n_bytes: how large that is.
        conversation_id: the caller's own.
    """

    offer: AgentBinding
    redactor: Redactor
    body: Mapping[str, Any]
    n_bytes: int = 0
    conversation_id: str | None = None


class AgentWork:
    """Brings the answers of an agent's upstream into the log of a run.

    While the upstream is asked the run counts as a stream of its caller; while it waits for a person it does not.

    Raises:
        Problem: there is no room for a further stream.
    """

    def __init__(self, run: Run, ask: AgentAsk, stats: StreamStats, site: Site) -> None:
        self.stats = stats
        self._run = run
        self._offer = ask.offer
        self._body = ask.body
        self._site = site
        self._responses: dict[str, str] = {}
        """Of each approval that was asked for, the response that did."""
        self._reading: UpstreamReader | None = None
        self._has_ended = False
        self._pipeline = self._open(ask)
        self._admission = Admission(site.streams, run.caller)
        self._admission.enter(self)
        self._admission.account.hold(ask.n_bytes)

    @property
    def is_upstream_open(self) -> bool:
        """Whether it has a request open at its upstream."""
        return self._reading is not None and self._reading.is_open

    def cancel(self) -> None:
        """End the run with `run.cancelled`."""
        self._run.cancel()

    def fail(self, fault: Fault) -> None:
        """End the run with `run.failed`."""
        self._run.fail(fault)

    async def run(self, run: Run) -> None:
        """Say everything.

        Raises:
            RunFailedError: the upstream failed, nobody answered, the log is full, or the server ends.
            RunStoppedError: the run was stopped.
        """
        body = self._body
        self._body = {name: value for name, value in body.items() if name != "input"}  # an answer brings its own
        while True:
            await self._bring(body)
            if self._pipeline.ended or not run.is_asking:
                break
            if run.log.state.pending:
                self._leave()
            body = self._answered(await run.answers())
            run.log.take(self._pipeline.next_response())
        run.log.take(self._pipeline.close())

    def halt(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.stop()

    def end(self, run: Run, fault: Fault | None) -> None:
        """Say the end of a run that was stopped."""
        run.log.take(self._pipeline.cancel() if fault is None else self._pipeline.close(fault))

    def answer(self, run: Run, interrupt: Interrupt, value: object) -> object:
        """Give whether a person accepts; the last answer takes up what a stream needs.

        Raises:
            Problem: it is no answer to this, or there is no room to go on.
        """
        if interrupt.about not in self._responses:
            raise Refusal("interrupt_not_found", "The provider does not know what this answers any more.")
        is_accepted = accepts(value)
        if len(run.log.state.pending) == 1 and not self._admission.is_held:
            self._admission.enter(self)
        return is_accepted

    async def close(self) -> None:
        """Give everything back, and tell of the end."""
        self._admission.leave()
        self._pipeline.cancel()
        self.stats.dropped = self._pipeline.dropped
        await self._site.observer.report(self.stats)

    async def _bring(self, body: Mapping[str, Any]) -> None:
        """Bring one answer of the upstream into the log.

        Raises:
            RunFailedError: the upstream failed, or took too long; or the log is full.
            RunStoppedError: the run was stopped.
        """
        provider = self._offer.provider
        self._has_ended = False
        reader = provider.reader(body, self.stats, self._admission.account, self._site.settings.retries)
        self._reading = reader
        try:
            await run_timed(lambda clock: reader.run(clock, _do_nothing, self._take))
        except UpstreamError as error:
            raise RunFailedError(error.fault) from None
        if self._run.is_stopped:
            raise RunStoppedError
        if self._run.log.is_full and not self._pipeline.ended:
            raise RunFailedError(LOG_FULL)

    async def _take(self, chunk: bytes) -> bool:
        """Log what one read says; give whether that was all."""
        assert self._reading is not None  # noqa: S101 - it is what reads
        log = self._run.log
        log.take(await self._reading.feed(self._pipeline.feed, chunk))
        return self._pipeline.ended or self._has_ended or log.is_full

    def _answered(self, answers: Answers) -> Mapping[str, Any]:
        """Give the body that goes on from the response that asked."""
        given = [
            {"type": "mcp_approval_response", "approval_request_id": about, "approve": is_accepted}
            for about, is_accepted in answers.items()
        ]
        return {**self._body, "input": given, "previous_response_id": self._responses[next(iter(answers))]}

    def _leave(self) -> None:
        """Be no stream while a person is waited for; a server that ends does not wait."""
        self._admission.leave()
        if self._site.streams.is_draining:
            raise RunFailedError(FAULTS["server_shutdown"])

    def _hear(self, frame: Frame) -> None:
        """Note that a response has ended, or that another has begun."""
        if frame["kind"] == Kind.LIFECYCLE:
            self._has_ended = frame["status"] not in UNDER_WAY
        self.stats.on_frame(frame)

    def _open(self, ask: AgentAsk) -> Pipeline:
        run, ownership = self._run, self._site.ownership
        provider = ask.offer.provider
        self.stats.on_response = lambda response_id: ownership.add_response(response_id, run.caller)
        self.stats.on_approval = self._responses.__setitem__
        return build_pipeline(
            provider=provider.api,
            profile=provider.profile,
            dialect=DIALECT,
            redactor=ask.redactor,
            context=StreamContext(run.run_id, ask.conversation_id, ask.offer.name),
            run=True,
            output_format="ndjson",
            takes_host_events=provider.upstream.is_recording,
            on_frame=self._hear,
            options=DialectOptions(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                node_id=AGENT_NODE_ID,
                type_id=AGENT_TYPE_ID,
                provider=provider.name,
            ),
        )


async def _do_nothing() -> None:
    """Nobody waits for the head of an answer."""
