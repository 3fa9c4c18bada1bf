"""A workflow of the configuration: its steps are the nodes, in their order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from starlette.types import Scope

from projector.dialects.workflow import position_of
from projector.openwop.event_log import Verbosity, shortened
from projector.openwop.host.asked import RunRequest
from projector.openwop.host.names import DIALECT
from projector.openwop.host.offers.offer import Begin, definition, least, node_of, refuse_what_is_not_settable
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run
from projector.openwop.host.work.steps import StepsAsk, StepsWork
from projector.redaction.redactor import Redactor
from projector.server.catalog import WorkflowBinding
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.routes.stream_route import Site
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream
from projector.workflows.definition import Step


class StepsWorkflow:
    """One workflow."""

    def __init__(self, offer: WorkflowBinding, site: Site) -> None:
        self._site = site
        self._offers: dict[Verbosity, WorkflowBinding] = {offer.redactor.policy.reasoning: offer}
        self._offer = offer

    @property
    def verbosity(self) -> Verbosity:
        """Its policy."""
        return self._offer.redactor.policy.reasoning

    def document(self) -> dict[str, Any]:
        """Give its definition, without what the steps are told."""
        stages = [[(self._node_id(step), step) for step in stage] for stage in self._offer.definition.stages]
        nodes = [node_of(node_id, step.agent) for stage in stages for node_id, step in stage]
        edges = [
            {"id": f"{source}->{target}", "sourceNodeId": source, "targetNodeId": target}
            for before, after in pairwise(stages)
            for source, _ in before
            for target, _ in after
        ]
        return definition(self._offer.name, nodes) | {"edges": edges}

    def _node_id(self, step: Step) -> str:
        """Give what the events of a step call its node."""
        return shortened(position_of(step.context(self._offer.name, "").workflow)[1])

    def prepare(self, asked: RunRequest, caller: str, scope: Scope) -> Begin:
        """Read `inputs`: what the workflow's own path takes."""
        refuse_what_is_not_settable(asked.configurable, "temperature", "max_tokens")
        try:
            request = requests.parse_workflow(asked.inputs)
        except Problem as refused:
            raise Refusal("validation_error", f"`inputs`: {refused.detail}") from None
        if request.conversation_id is not None:
            self._site.ownership.enter_conversation(request.conversation_id, caller)
        offer = self._telling(least(self.verbosity, asked.configurable.reasoning_verbosity))
        ask = StepsAsk(offer, request.message, request.conversation_id)
        facts = StreamStats(
            dialect=DIALECT,
            caller=caller,
            agent=offer.name,
            conversation_id=request.conversation_id,
            metadata=request.metadata or {},
        )
        stats = begin_stream(scope, facts)

        def begin(run: Run) -> StepsWork:
            stats.stream_id = run.run_id
            return StepsWork(run, ask, stats, self._site)

        return begin

    def _telling(self, wanted: Verbosity) -> WorkflowBinding:
        """Give the workflow with what is told of its reasoning."""
        if wanted not in self._offers:
            policy = self._offer.redactor.policy.model_copy(update={"reasoning": wanted})
            self._offers[wanted] = replace(self._offer, redactor=Redactor(policy))
        return self._offers[wanted]
