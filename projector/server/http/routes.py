"""The routes of a server: chat, workflows, AG-UI, passthrough, cancelling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from projector.conversation.client_history import InputRefusedError
from projector.conversation.model_request import UnsupportedRequestError
from projector.conversation.opaque import carried_in
from projector.core.intake import MakeStage
from projector.dialects.ag_ui import conversation as ag_ui
from projector.dialects.ai_sdk import conversation as ai_sdk
from projector.dialects.descriptor import DialectOptions
from projector.providers import PROVIDERS
from projector.server.catalog import AgentBinding, Catalog, PassthroughBinding, WorkflowBinding, chosen_dialect
from projector.server.config.caller_settings import AG_UI, AI_SDK, CHAT, WORKFLOWS
from projector.server.control.token_meter import INPUT_MAX, TokenMeter, input_tokens
from projector.server.http.count_routes import count_routes
from projector.server.http.internal_routes import HEALTH_ROUTES, INTERNAL_ROUTES, root_route
from projector.server.http.model_routes import ModelRoutes
from projector.server.http.named_streams import (
    CHAT_STREAM,
    RUN_STREAM,
    StreamName,
    chat_routes,
    response_routes,
    run_route,
)
from projector.server.http.pages import RecentStreams, demo_routes
from projector.server.http.problems import problem, request_id, unknown_agent_of
from projector.server.http.request_bodies import (
    agent_body,
    client_part,
    passthrough_body,
    read_entries,
    target_body,
    write_body,
)
from projector.server.http.requests import ChatRequest, WorkflowRequest, parse
from projector.server.http.site import Site
from projector.server.http.stored_references import conversation_id_of
from projector.server.http.stored_streams import StreamRoute, stream_routes
from projector.server.http.stream_route import (
    NameOf,
    ProviderCall,
    Received,
    SessionRoute,
    caller_headers,
    enter_passthrough,
    provider_session,
    with_carried_state,
)
from projector.server.streaming.log_session import Keeping, StoredStream
from projector.server.streaming.session import StreamSession
from projector.server.streaming.workflow_source import workflow_source
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.targets import Target


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Return the routes of what is configured, and those of every server."""
    streams = StreamRoutes(catalog, site)
    found: list[tuple[str, str, Callable[[Received], StreamSession], Collection[str]]] = []
    if catalog.agents:
        found.append((CHAT, "/api/v1/chat/stream", streams.chat, _dialects(catalog.agents)))
    if catalog.workflows:
        path = "/api/v1/workflows/{workflow_key}/run-stream"
        found.append((WORKFLOWS, path, streams.workflow, _dialects(catalog.workflows)))
    if catalog.agents_with(AI_SDK):
        found.append((AI_SDK, _OF_DIALECTS[AI_SDK], partial(streams.held, AI_SDK), (AI_SDK,)))
    found += [
        (name, one.route.path, partial(streams.passthrough, one), one.dialects)
        for name, one in catalog.passthrough.items()
    ]
    runs = _run_routes(catalog, site, streams)
    paths = [*(path for _, path, *_ in found), *(route.path for route in runs)]
    has_internal, has_pages = site.settings.admin is None, site.settings.demo_page
    return [
        *(
            StreamRoute(path, SessionRoute(site, name, opener, NAMES.get(name)), dialects, ["POST"])
            for name, path, opener, dialects in found
        ),
        *runs,
        *chat_routes(catalog.agents_with(AI_SDK)),
        *response_routes(catalog.passthrough),
        *count_routes(catalog.passthrough, site),
        *ModelRoutes(catalog, site).routes(),
        *stream_routes({dialect for *_, dialects in found for dialect in dialects}),
        *(INTERNAL_ROUTES if has_internal else ()),
        *HEALTH_ROUTES,
        *(_without_agents(dialect, path) for dialect, path in _OF_DIALECTS.items() if not catalog.agents_with(dialect)),
        *(RecentStreams(catalog, is_for_operators=False).routes() if has_pages else ()),
        *(demo_routes(catalog) if has_pages else (root_route(paths, has_openapi=has_internal),)),
    ]


def _run_routes(catalog: Catalog, site: Site, streams: StreamRoutes) -> list[Route]:
    """Return the route of AG-UI runs, which has a method more; none without agents."""
    agents = catalog.agents_with(AG_UI)
    if not agents:
        return []
    start = SessionRoute(site, AG_UI, partial(streams.held, AG_UI), _run_of)
    return [run_route(_OF_DIALECTS[AG_UI], agents, start)]


def _without_agents(dialect: str, path: str) -> Route:
    """Return the route of a dialect that no agent has: it responds as to an unknown agent, which names the setting."""

    async def refuse(_request: Request) -> Response:
        raise unknown_agent_of(dialect)

    return Route(path, refuse, methods=["GET", "POST"], include_in_schema=False)


_OF_DIALECTS: Final[Mapping[str, str]] = {AI_SDK: "/api/v1/ai-sdk/{agent}", AG_UI: "/api/v1/ag-ui/{agent}"}
"""Dialect -> path of the route that only agents with this dialect have."""


class _Held(NamedTuple):
    """A dialect with clients that hold the conversation."""

    api: Any
    """Module that reads it."""
    read: Callable[[Mapping[str, Any]], Any]
    id: str
    """Member with the ID of the conversation."""
    answers: str
    """Member with the answers to approvals."""


_HELD: Final[Mapping[str, _Held]] = {
    AG_UI: _Held(ag_ui, ag_ui.read_run_input, "thread_id", "resume"),
    AI_SDK: _Held(ai_sdk, ai_sdk.read_chat_input, "id", "messages"),
}


def _run_of(stored: StoredStream) -> StreamName:
    return StreamName(RUN_STREAM, stored.agent or "", stored.options.run_id or "")


def _chat_of(stored: StoredStream) -> StreamName:
    return StreamName(CHAT_STREAM, stored.agent or "", stored.conversation_id or "")


NAMES: Final[Mapping[str, NameOf]] = {AI_SDK: _chat_of}
"""Route -> what names its streams, so that clients find them without their ID."""


def _dialects(bindings: Mapping[str, AgentBinding] | Mapping[str, WorkflowBinding]) -> set[str]:
    return {dialect for binding in bindings.values() for dialect in binding.settings.dialects}


class StreamRoutes:
    """The sessions of the routes that respond with a stream; every method raises `Problem` for an invalid request."""

    def __init__(self, catalog: Catalog, site: Site) -> None:
        self._catalog = catalog
        self._site = site
        self._agents = {dialect: catalog.agents_with(dialect) for dialect in _HELD}

    def chat(self, received: Received) -> StreamSession:
        """Open a response of an agent."""
        request = parse(ChatRequest, received.body)
        binding = self._catalog.agent(request.agent, partial(received.grant.allows, "agents"))
        body_of = partial(agent_body, request, binding, kept=received.kept)
        call = ProviderCall(
            binding, body_of, request.agent, request.conversation_id, request.metadata or {}, entries=request.entries
        )
        return provider_session(self._site, received, call)

    def workflow(self, received: Received) -> StreamSession:
        """Open a run of a workflow."""
        scope, body, caller, account, grant, _ = received
        binding = self._catalog.workflows.get(scope["path_params"]["workflow_key"])
        if (
            binding is None
            or not grant.allows("workflows", binding.name)
            or not all(grant.allows("agents", one) for one in binding.agents)
        ):
            raise problem("unknown_workflow")
        request = parse(WorkflowRequest, body)
        dialect = chosen_dialect(received.dialect, binding.settings.dialects)
        options = received.options()
        if request.conversation_id is not None:
            self._site.ownership.enter_conversation(request.conversation_id, caller)
        stats = StreamStats(
            stream_id=self._site.logs.new_id(),
            dialect=dialect,
            caller=caller,
            conversation_id=request.conversation_id,
            metadata=request.metadata or {},
        )
        # steps run side by side, so the upstream of an item is not known
        stats.on_item = lambda item_id, _: self._site.ownership.add("item", item_id, caller)
        settings = self._site.settings
        stats.meter = TokenMeter([*binding.agents], body)
        source = workflow_source(binding, request.message, stats, account, options=options)
        stored = StoredStream(
            dialect=dialect,
            dialects=binding.settings.dialects,
            options=options,
            is_run=True,
            policy=binding.redactor.policy,
            workflow=binding.name,
            conversation_id=request.conversation_id,
        )
        return StreamSession(
            stats,
            source,
            account,
            timeouts=settings.timeouts,
            heartbeat_s=settings.heartbeat_s,
            keeping=Keeping.of(binding.settings, stored),
        )

    def held(self, dialect: str, received: Received) -> StreamSession:
        """Open the next response of a conversation that the client holds; it belongs to the caller that created it.

        An approval is accepted only if this server requested it (docs/decisions/0008).
        """
        name = received.scope["path_params"]["agent"]
        api, read, member, answers = _HELD[dialect]
        binding = self._agents[dialect].get(name)
        if binding is None or not received.grant.allows("agents", name):
            raise unknown_agent_of(dialect)
        try:
            sent = read(received.body)
            approved = api.approvals(sent)
        except InputRefusedError as error:
            raise problem("invalid_request", str(error)) from None
        previous = self._approval_response(binding, approved, received.caller, answers)
        client = client_part(partial(api.conversation, sent), binding, previous)
        received = with_carried_state(received, carried_in(client.entries, "messages"), self._site.sealer)
        call = ProviderCall(
            binding,
            partial(
                write_body,
                binding,
                kept=received.kept,
                input=client.entries,
                client_tools=client.tools,
                previous_response_id=previous,
            ),
            name,
            getattr(sent, member),
            options=api.dialect_options(sent),
            entries=lambda: client.entries,
        )
        return provider_session(self._site, received, call)

    def _approval_response(
        self, binding: AgentBinding, approved: Collection[str], caller: str, member: str
    ) -> str | None:
        """Return the response that requested the approvals of a request, unless the client's copy of it is trusted."""
        if binding.settings.trust_client_approvals:
            return None
        responses = {self._site.ownership.approval_response(approval_id, caller, member) for approval_id in approved}
        if len(responses) > 1:
            raise problem("invalid_request", f"`{member}` refers to more than one response.")
        return responses.pop() if responses else None

    def passthrough(self, passthrough: PassthroughBinding, received: Received) -> StreamSession:
        """Open a response to a forwarded body, in the dialect that the request selects (CONTRACT D38).

        Without `"stream": true` the response is JSON, if the dialect has one.
        """
        received, binding = enter_passthrough(self._site, passthrough, received)
        route = passthrough.route
        body = passthrough_body(received.body, binding, required=route.required)
        is_stream = received.body.get("stream")
        if not isinstance(is_stream, bool | None):
            raise problem("invalid_request", "`stream` must be true or false.", param="stream")
        options = DialectOptions(
            include_usage=_includes_usage(received.body),
            input_tokens=input_tokens(received.body, INPUT_MAX),
            request_id=request_id(received.scope),
        )

        def body_of(target: Target) -> Mapping[str, object]:
            sent = passthrough_body(received.body, binding, required=route.required, target=target)
            shows = binding.redactor.policy.encrypted_reasoning
            return target_body(sent, route, target, passthrough.api, received.kept, encrypted_reasoning=shows)

        sent = caller_headers(received.scope, route)
        call = ProviderCall(
            binding,
            body_of,
            conversation_id=conversation_id_of(body),
            is_stream=is_stream,
            options=options,
            entries=partial(read_entries, received.body, route),
            stage_of=_stage_of(binding, passthrough, received.body, sent),
        )
        session = provider_session(self._site, received, call)
        session.stats.caller_headers = {passthrough.api: sent}
        return session


def _stage_of(
    binding: AgentBinding, passthrough: PassthroughBinding, body: Mapping[str, Any], headers: Mapping[str, str]
) -> Callable[[Target], MakeStage] | None:
    """Return what returns the stage of a target: headers of the caller change it, or it restores calls of another API.

    None if each has its own. The body is read now: nothing keeps it while the stream runs.
    """
    api, route, restore = passthrough.api, passthrough.route, None
    row = PROVIDERS[api]
    if route.call_restorer is not None and any(one.provider.api != api for one in binding.targets.targets):
        with suppress(UnsupportedRequestError):  # nothing is sent to the others: `target_body` raises it, too
            restore = route.call_restorer(body)
    caller_profile = row.caller_profile if headers else None
    if restore is None and caller_profile is None:
        return None

    def stage_of(target: Target) -> MakeStage:
        make_stage = target.make_stage
        if target.provider.api != api:
            return make_stage if restore is None else lambda: restore(make_stage())
        if caller_profile is None:
            return make_stage
        return partial(row.stage, caller_profile(headers, target.profile))

    return stage_of


def _includes_usage(body: Mapping[str, Any]) -> bool:
    """Return whether a request includes usage in its stream; raise `Problem` if `stream_options` is invalid."""
    options = body.get("stream_options")
    if not isinstance(options, dict | None):
        raise problem("invalid_request", "`stream_options` must be an object.", param="stream_options")
    given = (options or {}).get("include_usage")
    if not isinstance(given, bool | None):
        name = "stream_options.include_usage"
        raise problem("invalid_request", f"`{name}` must be true or false.", param=name)
    return given is True
