"""Answers instead of a stream: RFC 9457 problem documents, one row for each that we can give."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from projector.contracts import codec
from projector.core.faults import Fault
from projector.server.http.request_ids import request_id

DEFAULT_RETRY_AFTER_S: Final = 5
"""Said with 429 and 503 where nobody knows better: long enough to matter, short enough for a person who waits."""
MAX_RETRY_AFTER_S: Final = 3600
"""An hour; what a provider asks beyond it is not worth a client's timer."""

_MUST_SAY_WHEN: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class _Row(NamedTuple):
    status: HTTPStatus
    detail: str
    is_retryable: bool = False


PROBLEMS: Final[Mapping[str, _Row]] = {
    "malformed_json": _Row(HTTPStatus.BAD_REQUEST, "The body is not JSON."),
    "unauthenticated": _Row(HTTPStatus.UNAUTHORIZED, "The request must show a key or token that is known here."),
    "not_found": _Row(HTTPStatus.NOT_FOUND, "There is nothing at this path."),
    "unknown_stream": _Row(HTTPStatus.NOT_FOUND, "There is no stream of this id."),
    "unknown_agent": _Row(HTTPStatus.NOT_FOUND, "There is no agent of this name."),
    "unknown_workflow": _Row(HTTPStatus.NOT_FOUND, "There is no workflow of this name."),
    "unknown_conversation": _Row(HTTPStatus.NOT_FOUND, "There is no conversation of this id."),
    "unknown_response": _Row(HTTPStatus.NOT_FOUND, "There is no response of this id."),
    "method_not_allowed": _Row(HTTPStatus.METHOD_NOT_ALLOWED, "This path does not answer this method."),
    "request_timeout": _Row(HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time.", True),
    "body_too_large": _Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is larger than this server reads."),
    "unsupported_media_type": _Row(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be `application/json`."),
    "invalid_request": _Row(HTTPStatus.UNPROCESSABLE_ENTITY, "The body does not say what this path needs."),
    "unknown_dialect": _Row(HTTPStatus.UNPROCESSABLE_ENTITY, "`dialect` names none that this server speaks."),
    "too_many_streams": _Row(HTTPStatus.TOO_MANY_REQUESTS, "The caller has as many streams as it may.", True),
    "overloaded": _Row(HTTPStatus.SERVICE_UNAVAILABLE, "The server has as many streams as it can serve.", True),
    "auth_unavailable": _Row(
        HTTPStatus.SERVICE_UNAVAILABLE, "The keys that tokens are checked with are missing.", True
    ),
    "internal_error": _Row(HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong on the server."),
}
"""Problems of requests and of ours, by code. A provider's are in `_FAULT_STATUS`."""

_FAULT_STATUS: Final[Mapping[str, HTTPStatus]] = {
    "upstream_http_429": HTTPStatus.TOO_MANY_REQUESTS,
    "upstream_http_503": HTTPStatus.SERVICE_UNAVAILABLE,
    "upstream_timeout_connect": HTTPStatus.GATEWAY_TIMEOUT,
    "upstream_timeout_first_byte": HTTPStatus.GATEWAY_TIMEOUT,
    "upstream_timeout_idle": HTTPStatus.GATEWAY_TIMEOUT,
    "upstream_timeout_total": HTTPStatus.GATEWAY_TIMEOUT,
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
    "server_shutdown": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""What a fault is before the status is committed (docs/operations.md); one without a row is our 502, the provider's 401
and 403 among them: they are about our key, not about the caller."""


class Problem(Exception):  # noqa: N818 - RFC 9457's own word
    """A request that gets no stream."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        *,
        is_retryable: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.detail = detail
        self.is_retryable = is_retryable
        self.headers = dict(headers or {})


def problem(code: str, detail: str | None = None) -> Problem:
    """Give the problem of a row of `PROBLEMS`, with a detail of this request if there is one."""
    row = PROBLEMS[code]
    headers = _retry_after(row.status)
    if row.status is HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Problem(row.status, code, detail or row.detail, is_retryable=row.is_retryable, headers=headers)


def problem_of_fault(fault: Fault, retry_after_s: int | None = None) -> Problem:
    """Give the problem that a fault is while the status is not committed."""
    status = _FAULT_STATUS.get(fault.code, HTTPStatus.BAD_GATEWAY)
    headers = _retry_after(status, retry_after_s)
    return Problem(status, fault.code, fault.message, is_retryable=fault.is_retryable, headers=headers)


def _retry_after(status: HTTPStatus, asked_s: int | None = None) -> dict[str, str]:
    if status not in _MUST_SAY_WHEN:
        return {}
    return {"retry-after": str(DEFAULT_RETRY_AFTER_S if asked_s is None else min(asked_s, MAX_RETRY_AFTER_S))}


def problem_response(problem: Problem, scope: Scope) -> Response:
    """Write a problem as the answer to a request."""
    asked = request_id(scope)
    document = {
        "type": "about:blank",  # `code` tells what happened; the title is HTTP's own
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail,
        "instance": scope["path"],
        "code": problem.code,
        "is_retryable": problem.is_retryable,
        "request_id": asked,
    }
    return Response(
        codec.dumps(document),
        status_code=problem.status,
        headers={"cache-control": "no-store", "x-request-id": asked} | problem.headers,
        media_type="application/problem+json",
    )


async def on_problem(request: Request, error: Exception) -> Response:
    """Answer a `Problem`."""
    assert isinstance(error, Problem)  # noqa: S101 - registered for this kind
    return problem_response(error, request.scope)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer what the router refuses: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this kind
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "internal_error")
    answer = problem(code)
    answer.headers.update(error.headers or {})
    return problem_response(answer, request.scope)


async def on_crash(request: Request, _error: Exception) -> Response:
    """Answer a mistake of ours without a word about it; the server logs it."""
    return problem_response(problem("internal_error"), request.scope)
