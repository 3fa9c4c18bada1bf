"""The rest of a growing text that is emitted once the complete text is known (CONTRACT D23, D30, D31)."""

from __future__ import annotations

import pytest

from projector.core.growing_text import CallArguments, TextPart, align_positions
from projector.redaction.clean import REDACTED_HERE, Cleaned, CleanText
from projector.redaction.compose import NOTHING
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.streams import ArgumentsEnd, Seam, TextStream

REDACTOR = Redactor(Policy.load({"registered": [{"value": "quay-7781"}], "text": "off"}))


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
        pytest.param(("a\ud83d", "b"), "a\ufffdb c", " c", id="D31-half-a-character-and-another-one"),
        pytest.param(("\ude00b",), "\ufffdb c", " c", id="D31-the-second-half-alone"),
    ],
)
def test_complete(deltas: tuple[str, ...], whole: str, rest: str | None) -> None:
    grown = part(*deltas)
    before = str(grown.text)
    said = grown.complete(whole)
    assert (said.value if said is not None else None) == rest
    assert grown.text == before + (rest or "")


@pytest.mark.parametrize("start", range(4))
def test_a_run_may_begin_at_any_delta_and_end_before_a_value(start: int) -> None:
    deltas = ["Hi", " you", " at ", "quay-7781."]
    grown = part(*deltas[:start])
    shown, _ = grown.feed_run(deltas, start)
    for delta in deltas[start + len(shown) :]:
        grown.feed(delta)
    said = grown.complete("".join(deltas) + " Bye")
    assert said is not None
    assert said.value == " Bye"


def test_only_the_text_that_was_read_last_reads_a_run() -> None:
    seam = Seam()
    first, second = REDACTOR.message_stream(seam), REDACTOR.message_stream(seam)
    assert first.feed("Hi").value == "Hi"
    assert second.feed_run([" you"], 0) == []
    assert first.feed_run([" you"], 0) == [" you"]


@pytest.mark.parametrize(
    ("deltas", "run"),
    [(["Hi"], [" you"]), (["a\ud83d"], []), (["a\ud83d", "\ude00"], [" you"]), (["at qu"], ["qu you"])],
)
def test_a_run_begins_where_no_half_of_a_character_is_held(deltas: list[str], run: list[str]) -> None:
    stream = REDACTOR.message_stream()
    for delta in deltas:
        stream.feed(delta)
    assert stream.feed_run([" you"], 0) == run


def test_a_known_word_follows_what_is_held() -> None:
    stream = Redactor(Policy.load({"registered": [{"value": "-quay-7781"}], "text": "off"})).message_stream()
    assert stream.feed_run(["Hi", " you", " you", "-", " you"], 0) == ["Hi", " you", " you", "", "- you"]


def test_a_text_that_is_read_again_goes_on_after_another_one() -> None:
    seam = Seam()
    first = REDACTOR.message_stream(seam)
    first.feed("at ")
    again, other = REDACTOR.message_stream(seam), REDACTOR.message_stream(seam)
    again.take_place_of(first)
    shown = [again.feed("at quay"), other.feed("Hi"), again.feed("-7781."), again.close()]
    assert "".join(each.value for each in shown) == "at Hi<redacted>."


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


class CountingFilter:
    """Counts the characters that a call's arguments pass to redaction."""

    def __init__(self, chars: list[int]) -> None:
        self._chars = chars
        self._filter = REDACTOR.argument_stream()

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        self._chars[0] += len(fragment)
        return self._filter.feed(fragment)

    def finish(self) -> ArgumentsEnd:
        return self._filter.finish()


@pytest.mark.parametrize(
    ("deltas", "whole", "chars", "agrees"),
    [
        (['{"a":', ' "quay-7781"}'], '{"a": "quay-7781"}', 18, True),
        (['{"a":'], '{"a": 1}', 8, True),
        ([], '{"a": 1}', 8, True),
        (['{"a": 1}'], None, 8, True),
        pytest.param(['{"a"', ": 1}"], '{"a": 2}', 16, False, id="D23-contradicts"),
        pytest.param(['{"a": 1}'], '{"a": 2}', 8, False, id="D50-contradicts-a-whole-object"),
        pytest.param(['{"a": b}'], None, 8, True, id="D50-braces-around-no-object"),
        *(
            pytest.param(deltas, whole, len(whole), True, id=f"D50-{name}")
            for name, deltas, whole in (
                ("each-repeats-all", ["{", '{"', '{"a": "x', "", '{"a": "x:', '{"a": "x:"}'], '{"a": "x:"}'),
                ("each-repeats-all-after-a-brace", ["{}", '{"', '{"a": {', '{"a": {"b": 1}}'], '{"a": {"b": 1}}'),
                ("each-repeats-all-then-one-more", ['{"a"', '{"a": [1', ", 2]}"], '{"a": [1, 2]}'),
                ("the-same-twice", ['{"a"', '{"a"', ": 1}"], '{"a": 1}'),
                ("an-object-in-an-object", ['{"a": ', '{"a": 1}', "}"], '{"a": {"a": 1}}'),
                ("an-object-in-a-list", ['{"a": [1,', '{"a": [1,', "2]}]}"], '{"a": [1,{"a": [1,2]}]}'),
                ("a-key-that-is-a-brace", ['{"', '{": 1}'], '{"{": 1}'),
                ("a-text-that-repeats", ['{"a": "', '{\\"a\\": 1}', '"}'], '{"a": "{\\"a\\": 1}"}'),
            )
        ),
        pytest.param(['{"a":', ' "quay-7781"}'], '{"a": "quay-7782"}', 36, False, id="D23-contradicts-in-a-value"),
        pytest.param(['{"a": "\ud83d', '\ude00"}'], '{"a": "😀"}', 21, True, id="D31-two-halves-are-filtered-again"),
    ],
)
def test_arguments_are_filtered_once_if_the_whole_agrees(
    deltas: list[str], whole: str | None, chars: int, *, agrees: bool
) -> None:
    counted = [0]
    arguments = CallArguments(REDACTOR, is_plain=False)
    arguments._make_filter = lambda: CountingFilter(counted)
    arguments._filter = arguments._make_filter()
    for delta in deltas:
        arguments.feed(delta)
    _, end = arguments.complete(whole)
    assert (counted[0], arguments.agrees) == (chars, agrees)
    same = REDACTOR.argument_stream()
    same.feed("".join(deltas) if not agrees or whole is None else whole)
    assert end == same.finish().arguments


def test_a_complete_text_is_closed_once() -> None:
    made: list[TextStream] = []

    def make() -> TextStream:
        made.append(REDACTOR.message_stream())
        return made[-1]

    grown = TextPart(make)
    grown.feed("Hi quay-77")
    assert grown.complete("Hi quay-7781") == Cleaned("<redacted>", REDACTED_HERE)
    assert (grown.close(), len(made)) == (NOTHING, 1)  # the deltas were shown as they are, so they are compared
