"""The provider reports an error (seed section 9.12, CONTRACT D12, D14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.core.faults import FAULTS

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
        pytest.param(flat(code="outer", error={"message": "No."}), "outer", "No.", id="D12-both"),
        pytest.param(nested(code=503, message="No."), "503", "No.", id="D12-a-status-as-code"),
        pytest.param(flat(error="It broke."), "provider_error", "It broke.", id="D12-words-alone"),
        pytest.param(flat(), "provider_error", OURS, id="D14-ours-where-there-are-none"),
        pytest.param(flat(code=[], message={"a": 1}, error=None), "provider_error", OURS, id="D30-wrong-types"),
        pytest.param(flat(message="x" * 501), "provider_error", "x" * 500, id="D14-a-limit-of-500"),
        pytest.param(flat(code="c" * 300), "c" * 256, OURS, id="D27-codes"),
        pytest.param(
            flat(message="key ghp_" + "a1B2" * 9 + " is bad"),
            "provider_error",
            "key <redacted> is bad",
            id="D14-redacted",
        ),
    ],
)
def test_errors_end_the_stream(play: Callable[..., list[Event]], event: Event, code: str, message: str) -> None:
    said = play(event)
    assert len(said) == 1
    error = said[0]["error"]
    assert (error["code"], error["message"], error["source"]) == (code, message, "provider")
    assert ("notices" in said[0]) == ("<redacted>" in message or len(message) == 500)


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
    assert play(event)[0]["error"]["is_retryable"] is is_retryable


def test_d12_the_first_error_ends_the_stream(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg", "delta": "Hi"}
    said = stream.feed(delta, flat(code="bad_input"), flat(code="other"), {"type": "response.failed"})
    assert [it["kind"] for it in said] == ["output_item.added", "message.delta", "output_item.done", "error"]
    assert stream.ended
    assert not stream.dropped
