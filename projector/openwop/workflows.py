"""What can be run: agents of the configuration, and workflows of mock nodes; and the work of their runs.

An agent is a workflow with one node; a run of it sends one request to the upstream, and another one after each
approval. Instructions, tools and prompts are not published.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Final, TypeAlias

from starlette.types import Scope

from projector import StreamContext, build_pipeline
from projector.contracts import codec
from projector.contracts.kinds import RUNNING, VENDOR, Kind
from projector.core.canonical import Frame
from projector.core.faults import FAULTS, Fault
from projector.dialects.descriptor import DialectOptions
from projector.openwop.event_log import Verbosity, agent_id, present
from projector.openwop.mock_nodes import Emitter, MockWorkflow
from projector.openwop.requests import HostError, RunRequest
from projector.openwop.run_log import Interrupt
from projector.openwop.runs import LOG_FULL, REJECTED, Answers, HostRun, RunEndedError, Work
from projector.openwop.settings import DIALECT
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding
from projector.server.control.rate_limits import Admission
from projector.server.control.token_meter import TokenMeter
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.request_bodies import agent_body, home_targets
from projector.server.http.site import Site
from projector.server.http.stream_route import check_ownership, record_ownership
from projector.server.streaming.session import ProviderSource
from projector.server.telemetry.reports import begin_stream
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.targets import Attempts, BodyOf, Target

AGENT_TYPE_ID: Final = f"vendor.{VENDOR}.agent"
"""Node type of agents; `vendor.*` types may emit agent events (RFC 0023 section A)."""
AGENT_NODE_ID: Final = "agent"
"""Id of the only node of a run of an agent."""

VERBOSITIES: Final[tuple[Verbosity, ...]] = ("off", "summary", "full")
"""From the least reasoning to the most."""

Begin: TypeAlias = Callable[[HostRun], Work]
"""Creates the work of a run; raises `Problem` if there is no room for it."""


@lru_cache(maxsize=64)
def _reduced(redactor: Redactor, requested: Verbosity | None) -> Redactor:
    """Return the redactor of the requested verbosity, or of the policy's if that is less."""
    verbosity = min(redactor.policy.reasoning, requested or "full", key=VERBOSITIES.index)
    return redactor if verbosity == redactor.policy.reasoning else redactor.with_reasoning(verbosity)


# agents


class AgentWorkflow:
    """An agent that can be run: a workflow with one node."""

    def __init__(self, binding: AgentBinding, site: Site) -> None:
        self.name = name = str(binding.name)
        self.verbosity: Verbosity = binding.redactor.policy.reasoning
        self.binding = binding
        self.site = site
        node = {"id": AGENT_NODE_ID, "typeId": AGENT_TYPE_ID, "name": name, "agent": {"agentId": agent_id(name)}}
        node |= {"position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}
        trigger = {"id": "manual", "type": "manual", "enabled": True}
        members = {"edges": [], "triggers": [trigger], "variables": [], "metadata": {}, "settings": {}}
        self.document = {"id": name, "name": name, "version": "1.0", "nodes": [node], **members}

    async def prepare(self, request: RunRequest, caller: str, scope: Scope, admission: Admission) -> Begin:
        """Validate `inputs`, which are those of `/api/v1/chat/stream` without the agent."""
        ownership, targets = self.site.ownership, self.binding.targets.in_order()
        try:
            chat = requests.parse(requests.ChatRequest, request.inputs)
            body_of: BodyOf = cache(partial(agent_body, chat, self.binding))
            body = body_of(targets[0])
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        await ownership.load(request.inputs)
        check_ownership(ownership, body, chat.conversation_id, caller)
        await ownership.confirm(chat.conversation_id, caller)
        home = home_targets(body, targets, self.binding.targets.targets, ownership)
        redactor = _reduced(self.binding.redactor, request.configurable.reasoning_verbosity)
        context = ownership.tokens_of(chat.previous_response_id)
        await admission.take_stream(TokenMeter([self.name], request.inputs, context))

        def begin(run: HostRun) -> AgentWork:
            work = AgentWork(run, self, redactor, body_of, home, chat.conversation_id, admission)
            begin_stream(scope, work.stats)
            return work

        return begin


class AgentWork(Work):
    """Work of a run of an agent. While the run waits for approval it does not count as a stream.

    Creating it raises `Problem` if there is no room for the stream.
    """

    def __init__(
        self,
        run: HostRun,
        workflow: AgentWorkflow,
        redactor: Redactor,
        body_of: BodyOf,
        targets: Sequence[Target],
        conversation_id: str | None,
        admission: Admission,
    ) -> None:
        self.redactor = redactor
        binding, site, body = workflow.binding, workflow.site, body_of(targets[0])
        self.stats = stats = binding.stats(DIALECT, run.caller, body, conversation_id)
        stats.stream_id = run.run_id
        record_ownership(site.ownership, stats, body)
        self._responses: dict[str, str] = {}
        """Id of an approval request -> id of its response."""
        stats.on_approval = self._responses.__setitem__
        self._run, self._site, self._binding = run, site, binding
        self._body_of, self._targets = body_of, targets
        self._is_complete = False
        """Whether the rest of the response is not needed."""
        self._admission, stats.meter = admission, admission.meter
        upstreams = {one.provider.name for one in binding.targets.targets}
        self._pipeline = build_pipeline(
            provider=binding.provider.api,
            profile=binding.provider.profile,
            dialect=DIALECT,
            redactor=redactor.for_request(body, secrets.token_bytes(16)),
            context=StreamContext(run.run_id, conversation_id, binding.name),
            run=True,
            output_format="ndjson",
            takes_host_events=binding.provider.upstream.is_recording,
            on_frame=self._on_frame,
            options=DialectOptions(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                node_id=AGENT_NODE_ID,
                type_id=AGENT_TYPE_ID,
                provider=next(iter(upstreams)) if len(upstreams) == 1 else None,
            ),
        )
        self._places = ExitStack()
        self._enter()
        self._account.hold(len(codec.dumps(body)))
        self._open()

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is open."""
        return self._source.is_upstream_open

    async def run(self, run: HostRun) -> None:
        """Write all events of one response, and of another one after each approval."""
        await self._read()
        while not self._pipeline.ended and run.is_suspended:
            if run.log.state.pending:
                self._leave()
                if self._site.streams.is_draining:
                    raise RunEndedError(FAULTS["server_shutdown"])
            answers = await run.answers()
            self._body_of = _always(self._approval_body(self._body_of(self._targets[0]), answers))
            run.log.extend(self._pipeline.next_response())
            self._open()
            await self._read()
        run.log.extend(self._pipeline.close())

    def check_answer(self, run: HostRun, interrupt: Interrupt) -> None:
        """Check that the provider waits for the answer; the last one makes the run count as a stream again."""
        if interrupt.subject_id not in self._responses:
            raise HostError("interrupt_not_found", "The approval request has expired at the provider.")
        if len(run.log.state.pending) == 1 and not self._is_counted:
            self._enter()

    def halt(self) -> None:
        """Stop reading from the upstream."""
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
        self._leave()
        self._pipeline.cancel()
        self.stats.add_dropped(self._pipeline.dropped, self._pipeline.redactor)
        await self._admission.close(self.stats.code)
        await self._site.observer.report(self.stats)

    def _enter(self) -> None:
        """Count as a stream of the caller."""
        self._account = self._places.enter_context(self._site.streams.admitted(self._run.caller))
        self._places.enter_context(self._site.streams.running(self))
        self._is_counted = True

    def _leave(self) -> None:
        self._is_counted = False
        self._places.close()

    def _open(self) -> None:
        """Make the source of the next response."""
        targets = self._binding.targets
        attempts = Attempts(self._targets or targets.in_order(), self._body_of, self.stats)
        self._source = ProviderSource(
            lambda: self._pipeline, attempts, self.stats, self._account, first=targets.targets[0]
        )

    async def _read(self) -> None:
        self._is_complete = False
        try:
            await self._source.run(self._write)
        except UpstreamError as error:
            raise RunEndedError(error.fault) from None
        finally:
            self._site.write_state()
        if self._run.is_stopped:
            raise RunEndedError
        if self._run.log.is_full and not self._pipeline.ended:
            raise RunEndedError(LOG_FULL)
        self._targets = (self._source.target,)  # it stores the response that answers belong to
        body = self._body_of(self._source.target)
        self._body_of = _always({name: body[name] for name in body if name != "input"})  # not needed while it waits
        if self._run.is_suspended:
            await self._admission.settle()  # the run may wait for hours

    async def _write(self, lines: bytes) -> None:
        self._run.log.extend(lines)
        if self._is_complete or self._run.log.is_full:
            self.halt()

    def _on_frame(self, frame: Frame) -> None:
        if frame["kind"] == Kind.LIFECYCLE:
            self._is_complete = frame["status"] not in RUNNING
        self.stats.on_frame(frame)

    def _approval_body(self, kept: Mapping[str, object], answers: Answers) -> Mapping[str, object]:
        """Return a request with the answers to approvals, which continues the response that asked for them."""
        approvals = [
            {"type": "mcp_approval_response", "approval_request_id": subject_id, "approve": answer.is_accepted}
            | present(reason=answer.reason)
            for subject_id, answer in answers.items()
        ]
        return {**kept, "input": approvals, "previous_response_id": self._responses[next(iter(answers))]}


def _always(body: Mapping[str, object]) -> BodyOf:
    return lambda _: body


# mock nodes


class MockNodesWorkflow:
    """A workflow of mock nodes that can be run."""

    def __init__(self, workflow: MockWorkflow, redactor: Redactor, threshold: float) -> None:
        self.document = workflow.document
        self.verbosity: Verbosity = redactor.policy.reasoning
        self._workflow = workflow
        self._redactor = redactor
        self._threshold = threshold

    async def prepare(self, request: RunRequest, _caller: str, _scope: Scope, _admission: Admission) -> Begin:
        """Return what creates the work of a run; there is nothing to validate."""
        options = request.configurable
        threshold = self._threshold if options.escalation_threshold is None else options.escalation_threshold
        return lambda _: MockWork(self._workflow, _reduced(self._redactor, options.reasoning_verbosity), threshold)


RunnableWorkflow: TypeAlias = AgentWorkflow | MockNodesWorkflow


@dataclass
class MockWork(Work):
    """Work that emits the events of mock nodes, and waits for an answer after each low-confidence decision."""

    workflow: MockWorkflow
    redactor: Redactor
    threshold: float

    async def run(self, run: HostRun) -> None:
        """Write all events; a rejected decision fails the run."""
        run.log.emit("run.started", {"workflowId": run.workflow_id})
        for node in self.workflow.nodes:
            run.log.emit("node.started", {"nodeId": node.id, "typeId": node.type_id}, node_id=node.id)
            emitter = Emitter(node, self.redactor, self.redactor.policy.reasoning, run.log.emit)
            agent = emitter.agent()
            if (decided := node.config.decided) is not None:
                suspension = emitter.decision(decided, agent, run.run_id, self.threshold)
                if suspension is not None:
                    answers = await run.answers()
                    if not all(answer.is_accepted for answer in answers.values()):
                        raise RunEndedError(REJECTED)
                    resumed = {"nodeId": node.id, "interruptId": run.log.state.interrupts[-1].interrupt_id}
                    run.log.emit("node.resumed", resumed, node_id=node.id, causation_id=suspension)
            run.log.emit("node.completed", {"nodeId": node.id, "outputs": {}}, node_id=node.id)
        run.log.emit("run.completed", {})

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run, after the end of its open node."""
        node_id = run.log.state.node_id
        outcome, members = "cancelled", present(reason="cancelled")
        if fault is not None:
            error = {"code": fault.code, "message": fault.message, "retryable": fault.is_retryable}
            outcome, members = "failed", present(error=error)
        if node_id is not None:
            run.log.emit(f"node.{outcome}", {"nodeId": node_id, **members}, node_id=node_id)
        run.log.emit(f"run.{outcome}", members | present(failedNodeId=node_id if fault is not None else None))
