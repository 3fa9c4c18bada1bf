"""`POST /api/v1/workflows/{workflow_key}/run-stream`: a run of several agents as one stream."""

from __future__ import annotations

import uuid

from starlette.datastructures import QueryParams
from starlette.routing import Route

from projector.server.catalog import Catalog
from projector.server.http import requests
from projector.server.http.problems import problem
from projector.server.http.request_ids import request_id
from projector.server.http.routes.stream_route import Asked, ExchangeRoute, Site
from projector.server.streaming.session import Exchange
from projector.server.streaming.workflow_binding import WorkflowOffer, workflow_offers
from projector.server.streaming.workflow_relay import WorkflowRelay
from projector.server.streaming.workflow_run import begin_run
from projector.server.telemetry import tracing
from projector.server.telemetry.stream_stats import Record
from projector.server.telemetry.tracing import Trace


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Give the route, if there is a workflow to run."""
    offers = workflow_offers(site.settings, catalog)
    if not offers:
        return []
    return [Route("/api/v1/workflows/{workflow_key}/run-stream", WorkflowRoute(offers, site), methods=["POST"])]


class WorkflowRoute(ExchangeRoute):
    """A route whose stream is a run."""

    def __init__(self, offers: dict[str, WorkflowOffer], site: Site) -> None:
        super().__init__(site, {dialect for offer in offers.values() for dialect in offer.settings.dialects})
        self._offers = offers

    def exchange(self, asked: Asked) -> tuple[Exchange, Trace]:
        """Give the run that a request asks for; see `ExchangeRoute`."""
        offer = self._offers.get(asked.scope["path_params"]["workflow_key"])
        if offer is None:
            raise problem("unknown_workflow")
        request = requests.workflow(asked.body)
        dialect = offer.dialect(QueryParams(asked.scope["query_string"]).get("dialect"))
        if request.conversation_id is not None:
            self._site.owners.enter(request.conversation_id, asked.caller)
        record = Record(
            stream_id=f"stream_{uuid.uuid4().hex}",
            request_id=request_id(asked.scope),
            dialect=dialect,
            caller=asked.caller,
            conversation_id=request.conversation_id,
            metadata=request.metadata or {},
        )
        trace = tracing.begin(asked.scope, record)
        record.trace_id = trace.trace_id
        settings = self._site.settings
        pipeline, run = begin_run(
            offer, request.message, record, asked.account, retries=settings.retries, headers=trace.headers
        )
        relay = WorkflowRelay(
            record, pipeline, run, asked.account, timeouts=settings.timeouts, heartbeat_s=settings.heartbeat_s
        )
        return relay, trace
