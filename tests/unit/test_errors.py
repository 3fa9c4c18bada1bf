"""The provider reports an error (seed section 9.12, CONTRACT D12, D14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.core.faults import FAULTS
from projector.core.reported_errors import GENERIC_MESSAGES, clean_error
from projector.core.transcript import ERRORS_MAX
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

Event: TypeAlias = dict[str, Any]

OURS: Final = FAULTS["provider_error"].message


def flat(**members: object) -> Event:
    return {"type": "error", "sequence_number": 3, **members}


def nested(**members: object) -> Event:
    return flat(error=members)


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        pytest.param(flat(code="bad_input", message="No.", param=None), "bad_input", "No.", id="D12-flat"),
        pytest.param(
            nested(type="invalid_request_error", code="bad_input", message="No."), "bad_input", "No.", id="D12-nested"
        ),
        pytest.param(nested(type="server_error", code=None, message="No."), "server_error", "No.", id="D12-type-only"),
        pytest.param(flat(code="as you wish", message="No."), "provider_error", "No.", id="D41-a-code-that-is-no-name"),
        pytest.param(flat(code="org-Tq8RzV1nYt5K", message="No."), "provider_error", "No.", id="D41-an-id-as-code"),
        pytest.param(flat(code="outer", error={"message": "No."}), "outer", "No.", id="D12-both"),
        pytest.param(nested(code=503, message="No."), "503", "No.", id="D12-a-status-as-code"),
        pytest.param(flat(error="It broke."), "provider_error", "It broke.", id="D12-words-alone"),
        pytest.param(flat(), "provider_error", OURS, id="D14-ours-where-there-are-none"),
        pytest.param(flat(code=[], message={"a": 1}, error=None), "provider_error", OURS, id="D30-wrong-types"),
        pytest.param(flat(message="x " * 251), "provider_error", "x " * 250, id="D14-a-limit-of-500"),
        pytest.param(flat(code="c" * 300), "provider_error", OURS, id="D27-codes"),
        pytest.param(
            flat(message="key ghp_" + "a1B2" * 9 + " is bad"),
            "provider_error",
            "key <redacted> is bad",
            id="D14-redacted",
        ),
    ],
)
def test_errors_end_the_stream(play: Callable[..., list[Event]], event: Event, code: str, message: str) -> None:
    reported, said = play(event, policy={"error_messages": "provider"})
    error = said["error"]
    assert (error["code"], error["message"], error["source"]) == (code, message, "provider")
    is_code_withheld = isinstance(given := event.get("code"), str) and given != code
    assert ("notices" in said) == (is_code_withheld or "<redacted>" in message or len(message) == 500)
    assert (reported["kind"], reported["message"]) == ("response.error", message)


@pytest.mark.parametrize(
    ("event", "is_retryable"),
    [
        *((flat(code=code), True) for code in ("rate_limit_exceeded", "server_error", "overloaded_error", "slow_down")),
        *((flat(code=code), True) for code in ("timeout", "Rate_Limit_Exceeded", "429", "500", "503", 529, 408)),
        *(
            (flat(code=code), False)
            for code in ("insufficient_quota", "invalid_prompt", "400", "404", 401, 5000, "0503", "²²²")
        ),
        (nested(type="server_error"), True),
        (nested(type="server_error", code="model_hiccup"), True),
        (nested(type="invalid_request_error", code="context_length_exceeded"), False),
        (flat(), False),
    ],
)
def test_d14_what_may_be_tried_again(play: Callable[..., list[Event]], event: Event, *, is_retryable: bool) -> None:
    assert play(event)[-1]["error"]["is_retryable"] is is_retryable


def test_d12_the_first_error_ends_the_stream(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg", "delta": "Hi"}
    said = stream.feed(delta, flat(code="bad_input"), flat(code="other"), {"type": "response.failed"})
    assert [it["kind"] for it in said] == [
        "output_item.added",
        "message.delta",
        "response.error",
        "output_item.done",
        "error",
    ]
    assert stream.ended
    assert not stream.dropped


@pytest.mark.parametrize(
    ("policy", "code", "message"),
    [
        ({}, "rate_limit_exceeded", "The provider's rate limit was reached. Try again later."),
        ({"error_messages": "generic"}, "Insufficient_Quota", "The quota of the provider's account is used up."),
        ({"error_messages": "auto"}, "429", "The provider's rate limit was reached. Try again later."),
        ({}, "gateway_hiccup", OURS),
        ({"error_messages": "provider"}, "rate_limit_exceeded", "Too fast for <redacted>."),
    ],
)
def test_d41_the_policy_selects_the_message(
    play: Callable[..., list[Event]], policy: Event, code: str, message: str
) -> None:
    said = play(flat(code=code, message="Too fast for org-Tq8RzV1nYt5K."), policy=policy)
    assert [frame.get("error", frame)["message"] for frame in said] == [message, message]


@pytest.mark.parametrize(
    ("mode", "message"), [("auto", "The provider had an internal error."), ("provider", "At <redacted>.")]
)
def test_d41_the_error_of_a_failed_response(play: Callable[..., list[Event]], mode: str, message: str) -> None:
    error = {"code": "server_error", "message": "At gw.fernhill.com."}
    failed = {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": error}}
    said = play(failed, policy={"error_messages": mode})
    assert [frame["kind"] for frame in said if frame["kind"] != "response.meta"] == [
        "response.error",
        "lifecycle",
        "final",
    ]
    [reported] = [frame for frame in said if frame["kind"] == "response.error"]
    assert reported == {"kind": "response.error", "code": "server_error", "message": message}


def test_the_record_for_the_log_has_the_message_of_the_provider() -> None:
    error = clean_error(
        Redactor(Policy()), message="At gw.fernhill.com.", code="x", type_="y", param="messages[0].content"
    )
    assert error.message is not None
    assert (error.code, error.message.value, error.type, error.param) == (
        "x",
        "At <redacted>.",
        "y",
        "messages[0].content",
    )


@pytest.mark.parametrize("code", sorted(GENERIC_MESSAGES))
def test_every_generic_message_is_a_sentence_under_a_lower_case_code(code: str) -> None:
    assert code == code.lower()
    assert GENERIC_MESSAGES[code].endswith(".")


def test_a_run_records_a_limited_number_of_errors(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    for number in range(40):
        error = {"code": f"c{number}", "message": "No."}
        stream.feed({"type": "response.created", "response": {"id": f"resp_{number}"}})
        stream.feed(
            {"type": "response.failed", "response": {"id": f"resp_{number}", "status": "failed", "error": error}}
        )
        stream.next_response()
    assert len(stream._projector.provider_errors) == ERRORS_MAX
