"""What makes a JSON text expensive is found without parsing it, and hostile texts are not read to their end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts import json_values
from projector.contracts.json_values import count_values, has_long_text

MOST = 20


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("an empty text", b"", 1),
        ("a value", b"1", 1),
        ("an object", b'{"a":1}', 2),
        ("a list, an upper bound", b"[1,2,3]", 4),
        ("separators in a string", b'{"a":"' + b",[{" * 100 + b'"}', 2),
        ("an escaped quote", b'["\\",' + b"," * 30 + b'"]', 2),
        ("an escaped backslash", b'["\\\\",' + b"1," * 30 + b"1]", MOST + 1),
        ("too many", b"1," * 30, MOST + 1),
        ("too many, with strings", b'"",' * 30, MOST + 1),
        ("an unterminated string", b'"' + b"," * 30, 1),
        ("strings without separators", b'""' * 100, 1),
        ("more of them, with a separator", b'""' * 100 + b"," * 30, MOST + 1),
    ],
)
def test_the_number_of_values(name: str, text: bytes, count: int) -> None:
    assert count_values(text, MOST) == count, name


@pytest.mark.parametrize(
    ("name", "text", "is_long"),
    [
        ("short", '["é"]', False),
        ("long, but ASCII", '["' + "a" * 30 + '"]', False),
        ("as long as it may be", '["' + "é" * 10 + '"]', False),
        ("one byte more", '["' + "é" * 10 + 'a"]', True),
        ("one character that is not ASCII", '["' + "a" * 30 + 'é"]', True),
        ("several texts", '["é", "' + "a" * 30 + '", "' + "é" * 10 + '"]', False),
        ("behind others", '[1, "", "\\"", "' + "é" * 11 + '"]', True),
        ("a name", '{"' + "é" * 11 + '": 1}', True),
        ("escaped quotes", '["' + '\\"é' * 10 + '"]', True),
        ("escaped backslashes", '["é\\\\", "é\\\\", "' + "a" * 30 + '"]', False),
        ("unterminated", '["' + "é" * 11, True),
        ("unterminated, behind a backslash", '["' + "é" * 11 + "\\", True),
    ],
)
@pytest.mark.parametrize("piece_bytes", [2, 3, 7, 2**20])
def test_a_long_text(name: str, text: str, is_long: bool, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.setattr(json_values, "_PIECE_BYTES", piece_bytes)
    assert has_long_text(text.encode(), MOST) is is_long, name


@given(st.lists(st.text('é"\\ab,[{', max_size=30), max_size=8), st.integers(2, 9))
def test_strings_are_found_however_they_are_read(texts: list[str], piece_bytes: int) -> None:
    data = json.dumps(texts, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "_PIECE_BYTES", piece_bytes)
        found = [data[start:end] for start, end in json_values._strings(data)]
    assert [json.loads(b'"' + text + b'"') for text in found] == texts
