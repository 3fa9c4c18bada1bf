"""What is left to say of a growing text when its whole is known (CONTRACT D23, D30, D31)."""

from __future__ import annotations

import pytest

from projector.core.growing_text import TextPart, align_positions
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

REDACTOR = Redactor(Policy.load({"registered": [{"value": "quay-7781"}]}))


def part(*deltas: str) -> TextPart:
    grown = TextPart(REDACTOR.message_stream)
    for delta in deltas:
        grown.feed(delta)
    return grown


@pytest.mark.parametrize(
    ("deltas", "whole", "rest"),
    [
        ((), "Hi", "Hi"),
        ((), "", ""),
        (("Hi",), "Hi", ""),
        (("Hi",), "Hi you", " you"),
        pytest.param(("Hi",), "Ho", None, id="D30-contradicts"),
        pytest.param(("Hi you",), "Hi", None, id="D30-shorter"),
        pytest.param(("at qu", "ay-77"), "at quay-7781.", "<redacted>.", id="a-value-that-was-still-open"),
        (("Hi", ""), "Hi", ""),
        pytest.param(("a\ud83d", ""), "a😀b", "😀b", id="D31-half-a-character-and-nothing"),
        pytest.param(("a\ud83d",), "a😀b", "😀b", id="D31-half-a-character"),
        pytest.param(("a\ud83d", "\ude00"), "a😀", "", id="D31-two-halves-are-one-character"),
    ],
)
def test_complete(deltas: tuple[str, ...], whole: str, rest: str | None) -> None:
    grown = part(*deltas)
    before = str(grown.text)
    said = grown.complete(whole)
    assert (said.value if said is not None else None) == rest
    assert grown.text == before + (rest or "")


@pytest.mark.parametrize(("again", "rest"), [("Hi you", ""), ("Hi you!", None)])
def test_a_whole_is_taken_once(again: str, rest: str | None) -> None:
    grown = part("Hi")
    grown.complete("Hi you")
    said = grown.complete(again)
    assert (said.value if said is not None else None) == rest
    assert grown.text == "Hi you"


def test_close_gives_what_was_held_back_once() -> None:
    grown = part("a\ud83d")
    assert grown.text == "a"
    assert grown.close().value == "\ufffd"
    assert grown.close().value == ""
    assert grown.text == "a\ufffd"


@pytest.mark.parametrize("deltas", [("at quay-7781, at quay-7781.",), ("at quay", "-7781"), ("at quay-77",)])
def test_notices_stay_with_the_text(deltas: tuple[str, ...]) -> None:
    grown = part(*deltas)
    grown.close()
    assert [(notice.type, notice.path) for notice in grown.notices] == [("redacted", "")]


@pytest.mark.parametrize(
    ("streamed", "finished", "places"),
    [
        ([], [], {}),
        ([], [0, 1], {0: 0, 1: 1}),
        ([0, 1], [0, 1], {0: 0, 1: 1}),
        ([1], [0], {0: 1}),
        ([1, 3], [0, 1], {0: 3, 1: 1}),
        ([3, 1], [0], {0: 1}),
        ([0], [0, 1, 2], {0: 0, 1: 1, 2: 2}),
        ([0, 5], [0, 1, 2], {0: 0, 1: 5, 2: 2}),
    ],
)
def test_align_positions(streamed: list[int], finished: list[int], places: dict[int, int]) -> None:
    assert align_positions(streamed, finished) == places
