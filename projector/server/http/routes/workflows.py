"""`POST /api/v1/workflows/{workflow_key}/run-stream`: a run of several agents as one stream."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.routing import Route

from projector.server.catalog import Catalog, WorkflowBinding
from projector.server.http import requests
from projector.server.http.problems import problem
from projector.server.http.routes.stream_route import Asked, SessionRoute, Site
from projector.server.streaming.session import StreamSession
from projector.server.streaming.workflow_source import workflow_source
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Give the route, if there is a workflow to run."""
    if not catalog.workflows:
        return []
    return [
        Route("/api/v1/workflows/{workflow_key}/run-stream", WorkflowRoute(catalog.workflows, site), methods=["POST"])
    ]


class WorkflowRoute(SessionRoute):
    """A route whose stream is a run."""

    def __init__(self, bindings: dict[str, WorkflowBinding], site: Site) -> None:
        super().__init__(site, {dialect for binding in bindings.values() for dialect in binding.settings.dialects})
        self._bindings = bindings

    def session(self, asked: Asked) -> StreamSession:
        """Return the session of a run; see `SessionRoute`."""
        binding = self._bindings.get(asked.scope["path_params"]["workflow_key"])
        if binding is None:
            raise problem("unknown_workflow")
        request = requests.workflow(asked.body)
        dialect = binding.dialect(QueryParams(asked.scope["query_string"]).get("dialect"))
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
