"""The application of the admin listener: metrics, the OpenAPI document and probes, away from the public address."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.exceptions import HTTPException

from projector.server.http.error_responses import respond
from projector.server.http.internal_routes import HEALTH_ROUTES, INTERNAL_ROUTES
from projector.server.http.problems import Problem
from projector.server.telemetry.request_log import RequestLog


def admin_app(state: State) -> Starlette:
    """Return the application for the state of another one, of which it shows the metrics and the document."""
    app = Starlette(
        routes=[*HEALTH_ROUTES, *INTERNAL_ROUTES],
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), respond),
    )
    app.state = state
    app.router.redirect_slashes = False
    app.add_middleware(RequestLog, metrics=state.metrics)
    return app
