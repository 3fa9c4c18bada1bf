"""What may be run: an agent of the configuration is a workflow of one node; those of configured nodes stand beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from starlette.types import Scope

from contracts.openwop.parts import Verbosity
from projector.asgi import requests, tracing
from projector.asgi.bodies import agent_body
from projector.asgi.catalog import Offer
from projector.asgi.openwop.agent import DIALECT, NODE_ID, TYPE_ID, AgentAsk, AgentWork
from projector.asgi.openwop.asked import RunRequest
from projector.asgi.openwop.planned import PlannedWork
from projector.asgi.openwop.refusals import Refusal
from projector.asgi.openwop.run import Run, Work
from projector.asgi.openwop.settings import OpenWop
from projector.asgi.problems import Problem
from projector.asgi.record import Record
from projector.asgi.request_ids import request_id
from projector.asgi.routes.stream import Site
from projector.openwop import plan
from projector.openwop.definitions import Registered
from projector.openwop.log import agent_id
from redaction.mint import Redactor
from redaction.policy import Policy

Begin: TypeAlias = Callable[[Run], Work]
"""Gives the work of a run; raises `Problem` where there is no room for it."""

VERBOSITIES: Final[tuple[Verbosity, ...]] = ("off", "summary", "full")
"""From the least that is told of reasoning to the most."""

_PARAMETERS: Final[Mapping[str, str]] = {"temperature": "temperature", "max_tokens": "max_output_tokens"}
"""Member of `configurable` -> parameter of a request to an agent."""
_NOT_OURS_TO_SET: Final[Mapping[str, str]] = {"model": "model", "prompt_overrides": "promptOverrides"}


class Workflow(Protocol):
    """Something that may be run."""

    @property
    def verbosity(self) -> Verbosity:
        """The most that it tells of reasoning."""
        ...

    def document(self) -> dict[str, Any]:
        """Give its definition, as the protocol writes one."""
        ...

    def prepare(self, asked: RunRequest, caller: str, scope: Scope) -> Begin:
        """Read what a run is asked.

        Raises:
            Problem: it may not be asked so, or not by this caller.
        """
        ...


class AgentWorkflow:
    """An agent of the configuration; what it is told and which tools it has stays on the server."""

    def __init__(self, offer: Offer, site: Site) -> None:
        self._name = str(offer.name)
        self._offer = offer
        self._site = site
        self._redactors: dict[Verbosity, Redactor] = {offer.agent.policy.reasoning: offer.redactor}

    @property
    def verbosity(self) -> Verbosity:
        """The agent's policy."""
        return self._offer.agent.policy.reasoning

    def document(self) -> dict[str, Any]:
        """Give its definition: one node."""
        node = {"id": NODE_ID, "typeId": TYPE_ID, "name": self._name, "agent": {"agentId": agent_id(self._name)}}
        return _definition(self._name, [node])

    def prepare(self, asked: RunRequest, caller: str, scope: Scope) -> Begin:
        """Read `inputs`: what `/api/v1/chat/stream` takes, without the agent."""
        for member, name in _NOT_OURS_TO_SET.items():
            if getattr(asked.configurable, member) is not None:
                raise Refusal("validation_error", f"`configurable.{name}` cannot be set here.")
        ask = self._read(asked)
        self._check_owner(ask, caller)
        record = self._record(ask, caller, scope)
        trace = tracing.begin(scope, record)
        record.trace_id = trace.trace_id

        def begin(run: Run) -> Work:
            record.stream_id = run.run_id
            return AgentWork(run, ask, record, trace, self._site)

        return begin

    def _read(self, asked: RunRequest) -> AgentAsk:
        given = {said: getattr(asked.configurable, name) for name, said in _PARAMETERS.items()}
        said = {name: value for name, value in given.items() if value is not None}
        inputs = dict(asked.inputs)
        if "agent" in inputs:
            raise Refusal("validation_error", "`inputs.agent` is not known here: `workflowId` names the agent.")
        if said:
            own = inputs.get("parameters", {})
            inputs["parameters"] = own | said if isinstance(own, dict) else own
        try:
            chat = requests.chat(inputs)
            body = agent_body(chat, self._offer)
        except Problem as refused:
            raise Refusal("validation_error", f"`inputs`: {refused.detail}") from None
        return AgentAsk(self._offer, self._redactor(asked.configurable.reasoning_verbosity), body, chat.conversation_id)

    def _redactor(self, asked: Verbosity | None) -> Redactor:
        """Give the policy of a run, which may tell less of its reasoning than its agent's and never more."""
        wanted = min(self.verbosity, asked or self.verbosity, key=VERBOSITIES.index)
        if wanted not in self._redactors:
            policy = self._offer.agent.policy.model_copy(update={"reasoning": wanted})
            self._redactors[wanted] = Redactor(policy)
        return self._redactors[wanted]

    def _check_owner(self, ask: AgentAsk, caller: str) -> None:
        previous = ask.body.get("previous_response_id")
        if isinstance(previous, str):
            self._site.owners.check_response(previous, caller)
        if ask.conversation_id is not None:
            self._site.owners.enter(ask.conversation_id, caller)

    def _record(self, ask: AgentAsk, caller: str, scope: Scope) -> Record:
        provider, model = self._offer.provider, ask.body.get("model")
        return Record(
            stream_id="",
            request_id=request_id(scope),
            dialect=DIALECT,
            caller=caller,
            agent=self._name,
            upstream=provider.name,
            api=provider.api,
            server_address=provider.address[0],
            server_port=provider.address[1],
            model=model if isinstance(model, str) else "",
            conversation_id=ask.conversation_id,
        )


class PlannedWorkflow:
    """A workflow of configured nodes, for conformance only."""

    def __init__(self, registered: Registered, settings: OpenWop, redactor: Redactor) -> None:
        self._registered = registered
        self._settings = settings
        self._redactor = redactor

    @property
    def verbosity(self) -> Verbosity:
        """Everything is told."""
        return "full"

    def document(self) -> dict[str, Any]:
        """Give the definition."""
        said = self._registered.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
        return _definition(self._registered.workflow_id, said.pop("nodes")) | said

    def prepare(self, asked: RunRequest, caller: str, _scope: Scope) -> Begin:
        """Read what the run may set: how sure is sure enough, and how much of the reasoning is told."""
        named = self._settings.conformance_callers
        if named and caller not in named:
            raise Refusal("forbidden")
        said = asked.configurable
        threshold = said.escalation_threshold
        if threshold is None:
            threshold = self._settings.escalation_threshold

        def begin(run: Run) -> Work:
            about = plan.Run(run.run_id, self._redactor, threshold, said.reasoning_verbosity or self.verbosity)
            return PlannedWork(self._registered.steps(about))

        return begin


def workflows(settings: OpenWop, agents: Mapping[str, Offer], site: Site) -> dict[str, Workflow]:
    """Give everything that may be run, by id."""
    redactor = Redactor(Policy())
    found: dict[str, Workflow] = {name: AgentWorkflow(offer, site) for name, offer in agents.items()}
    found |= {name: PlannedWorkflow(one, settings, redactor) for name, one in settings.registered().items()}
    return found


def _definition(workflow_id: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Give a definition with every member that the protocol requires."""
    required = {"name": "", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}
    return {
        "id": workflow_id,
        "name": workflow_id,
        "version": "1.0",
        "nodes": [{**required, "name": node["id"], **node} for node in nodes],
        "edges": [],
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
        "variables": [],
        "metadata": {},
        "settings": {},
    }
