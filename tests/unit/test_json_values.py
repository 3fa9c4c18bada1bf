"""Values of a JSON text are counted without parsing it, and hostile texts are not counted to their end."""

from __future__ import annotations

import pytest

from projector.contracts.json_values import count_values

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
