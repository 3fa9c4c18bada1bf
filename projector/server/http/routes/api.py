"""The routes that respond with a stream: chat, workflows, AG-UI, and the OpenAI-compatible ones (passthrough)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.routing import Route

from projector.contracts.limits import ID_MAX_CHARS
from projector.dialects.ag_ui.conversation import approvals
from projector.dialects.ag_ui.run_input import InputRefusedError, dialect_options, read_run_input
from projector.providers import PROVIDERS
from projector.server.catalog import AgentBinding, Catalog, WorkflowBinding, chosen_dialect
from projector.server.config.settings import Settings
from projector.server.http import requests
from projector.server.http.problems import problem
from projector.server.http.request_bodies import agent_body, passthrough_body, run_body
from projector.server.http.routes.stream_route import Ask, Asked, Reader, SessionRoute, Site, StreamRoute
from projector.server.ownership import Ownership
from projector.server.streaming.session import StreamSession
from projector.server.streaming.workflow_source import workflow_source
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream

_AG_UI: Final = "ag_ui"


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Return the routes that are configured."""
    found: list[tuple[str, SessionRoute]] = []
    if catalog.agents:
        dialects = {dialect for agent in catalog.agents.values() for dialect in agent.settings.dialects}
        found.append(("/api/v1/chat/stream", StreamRoute(_chat_reader(catalog), site, dialects)))
    if catalog.workflows:
        found.append(("/api/v1/workflows/{workflow_key}/run-stream", WorkflowRoute(catalog.workflows, site)))
    if agents := catalog.agents_with(_AG_UI):
        found.append(("/api/v1/ag-ui/{agent}", StreamRoute(_ag_ui_reader(agents, site.ownership), site, (_AG_UI,))))
    for binding in catalog.passthrough.values():
        if (row := PROVIDERS[binding.provider.api].passthrough) is not None:
            reader = _passthrough_reader(binding, row.required, site.settings)
            found.append((row.path, StreamRoute(reader, site, binding.settings.dialects)))
    return [Route(path, route, methods=["POST"]) for path, route in found]


# chat


def _chat_reader(catalog: Catalog) -> Reader:
    def read(body: dict[str, Any], _path: Mapping[str, str]) -> Ask:
        request = requests.parse_chat(body)
        binding = catalog.agent(request.agent)
        body = agent_body(request, binding)
        return Ask(binding, body, request.agent, request.conversation_id, request.metadata or {})

    return read


# workflows


class WorkflowRoute(SessionRoute):
    """The route that runs workflows."""

    def __init__(self, bindings: dict[str, WorkflowBinding], site: Site) -> None:
        super().__init__(site, {dialect for binding in bindings.values() for dialect in binding.settings.dialects})
        self._bindings = bindings

    def session(self, asked: Asked) -> StreamSession:
        """Return the session of a run; see `SessionRoute`."""
        binding = self._bindings.get(asked.scope["path_params"]["workflow_key"])
        if binding is None:
            raise problem("unknown_workflow")
        request = requests.parse_workflow(asked.body)
        dialect = chosen_dialect(QueryParams(asked.scope["query_string"]).get("dialect"), binding.settings.dialects)
        if request.conversation_id is not None:
            self._site.ownership.enter_conversation(request.conversation_id, asked.caller)
        facts = StreamStats(
            dialect=dialect,
            caller=asked.caller,
            conversation_id=request.conversation_id,
            metadata=request.metadata or {},
        )
        stats = begin_stream(asked.scope, facts)
        settings = self._site.settings
        source = workflow_source(binding, request.message, stats, asked.account, retries=settings.retries)
        return StreamSession(stats, source, asked.account, timeouts=settings.timeouts, heartbeat_s=settings.heartbeat_s)


# AG-UI: the client holds the conversation. A thread belongs to the caller that created it, like a conversation. An
# approval is accepted only if this server requested it (docs/decisions/0008).


def _ag_ui_reader(bindings: Mapping[str, AgentBinding], ownership: Ownership) -> Reader:
    def read(body: dict[str, Any], path: Mapping[str, str]) -> Ask:
        name = path["agent"]
        if name not in bindings:
            raise problem("unknown_agent")
        binding = bindings[name]
        try:
            request = read_run_input(body)
            approved = [] if binding.settings.trust_client_approvals else list(approvals(request))
        except InputRefusedError as error:
            raise problem("invalid_request", str(error)) from None
        body = run_body(request, binding, _response_of(approved, ownership))
        return Ask(binding, body, name, request.thread_id, options=dialect_options(request))

    return read


def _response_of(approval_ids: list[str], ownership: Ownership) -> str | None:
    """Return the response that requested these approvals, None if there are none. Its owner is checked later.

    Raises:
        Problem: an approval that was not requested, or approvals of several responses.
    """
    responses = {ownership.approval_response(approval_id) for approval_id in approval_ids}
    if len(responses) > 1:
        raise problem("invalid_request", "`resume` refers to more than one response.")
    return responses.pop() if responses else None


# passthrough: the body is forwarded, and the response is in the dialect that the request selects (CONTRACT D38).
# `"stream": false` requests a JSON response; without `stream` the dialect decides.


def _passthrough_reader(binding: AgentBinding, required: str, settings: Settings) -> Reader:
    def read(body: dict[str, Any], _path: Mapping[str, str]) -> Ask:
        request = passthrough_body(body, binding, required=required)
        conversation_id = _conversation_id(request)
        if conversation_id is not None and settings.auth.is_on:
            raise problem("unknown_conversation")  # it was not created here, so its owner is unknown
        is_stream = body.get("stream")
        if not isinstance(is_stream, bool | None):
            raise problem("invalid_request", "`stream` must be true or false.")
        return Ask(binding, request, conversation_id=conversation_id, is_stream=is_stream)

    return read


def _conversation_id(body: Mapping[str, Any]) -> str | None:
    """Return the `conversation` of a Responses API request, which is an ID or an object with one.

    Raises:
        Problem: another value, which a provider might still accept as an ID.
    """
    value = body.get("conversation")
    conversation_id = value.get("id") if isinstance(value, dict) else value
    if value is not None and not (isinstance(conversation_id, str) and len(conversation_id) <= ID_MAX_CHARS):
        raise problem("invalid_request", "`conversation` must be an ID, or an object with an `id`.")
    return conversation_id
