"""Texts for files that cannot be read or parsed: what was expected, and where, never a value of the file."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

REPEATED: Final = "it is already written above"
"""What is wrong with a table or a setting that a TOML file has twice."""

_MARK: Final = "\ufeff"
_QUOTES: Final = 'a text needs straight quotes: `"..."`'
_ONE_LINE: Final = "an inline table, `{ ... }`, stands on one line"
_TOML_HINTS: Final[tuple[tuple[str, str, str], ...]] = (
    ("invalid value", r"\$\{", 'a variable needs quotes: `"${NAME}"`'),
    ("invalid value", r"(?i:true|false)\b", "`true` and `false` are in small letters"),
    ("invalid value", r"(?i:null|none|nil)\b", "TOML has no null: leave the setting out"),
    ("invalid value", r"\s*(#.*)?$", "a value is missing"),
    ("invalid value", r"[^\s,\]}]", _QUOTES),
    ("invalid statement", r"[\u201c-\u201f\u2018-\u201b\u00ab]", _QUOTES),
    ("invalid statement", r"//|;", "a comment begins with `#`"),
    ("invalid statement", r"", "expected `name = value`, or `[name]` for a table"),
    ("expected '=' after a key in a key/value pair", r":", "a value follows `=`, not `:`"),
    ("expected newline or end of document after a statement", r"//", "a comment begins with `#`"),
    ("expected newline or end of document after a statement", r";", "a line ends without `;`"),
    ("expected newline or end of document after a statement", r"[^\W\d]", f"a number has no letters, and {_QUOTES}"),
    ("invalid initial character for a key part", r"(?<=[{,\s])\s*(#.*)?$", _ONE_LINE),
    ("invalid initial character for a key part", r"\}", "no comma follows the last setting of an inline table"),
    ("unclosed inline table", r"", _ONE_LINE),
    ("illegal character", r"\n", "a text ends with its quotes on the same line"),
    ("unescaped '\\' in a string", r"", "a text with backslashes needs single quotes: `'...'`"),
    ("invalid hex value", r"", "a text with backslashes needs single quotes: `'...'`"),
)
"""What a TOML parser reports, what the file has there, and how to write it; the first row that fits is used."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML, also after a byte order mark, which editors write.

    Raises `tomllib.TOMLDecodeError`, also where the parser itself raises something else.
    """
    try:
        return tomllib.loads(text.removeprefix(_MARK))
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("Lists and tables are nested too deeply") from None
    except ValueError:
        digits = re.search(r"[\d_]{4300}", text)  # the most that Python converts
        line = text.count("\n", 0, digits.start()) + 1 if digits else 1
        raise tomllib.TOMLDecodeError(f"A number has too many digits (at line {line}, column 1)") from None


def toml_problem(error: ValueError, text: str = "") -> str:
    """Return what a TOML parser expected, and where, without the names and values that it read.

    With the text of the file a hint at frequent mistakes follows.
    """
    reason, _, position = str(error).partition(" (at ")
    reason = REPEATED if reason.startswith(("Cannot ", "Duplicate ")) else reason[:1].lower() + reason[1:]
    reason = reason.partition(" character '")[0] + " character" if " character '" in reason else reason
    text = text.removeprefix(_MARK).replace("\r\n", "\n")
    place = re.match(r"line (\d+), column (\d+)", position)
    before = text.split("\n")[: int(place[1]) - 1] if place else []
    at = sum(len(line) + 1 for line in before) + int(place[2]) - 1 if place else len(text)
    rows = ((re.compile(what, re.MULTILINE), hint) for found, what, hint in _TOML_HINTS if text and found == reason)
    hint = next((f"; {hint}" for what, hint in rows if what.match(text, at)), "")
    return f"invalid TOML at {position.removesuffix(')') or 'an unknown position'}: {reason}{hint}"


def file_problem(error: OSError | ValueError, text: str = "") -> str:
    """Return why a file was not read: its path, its permissions, its encoding, or the TOML of its text."""
    if isinstance(error, FileNotFoundError):
        return "not found"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    return "expected UTF-8" if isinstance(error, UnicodeDecodeError) else toml_problem(error, text)
