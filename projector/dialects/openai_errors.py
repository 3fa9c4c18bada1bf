"""Errors in the shape of the OpenAI API: their types and HTTP statuses, for its two dialects and its routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from projector.core.faults import FAULTS

STATUS_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
"""HTTP status -> `type` of the error; any other below 500 is an `invalid_request_error`, from 500 a `server_error`."""

_SERVER_ERROR: Final = 500

CODE_STATUSES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("invalid_request", "invalid_request_error", "invalid_prompt", "context_length_exceeded"), 400),
    **dict.fromkeys(("authentication_error", "invalid_api_key"), 401),
    **dict.fromkeys(("permission_error", "permission_denied"), 403),
    **dict.fromkeys(("not_found", "not_found_error", "model_not_found"), 404),
    **dict.fromkeys(
        (
            *("rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "slow_down"),
            "insufficient_quota",
        ),
        429,
    ),
    **{code: 502 for code in FAULTS if code.startswith("upstream_")},
    **{f"upstream_timeout_{of}": 504 for of in ("connect", "first_byte", "idle", "total")},
    **dict.fromkeys(("server_shutdown", "stream_interrupted", "upstream_unavailable"), 503),
    **dict.fromkeys(("internal_error", "provider_error", "redaction_failed", "content_blocked"), 500),
}
"""Error code -> HTTP status. A code may also be a status, alone or after `upstream_http_`; all others are 500."""

_STATUS: Final = re.compile(r"(?:upstream_http_)?([45][0-9]{2})")
_NO_ERROR_STATUS: Final = re.compile(r"upstream_http_[0-9]+")
_BAD_GATEWAY: Final = 502


def status_of(code: str | None, error_type: str | None = None) -> int:
    """Return the HTTP status of an error by its code; if that has no row, by the provider's type of the error."""
    statuses = (_status_of(name.lower()) for name in (code, error_type) if name)
    return next((status for status in statuses if status is not None), _SERVER_ERROR)


def status_of_error(error: Mapping[str, Any]) -> int:
    """Return the HTTP status of an error object."""
    return status_of(error["code"], error["type"])


def _status_of(name: str) -> int | None:
    found = _STATUS.fullmatch(name)
    if found:
        return int(found[1])
    return _BAD_GATEWAY if _NO_ERROR_STATUS.fullmatch(name) else CODE_STATUSES.get(name)


def type_of(status: int) -> str:
    """Return the `type` of an error with an HTTP status."""
    return STATUS_TYPES.get(status, "invalid_request_error" if status < _SERVER_ERROR else "server_error")


def error_object(
    code: str | None, message: str, param: str | None = None, error_type: str | None = None
) -> dict[str, Any]:
    """Return `error` of an OpenAI error response or stream, from clean members; its type follows from the code."""
    return {"message": message, "type": error_type or type_of(status_of(code)), "param": param, "code": code}
