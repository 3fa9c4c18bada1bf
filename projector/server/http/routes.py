"""The routes of a server: chat, workflows, AG-UI, passthrough, cancelling, probes, metrics, the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from projector.contracts.limits import ID_MAX_CHARS
from projector.core.faults import FAULTS
from projector.dialects.ag_ui.conversation import approvals
from projector.dialects.ag_ui.run_input import InputRefusedError, dialect_options, read_run_input
from projector.providers import PROVIDERS
from projector.server.catalog import AgentBinding, Catalog, WorkflowBinding, chosen_dialect
from projector.server.config.settings import Settings
from projector.server.http.problems import problem, problem_of_fault, request_id
from projector.server.http.request_bodies import agent_body, passthrough_body, run_body
from projector.server.http.requests import parse_chat, parse_workflow
from projector.server.http.stream_route import Parse, ProviderCall, Received, SessionRoute, Site, StreamRoute
from projector.server.ownership import Ownership
from projector.server.streaming.registry import Streams
from projector.server.streaming.session import StreamSession
from projector.server.streaming.workflow_source import workflow_source
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream

_AG_UI: Final = "ag_ui"


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Return the routes of what is configured, and those of every server."""
    found: list[tuple[str, SessionRoute]] = []
    if catalog.agents:
        dialects = {dialect for agent in catalog.agents.values() for dialect in agent.settings.dialects}
        found.append(("/api/v1/chat/stream", StreamRoute(_chat_parser(catalog), site, dialects)))
    if catalog.workflows:
        found.append(("/api/v1/workflows/{workflow_key}/run-stream", WorkflowRoute(catalog.workflows, site)))
    if agents := catalog.agents_with(_AG_UI):
        found.append(("/api/v1/ag-ui/{agent}", StreamRoute(_ag_ui_parser(agents, site.ownership), site, (_AG_UI,))))
    for binding in catalog.passthrough.values():
        if (row := PROVIDERS[binding.provider.api].passthrough) is not None:
            parse = _passthrough_parser(binding, row.required, site.settings)
            found.append((row.path, StreamRoute(parse, site, binding.settings.dialects)))
    return [
        *(Route(path, route, methods=["POST"]) for path, route in found),
        Route("/api/v1/streams/{stream_id}/cancel", _cancel, methods=["POST"]),
        Route("/openapi.json", _openapi),
        Route("/metrics", _metrics),
        Route("/livez", _alive),
        Route("/healthz", _alive),
        Route("/readyz", _ready),
    ]


# chat


def _chat_parser(catalog: Catalog) -> Parse:
    def parse(body: dict[str, Any], _path: Mapping[str, str]) -> ProviderCall:
        request = parse_chat(body)
        binding = catalog.agent(request.agent)
        body = agent_body(request, binding)
        return ProviderCall(binding, body, request.agent, request.conversation_id, request.metadata or {})

    return parse


# workflows


class WorkflowRoute(SessionRoute):
    """The route that runs workflows."""

    def __init__(self, bindings: dict[str, WorkflowBinding], site: Site) -> None:
        super().__init__(site, {dialect for binding in bindings.values() for dialect in binding.settings.dialects})
        self._bindings = bindings

    def session(self, received: Received) -> StreamSession:
        """Return the session of a run; see `SessionRoute`."""
        scope, body, caller, account = received
        binding = self._bindings.get(scope["path_params"]["workflow_key"])
        if binding is None:
            raise problem("unknown_workflow")
        request = parse_workflow(body)
        dialect = chosen_dialect(received.dialect, binding.settings.dialects)
        if request.conversation_id is not None:
            self._site.ownership.enter_conversation(request.conversation_id, caller)
        facts = StreamStats(
            dialect=dialect,
            caller=caller,
            conversation_id=request.conversation_id,
            metadata=request.metadata or {},
        )
        stats, settings = begin_stream(scope, facts), self._site.settings
        source = workflow_source(binding, request.message, stats, account)
        return StreamSession(stats, source, account, timeouts=settings.timeouts, heartbeat_s=settings.heartbeat_s)


# AG-UI: the client holds the conversation. A thread belongs to the caller that created it, like a conversation. An
# approval is accepted only if this server requested it (docs/decisions/0008).


def _ag_ui_parser(bindings: Mapping[str, AgentBinding], ownership: Ownership) -> Parse:
    def parse(body: dict[str, Any], path: Mapping[str, str]) -> ProviderCall:
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
        return ProviderCall(binding, body, name, request.thread_id, options=dialect_options(request))

    return parse


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


def _passthrough_parser(binding: AgentBinding, required: str, settings: Settings) -> Parse:
    def parse(body: dict[str, Any], _path: Mapping[str, str]) -> ProviderCall:
        request = passthrough_body(body, binding, required=required)
        conversation_id = _conversation_id(request)
        if conversation_id is not None and settings.auth.is_on:
            raise problem("unknown_conversation")  # it was not created here, so its owner is unknown
        is_stream = body.get("stream")
        if not isinstance(is_stream, bool | None):
            raise problem("invalid_request", "`stream` must be true or false.")
        return ProviderCall(binding, request, conversation_id=conversation_id, is_stream=is_stream)

    return parse


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


# without a stream


async def _alive(_request: Request) -> Response:
    """Respond if the event loop is running. Sends no request to an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


async def _cancel(request: Request) -> Response:
    """Cancel a stream. Idempotent: the client may not know yet that the stream has ended."""
    site: Site = request.app.state.site
    caller = await site.authenticator.caller(request.scope)
    if not site.streams.cancel(request.path_params["stream_id"], caller):
        raise problem("unknown_stream")
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"x-request-id": request_id(request.scope)})


async def _metrics(request: Request) -> Response:
    """Return the metrics, which contain no IDs and no payload."""
    return Response(request.app.state.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _openapi(request: Request) -> Response:
    """Return the OpenAPI document. The first call generates it, off the event loop: that takes some 0.1 s."""
    return Response(await to_thread.run_sync(request.app.state.openapi), media_type="application/json")


async def _ready(request: Request) -> Response:
    """Respond if new streams are accepted."""
    streams: Streams = request.app.state.streams
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    return await _alive(request)
