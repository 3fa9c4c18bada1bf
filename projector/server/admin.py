"""The application of the admin listener: metrics, the OpenAPI document and probes, away from the public address."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.routing import Route

from projector.server.http.error_responses import respond
from projector.server.http.internal_routes import HEALTH_ROUTES, INTERNAL_ROUTES
from projector.server.http.problems import Problem
from projector.server.telemetry.request_log import RequestLog


def admin_app(state: State, more: Sequence[Route] = ()) -> Starlette:
    """Return the application for the state of another one, of which it shows the metrics, the document and more."""
    app = Starlette(
        routes=[*HEALTH_ROUTES, *INTERNAL_ROUTES, *more],
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), respond),
    )
    app.state = state
    app.router.redirect_slashes = False
    app.add_middleware(RequestLog, metrics=state.metrics)
    return app
