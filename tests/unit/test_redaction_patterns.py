"""The pattern language of credential formats, and the results of its two expressions."""

from __future__ import annotations

import pytest

from projector.redaction import patterns
from projector.redaction.clean import cut_text
from projector.redaction.format_search import FormatSearch
from projector.redaction.patterns import NEVER, Piece
from projector.redaction.rules import Format


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("ab", [Piece("a"), Piece("b")]),
        (r"a\.", [Piece("a"), Piece(r"\.")]),
        ("-", [Piece(r"\-")]),
        ("[a-z]{3}", [Piece("[a-z]", 3, 3)]),
        ("[a-z]{2,5}x", [Piece("[a-z]", 2, 5), Piece("x")]),
        ("[]a]?", [Piece("[]a]", 0, 1)]),
        (r"[^\]|]{1,2}", [Piece(r"[^\]|]", 1, 2)]),
        ("", []),
    ],
)
def test_a_pattern_is_pieces_in_a_row(pattern: str, pieces: list[Piece]) -> None:
    assert patterns.pieces(pattern) == pieces


def test_letters_of_any_case_become_classes() -> None:
    assert patterns.pieces("a1-", ignore_case=True) == [Piece("[Aa]"), Piece("1"), Piece(r"\-")]


@pytest.mark.parametrize("pattern", ["a{", "a|b", "[a", "a}", "?a"])
def test_what_is_not_in_the_language_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected a literal, a class or a count"):
        patterns.pieces(pattern)


def test_alternatives_are_parted_outside_classes() -> None:
    assert patterns.alternatives(r"a|[|]{2}|c\|d") == ["a", "[|]{2}", r"c\|d"]


def told(text: str, *, open_chars: int = 1, at_end: bool = False) -> tuple[str, int] | None:
    """Return the result and its position: complete, open, or nothing."""
    form = Format("x", "x", "k[xy]_", "[0-9]{3}-[a-f]{1,4}", "x", open_chars=open_chars)
    found = FormatSearch([form], [], at_end=at_end).first(text)
    if found is None:
        return None
    is_whole = found.row is form and "-" in text[found.start : found.end - 1]
    return ("complete" if is_whole else "open", found.start)


@pytest.mark.parametrize("at_end", [True, False])
def test_a_policy_without_words_finds_none(at_end: bool) -> None:  # noqa: FBT001  # a column of the table
    assert FormatSearch([Format("x", "x", "--WORD |WORD=", "[a-z]", "x")], [], at_end=at_end).first("--a b --") is None


@pytest.mark.parametrize(
    ("text", "live", "last"),
    [
        ("a kx_123-a", ("complete", 2), ("complete", 2)),
        ("a ky_123-abcdefg", ("complete", 2), ("complete", 2)),
        ("a kx_123-", ("open", 2), ("open", 2)),
        ("a kx_12", ("open", 2), ("open", 2)),
        ("a kx_1", ("open", 2), ("open", 2)),
        ("a kx_", ("open", 2), None),
        ("a k", ("open", 2), None),
        ("a kx_1 ", None, None),
        ("a kz", None, None),
        ("akx_123-a", None, None),
        ("1kx_123-a", None, None),
        ("_kx_123-a", ("complete", 1), ("complete", 1)),
        ("kx_1kx_123-a", None, None),
        ("kx_1-kx_123-a", ("complete", 5), ("complete", 5)),
    ],
)
def test_a_start_is_complete_open_or_nothing(text: str, live: object, last: object) -> None:
    assert told(text) == live
    assert told(text, at_end=True) == last


@pytest.mark.parametrize(
    ("open_chars", "text", "last"),
    [
        (3, "kx_12", None),
        (3, "kx_123", ("open", 0)),
        (5, "kx_123-", None),
        (NEVER, "kx_123-", None),
        (NEVER, "kx_123-a", ("complete", 0)),
    ],
)
def test_an_open_end_counts_once_enough_of_its_body_is_there(open_chars: int, text: str, last: object) -> None:
    assert told(text, open_chars=open_chars, at_end=True) == last


@pytest.mark.parametrize(
    ("text", "max_chars", "said"),
    [
        ("abc", 3, "abc"),
        ("abc", 0, ""),
        ("abc", -1, ""),
        ("<redacted>", 9, ""),
        ("<redacted>x", 10, "<redacted>"),
        ("<redacted> <redacted>", 15, "<redacted> "),
        ("ab [REDACTED:x] c", 14, "ab "),
        ("ab [REDACTED: c", 8, "ab [REDA"),
    ],
)
def test_a_cut_leaves_no_part_of_a_mark(text: str, max_chars: int, said: str) -> None:
    assert cut_text(text, max_chars) == said


FORMAT = Format("x", "", anchor="key_", pattern="[0-9]{6}", source="")
NEAR = [
    (" ", "a", 2),
    (" ", "k", 1),
    ("a", "k", 2),
    ("\u2013", "k", 1),
    ("é", "k", 1),
    ("9", "ke", 3),
    (".", "ke", 1),
    ("=3", "k", -1),
    ("3", "k", 2),
    (" ", "key_1", -1),
    (" ", "%41", -1),
]
"""What is before a text, the text, and what is decided about it."""


@pytest.mark.parametrize("kept", [4_096, 2])
def test_what_is_decided_about_a_short_text_is_kept_for_its_start(kept: int) -> None:
    search = FormatSearch([FORMAT], ["token"], at_end=False)
    search.shorts_max = kept
    for rows in (NEAR, NEAR[::-1], NEAR):
        assert [search.quick(before + text, len(before)) for before, text, _ in rows] == [end for *_, end in rows]
    decided = [search.quick(f"before {before}{text}", len(before) + 7) for before, text, _ in NEAR]
    assert decided == [end + 7 if end >= 0 else -1 for *_, end in NEAR]
    assert all(len(texts) <= kept for texts in (search._starting, search._inside))
