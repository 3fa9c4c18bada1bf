"""Label values: words of this server and of its configuration, never those of a caller or a provider."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from projector.core.faults import FAULTS
from projector.core.handlers import DROPPED, HANDLERS
from projector.server.http.problems import PROBLEMS

OTHER: Final = "other"
"""Label of a value that is not in a table, which would make the number of labels unbounded."""
PROVIDER_CODE: Final = "provider_error"
"""Label of a code that a provider chose."""
MALFORMED_HTTP: Final = "malformed_http"
"""Code of bytes that are no request; the connection is closed."""

IN_STREAM: Final = "in_stream"
"""Reason of a failure after the headers of the response."""
REASONS: Final = frozenset({
    "dns", "certificate", "tls", "proxy", "unreachable", "refused", "not_http", "closed", "reset", "timeout", IN_STREAM,
    "circuit_open",
})  # fmt: skip
"""Reasons why a request to an upstream failed."""

_OPENWOP_CODES: Final = frozenset({
    "validation_error", "unsupported_stream_mode", "capability_not_provided", "forbidden", "mock_provider_forbidden",
    "workflow_not_found", "interrupt_not_found", "interrupt_already_resolved", "idempotency_key_mismatch",
    "run_already_terminal", "interrupt_cancelled", "rate_limited", "subscription_not_found", "run_not_terminal",
})  # fmt: skip
"""Codes of an OpenWOP host, which this module must not import."""
_EVENTS: Final = frozenset({*DROPPED, *HANDLERS})
_STATUSES: Final = frozenset(status.value for status in HTTPStatus)
_CODES: Final = frozenset(
    {*PROBLEMS, *FAULTS, *_OPENWOP_CODES, MALFORMED_HTTP, "run_max_turns", "run_guardrail", "run_model_behavior"}
    | {f"upstream_http_{status}" for status in _STATUSES}
)


def code_label(code: str) -> str:
    """Return the label of an error code."""
    return code if code in _CODES else PROVIDER_CODE


def event_label(name: str) -> str:
    """Return the label of the type of an event, or of the reason why it was dropped."""
    return name if name in _EVENTS else OTHER


def reason_label(code: str, reason: str | None) -> str:
    """Return the label of a reason; a failure without one is an error response or a time-out, as its code says."""
    if reason is None:
        return "timeout" if code.startswith("upstream_timeout_") else "none"
    return reason if reason in REASONS else OTHER


def status_label(status: int | None) -> str:
    """Return the label of an HTTP status; a request that got no response has the label `none`."""
    if status is None:
        return "none"
    return str(int(status)) if status in _STATUSES else OTHER
