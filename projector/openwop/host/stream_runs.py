"""Runs of agents and workflows of the configuration: their definitions, requests and work.

An agent is a workflow with one node; a run of it sends one request to the upstream, and another one after each
approval. The steps of a workflow are its nodes, in order. Instructions, tools and prompts are not published.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final

from starlette.types import Scope

from projector import Pipeline, StreamContext, build_pipeline
from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.core.faults import FAULTS, Fault
from projector.dialects.descriptor import DialectOptions
from projector.dialects.workflow import position_of
from projector.openwop.conformance.definitions import definition
from projector.openwop.dialect.run_progress import ACTIVE_STATUSES
from projector.openwop.dialect.writer import OpenWopWriter
from projector.openwop.event_log import present, shortened
from projector.openwop.host.bindings import (
    AGENT_NODE_ID,
    AGENT_TYPE_ID,
    Begin,
    RunnableWorkflow,
    check_configurable,
    node_of,
)
from projector.openwop.host.host_errors import LOG_FULL, HostError
from projector.openwop.host.interrupts import Decision
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.run_requests import Configurable, RunRequest
from projector.openwop.host.runs import Answers, HostRun, RunFailedError, RunParkedError, RunStoppedError, Work
from projector.openwop.host.settings import DIALECT
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding, WorkflowBinding
from projector.server.control.rate_limits import Admission
from projector.server.control.rights import Grant
from projector.server.control.token_meter import TokenMeter
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.request_bodies import agent_body
from projector.server.http.stored_state import home_targets
from projector.server.http.stream_route import Site
from projector.server.streaming.deadlines import Clock
from projector.server.streaming.memory import Account
from projector.server.streaming.session import StreamSource
from projector.server.streaming.workflow_source import WorkflowSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.targets import BodyOf, Target
from projector.store.budgets import Limit
from projector.workflows.definition import Step

_INPUTS: Final = frozenset({"input", "message"})
"""Members of the inputs that are not needed after the first response."""
_PARAMETERS: Final[Mapping[str, str]] = {"temperature": "temperature", "max_tokens": "max_output_tokens"}
"""Member of `configurable` -> parameter of an agent request."""


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
            budgets = self._site.logs.store.budgets
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


class AgentWorkflow(RunnableWorkflow):
    """An agent that can be run."""

    def __init__(self, binding: AgentBinding, site: Site) -> None:
        super().__init__(binding.redactor)
        self._name = str(binding.name)
        self.agents = (self._name,)
        self._binding = binding
        self._site = site

    def document(self) -> dict[str, Any]:
        """Return the definition: one node."""
        return definition(self._name, [node_of(AGENT_NODE_ID, self._name)])

    def resume(self, run: HostRun, record: Mapping[str, Any]) -> AgentWork:
        """See `RunnableWorkflow`. The input is not kept: the provider has it."""
        inputs = {**record["inputs"], "message": "-"}
        configurable = Configurable.model_validate(record["configurable"])
        request = RunRequest.model_construct(workflow_id=self._name, inputs=inputs, configurable=configurable)
        whole_body_of, _ = self._parse(request)
        targets = self._binding.targets.targets
        home = [target for target in targets if target.provider.name == record["upstream"]][:1] or targets
        body_of = _same(_without_input(whole_body_of(home[0])))
        stats = self._binding.stats(DIALECT, run.caller, body_of(home[0]), record["conversation_id"])
        stats.stream_id = run.run_id
        binding = replace(self._binding, redactor=self.redactor(record["verbosity"]))
        work = AgentWork(run, binding, body_of, home, stats, self._site, request, is_continued=True)
        work.restore(record, self.agents)
        return work

    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate `inputs`, which are those of `/api/v1/chat/stream` without the agent."""
        check_configurable(request.configurable)
        ownership = self._site.ownership
        targets = self._binding.targets.in_order()
        body_of, conversation_id = self._parse(request)
        try:
            body = body_of(targets[0])
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        previous = body.get("previous_response_id")
        if isinstance(previous, str):
            ownership.check_response(previous, caller)
        if conversation_id is not None:
            ownership.enter_conversation(conversation_id, caller)
        home = home_targets(body, targets, self._binding.targets.targets, ownership)
        redactor = self.redactor(request.configurable.reasoning_verbosity)
        stats = self._binding.stats(DIALECT, caller, body, conversation_id)

        def begin(run: HostRun) -> AgentWork:
            stats.stream_id = run.run_id
            binding = replace(self._binding, redactor=redactor)
            work = AgentWork(run, binding, body_of, home, stats, self._site, request)
            begin_stream(scope, stats)  # the work reports its end
            return work

        return begin

    def _parse(self, request: RunRequest) -> tuple[BodyOf, str | None]:
        """Return the writer of the request's bodies, and the ID of its conversation."""
        options = {name: getattr(request.configurable, member) for member, name in _PARAMETERS.items()}
        parameters = present(**options)
        inputs = dict(request.inputs)
        if "agent" in inputs:
            raise HostError("validation_error", "`inputs.agent` is not supported: `workflowId` names the agent.")
        if parameters:
            own = inputs.get("parameters", {})
            inputs["parameters"] = own | parameters if isinstance(own, dict) else own
        try:
            chat = requests.parse(requests.ChatRequest, inputs)
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        return cache(partial(agent_body, chat, self._binding)), chat.conversation_id


class AgentWork(StreamWork):
    """Work of a run of an agent. While the run waits for approval it does not count as a stream."""

    def __init__(
        self,
        run: HostRun,
        binding: AgentBinding,
        body_of: BodyOf,
        targets: Sequence[Target],
        stats: StreamStats,
        site: Site,
        request: RunRequest,
        *,
        is_continued: bool = False,
    ) -> None:
        self._binding = binding
        self._options = {
            "inputs": {name: value for name, value in request.inputs.items() if name not in _INPUTS},
            "configurable": request.configurable.model_dump(by_alias=True, exclude_none=True),
        }
        self._is_continued = is_continued
        self._body_of = body_of
        self._targets = targets
        stats.on_response = lambda response_id, upstream: site.ownership.add_response(response_id, run.caller, upstream)
        pipeline = build_pipeline(
            provider=binding.provider.api,
            profile=binding.provider.profile,
            dialect=DIALECT,
            redactor=binding.redactor.for_request(body_of(targets[0]), secrets.token_bytes(16)),
            context=StreamContext(run.run_id, stats.conversation_id, binding.name),
            run=True,
            output_format="ndjson",
            takes_host_events=binding.provider.upstream.is_recording,
            on_frame=self._on_frame,
            options=DialectOptions(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                node_id=AGENT_NODE_ID,
                type_id=AGENT_TYPE_ID,
                provider=_only(binding.targets.upstreams),
            ),
        )
        super().__init__(run, stats, site, pipeline, binding.redactor, len(codec.dumps(body_of(targets[0]))))

    async def run(self, run: HostRun) -> None:
        """Write all events of one response, and of another one after each approval."""
        while True:
            if not self._is_continued:
                await self._read_response()
                if self._pipeline.ended or not run.is_suspended:
                    break
            if run.log.asks:
                run.park()
                self._release()
                if self._site.streams.is_draining:
                    raise RunFailedError(FAULTS["server_shutdown"])
            answers = await run.answers()
            self._body_of = _same(self._approval_body(self._body_of(self._targets[0]), answers))
            if not self._is_continued:
                run.log.extend(self._pipeline.next_response())
            self._is_continued = False
        run.log.extend(self._pipeline.close())

    def record(self) -> dict[str, Any]:
        """See `Work`."""
        return super().record() | self._options | {"upstream": self._targets[0].provider.name}

    async def _read_response(self) -> None:
        assert self._account is not None  # noqa: S101 - the run is admitted while it reads
        source = self._binding.source(self._pipeline, self._body_of, self.stats, self._account, self._targets)
        self._is_complete = False
        await self._read(source)
        self._targets = (source.target,)  # it stores the response that answers belong to
        self._body_of = _same(_without_input(self._body_of(source.target)))  # not needed while the run waits
        if self._rate_limits is not None and self._run.is_suspended:
            await self._rate_limits.settle()  # the run may wait for hours

    def check_answer(self, run: HostRun, interrupt: Interrupt) -> None:
        """Check that the provider waits for the answer; the last one makes the run count as a stream again."""
        super().check_answer(run, interrupt)
        if len(run.log.state.pending) == 1 and self._account is None:
            self._admit()

    def _on_frame(self, frame: Frame) -> None:
        if frame["kind"] == Kind.LIFECYCLE:
            self._is_complete = frame["status"] not in ACTIVE_STATUSES
        self.stats.on_frame(frame)


class StepsWorkflow(RunnableWorkflow):
    """A workflow that can be run."""

    def __init__(self, binding: WorkflowBinding, site: Site) -> None:
        super().__init__(binding.redactor)
        self._site = site
        self._binding = binding
        self.agents = tuple(binding.agents)

    def is_allowed(self, grant: Grant) -> bool:
        """See `RunnableWorkflow`."""
        return grant.allows_workflow(self._binding.name, self.agents)

    def resume(self, run: HostRun, record: Mapping[str, Any]) -> StepsWork:
        """See `RunnableWorkflow`."""
        stats = self._stats(run.caller, record["conversation_id"], record["metadata"])
        stats.stream_id = run.run_id
        binding = replace(self._binding, redactor=self.redactor(record["verbosity"]))
        work = StepsWork(run, binding, record["message"], stats, self._site)
        work.restore(record, self.agents)
        return work

    def _stats(self, caller: str, conversation_id: str | None, metadata: Mapping[str, str]) -> StreamStats:
        return StreamStats(
            dialect=DIALECT,
            caller=caller,
            agent=self._binding.name,
            conversation_id=conversation_id,
            metadata=metadata,
        )

    def document(self) -> dict[str, Any]:
        """Return the definition: a node for each step, edges from each stage to the next."""
        stages = [
            [(step_node_id(step, self._binding.name), step) for step in stage]
            for stage in self._binding.definition.stages
        ]
        nodes = [node_of(node_id, step.agent) for stage in stages for node_id, step in stage]
        edges = [
            {"id": f"{source}->{target}", "sourceNodeId": source, "targetNodeId": target}
            for before, after in pairwise(stages)
            for source, _ in before
            for target, _ in after
        ]
        return definition(self._binding.name, nodes) | {"edges": edges}

    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate `inputs`, which are those of the workflow's own route."""
        check_configurable(request.configurable, "temperature", "max_tokens")
        try:
            inputs = requests.parse(requests.WorkflowRequest, request.inputs)
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        if inputs.conversation_id is not None:
            self._site.ownership.enter_conversation(inputs.conversation_id, caller)
        redactor = self.redactor(request.configurable.reasoning_verbosity)
        stats = self._stats(caller, inputs.conversation_id, inputs.metadata or {})

        def begin(run: HostRun) -> StepsWork:
            stats.stream_id = run.run_id
            work = StepsWork(run, replace(self._binding, redactor=redactor), inputs.message, stats, self._site)
            begin_stream(scope, stats)
            return work

        return begin


class StepsWork(StreamWork):
    """Work of a run of a workflow, which counts as one stream."""

    def __init__(self, run: HostRun, binding: WorkflowBinding, message: str, stats: StreamStats, site: Site) -> None:
        upstreams = frozenset[str]().union(*(agent.targets.upstreams for agent in binding.agents.values()))
        pipeline = binding.first.pipeline(
            binding.redactor,
            stats,
            StreamContext(
                run.run_id,
                stats.conversation_id,
                workflow={"workflow_key": binding.name, "workflow_run_id": run.run_id},
            ),
            options=DialectOptions(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                type_id=AGENT_TYPE_ID,
                provider=_only(upstreams),
            ),
            output_format="ndjson",
            is_run=True,
        )
        super().__init__(run, stats, site, pipeline, binding.redactor, len(message))
        assert self._account is not None  # noqa: S101 - the run is admitted now
        self._message = message
        self._steps = WorkflowSource(
            binding,
            message,
            pipeline,
            stats,
            self._account,
            run_id=run.run_id,
            continue_step=self._continue,
            has_to_wait=lambda step: self._is_pending(step_node_id(step, run.workflow_id)),
            on_idle=self._stop_to_park,
        )

    async def run(self, run: HostRun) -> None:
        """Write the events of all steps; a step with an approval waits for it while others continue."""
        await self._read(self._steps)
        if self._steps.is_idle:
            raise RunParkedError
        run.log.extend(self._pipeline.close())

    def record(self) -> dict[str, Any]:
        """See `Work`."""
        return super().record() | {"message": self._message, "source": self._steps.record()}

    def restore(self, record: Mapping[str, Any], agents: Sequence[str]) -> None:
        """See `StreamWork`."""
        super().restore(record, agents)
        self._steps.restore(record["source"])

    def _is_pending(self, node_id: str) -> bool:
        return node_id in self._run.log.asks

    def _stop_to_park(self) -> None:
        """Stop when all steps wait, if any server may continue the run."""
        if self._run.can_park:
            self._steps.stop()
            self._run.log.wake()

    async def _continue(self, step: Step, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Wait for the answers to the approvals of a step; return the next request, None if there are no approvals."""
        node_id = step_node_id(step, self._run.workflow_id)
        if self._site.streams.is_draining and self._is_pending(node_id) and not self._run.can_park:
            self._run.stop(FAULTS["server_shutdown"])
            return None
        try:
            answers = await self._run.answers(node_id, lambda: self._steps.is_stopped)
        except RunFailedError as error:
            self._run.stop(error.fault)  # the response of the step has ended, so only the run can fail
            return None
        except RunStoppedError:
            return None
        return self._approval_body(body, answers) if answers else None


def step_node_id(step: Step, workflow: str) -> str:
    """Return the id of the node of a step."""
    return shortened(position_of(step.context(workflow, "").workflow)[1])


def approval_response(subject_id: str, answer: Decision) -> dict[str, Any]:
    """Return the input item of the provider that answers an approval request."""
    item = {"type": "mcp_approval_response", "approval_request_id": subject_id, "approve": answer.is_accepted}
    return item | present(reason=None if answer.is_accepted else answer.reason)


def _same(body: Mapping[str, Any]) -> BodyOf:
    return lambda _: body


def _without_input(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name != "input"}


def _only(names: Collection[str]) -> str | None:
    """Return the only name, None if there are several."""
    return next(iter(names)) if len(names) == 1 else None
