"""Requests to the host, and its error responses: the protocol's closed object `{error, message, details?}`.

All functions raise `Problem` for an invalid request. Problems that all routes of the server share keep their code
unless the protocol has a code of its own (`PROTOCOL_CODES`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Scope

from projector.contracts import codec
from projector.contracts.limits import ID_MAX_CHARS
from projector.contracts.parts import Maybe
from projector.openwop.event_log import Verbosity, present
from projector.openwop.events import Share
from projector.server.http.problems import Problem, request_id
from projector.server.http.requests import parse

# errors

HOST_ERRORS: Final[Mapping[str, tuple[HTTPStatus, str]]] = {
    "validation_error": (HTTPStatus.BAD_REQUEST, "The request is invalid."),
    "unsupported_stream_mode": (HTTPStatus.BAD_REQUEST, "`streamMode` is not supported."),
    "capability_not_provided": (HTTPStatus.BAD_REQUEST, "`callbackUrl` is not supported: this host has no webhooks."),
    "mock_provider_forbidden": (HTTPStatus.FORBIDDEN, "`configurable.mockProvider` cannot be set."),
    "not_found": (HTTPStatus.NOT_FOUND, "Run not found."),
    "workflow_not_found": (HTTPStatus.NOT_FOUND, "Workflow not found."),
    "interrupt_not_found": (HTTPStatus.NOT_FOUND, "This node has no interrupt."),
    "interrupt_already_resolved": (HTTPStatus.CONFLICT, "This interrupt can no longer be answered."),
    "idempotency_key_mismatch": (HTTPStatus.CONFLICT, "`Idempotency-Key` has already been used with another request."),
    "run_already_terminal": (HTTPStatus.CONFLICT, "The run has already ended."),
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


class HostError(Problem):
    """An error of the host, with a message and details of its own if needed."""

    def __init__(self, code: str, message: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        status, default = HOST_ERRORS[code]
        super().__init__(status, code, message or default)
        self.details = dict(details or {})


def error_response(problem: Problem, scope: Scope) -> Response:
    """Return a problem as an error response of the protocol."""
    details = dict(problem.details) if isinstance(problem, HostError) else {}
    if "retry-after" in problem.headers:
        details["retryAfter"] = int(problem.headers["retry-after"])
    code = PROTOCOL_CODES.get(problem.code, problem.code)
    document = present(error=code, message=problem.detail, details=details or None)
    status = 400 if problem.status is HTTPStatus.UNPROCESSABLE_ENTITY else problem.status  # as the protocol has it
    return json_response(document, scope, status, **problem.headers)


def json_response(document: object, scope: Scope, status: int = HTTPStatus.OK, **headers: str) -> Response:
    """Return a JSON document (or its bytes) as a response, not to be cached unless `headers` say otherwise."""
    fields = {"cache-control": "no-store", "x-request-id": request_id(scope)} | headers
    data = document if isinstance(document, bytes) else codec.dumps(document)
    return Response(data, status_code=status, headers=fields, media_type="application/json")


# bodies

_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, hide_input_in_errors=True)


class Configurable(_Body):
    """Options of a run; unknown members are ignored, as the protocol requires."""

    escalation_threshold: Maybe[Share] = None
    """Null is rejected, and so is NaN, which is not JSON and is read as null."""
    reasoning_verbosity: Maybe[Verbosity] = None


class RunRequest(_Body):
    """Body of `POST /v1/runs`. The run belongs to the caller; a tenant or scope in the body is ignored."""

    workflow_id: _Id
    inputs: dict[str, Any] = Field(default_factory=dict)
    configurable: Configurable = Configurable()
    callback_url: str | None = None


class InterruptAnswer(_Body):
    """Answer to an interrupt; if the node waits for several, to the oldest unless `interruptId` selects another."""

    resume_value: Any
    interrupt_id: _Id | None = None


def run_request(body: Mapping[str, Any]) -> RunRequest:
    """Parse the body of `POST /v1/runs`; reject what only the configuration of the server sets."""
    request, options = parse(RunRequest, body), body.get("configurable", {})
    if options.get("mockProvider") is not None:
        raise HostError("mock_provider_forbidden")
    if request.callback_url is not None:
        raise HostError("capability_not_provided")
    for member in ("model", "promptOverrides", "temperature", "maxTokens"):
        if options.get(member) is not None:
            raise HostError("validation_error", f"`configurable.{member}` cannot be set.")
    if "agent" in request.inputs:
        raise HostError("validation_error", "`inputs.agent` is not supported: `workflowId` names the agent.")
    return request


# queries and headers

_CURSOR: Final = re.compile(r"-1|[0-9]{1,1000}")  # beyond any log, and longer ones are expensive to parse
MAX_POLL_S: Final = 25.0
"""Limit of a poll: below the 30 s at which clients and proxies commonly time out."""

Mode: TypeAlias = Literal["updates", "messages", "debug"]
MODES: Final[tuple[Mode, ...]] = ("updates", "messages", "debug")
"""The first is the default."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def modes(query: QueryParams) -> frozenset[Mode]:
    """Return the stream modes of `?streamMode=`, a comma-separated list."""
    names = query.get("streamMode", MODES[0]).split(",")
    known = [mode for mode in MODES if mode in names]
    if set(names) != set(known):
        raise HostError("unsupported_stream_mode", details={"supported": list(MODES)})
    return frozenset(known)


def sequence(text: str, name: str) -> int:
    """Return the sequence number of the last event that a reader has, -1 for none; `name` is that of the cursor."""
    if _CURSOR.fullmatch(text) is None:
        raise HostError("validation_error", f"`{name}` must be a whole number, -1 or more.")
    return int(text)


def poll_s(query: QueryParams) -> float:
    """Return the seconds that a poll waits for new events."""
    text = query.get("timeout", "0")
    if _SECONDS.fullmatch(text) is None:
        raise HostError("validation_error", "`timeout` must be a number of seconds, 0 or more.")
    return min(float(text), MAX_POLL_S)
