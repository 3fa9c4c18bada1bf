"""Errors in the shape of the Messages API: their types and HTTP statuses, for the dialect and its routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.dialects.openai_errors import status_of

TYPE_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Type of an error -> HTTP status."""

PARAM_CODES: Final[Mapping[str | None, str]] = {"thread": "thread_unsupported_request"}
"""Member that this server does not support -> the code with which clients go on without it."""

_STATUS_TYPES: Final = {status: name for name, status in TYPE_STATUSES.items()}
_GENERAL: Final = frozenset({"invalid_request_error", "api_error"})
"""Types that other APIs also have for statuses that have a type of their own here, such as 401."""
_SERVER_ERROR: Final = 500
OVERLOADED: Final = "overloaded_error"


def type_of(status: int) -> str:
    """Return the type of an error with an HTTP status."""
    other = "invalid_request_error" if status < _SERVER_ERROR else "api_error"
    return _STATUS_TYPES.get(status, OVERLOADED if status == 503 else other)  # noqa: PLR2004


def stream_error(
    code: str, message: str, reported: str | None = None, *, is_retryable: bool = False, request_id: str = ""
) -> dict[str, Any]:
    """Return the event of a failed stream, from clean members.

    Args:
        code: code of the error.
        message: what may be shown of it.
        reported: the provider's type of the error.
        is_retryable: whether the same request may succeed. Clients repeat an `overloaded_error`.
        request_id: ID of the request, if the client knows it.
    """
    named = next((name for name in (reported, code) if name in TYPE_STATUSES), None)
    error_type = named or type_of(status_of(code, reported))
    if error_type == "api_error" and is_retryable:
        error_type = OVERLOADED
    return error_event(error_type, message, request_id)


def refusal(status: int, error: Mapping[str, Any], request_id: str, is_reported: bool) -> tuple[int, dict[str, Any]]:  # noqa: FBT001 - called by position
    """Return status and body of an error response, from an error in the form of OpenAI; the API has 529 for 503."""
    named = error["type"] if is_reported and error["type"] in TYPE_STATUSES else None
    kind = type_of(status) if named is None or (named in _GENERAL and status in _STATUS_TYPES) else named
    body = error_event(kind, str(error["message"]), request_id, error["param"])
    return TYPE_STATUSES[kind] if kind == OVERLOADED else status, body


def error_event(error_type: str, message: str, request_id: str = "", param: str | None = None) -> dict[str, Any]:
    """Return an error as an event, which is also the body of an error response; `param` is the invalid member."""
    error: dict[str, Any] = {"type": error_type, "message": message}
    if param in PARAM_CODES:
        error["details"] = {"error_code": PARAM_CODES[param], "unsupported": [param]}
    event = {"type": "error", "error": error}
    return {**event, "request_id": request_id} if request_id else event
