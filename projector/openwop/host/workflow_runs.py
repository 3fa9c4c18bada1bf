"""Workflows of the configuration: their steps are the nodes, in order. Prompts of the steps are not published."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from starlette.types import Scope

from projector import StreamContext
from projector.dialects.options import DialectOptions
from projector.dialects.workflow import position_of
from projector.openwop.conformance.definitions import definition
from projector.openwop.event_log import shortened
from projector.openwop.host.bindings import AGENT_TYPE_ID, Begin, RunRedactors, StreamWork, check_configurable, node_of
from projector.openwop.host.host_errors import APPROVAL_IN_STEP, HostError
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.run_requests import RunRequest
from projector.openwop.host.runs import HostRun, RunFailedError
from projector.openwop.host.settings import DIALECT
from projector.server.catalog import WorkflowBinding
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.stream_route import Site
from projector.server.streaming.workflow_source import WorkflowSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream
from projector.workflows.definition import Step


class StepsWorkflow:
    """A workflow that can be run."""

    def __init__(self, binding: WorkflowBinding, site: Site) -> None:
        self._site = site
        self._binding = binding
        self._redactors = RunRedactors(binding.redactor)
        self.verbosity = self._redactors.verbosity

    def document(self) -> dict[str, Any]:
        """Return the definition: a node for each step, edges from each stage to the next."""
        stages = [[(self._node_id(step), step) for step in stage] for stage in self._binding.definition.stages]
        nodes = [node_of(node_id, step.agent) for stage in stages for node_id, step in stage]
        edges = [
            {"id": f"{source}->{target}", "sourceNodeId": source, "targetNodeId": target}
            for before, after in pairwise(stages)
            for source, _ in before
            for target, _ in after
        ]
        return definition(self._binding.name, nodes) | {"edges": edges}

    def _node_id(self, step: Step) -> str:
        """Return the node id of a step, as in its events."""
        return shortened(position_of(step.context(self._binding.name, "").workflow)[1])

    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate `inputs`, which are those of the workflow's own route."""
        check_configurable(request.configurable, "temperature", "max_tokens")
        try:
            inputs = requests.parse_workflow(request.inputs)
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        if inputs.conversation_id is not None:
            self._site.ownership.enter_conversation(inputs.conversation_id, caller)
        redactor = self._redactors.at_most(request.configurable.reasoning_verbosity)
        facts = StreamStats(
            dialect=DIALECT,
            caller=caller,
            agent=self._binding.name,
            conversation_id=inputs.conversation_id,
            metadata=inputs.metadata or {},
        )
        stats = begin_stream(scope, facts)

        def begin(run: HostRun) -> StepsWork:
            stats.stream_id = run.run_id
            return StepsWork(run, replace(self._binding, redactor=redactor), inputs.message, stats, self._site)

        return begin


class StepsWork(StreamWork):
    """Work of a run of a workflow, which counts as one stream."""

    def __init__(self, run: HostRun, binding: WorkflowBinding, message: str, stats: StreamStats, site: Site) -> None:
        providers = {agent.provider.name for agent in binding.agents.values()}
        pipeline = binding.pipeline(
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
                provider=providers.pop() if len(providers) == 1 else None,
            ),
            output_format="ndjson",
        )
        super().__init__(run, stats, site, pipeline, len(message))
        assert self._account is not None  # noqa: S101 - the run is admitted now
        self._steps = WorkflowSource(binding, message, pipeline, stats, self._account, run_id=run.run_id)

    async def run(self, run: HostRun) -> None:
        """Write all events.

        Raises:
            RunFailedError: a required step failed before any output, a step requires an approval, or the log is full.
            RunStoppedError: the run was stopped.
        """
        await self._read(self._steps)
        if run.log.state.pending and not self._pipeline.ended:
            raise RunFailedError(APPROVAL_IN_STEP)
        run.log.extend(self._pipeline.close())

    def answer(self, _run: HostRun, _interrupt: Interrupt, _value: object) -> object:
        """Reject the answer: workflow steps do not support approvals.

        Raises:
            HostError: always.
        """
        raise HostError("interrupt_not_found", APPROVAL_IN_STEP.message)
