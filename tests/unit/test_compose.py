"""Combining and splitting clean values; every loss has a notice (CONTRACT D26, D27)."""

from __future__ import annotations

from typing import Any

import pytest

from projector.contracts import codec
from projector.redaction import compose
from projector.redaction.clean import (
    REDACTED_HERE,
    TRUNCATED_HERE,
    Cleaned,
    CleanJson,
    CleanText,
    Gathered,
    Notice,
    notice,
)


def text(value: str, *notices: Notice) -> Cleaned[CleanText]:
    return Cleaned(CleanText(value), notices)


def places(cleaned: Cleaned[Any]) -> list[tuple[str, str]]:
    return [(found.type, found.path) for found in cleaned.notices]


def test_texts_are_joined() -> None:
    assert compose.paragraphs([text("a"), text("b", *REDACTED_HERE)]) == Cleaned("a\n\nb", REDACTED_HERE)
    assert compose.paragraphs([]) == compose.joined() == Cleaned("")
    assert compose.own_words("code") == "code"
    gathered: Gathered[CleanText] = Gathered()
    pieces = [CleanText(each) for each in ("a\r", "\n", "\r\n", "\ud83d", "é")]
    gathered.add(pieces[0])
    gathered.extend(pieces[1:])
    assert gathered.text == gathered.text == "".join(pieces)


def test_neighbours_keep_their_notices_once() -> None:
    said = compose.joined(text("a", *REDACTED_HERE), text("b", *REDACTED_HERE, *TRUNCATED_HERE))
    assert said == Cleaned("ab", REDACTED_HERE + TRUNCATED_HERE)


@pytest.mark.parametrize(("value", "pieces"), [("", []), ("abcde", ["ab", "cd", "e"]), ("😀é", ["😀é"])])
def test_split(value: str, pieces: list[str]) -> None:
    assert compose.split(CleanText(value), 2) == pieces


@pytest.mark.parametrize(
    ("max_chars", "value", "kinds"),
    [
        (3, "abc", ["redacted"]),
        (2, "ab", ["redacted", "truncated"]),
        (0, "", ["redacted", "truncated"]),
        (-5, "", None),
    ],
)
def test_cut(max_chars: int, value: str, kinds: list[str] | None) -> None:
    said = compose.cut(text("abc", *REDACTED_HERE), max_chars)
    assert said.value == value
    assert [found.type for found in said.notices] == (kinds or ["redacted", "truncated"])


def test_listed() -> None:
    parts = [text("a"), text("b", notice("redacted", ".x")), text("c")]
    whole: Cleaned[Any] = compose.listed(parts, 3)
    assert whole.value == ["a", "b", "c"]
    assert places(whole) == [("redacted", "[1].x")]
    cut: Cleaned[Any] = compose.listed(parts, 1)
    assert cut.value == ["a"]
    assert places(cut) == [("truncated", "")]


def test_record() -> None:
    members = {"a": text("x", *TRUNCATED_HERE), "b": None, "c": compose.plain(0), "d": compose.plain(None)}
    said: Cleaned[Any] = compose.record(members)
    assert said.value == {"a": "x", "c": 0, "d": None}
    assert places(said) == [("truncated", ".a")]


@pytest.mark.parametrize("value", [0, 1.5, True, None])
def test_plain(value: float | None) -> None:
    assert compose.plain(value) == Cleaned(CleanJson(value))


def test_nothing_is_empty() -> None:
    assert Cleaned("", ()) == compose.NOTHING


@pytest.mark.parametrize(
    "tree",
    [
        {"a": "x" * 200, "b": 1, "c": {"d": None, "e": 2}},
        ["x" * 200, 1, [2, 3]],
        {"a": [{"b": "é" * 100}, {"c": "y" * 100, "d": []}], "e": True},
    ],
    ids=["objects", "lists", "both"],
)
def test_a_tree_is_cut_to_a_number_of_bytes(tree: Any) -> None:
    size = codec.size(tree)
    assert compose.shrink(tree, size) == Cleaned(tree)
    for max_bytes in range(60, size):
        cut = compose.shrink(tree, max_bytes)
        assert codec.size(cut.value) <= max_bytes
        assert {kind for kind, _ in places(cut)} == {"truncated"}
