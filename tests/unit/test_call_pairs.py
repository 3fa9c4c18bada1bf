"""Which output answers which call, and what is said about calls and outputs without a partner."""

from __future__ import annotations

from typing import Final

import pytest

from projector.conversation.client_history import Step, Unpaired, check_calls, pair_calls
from projector.conversation.entries import Approval, CallKind, Entry, Message, ToolCall, ToolOutput

USER: Final = Message("user", "Hi")
MODEL: Final = Message("assistant", "Hello")
APPROVAL: Final = Approval("m", is_approved=True)


def call(call_id: str, kind: CallKind = "function") -> Entry:
    return ToolCall(call_id, "f", "{}", kind)


def output(call_id: str, kind: CallKind = "function") -> Entry:
    return ToolOutput(call_id, "1", kind)


VALID: Final = {
    "two turns": [USER, MODEL, USER],
    "a call": [USER, call("a"), output("a")],
    "a text between call and output": [USER, call("a"), MODEL, output("a")],
    "parallel calls, answered in another order": [USER, call("a"), call("b"), output("b"), output("a"), MODEL, USER],
    "a custom tool": [call("a", "custom"), output("a", "custom")],
    "an approval": [APPROVAL],
    "nothing": [],
}


@pytest.mark.parametrize("items", VALID.values(), ids=VALID.keys())
def test_valid_conversations(items: list[Entry]) -> None:
    assert check_calls(items) is None
    assert check_calls(items, is_continued=True) is None


LATE: Final = "is not the ID of an earlier call. Each output must follow its call in `input`."
MISSING: Final = "has no output. Each call needs one before the next message of the user."

INVALID: Final = {
    "an output alone": ([USER, output("a")], f"`input[1].call_id` {LATE}"),
    "an output before its call": ([USER, output("a"), call("a")], f"`input[1].call_id` {LATE}"),
    "a call at the end": ([USER, call("a")], f"`input[1]` {MISSING}"),
    "one of two calls": ([USER, call("a"), call("b"), output("a")], f"`input[2]` {MISSING}"),
    "a message of the user before the output": ([USER, call("a"), USER, output("a")], f"`input[1]` {MISSING}"),
    "the ID of a waiting call": (
        [USER, call("a"), call("a"), output("a")],
        "`input[2].call_id` is the ID of an earlier call: `input[1]`.",
    ),
    "the ID of an answered call": (
        [USER, call("a"), output("a"), call("a"), output("a")],
        "`input[3].call_id` is the ID of an earlier call: `input[1]`.",
    ),
    "two outputs": (
        [USER, call("a"), output("a"), output("a")],
        "`input[3].call_id` is the ID of a call that has an output already: `input[2]`.",
    ),
    "an output of another type": (
        [USER, call("a", "custom"), output("a")],
        "`input[2].type` must be 'custom_tool_call_output', because `input[1]` is a 'custom_tool_call'.",
    ),
    "nothing to answer": ([USER, MODEL], "`input` must not end with a message of the assistant: `input[1]`."),
}


@pytest.mark.parametrize(("items", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_conversations(items: list[Entry], message: str) -> None:
    assert check_calls(items) == message


def test_the_provider_may_have_the_call() -> None:
    assert check_calls([output("a"), output("b")], is_continued=True) is None
    assert check_calls([output("a"), output("a")], is_continued=True) == (
        "`input[1].call_id` is the ID of a call that has an output already: `input[0]`."
    )
    assert check_calls([USER, call("a")], is_continued=True) == f"`input[1]` {MISSING}"


def test_an_output_answers_the_last_waiting_call() -> None:
    pairs = pair_calls([Step("call", "a"), Step("call", "a"), Step("output", "a"), Step("output", "b")])
    assert pairs.calls == {2: 1}
    assert pairs.unpaired == [Unpaired(1, "repeated call", 0), Unpaired(3, "no call")]
