"""Error responses: the error of the client's API on `/v1/...`, mostly OpenAI's (CONTRACT D38), else a problem.

On `/v1/...` a provider's failure keeps its status. The SDKs of OpenAI and Anthropic heed `x-should-retry`: without it
they would repeat what this server has already repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from projector.contracts import codec
from projector.dialects import DIALECTS
from projector.dialects.descriptor import Dialect
from projector.dialects.openai_errors import status_of, type_of
from projector.server.http.problems import ErrorResponse, Problem, problem_of, problem_response, request_id
from projector.server.telemetry.request_facts import client_route, facts_of, is_openai

STATUSES: Final[Mapping[str, int]] = {"invalid_request": 400, "unknown_dialect": 400}
"""Code of a problem -> status that the OpenAI API has for it, if it is another one."""

CODES: Final[Mapping[str, str]] = {
    "unauthenticated": "invalid_api_key",
    **dict.fromkeys(("too_many_streams", "request_limit_exceeded", "token_limit_exceeded"), "rate_limit_exceeded"),
}
"""Code of a problem -> code that the OpenAI API has for it; the others are ours."""

ErrorForm: TypeAlias = Callable[[Problem, Scope], Response]
ERROR_FORM: Final = "projector.error_form"
"""Member of a scope: the form of the errors of its route."""
_ERROR_STATUSES: Final = range(400, 600)
_OF_A_STATUS: Final = "upstream_http_"


async def respond(request: Request, error: Exception) -> Response:
    """Respond to an exception, in the form of the route; one of an extension may have its own in the scope."""
    found, scope = problem_of(error), request.scope
    facts_of(scope).code = found.code
    form: ErrorForm | None = scope.get(ERROR_FORM)
    if form is not None:
        return form(found, scope)
    return (api_response if is_openai(scope) else problem_response)(found, scope)


def answer_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a JSON answer; some clients read the ID of the request in a header of their API."""
    own, dialect = request_id(scope), _dialect_of(scope)
    named = {"request-id": own} if dialect is not None and dialect.names_requests else {}
    return {"cache-control": "no-store", "x-request-id": own, **named}


def json_answer(value: object, scope: Scope) -> Response:
    """Return a JSON answer."""
    return Response(codec.dumps(value), headers=answer_headers(scope), media_type="application/json")


def no_content(scope: Scope) -> Response:
    """Return an answer without content."""
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=answer_headers(scope))


def response_status(problem: Problem, scope: Scope) -> int:
    """Return the status of the response to a problem."""
    return _written(problem, scope, _dialect_of(scope))[0] if is_openai(scope) else problem.status.value


def api_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem as an error response of the API of the client."""
    dialect, should_retry = _dialect_of(scope), problem.should_retry
    status, body = _written(problem, scope, dialect)
    headers = answer_headers(scope) | problem.headers
    if problem.has_default_wait:
        headers.pop("retry-after", None)  # some clients retry only because of it
    if should_retry is None and dialect is not None and dialect.assembler is not None:
        should_retry = problem.is_retryable if dialect.assembler.has_should_retry else None
    if should_retry is not None:
        headers["x-should-retry"] = str(should_retry).lower()
    return ErrorResponse(codec.dumps(body), status_code=status, headers=headers, media_type="application/json")


def _dialect_of(scope: Scope) -> Dialect | None:
    """Return the dialect of the API of a client, if it has forms of its own."""
    route = client_route(scope)
    return None if route is None else DIALECTS[route.dialect]


def _written(problem: Problem, scope: Scope, dialect: Dialect | None) -> tuple[int, Mapping[str, object]]:
    """Return status and body of an error response."""
    status, error = _error(problem)
    if dialect is None or dialect.assembler is None or dialect.assembler.refusal is None:
        return status, {"error": error}
    return dialect.assembler.refusal(status, error, request_id(scope), problem.failure is not None)


def _error(problem: Problem) -> tuple[int, dict[str, object]]:
    """Return status and error. A provider keeps its status, unless that is no error, such as a redirect."""
    failure = problem.failure
    if failure is not None:
        status = failure.status if failure.status in _ERROR_STATUSES else problem.status.value
        return status, {
            "message": failure.message or problem.detail,
            "type": failure.type or type_of(status),
            "param": failure.param,
            "code": failure.code,
        }
    status = STATUSES.get(problem.code, problem.status.value)
    if problem.code.startswith(_OF_A_STATUS):
        status = status_of(problem.code)
    code = CODES.get(problem.code, problem.code)
    kind = problem.error_type or type_of(status)
    return status, {"message": problem.detail, "type": kind, "param": problem.param, "code": code}
