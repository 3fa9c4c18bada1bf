"""The provider reports an error (seed section 9.12, CONTRACT D12, D14)."""

from __future__ import annotations

from typing import Final

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.faults import FAULTS, is_retryable_status
from projector.core.state import StreamState

RETRYABLE_CODES: Final = frozenset(
    {
        "rate_limit_exceeded",
        "rate_limit_error",
        "rate_limited",
        "too_many_requests",
        "overloaded",
        "overloaded_error",
        "server_overloaded",
        "server_is_overloaded",
        "engine_overloaded",
        "slow_down",
        "server_error",
        "internal_server_error",
        "internal_error",
        "api_error",
        "service_unavailable",
        "service_unavailable_error",
        "unavailable",
        "bad_gateway",
        "gateway_timeout",
        "timeout",
        "request_timeout",
        "timeout_error",
        "vector_store_timeout",
    }
)
"""Rate limits, overload, server errors and timeouts, as providers spell them, in lower case (D14)."""


def on_error(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Take the error, flat or nested; the terminal is said by the ending."""
    nested = read.mapping_or_empty(event, "error")
    code = message = None
    for source in (nested, event):
        code = code or _code(source, "code")
        message = message or read.text_or_none(source, "message")
    kind = _code(nested, "type")
    code = code or kind or "provider_error"
    if message is None and isinstance(words := event.get("error"), str):
        message = words
    state.fault = FAULTS["provider_error"]._replace(
        code=code, is_retryable=_is_retryable(code) or _is_retryable(kind or "")
    )
    state.fault_message = message
    return []


def _code(source: CanonicalEvent, key: str) -> str | None:
    """Give a code; some gateways send the HTTP status as a number."""
    value = source.get(key)
    return str(value) if type(value) is int else read.text_or_none(source, key)


def _is_retryable(code: str) -> bool:
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else 0  # noqa: PLR2004 - an HTTP status
    return code.lower() in RETRYABLE_CODES or is_retryable_status(status)
