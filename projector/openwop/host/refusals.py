"""Answers of the host that are no success: the protocol's closed error object, one row for each that is ours.

`{error, message, details?}` and nothing else. Problems that all routes of the server share are said in the protocol's
words where it has one (`WORDS`), else under their own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.types import Scope

from projector.contracts import codec
from projector.server.http.problems import Problem
from projector.server.http.request_ids import request_id


class _Row(NamedTuple):
    status: HTTPStatus
    message: str


REFUSALS: Final[Mapping[str, _Row]] = {
    "validation_error": _Row(HTTPStatus.BAD_REQUEST, "The request does not say what this path needs."),
    "unsupported_stream_mode": _Row(HTTPStatus.BAD_REQUEST, "`streamMode` names none that this host has."),
    "capability_not_provided": _Row(HTTPStatus.BAD_REQUEST, "The request needs what this host does not do."),
    "forbidden": _Row(HTTPStatus.FORBIDDEN, "This caller may not run conformance workflows."),
    "mock_provider_forbidden": _Row(HTTPStatus.FORBIDDEN, "`configurable.mockProvider` cannot be set here."),
    "not_found": _Row(HTTPStatus.NOT_FOUND, "There is no run of this id."),
    "workflow_not_found": _Row(HTTPStatus.NOT_FOUND, "There is no workflow of this id."),
    "interrupt_not_found": _Row(HTTPStatus.NOT_FOUND, "This node has not been suspended."),
    "interrupt_already_resolved": _Row(HTTPStatus.CONFLICT, "Whatever this node waited for is answered."),
    "idempotency_key_mismatch": _Row(HTTPStatus.CONFLICT, "`Idempotency-Key` was another request's."),
    "run_already_terminal": _Row(HTTPStatus.CONFLICT, "The run has ended."),
}
"""Refusals that only this host gives, by code."""

WORDS: Final[Mapping[str, str]] = {
    "malformed_json": "validation_error",
    "invalid_request": "validation_error",
    "unknown_agent": "workflow_not_found",
    "unknown_response": "not_found",
    "unknown_conversation": "not_found",
    "too_many_streams": "rate_limited",
}
"""Code of a problem of all routes -> the protocol's word for it."""

_STATUSES: Final[Mapping[HTTPStatus, HTTPStatus]] = {HTTPStatus.UNPROCESSABLE_ENTITY: HTTPStatus.BAD_REQUEST}
"""Statuses that the protocol says in another way."""


class Refusal(Problem):
    """A refusal with something more to say than its code."""

    def __init__(self, code: str, message: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        row = REFUSALS[code]
        super().__init__(row.status, code, message or row.message)
        self.details = dict(details or {})


def error_response(problem: Problem, scope: Scope) -> Response:
    """Write a problem as the error object."""
    details = dict(problem.details) if isinstance(problem, Refusal) else {}
    if "retry-after" in problem.headers:
        details["retryAfter"] = int(problem.headers["retry-after"])
    document: dict[str, Any] = {"error": WORDS.get(problem.code, problem.code), "message": problem.detail}
    if details:
        document["details"] = details
    return Response(
        codec.dumps(document),
        status_code=_STATUSES.get(problem.status, problem.status),
        headers={"cache-control": "no-store", "x-request-id": request_id(scope)} | problem.headers,
        media_type="application/json",
    )
