"""The table of OpenAI errors: every fault has its status, and every status its type."""

from __future__ import annotations

import pytest

from projector.core.faults import FAULTS
from projector.core.reported_errors import GENERIC_MESSAGES, is_retryable
from projector.dialects.openai_errors import CODE_STATUSES, error_object, status_of, type_of
from projector.server.http.problems import PROBLEMS, problem_of_fault

IN_STREAM_ONLY = {"provider_error": 500, "redaction_failed": 500, "content_blocked": 500}
"""Faults that occur only after the status, as problem documents know it; a JSON response has one."""


@pytest.mark.parametrize("code", FAULTS)
def test_every_fault_has_a_row_with_the_status_of_its_problem(code: str) -> None:
    assert CODE_STATUSES[code] == IN_STREAM_ONLY.get(code, problem_of_fault(FAULTS[code]).status.value)


@pytest.mark.parametrize("code", PROBLEMS)
def test_the_type_of_every_problem_fits_its_status(code: str) -> None:
    status = PROBLEMS[code].status.value
    assert type_of(status).endswith("_error")
    assert (type_of(status) == "server_error") is (status >= 500)


@pytest.mark.parametrize(
    ("code", "error_type", "status"),
    [
        ("upstream_http_404", None, 404),
        ("upstream_http_529", None, 529),
        ("upstream_http_302", None, 502),
        ("429", None, 429),
        ("Invalid_API_Key", None, 401),
        ("tool_use_failed", "invalid_request_error", 400),
        ("rate_limit_exceeded", "invalid_request_error", 429),
        ("odd", "odd", 500),
        (None, "not_found_error", 404),
        (None, None, 500),
        ("9999", None, 500),
    ],
)
def test_the_status_of_an_error(code: str | None, error_type: str | None, status: int) -> None:
    assert status_of(code, error_type) == status


def test_the_object_has_the_members_that_sdks_read() -> None:
    assert error_object("model_not_found", "No.", "model") == {
        "message": "No.",
        "type": "not_found_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert error_object(None, "No.", None, "tokens")["type"] == "tokens"


@pytest.mark.parametrize("code", sorted(filter(is_retryable, GENERIC_MESSAGES)))
def test_a_retryable_code_has_a_status_that_sdks_retry(code: str) -> None:
    assert status_of(code) in {408, 409, 429, *range(500, 600)}


@pytest.mark.parametrize("code", sorted(GENERIC_MESSAGES.keys() & CODE_STATUSES.keys()))
def test_a_code_of_the_client_is_not_described_as_an_error_of_the_provider(code: str) -> None:
    assert ("internal error" in GENERIC_MESSAGES[code]) <= (status_of(code) >= 500)
