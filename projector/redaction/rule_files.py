"""Read and check the TOML files in `redaction/`, and compile `rules.json` from them.

Nothing here is loaded while streams are cleaned. `redaction/README.md` describes the form of an entry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator, model_validator

from projector._resources import resource
from projector._validation import describe
from projector.contracts import codec
from projector.redaction import patterns
from projector.redaction.detector import Detector
from projector.redaction.filters import clean_plain
from projector.redaction.internals import Internals
from projector.redaction.rules import Context, Format, Rules, TextClass, Verdict, Word, shipped
from projector.redaction.text_checks import CHECKS
from projector.redaction.text_stream import clean_class

FILES: Final = (
    "words.toml",
    "formats/clouds.toml",
    "formats/models.toml",
    "formats/code_hosts.toml",
    "formats/services.toml",
    "formats/payments.toml",
    "formats/operations.toml",
    "formats/standards.toml",
    "formats/contexts.toml",
    "text/personal.toml",
)
"""The shipped files in the order of precedence: specific formats before general ones, contexts last."""

INTERNALS_FILE: Final = "internals.toml"
"""The shipped names of infrastructure, which error messages must not contain."""

MATERIAL: Final[Mapping[str, str]] = {
    "mixed": "a1B2c3D4e5F6g7H8i9J0k" * 8,
    "upper": "A2B3C4D5E6F7G2H3" * 8,
    "lower": "a1b2c3d4e5g6h7k8" * 8,
    "hex": "0123456789abcdef" * 10,
    "rhex": "fedcba9876543210" * 10,
    "uuid": "01234567-89ab-cdef-0123-456789abcdef",
    "join": "",
}
"""Made-up text for `{mixed:40}` in a sample, so that no line of a file looks like a real secret."""

_MATERIAL: Final = re.compile(r"\{(mixed|upper|lower|hex|rhex):(\d{1,3})\}|\{(uuid|join)\}")


class RuleFileError(ValueError):
    """A rule file is invalid; the message names the file, the entry and the expected form, never a sample."""


def _pattern(text: str) -> str:
    try:
        ways = [patterns.pieces(way) for way in patterns.alternatives(text)]
        re.compile("".join(piece.atom for way in ways for piece in way))
    except (ValueError, re.error):
        raise ValueError("expected a pattern (redaction/README.md: The pattern language)") from None
    return text


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error:
        raise ValueError("expected a regular expression") from None
    return text


def _without_word(text: str) -> str:
    if patterns.WORD in text:
        raise ValueError("expected a pattern without `WORD`, which stands in anchors only")
    return text


def _class(text: str) -> str:
    if text[0] != "[" or len(patterns.pieces(text)) != 1:
        raise ValueError("expected one class, such as `[A-Za-z0-9]`")
    return text


_Anchor: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
_Pattern: TypeAlias = Annotated[_Anchor, AfterValidator(_without_word)]
_Expression: TypeAlias = Annotated[str, AfterValidator(_expression)]
_Samples: TypeAlias = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
_Words: TypeAlias = tuple[Annotated[str, Field(min_length=1)], ...]


class _Entry(BaseModel, extra="forbid", strict=True, hide_input_in_errors=True):
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")]
    about: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    matches: _Samples
    harmless: _Samples


_KeyWord: TypeAlias = Annotated[str, Field(pattern=r"^[a-z]{1,64}$")]


class _WordEntry(_Entry):
    where: Literal["contains", "is", "ends"] = "contains"
    words: list[_KeyWord] = []


class _ExceptionEntry(_Entry):
    where: Literal["contains", "begins", "ends"] = "contains"
    words: list[_KeyWord] = []


class _CountEntry(_Entry):
    words: list[_KeyWord] = []


class _FormatEntry(_Entry):
    anchor: _Anchor
    pattern: _Pattern
    tail: Annotated[_Pattern, AfterValidator(_class)] = ""
    open_chars: Annotated[int, Field(ge=1)] | Literal["never"] = 1
    pattern_at_end: _Pattern = ""
    keep_anchor: bool = False
    ignore_case: bool = False
    inside_words: bool = False
    value: Annotated[str, Field(pattern=r"^[a-z-]*$")] = ""

    @model_validator(mode="after")
    def _check_length(self) -> _FormatEntry:
        """Check the minimum length: the search depends on it, and shorter formats match ordinary text."""
        shortest = min(_length(body) for body in patterns.alternatives(self.pattern))
        for way in patterns.alternatives(self.anchor):
            certain, literal = _length(way), _length(way, literal_only=True)
            if patterns.WORD in way:
                continue
            if literal < _LITERAL_CHARS - 1 or (literal < _LITERAL_CHARS and certain <= _LITERAL_CHARS):
                raise ValueError("`anchor`: expected at least three literal characters, or `WORD`")
            if certain + shortest < patterns.PREFIX_CHARS:
                raise ValueError(f"`pattern`: expected at least {patterns.PREFIX_CHARS} characters with the anchor")
        return self


class _ContextEntry(_Entry):
    link: str
    value: str
    before: _Expression = ""
    key: _Expression = ""


class _TextClassEntry(_Entry):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{1,63}$")]
    begins: _Pattern
    run: Annotated[_Pattern, AfterValidator(_class)] = ""
    least: Annotated[int, Field(ge=1, le=512)] = 1
    most: Annotated[int, Field(ge=1, le=512)] = 64
    before: _Pattern = "[0-9A-Za-z_]"
    check: str = ""

    @field_validator("check")
    @classmethod
    def _is_check(cls, name: str) -> str:
        if name and name not in CHECKS:
            raise ValueError(f"expected one of {', '.join(CHECKS)}")
        return name

    @field_validator("begins")
    @classmethod
    def _is_long_enough(cls, text: str) -> str:
        if min(_length(way) for way in patterns.alternatives(text)) < 1:
            raise ValueError("expected at least one character")
        return text

    @field_validator("before")
    @classmethod
    def _has_no_count(cls, text: str) -> str:
        pieces = (piece for way in patterns.alternatives(text) for piece in patterns.pieces(way))
        if any((piece.least, piece.most) != (1, 1) for piece in pieces):
            raise ValueError("expected a pattern without counts")
        return text

    @model_validator(mode="after")
    def _check_lengths(self) -> _TextClassEntry:
        if self.most < self.least:
            raise ValueError("`most`: expected at least `least`")
        return self


Entry: TypeAlias = Format | Word | Context | TextClass
_LITERAL_CHARS: Final = 3
_Kind = TypeVar("_Kind", Format, Word, Context, TextClass, Format | Word | Context | TextClass)


def _length(pattern: str, *, literal_only: bool = False) -> int:
    return sum(piece.least for piece in patterns.pieces(pattern) if not literal_only or piece.atom[0] != "[")


_TABLES: Final[Mapping[str, tuple[type[_Entry], type[Entry]]]] = {
    "format": (_FormatEntry, Format),
    "word": (_WordEntry, Word),
    "exception": (_ExceptionEntry, Word),
    "count": (_CountEntry, Word),
    "context": (_ContextEntry, Context),
    "class": (_TextClassEntry, TextClass),
}
"""Table of a rule file -> model of its entries, and the type that they are converted to."""


class _InternalsFile(BaseModel, extra="forbid", hide_input_in_errors=True):
    identifier: tuple[_FormatEntry, ...]
    resources: _Words
    owned: _Words
    domains: _Words
    public_hosts: _Words


def shipped_internals() -> Internals:
    """Return the content of `internals.toml`, with samples; raise `RuleFileError` if it is invalid."""
    return read_internals(resource("redaction") / INTERNALS_FILE)


def read_internals(path: Path) -> Internals:
    """Read a file of names that error messages must not contain; raise `RuleFileError` if it is invalid."""
    table = _toml(path)
    try:
        found = _InternalsFile.model_validate(table)
    except ValidationError as error:
        text = describe(error, table, _InternalsFile)
    else:
        rows = tuple(_row(Format, entry) for entry in found.identifier)
        return Internals(rows, found.resources, found.owned, found.domains, found.public_hosts)
    raise RuleFileError(f"{path.name}: {text}")


def compiled_internals() -> bytes:
    """Return the content of `internals.json`."""
    found = shipped_internals()
    rows = [_without_defaults(row) for row in found.identifiers]
    return codec.dumps({**found._asdict(), "identifiers": rows}) + b"\n"


def shipped_files() -> Rules:
    """Return the entries of the shipped files, with their samples."""
    return read(*(resource("redaction") / name for name in FILES))


def compiled() -> bytes:
    """Return the content of `rules.json`: the shipped files without samples, one entry per line."""
    tables: dict[str, tuple[Entry, ...]] = dict(zip(Rules._fields, shipped_files(), strict=True))
    lines = {name: [codec.dumps(_without_defaults(row)).decode() for row in rows] for name, rows in tables.items()}
    return ("{" + ",\n".join(f'"{name}": [\n' + ",\n".join(lines[name]) + "\n]" for name in lines) + "}\n").encode()


def _without_defaults(row: Entry) -> dict[str, object]:
    fields = row._replace(matches=(), harmless=())._asdict()
    return {name: value for name, value in fields.items() if value != row._field_defaults.get(name)}


def read(*files: Path) -> Rules:
    """Read rule files, in order; raise `RuleFileError` if one is not TOML or an entry is invalid."""
    found: dict[str, list[Any]] = {table: [] for table in _TABLES}
    for path in files:
        for table, location, row in _rows(path):
            entry = _entry(table, row, location)
            if any(entry.name == other.name for other in found[table]):
                raise RuleFileError(f"{location}: `name`: expected a new name; another entry has this one")
            found[table].append(entry)
    return Rules(*map(tuple, found.values()))


def read_own(files: Iterable[Path]) -> Rules:
    """Read a host's own rule files; raise `RuleFileError` if one is invalid, too large, or repeats a shipped name."""
    paths = [*files]
    for path in paths:
        own = read(path)
        for table in Rules._fields:
            known = frozenset(row.name for row in getattr(shipped(), table))
            _check_own(path.name, table, getattr(own, table), known)
    return read(*paths)


def _check_own(file: str, table: str, rows: Sequence[Entry], known: frozenset[str]) -> None:
    if rows and table not in OWN_TABLES:
        raise RuleFileError(
            f"{file}: `{rows[0].name}`: expected entries that begin with one of {_tables(OWN_TABLES.values())};"
            " the other tables are for the shipped files"
        )
    if len(rows) > OWN_MAX_ENTRIES:
        raise RuleFileError(f"{file}: expected at most {OWN_MAX_ENTRIES} {table}")
    for row in rows:
        if row.name in known:
            raise RuleFileError(f"{file}: `{row.name}`: `name`: expected a new name; a shipped entry has this one")
        for field in _COSTLY.get(type(row), ()):
            if problem := _cost_problem(getattr(row, field)):
                raise RuleFileError(f"{file}: `{row.name}`: `{field}`: {problem}")


OWN_TABLES: Final[Mapping[str, str]] = {
    "formats": "format", "words": "word", "exceptions": "exception", "counts": "count", "classes": "class"
}  # fmt: skip
OWN_MAX_ENTRIES: Final = 1_000
OWN_MAX_ALTERNATIVES: Final = 64
OWN_MAX_CHARS: Final = 2_048
OWN_MAX_REPEATS: Final = 1_024
"""Limits of a host's own rules. A search cannot backtrack, so a character costs at most as many steps as the pattern
takes characters, and each alternative may have its own."""


_COSTLY: Final[Mapping[type, tuple[str, ...]]] = {
    Format: ("anchor", "pattern", "pattern_at_end"),
    TextClass: ("begins",),
}
"""Fields of entries that are patterns."""


def _cost_problem(pattern: str) -> str | None:
    """Return why a pattern could cost too much, or None."""
    ways = patterns.alternatives(pattern)
    if len(pattern) > OWN_MAX_CHARS:
        return f"expected at most {OWN_MAX_CHARS} characters"
    if len(ways) > OWN_MAX_ALTERNATIVES:
        return f"expected at most {OWN_MAX_ALTERNATIVES} alternatives"
    if any(sum(piece.most for piece in patterns.pieces(way)) > OWN_MAX_REPEATS for way in ways):
        return f"expected counts of at most {OWN_MAX_REPEATS} characters in all"
    return None


def _tables(names: Iterable[str]) -> str:
    return ", ".join(f"`[[{name}]]`" for name in names)


def _rows(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the entries of a file: table, file and entry for errors, row."""
    for table, rows in _toml(path).items():
        if table not in _TABLES or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise RuleFileError(
                f"{path.name}: `{table[:80]}`: expected entries that begin with one of {_tables(OWN_TABLES.values())}"
            )
        for number, row in enumerate(rows, 1):
            name = row.get("name")
            yield table, f"{path.name}: `{name[:64] if isinstance(name, str) else f'[[{table}]] {number}'}`", row


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RuleFileError(f"{path}: not found") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RuleFileError(f"{path.name}: expected a TOML file in UTF-8: {reason}") from None


def _entry(table: str, row: dict[str, Any], location: str) -> Entry:
    form, kind = _TABLES[table]
    try:
        return _row(kind, form.model_validate(row))
    except ValidationError as error:
        text = describe(error, row, form)
    raise RuleFileError(f"{location}: {text}")


def _row(kind: type[_Kind], entry: _Entry) -> _Kind:
    fields = entry.model_dump(exclude_unset=True)
    if fields.get("open_chars") == "never":
        fields["open_chars"] = patterns.NEVER
    if "words" in fields:
        fields["words"] = tuple(fields["words"])
    for name in ("matches", "harmless"):
        fields[name] = tuple(_MATERIAL.sub(_material, sample) for sample in fields[name])
    return kind(**fields)


def _material(match: re.Match[str]) -> str:
    return MATERIAL[match[1]][: int(match[2])] if match[1] else MATERIAL[match[3]]


def check_samples(rules: Rules, detector: Detector) -> list[str]:
    """Return an error for each sample that a detector does not treat as its entry expects."""

    def is_withheld(row: Entry, sample: str) -> bool:
        if isinstance(row, TextClass):
            return clean_class(row, sample) != sample
        if isinstance(row, Format | Context):
            return clean_plain(detector, sample) != sample
        return detector.keys.verdict(sample) is Verdict.SENSITIVE

    entries: list[Entry] = [each for table in rules for each in table]
    return [
        f"`{row.name}`: `{field}` {number}: expected to be {'withheld' if expected else 'shown'}"
        for row in entries
        for field, samples, expected in (("matches", row.matches, True), ("harmless", row.harmless, False))
        for number, sample in enumerate(samples, 1)
        if is_withheld(row, sample) is not expected
    ]
