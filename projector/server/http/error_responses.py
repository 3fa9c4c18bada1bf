"""Error responses: OpenAI's error object on `/v1/...` (CONTRACT D38), Anthropic's for its clients, else a problem.

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
from projector.dialects.anthropic_messages import errors as anthropic_errors
from projector.dialects.openai_errors import status_of, type_of
from projector.server.http.problems import ErrorResponse, Problem, problem_of, problem_response, request_id
from projector.server.telemetry.request_facts import facts_of, is_anthropic, is_openai
from projector.server.upstream.protocol import ProviderFailure

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
    if is_anthropic(scope):
        return anthropic_response(found, scope)
    return (openai_response if is_openai(scope) else problem_response)(found, scope)


def answer_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a JSON answer; clients of Anthropic read the ID of the request in a header of theirs."""
    own = request_id(scope)
    return {"cache-control": "no-store", "x-request-id": own, **({"request-id": own} if is_anthropic(scope) else {})}


def json_answer(value: object, scope: Scope) -> Response:
    """Return a JSON answer."""
    return Response(codec.dumps(value), headers=answer_headers(scope), media_type="application/json")


def no_content(scope: Scope) -> Response:
    """Return an answer without content."""
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=answer_headers(scope))


def response_status(problem: Problem, scope: Scope) -> int:
    """Return the status of the response to a problem."""
    if is_anthropic(scope):
        return _anthropic_error(problem)[0]
    return _error(problem)[0] if is_openai(scope) else problem.status.value


def openai_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem as an error response of the OpenAI API."""
    status, error = _error(problem)
    return _response(problem, scope, status, {"error": error})


def anthropic_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem as an error response of the Anthropic API, which always says whether to repeat the request."""
    status, kind, message = _anthropic_error(problem)
    event = anthropic_errors.error_event(kind, message, request_id(scope), problem.param)
    response = _response(problem, scope, status, event)
    should_retry = problem.is_retryable if problem.should_retry is None else problem.should_retry
    response.headers["x-should-retry"] = str(should_retry).lower()
    return response


def _anthropic_error(problem: Problem) -> tuple[int, str, str]:
    """Return status, type and message of an error of the Anthropic API, which has 529 in place of 503."""
    status, error = _error(problem)
    kind = str(error["type"])
    if kind not in anthropic_errors.TYPE_STATUSES or problem.failure is None:
        kind = anthropic_errors.type_of(status)
    if kind == anthropic_errors.OVERLOADED:
        status = anthropic_errors.TYPE_STATUSES[kind]
    return status, kind, str(error["message"])


def _error(problem: Problem) -> tuple[int, dict[str, object]]:
    return _own_error(problem) if problem.failure is None else _provider_error(problem, problem.failure)


def _response(problem: Problem, scope: Scope, status: int, body: Mapping[str, object]) -> Response:
    headers = answer_headers(scope) | problem.headers
    if problem.has_default_wait:
        headers.pop("retry-after", None)  # some clients retry only because of it
    if problem.should_retry is not None:
        headers["x-should-retry"] = str(problem.should_retry).lower()
    return ErrorResponse(codec.dumps(body), status_code=status, headers=headers, media_type="application/json")


def _own_error(problem: Problem) -> tuple[int, dict[str, object]]:
    status = STATUSES.get(problem.code, problem.status.value)
    if problem.code.startswith(_OF_A_STATUS):
        status = status_of(problem.code)
    code = CODES.get(problem.code, problem.code)
    kind = problem.error_type or type_of(status)
    return status, {"message": problem.detail, "type": kind, "param": problem.param, "code": code}


def _provider_error(problem: Problem, failure: ProviderFailure) -> tuple[int, dict[str, object]]:
    status = _kept(failure.status, problem)
    return status, {
        "message": failure.message or problem.detail,
        "type": failure.type or type_of(status),
        "param": failure.param,
        "code": failure.code,
    }


def _kept(status: int, problem: Problem) -> int:
    """Return the provider's status; for one that is no error, such as a redirect, the status of the problem."""
    return status if status in _ERROR_STATUSES else problem.status.value
