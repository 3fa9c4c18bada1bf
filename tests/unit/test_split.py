"""Large fields in pieces (seed section 7.3, CONTRACT D21, D27)."""

from __future__ import annotations

import pytest

from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.truncation import split_base64, split_delta
from projector.redaction.clean import REDACTED_HERE, Cleaned, CleanText


@pytest.mark.parametrize(
    ("chars", "pieces"),
    [
        (0, []),
        (1, [1]),
        (DELTA_MAX_CHARS, [DELTA_MAX_CHARS]),
        (DELTA_MAX_CHARS + 1, [DELTA_MAX_CHARS, 1]),
        (3 * DELTA_MAX_CHARS, [DELTA_MAX_CHARS] * 3),
    ],
)
def test_d27_deltas(chars: int, pieces: list[int]) -> None:
    text = ("é😀a" * chars)[:chars]
    said = split_delta(Cleaned(CleanText(text)))
    assert [len(piece.value) for piece in said] == pieces
    assert "".join(piece.value for piece in said) == text


@pytest.mark.parametrize(("text", "noticed"), [("", [True]), ("a", [True]), ("a" * 40_000, [True, False])])
def test_the_first_piece_carries_the_notices(text: str, noticed: list[bool]) -> None:
    said = split_delta(Cleaned(CleanText(text), REDACTED_HERE))
    assert [piece.notices == REDACTED_HERE for piece in said] == noticed


@pytest.mark.parametrize(
    ("text", "max_chars", "pieces"),
    [
        ("", 8, []),
        ("AAAA", 8, ["AAAA"]),
        ("AAAABBBBCC==", 8, ["AAAABBBB", "CC=="]),
        pytest.param("AAAABBBBCCCC", 11, ["AAAABBBB", "CCCC"], id="D21-each-piece-decodes-alone"),
        pytest.param("AAAABBBB", 1, ["AAAA", "BBBB"], id="D21-no-piece-is-shorter-than-a-group"),
    ],
)
def test_d21_base64(text: str, max_chars: int, pieces: list[str]) -> None:
    assert split_base64(CleanText(text), max_chars) == pieces
