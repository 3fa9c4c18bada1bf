"""Runs of the workflows of the configuration: their steps are the nodes, in order. Prompts are not published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from starlette.types import Scope

from projector import StreamContext
from projector.core.faults import FAULTS
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import position_of
from projector.openwop.conformance.definitions import definition
from projector.openwop.event_log import shortened
from projector.openwop.host.bindings import (
    AGENT_TYPE_ID,
    Begin,
    RunnableWorkflow,
    check_configurable,
    node_of,
)
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_requests import RunRequest
from projector.openwop.host.runs import HostRun, RunFailedError, RunParkedError, RunStoppedError
from projector.openwop.host.settings import DIALECT
from projector.openwop.host.stream_work import StreamWork, only
from projector.server.catalog import WorkflowBinding
from projector.server.control.rights import Grant
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.stream_route import Site
from projector.server.streaming.workflow_source import WorkflowSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream
from projector.workflows.definition import Step


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
                provider=only(upstreams),
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
