"""Reading and checking of the TOML files in `redaction/`, and compiling of `rules.json` from them.

Nothing here is loaded while streams are cleaned. `redaction/README.md` describes the form of an entry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from projector._resources import resource
from projector._validation import nearest
from projector.contracts import codec
from projector.redaction import patterns
from projector.redaction.detector import Detector
from projector.redaction.filters import clean_plain
from projector.redaction.rules import Format, Rules, Verdict, Word

FILES: Final = (
    "words.toml",
    "formats/clouds.toml",
    "formats/models.toml",
    "formats/code_hosts.toml",
    "formats/services.toml",
    "formats/contexts.toml",
)
"""The shipped files, in the order in which formats decide: particular ones before general ones, contexts last."""

MATERIAL: Final[Mapping[str, str]] = {
    "mixed": "a1B2c3D4e5F6g7H8i9J0k" * 8,
    "upper": "A2B3C4D5E6F7G2H3" * 8,
    "lower": "a1b2c3d4e5g6h7k8" * 8,
    "hex": "0123456789abcdef" * 10,
    "uuid": "01234567-89ab-cdef-0123-456789abcdef",
    "join": "",
}
"""Made-up text for `{mixed:40}` in a sample, so that no line of a file looks like a real secret."""

_MATERIAL: Final = re.compile(r"\{(mixed|upper|lower|hex):(\d{1,3})\}|\{(uuid|join)\}")
_TABLES: Final[Mapping[str, type[Format | Word]]] = {
    "format": Format,
    "word": Word,
    "exception": Word,
    "count": Word,
}


class RuleFileError(ValueError):
    """A rule file is not in form; the message names the file, the entry and what was expected, never a sample."""


class _Field(NamedTuple):
    """The form of a field: a check of its value, and what is expected."""

    accepts: Callable[[Any], bool]
    expected: str


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_pattern(value: object, *, may_hold_word: bool = False) -> bool:
    try:
        ways = [patterns.pieces(way) for way in patterns.alternatives(str(value))]
        re.compile("".join(piece.atom for way in ways for piece in way))
    except (ValueError, re.error):
        return False
    return _is_text(value) and (may_hold_word or patterns.WORD not in str(value))


def _is_samples(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(sample) for sample in value)


def _is_class(value: object) -> bool:
    return _is_pattern(value) and str(value)[0] == "[" and len(patterns.pieces(str(value))) == 1


_TEXT: Final = _Field(_is_text, "text")
_FLAG: Final = _Field(lambda value: isinstance(value, bool), "true or false")
_PATTERN: Final = _Field(_is_pattern, "a pattern (README.md, The pattern language)")
_SAMPLES: Final = _Field(_is_samples, "a list of at least one text")
_FIELDS: Final[Mapping[str, _Field]] = {
    "name": _Field(
        lambda value: re.fullmatch(r"[a-z0-9-]{1,64}", str(value)) is not None,
        "a name of the letters a-z, digits and `-`",
    ),
    "about": _TEXT,
    "anchor": _Field(lambda value: _is_pattern(value, may_hold_word=True), _PATTERN.expected),
    "pattern": _PATTERN,
    "source": _TEXT,
    "matches": _SAMPLES,
    "harmless": _SAMPLES,
    "tail": _Field(_is_class, "one class, such as `[A-Za-z0-9]`"),
    "open_chars": _Field(lambda value: value == "never" or (type(value) is int and value > 0), 'a count, or "never"'),
    "pattern_at_end": _PATTERN,
    "keep_anchor": _FLAG,
    "ignore_case": _FLAG,
    "inside_words": _FLAG,
    "where": _Field(lambda value: value in ("contains", "is"), "`contains` or `is`"),
}


def shipped_files() -> Rules:
    """Return the entries of the shipped files, with their samples."""
    return read(*(resource("redaction") / name for name in FILES))


def compiled() -> bytes:
    """Return the content of `rules.json`: the shipped files without samples, an entry in each line."""
    tables: dict[str, tuple[Format | Word, ...]] = dict(zip(Rules._fields, shipped_files(), strict=True))
    lines = {name: [codec.dumps(_without_defaults(row)).decode() for row in rows] for name, rows in tables.items()}
    return ("{" + ",\n".join(f'"{name}": [\n' + ",\n".join(lines[name]) + "\n]" for name in lines) + "}\n").encode()


def _without_defaults(row: Format | Word) -> dict[str, object]:
    fields = row._replace(matches=(), harmless=())._asdict()
    return {name: value for name, value in fields.items() if value != row._field_defaults.get(name)}


def read(*files: Path) -> Rules:
    """Read rule files, in order.

    Raises:
        RuleFileError: a file is not TOML, or an entry is not in form.
    """
    found: dict[str, list[Any]] = {table: [] for table in _TABLES}
    for path in files:
        for table, place, row in _rows(path):
            entry = _entry(_TABLES[table], row, place)
            if any(entry.name == other.name for other in found[table]):
                raise RuleFileError(f"{place}: `name`: expected a new name; another entry has this one")
            found[table].append(entry)
    return Rules(*map(tuple, found.values()))


def _rows(path: Path) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Yield the entries of a file: table, place for errors, row."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RuleFileError(f"{path.name}: expected a TOML file in UTF-8: {reason}") from None
    for table, rows in tables.items():
        if table not in _TABLES or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            expected = ", ".join(f"`[[{known}]]`" for known in _TABLES)
            raise RuleFileError(f"{path.name}: `{table[:80]}`: expected entries that begin with one of {expected}")
        for number, row in enumerate(rows, 1):
            name = row.get("name")
            known = f"`{name}`" if _FIELDS["name"].accepts(name) else f"entry {number} of `[[{table}]]`"
            yield table, f"{path.name}: {known}", row


def _entry(kind: type[Format | Word], row: Mapping[str, object], place: str) -> Format | Word:
    """Check and return one entry."""
    for name, value in row.items():
        if name not in kind._fields:
            meant = nearest(name, kind._fields, cutoff=0.0)
            raise RuleFileError(f"{place}: `{name[:80]}`: expected a known field; did you mean `{meant}`?")
        if not _FIELDS[name].accepts(value):
            raise RuleFileError(f"{place}: `{name}`: expected {_FIELDS[name].expected}")
    for name in kind._fields:
        if name not in row and (name not in kind._field_defaults or _FIELDS[name] is _SAMPLES):
            raise RuleFileError(f"{place}: `{name}`: expected {_FIELDS[name].expected}; it is missing")
    fields: dict[str, Any] = {name: _value(value) for name, value in row.items()}
    entry = kind(**fields)
    if isinstance(entry, Format):
        _check_length(entry, place)
    return entry


def _value(value: object) -> object:
    if isinstance(value, list):
        return tuple(_MATERIAL.sub(_material, sample) for sample in value)
    return patterns.NEVER if value == "never" else value


def _material(match: re.Match[str]) -> str:
    return MATERIAL[match[1]][: int(match[2])] if match[1] else MATERIAL[match[3]]


def _check_length(entry: Format, place: str) -> None:
    """Check that a format is certain enough: the search relies on it, and shorter ones stand in ordinary text."""
    shortest = min(_length(body) for body in patterns.alternatives(entry.pattern))
    for way in patterns.alternatives(entry.anchor):
        certain, literal = _length(way), _length(way, literal_only=True)
        is_certain = literal >= _LITERAL_CHARS or (literal == _LITERAL_CHARS - 1 and certain > _LITERAL_CHARS)
        if not is_certain and patterns.WORD not in way:
            raise RuleFileError(f"{place}: `anchor`: expected at least three literal characters, or `WORD`")
        if certain + shortest < patterns.PREFIX_CHARS and patterns.WORD not in way:
            expected = f"expected at least {patterns.PREFIX_CHARS} characters with the anchor"
            raise RuleFileError(f"{place}: `pattern`: {expected}")


def _length(pattern: str, *, literal_only: bool = False) -> int:
    return sum(piece.least for piece in patterns.pieces(pattern) if not literal_only or piece.atom[0] != "[")


_LITERAL_CHARS: Final = 3


def check_samples(rules: Rules, detector: Detector) -> list[str]:
    """Return an error for each sample that a detector does not treat as its entry expects."""

    def is_withheld(row: Format | Word, sample: str) -> bool:
        if isinstance(row, Format):
            return clean_plain(detector, sample) != sample
        return detector.keys.verdict(sample) is Verdict.SENSITIVE

    entries: list[Format | Word] = [*rules.formats, *rules.words, *rules.exceptions, *rules.counts]
    return [
        f"`{row.name}`: `{field}` {number}: expected to be {'withheld' if expected else 'shown'}"
        for row in entries
        for field, samples, expected in (("matches", row.matches, True), ("harmless", row.harmless, False))
        for number, sample in enumerate(samples, 1)
        if is_withheld(row, sample) is not expected
    ]
