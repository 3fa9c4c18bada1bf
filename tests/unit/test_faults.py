"""Every fault, its source, and whether a retry may help (CONTRACT D12, D14)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from projector import UsageError
from projector.contracts.limits import ERROR_MESSAGE_MAX_CHARS
from projector.core.faults import FAULTS, Fault, is_retryable_status


@pytest.mark.parametrize(
    ("code", "source", "is_retryable"),
    [
        ("upstream_truncated", "provider", True),
        ("upstream_empty", "provider", True),
        ("upstream_unreachable", "provider", True),
        ("upstream_reset", "provider", True),
        ("upstream_timeout_connect", "provider", True),
        ("upstream_timeout_first_byte", "provider", True),
        ("upstream_timeout_idle", "provider", True),
        ("upstream_timeout_total", "provider", True),
        ("upstream_malformed", "provider", False),
        ("upstream_event_too_large", "provider", False),
        ("provider_error", "provider", False),
        ("internal_error", "server", False),
        ("redaction_failed", "server", False),
        ("content_blocked", "server", False),
        ("server_shutdown", "server", True),
    ],
)
def test_d14_codes(code: str, source: str, *, is_retryable: bool) -> None:
    fault = FAULTS[code]
    assert (fault.code, fault.source, fault.is_retryable) == (code, source, is_retryable)
    assert fault.message.endswith(".")
    assert len(fault.message) <= ERROR_MESSAGE_MAX_CHARS


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("upstream_rest", "unknown fault `upstream_rest`; known: `upstream_reset`, "),
        ("upstream_http_429", "expected for example `Fault.of_status(429)`"),
        (429, "fault: expected one of `upstream_truncated`, "),
    ],
)
def test_a_code_that_is_not_listed(code: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        FAULTS[code]
    assert FAULTS.get(code) is None


@pytest.mark.parametrize(
    ("status", "is_retryable"),
    [
        *((status, True) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529, 599)),
        *((status, False) for status in (301, 400, 401, 403, 404, 410, 418, 422, 499, 600)),
    ],
)
def test_d14_http_statuses(status: int, *, is_retryable: bool) -> None:
    assert is_retryable_status(status) is is_retryable
    cause = " (the server's key for it is missing or not accepted)" if status == 401 else ""
    message = f"The provider answered with HTTP status {status}{cause}."
    assert Fault.of_status(status) == Fault(f"upstream_http_{status}", "provider", message, is_retryable)


def test_a_status_that_is_no_number() -> None:
    with pytest.raises(UsageError, match=r"^`status`: expected a whole number, such as 429$"):
        Fault.of_status("429")  # type: ignore[arg-type]
