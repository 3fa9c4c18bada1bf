"""Error responses of the host and faults of its runs.

An error response is the protocol's closed object `{error, message, details?}`. Problems that all routes of the server
share keep their code unless the protocol has a code of its own (`PROTOCOL_CODES`).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.types import Scope

from projector.contracts import codec
from projector.core.faults import Fault
from projector.server.http.problems import DEFAULT_RETRY_AFTER_S, Problem, request_id
from projector.server.telemetry.request_facts import facts_of

LOG_FULL: Final = Fault("log_full", "server", "The event log of the run exceeds its size limit.", False)
INTERRUPT_TIMEOUT: Final = Fault("interrupt_timeout", "server", "The approval request timed out.", False)
REJECTED: Final = Fault("rejected", "server", "The decision was rejected.", False)
HOST_LOST: Final = Fault("host_lost", "server", "The server of the run stopped unexpectedly.", True)

FAULTS: Final = {fault.code: fault for fault in (LOG_FULL, INTERRUPT_TIMEOUT, REJECTED, HOST_LOST)}
"""Faults of runs, in addition to those of all streams."""


class _Row(NamedTuple):
    status: HTTPStatus
    message: str


HOST_ERRORS: Final[Mapping[str, _Row]] = {
    "validation_error": _Row(HTTPStatus.BAD_REQUEST, "The request is invalid."),
    "unsupported_stream_mode": _Row(HTTPStatus.BAD_REQUEST, "`streamMode` is not supported."),
    "capability_not_provided": _Row(HTTPStatus.BAD_REQUEST, "The request needs a capability that is not provided."),
    "forbidden": _Row(HTTPStatus.FORBIDDEN, "This caller may not run conformance workflows."),
    "mock_provider_forbidden": _Row(HTTPStatus.FORBIDDEN, "`configurable.mockProvider` cannot be set."),
    "not_found": _Row(HTTPStatus.NOT_FOUND, "Run not found."),
    "workflow_not_found": _Row(HTTPStatus.NOT_FOUND, "Workflow not found."),
    "interrupt_not_found": _Row(HTTPStatus.NOT_FOUND, "This node has no interrupt."),
    "interrupt_already_resolved": _Row(HTTPStatus.CONFLICT, "This interrupt has already been resolved."),
    "interrupt_cancelled": _Row(HTTPStatus.UNPROCESSABLE_ENTITY, "The run of this interrupt has been cancelled."),
    "rate_limited": _Row(HTTPStatus.TOO_MANY_REQUESTS, "Too many runs or readers of this caller."),
    "idempotency_key_mismatch": _Row(
        HTTPStatus.CONFLICT, "`Idempotency-Key` has already been used with another request."
    ),
    "subscription_not_found": _Row(HTTPStatus.NOT_FOUND, "Webhook not found."),
    "run_not_terminal": _Row(HTTPStatus.CONFLICT, "The run has not ended."),
    "run_already_terminal": _Row(HTTPStatus.CONFLICT, "The run has already ended."),
}
"""Errors of this host only, by code."""

PROTOCOL_CODES: Final[Mapping[str, str]] = {
    "malformed_json": "validation_error",
    "invalid_request": "validation_error",
    "unknown_agent": "workflow_not_found",
    "unknown_response": "not_found",
    "unknown_conversation": "not_found",
    "permission_denied": "forbidden",
    **dict.fromkeys(("too_many_streams", "request_limit_exceeded", "token_limit_exceeded"), "rate_limited"),
}
"""Code of a server problem -> code of the protocol."""

_STATUSES: Final[Mapping[HTTPStatus, HTTPStatus]] = {HTTPStatus.UNPROCESSABLE_ENTITY: HTTPStatus.BAD_REQUEST}
"""Status of a server problem -> status of the protocol, which uses 422 for errors of its own only."""


class HostError(Problem):
    """An error of the host, with a message and details of its own if needed."""

    def __init__(self, code: str, message: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        row = HOST_ERRORS[code]
        super().__init__(row.status, code, message or row.message)
        if row.status is HTTPStatus.TOO_MANY_REQUESTS:
            self.headers["retry-after"] = str(DEFAULT_RETRY_AFTER_S)
        self.details = dict(details or {})


def error_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem as an error response of the protocol, and note its code for the report of the request."""
    facts_of(scope).code = problem.code
    details = dict(problem.details) if isinstance(problem, HostError) else {}
    if "retry-after" in problem.headers:
        details["retryAfter"] = int(problem.headers["retry-after"])
    document: dict[str, Any] = {"error": PROTOCOL_CODES.get(problem.code, problem.code), "message": problem.detail}
    if details:
        document["details"] = details
    return Response(
        codec.dumps(document),
        status_code=problem.status if isinstance(problem, HostError) else _STATUSES.get(problem.status, problem.status),
        headers={"cache-control": "no-store", "x-request-id": request_id(scope)} | problem.headers,
        media_type="application/json",
    )
