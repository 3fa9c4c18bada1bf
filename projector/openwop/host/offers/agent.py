"""An agent of the configuration as a workflow of one node; what it is told and which tools it has stays here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Scope

from projector.contracts import codec
from projector.openwop.event_log import Verbosity
from projector.openwop.host.asked import RunRequest
from projector.openwop.host.names import AGENT_NODE_ID, DIALECT
from projector.openwop.host.offers.offer import Begin, definition, least, node_of, refuse_what_is_not_settable
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run
from projector.openwop.host.work.agent import AgentAsk, AgentWork
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.request_bodies import agent_body
from projector.server.http.routes.stream_route import Site
from projector.server.telemetry.tracing import begin_stream

_PARAMETERS: Final[Mapping[str, str]] = {"temperature": "temperature", "max_tokens": "max_output_tokens"}
"""Member of `configurable` -> parameter of a request to an agent."""


class AgentWorkflow:
    """One agent."""

    def __init__(self, offer: AgentBinding, site: Site) -> None:
        self._name = str(offer.name)
        self._offer = offer
        self._site = site
        self._redactors: dict[Verbosity, Redactor] = {offer.settings.policy.reasoning: offer.redactor}

    @property
    def verbosity(self) -> Verbosity:
        """The agent's policy."""
        return self._offer.settings.policy.reasoning

    def document(self) -> dict[str, Any]:
        """Give its definition: one node."""
        return definition(self._name, [node_of(AGENT_NODE_ID, self._name)])

    def prepare(self, asked: RunRequest, caller: str, scope: Scope) -> Begin:
        """Read `inputs`: what `/api/v1/chat/stream` takes, without the agent."""
        refuse_what_is_not_settable(asked.configurable)
        ask = self._read(asked)
        self._check_owner(ask, caller)
        stats = begin_stream(scope, self._offer.stats(DIALECT, caller, ask.body, ask.conversation_id))

        def begin(run: Run) -> AgentWork:
            stats.stream_id = run.run_id
            return AgentWork(run, ask, stats, self._site)

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
            chat = requests.parse_chat(inputs)
            body = agent_body(chat, self._offer)
        except Problem as refused:
            raise Refusal("validation_error", f"`inputs`: {refused.detail}") from None
        redactor = self._redactor(asked.configurable.reasoning_verbosity)
        return AgentAsk(self._offer, redactor, body, len(codec.dumps(body)), chat.conversation_id)

    def _redactor(self, asked: Verbosity | None) -> Redactor:
        """Give the policy of a run, which may tell less of its reasoning than its agent's and never more."""
        wanted = least(self.verbosity, asked)
        if wanted not in self._redactors:
            policy = self._offer.settings.policy.model_copy(update={"reasoning": wanted})
            self._redactors[wanted] = Redactor(policy)
        return self._redactors[wanted]

    def _check_owner(self, ask: AgentAsk, caller: str) -> None:
        previous = ask.body.get("previous_response_id")
        if isinstance(previous, str):
            self._site.ownership.check_response(previous, caller)
        if ask.conversation_id is not None:
            self._site.ownership.enter_conversation(ask.conversation_id, caller)
