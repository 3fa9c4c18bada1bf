"""Problems of files: what a TOML parser expected, and how to write it."""

from __future__ import annotations

import tomllib
from typing import Final

import pytest

from projector._file_problems import file_problem, parse_toml

QUOTES: Final = 'a text needs straight quotes: `"..."`'
ONE_LINE: Final = "an inline table, `{ ... }`, stands on one line"
BACKSLASHES: Final = "a text with backslashes needs single quotes: `'...'`"

CASES: Final = [
    ("key = ${SECRET}", 'line 1, column 7: invalid value; a variable needs quotes: `"${NAME}"`'),
    ("a = 1\nb = secret", f"line 2, column 5: invalid value; {QUOTES}"),
    ("a = \u201csecret\u201d", f"line 1, column 5: invalid value; {QUOTES}"),
    ("\u201ca\u201d = 1", f"line 1, column 1: invalid statement; {QUOTES}"),
    ("a = True", "line 1, column 5: invalid value; `true` and `false` are in small letters"),
    ("a = null", "line 1, column 5: invalid value; TOML has no null: leave the setting out"),
    ("a =\r\nb = 1", "line 1, column 4: invalid value; a value is missing"),
    ("a = [", "end of document: invalid value; a value is missing"),
    ("\r\na = {b = 1,  # one\r\nc = 2}", f"line 2, column 14: invalid initial character for a key part; {ONE_LINE}"),
    ("a = {\nb = 1}", f"line 1, column 6: invalid initial character for a key part; {ONE_LINE}"),
    ("a = {b = 1\n}", f"line 1, column 11: unclosed inline table; {ONE_LINE}"),
    ("a = {b = 1,}", "invalid initial character for a key part; no comma follows the last setting of an inline table"),
    ("[a.\nb = 1", "line 1, column 4: invalid initial character for a key part"),
    ('{"a": 1}', "line 1, column 1: invalid statement; expected `name = value`, or `[name]` for a table"),
    ("// secret", "line 1, column 1: invalid statement; a comment begins with `#`"),
    ("a = 1 // secret", "expected newline or end of document after a statement; a comment begins with `#`"),
    ("a = 1;", "expected newline or end of document after a statement; a line ends without `;`"),
    ("a = 5s", f"expected newline or end of document after a statement; a number has no letters, and {QUOTES}"),
    ("a: 1", "expected '=' after a key in a key/value pair; a value follows `=`, not `:`"),
    ('a = "secret\nb = 1', "line 1, column 12: illegal character; a text ends with its quotes on the same line"),
    ('a = "secret\x01"', "line 1, column 12: illegal character"),
    (r'a = "C:\Users"', f"line 1, column 10: invalid hex value; {BACKSLASHES}"),
    (r'a = "C:\secret"', rf"line 1, column 10: unescaped '\' in a string; {BACKSLASHES}"),
    ("a = 1\na = 2\n", "line 2, column 6: it is already written above"),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_invalid_toml_is_reported_with_a_hint(text: str, expected: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)
    problem = file_problem(caught.value, text)
    assert problem.startswith("invalid TOML at ")
    assert problem.endswith(expected)
    assert "secret" not in problem.lower()


def test_a_byte_order_mark_is_no_statement() -> None:
    assert parse_toml("\ufeffa = 1\r\n") == {"a": 1}
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        parse_toml(text := "\ufeffa = True")
    assert file_problem(caught.value, text).endswith("column 5: invalid value; `true` and `false` are in small letters")
