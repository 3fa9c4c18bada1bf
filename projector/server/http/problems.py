"""Error responses: one row for each code, and how they are written; the request IDs in them.

They are problem documents (RFC 9457); on `/v1/...` the errors of the API of the client, mostly OpenAI's (CONTRACT D38).
There a provider's failure keeps its status. The SDKs of OpenAI and Anthropic, and our client, heed `x-should-retry`:
without it they would repeat what this server has already repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from projector.contracts import codec
from projector.core.faults import Fault
from projector.dialects import DIALECTS
from projector.dialects.descriptor import Dialect
from projector.dialects.openai_errors import status_of, type_of
from projector.server.telemetry.request_facts import client_route, facts_of, headers_of, is_openai
from projector.server.upstream.protocol import ProviderFailure, UpstreamError
from projector.store.protocol import StoreUnavailableError

DEFAULT_RETRY_AFTER_S: Final = 5
"""Default for 429 and 503: long enough to reduce load, short enough for an interactive user."""
MAX_RETRY_AFTER_S: Final = 3600
"""Upper bound for the value of a provider."""

_SAFE_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""Safe in a header and in a log line."""
_WITH_RETRY_AFTER: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class _Row(NamedTuple):
    status: HTTPStatus
    detail: str
    is_retryable: bool = False


PROBLEMS: Final[Mapping[str, _Row]] = {
    "malformed_json": _Row(HTTPStatus.BAD_REQUEST, "The request body is not valid JSON."),
    "invalid_position": _Row(HTTPStatus.BAD_REQUEST, "The position in the stream is invalid."),
    "unknown_event": _Row(HTTPStatus.BAD_REQUEST, "The stream has no event of this number."),
    "host_not_allowed": _Row(HTTPStatus.BAD_REQUEST, "`Host` is not one of `PROJECTOR_ALLOWED_HOSTS`."),
    "cors_not_allowed": _Row(HTTPStatus.BAD_REQUEST, "The origin of the page is not one of `PROJECTOR_CORS_ORIGINS`."),
    "unauthenticated": _Row(
        HTTPStatus.UNAUTHORIZED, "A valid API key or token is required, sent as `Authorization: Bearer KEY`."
    ),
    "permission_denied": _Row(HTTPStatus.FORBIDDEN, "This caller may not use this route."),
    "not_found": _Row(HTTPStatus.NOT_FOUND, "Not found."),
    "model_not_found": _Row(HTTPStatus.NOT_FOUND, "Model not found."),
    "unknown_stream": _Row(HTTPStatus.NOT_FOUND, "Stream not found."),
    "unknown_agent": _Row(HTTPStatus.NOT_FOUND, "Agent not found."),
    "unknown_workflow": _Row(HTTPStatus.NOT_FOUND, "Workflow not found."),
    "unknown_conversation": _Row(HTTPStatus.NOT_FOUND, "Conversation not found."),
    "unknown_response": _Row(HTTPStatus.NOT_FOUND, "Response not found."),
    "events_gone": _Row(HTTPStatus.GONE, "The events after this position are not kept any more."),
    "method_not_allowed": _Row(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed."),
    "websocket_not_supported": _Row(
        HTTPStatus.UPGRADE_REQUIRED, "This server has no WebSocket; send the request as an HTTP POST."
    ),
    "request_timeout": _Row(HTTPStatus.REQUEST_TIMEOUT, "The request body was not received in time.", True),
    "body_too_large": _Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request body is too large."),
    "unsupported_media_type": _Row(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The content type must be `application/json`."),
    "invalid_request": _Row(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid request body."),
    "idempotency_key_reused": _Row(
        HTTPStatus.UNPROCESSABLE_ENTITY, "The `Idempotency-Key` was used with another request."
    ),
    "unknown_dialect": _Row(HTTPStatus.UNPROCESSABLE_ENTITY, "`dialect` is unknown or not allowed."),
    "too_many_streams": _Row(HTTPStatus.TOO_MANY_REQUESTS, "Too many concurrent streams for this caller.", True),
    "request_limit_exceeded": _Row(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests of this caller.", True),
    "token_limit_exceeded": _Row(HTTPStatus.TOO_MANY_REQUESTS, "Too many tokens of this caller.", True),
    "overloaded": _Row(HTTPStatus.SERVICE_UNAVAILABLE, "The server is at capacity.", True),
    "store_unavailable": _Row(HTTPStatus.SERVICE_UNAVAILABLE, "Stored streams are unavailable.", True),
    "auth_unavailable": _Row(HTTPStatus.SERVICE_UNAVAILABLE, "Token signing keys are unavailable.", True),
    "internal_error": _Row(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal server error."),
}
"""Code -> problem of a request or of the server; for provider failures see `_FAULT_STATUS`."""

_FAULT_STATUS: Final[Mapping[str, HTTPStatus]] = {
    "upstream_http_429": HTTPStatus.TOO_MANY_REQUESTS,
    "upstream_http_503": HTTPStatus.SERVICE_UNAVAILABLE,
    "upstream_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    **{f"upstream_timeout_{of}": HTTPStatus.GATEWAY_TIMEOUT for of in ("connect", "first_byte", "idle", "total")},
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
    "server_shutdown": HTTPStatus.SERVICE_UNAVAILABLE,
    "stream_interrupted": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Fault code -> status, if it occurs before the response has started (docs/operations.md); all others are 502. That
includes 401 and 403 of the provider: they concern the key of this server, not the caller."""


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818 - RFC 9457's own word
    """An error response instead of a stream."""

    status: HTTPStatus
    code: str
    detail: str
    is_retryable: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    param: str | None = None
    """The member of the request that is invalid."""
    failure: ProviderFailure | None = None
    """The provider's error response, redacted, if there was one."""
    has_default_wait: bool = False
    """Whether `Retry-After` is a default of this server, because the provider sent none."""
    should_retry: bool | None = None
    """Whether the client should send the request again; None leaves it to the client."""
    error_type: str | None = None
    """`type` of the OpenAI error, if it is not that of the status."""


class ClientLeftError(Exception):
    """The client disconnected before its request was complete, or answered: nothing is sent."""


class _NoResponse(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


class ErrorResponse(Response):
    """An error response; sending it to a client that has disconnected does nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        with suppress(OSError):
            await super().__call__(scope, receive, send)


def request_id(scope: Scope, headers: Mapping[bytes, bytes] | None = None) -> str:
    """Return the ID of a request, stored in `scope["state"]`: that of the caller if it is safe, otherwise a new one.

    `headers` are those of the request, if they are known.
    """
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        given = (headers or headers_of(scope)).get(b"x-request-id", b"").decode("latin-1")
        state["request_id"] = given if _SAFE_REQUEST_ID.fullmatch(given) else f"req_{os.urandom(16).hex()}"
    return str(state["request_id"])


def problem(code: str, detail: str | None = None, *, param: str | None = None) -> Problem:
    """Return the problem of a row of `PROBLEMS`; `detail` replaces its text, `param` names the invalid member."""
    row = PROBLEMS[code]
    headers = _retry_after(row.status)
    if row.status is HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Problem(row.status, code, detail or row.detail, row.is_retryable, headers, param)


def unknown_agent_of(dialect: str) -> Problem:
    """Return the problem of an agent that the route of a dialect does not serve: the same for unknown names."""
    return problem("unknown_agent", f"Agent not found, or its `dialects` do not include `{dialect}`.")


def problem_of_fault(fault: Fault, retry_after_s: int | None = None) -> Problem:
    """Return the problem of a fault that occurs before the response has started."""
    status = _FAULT_STATUS.get(fault.code, HTTPStatus.BAD_GATEWAY)
    headers = _retry_after(status, retry_after_s)
    return Problem(status, fault.code, fault.message, fault.is_retryable, headers)


def problem_of_failure(error: UpstreamError, fault: Fault, failure: ProviderFailure | None) -> Problem:
    """Return the problem of an upstream that failed before the response has started; the last two may be shown."""
    found = problem_of_fault(fault, error.retry_after_s)
    found.should_retry = error.should_retry
    found.failure = failure
    found.has_default_wait = error.retry_after_s is None and fault.source == "provider"
    return found


def _retry_after(status: HTTPStatus, seconds: int | None = None) -> dict[str, str]:
    if status not in _WITH_RETRY_AFTER:
        return {}
    return {"retry-after": str(DEFAULT_RETRY_AFTER_S if seconds is None else min(seconds, MAX_RETRY_AFTER_S))}


def problem_response(problem: Problem, scope: Scope) -> Response:
    """Return the problem document as a response."""
    own = request_id(scope)
    document = {
        "type": "about:blank",  # the title is the HTTP status phrase; clients distinguish problems by `code`
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail,
        "instance": scope["path"],
        "code": problem.code,
        "is_retryable": problem.is_retryable,
        "request_id": own,
    }
    if problem.failure is not None and problem.failure.code is not None:
        document["provider_code"] = problem.failure.code
    headers = {"cache-control": "no-store", "x-request-id": own} | problem.headers
    if problem.should_retry is False:
        headers["x-should-retry"] = "false"
    return ErrorResponse(
        codec.dumps(document), status_code=problem.status, headers=headers, media_type="application/problem+json"
    )


def method_not_allowed(allowed: str) -> Problem:
    """Return the problem of another method than those of a path, which are separated by commas."""
    found = problem("method_not_allowed", f"Method not allowed; allowed: {allowed}.")
    found.headers["allow"] = allowed
    return found


def problem_of(error: Exception) -> Problem:
    """Return the problem of an exception. An unexpected one is logged by the server; its text is not sent."""
    if isinstance(error, HTTPException):  # the router rejects the path or the method
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and "allow" in headers:
            return method_not_allowed(", ".join(sorted(headers["allow"].split(", "))))  # the router has a set
        found = problem({404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "internal_error"))
        found.headers.update(headers)
        return found
    if isinstance(error, StoreUnavailableError):
        return problem("store_unavailable")
    return error if isinstance(error, Problem) else problem("internal_error")


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
    if isinstance(error, ClientLeftError):
        return _NoResponse()
    found, scope = problem_of(error), request.scope
    if found.code == "method_not_allowed" and "access-control-request-method" in request.headers:
        found = problem("cors_not_allowed")  # a preflight request, without `cors_origins`
    facts_of(scope).code = found.code
    if isinstance(error, StoreUnavailableError):
        facts_of(scope).reason = str(error)
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
    is_invalid = problem.status is HTTPStatus.UNPROCESSABLE_ENTITY
    status = (HTTPStatus.BAD_REQUEST if is_invalid else problem.status).value  # as OpenAI's API has it
    if problem.code.startswith(_OF_A_STATUS):
        status = status_of(problem.code)
    code = CODES.get(problem.code, problem.code)
    kind = problem.error_type or type_of(status)
    return status, {"message": problem.detail, "type": kind, "param": problem.param, "code": code}
