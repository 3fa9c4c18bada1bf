"""CORS: requests of pages of other origins. A refused preflight request gets an error response with a code."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from projector.server.http.error_responses import respond
from projector.server.http.problems import Problem, problem


class Cors(CORSMiddleware):
    """Starlette's middleware, which refuses with plain text, with error responses of this server instead."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request."""
        response = super().preflight_response(request_headers)
        if response.status_code == HTTPStatus.OK:
            return response
        is_known = self.is_allowed_origin(request_headers["origin"])
        detail = "The method or a header is not allowed for pages of other origins."
        refused = problem("cors_not_allowed", detail if is_known else None)
        refused.headers.update((k, v) for k, v in response.headers.items() if not k.startswith("content-"))
        return _Refusal(refused)


class _Refusal(Response):
    """The response to a refused preflight request; its form depends on the route."""

    def __init__(self, refused: Problem) -> None:
        super().__init__(status_code=refused.status)
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        response = await respond(Request(scope), self._refused)
        await response(scope, receive, send)
