"""Read and check the TOML files in `redaction/`, and compile `rules.json` from them.

Nothing here is loaded while streams are cleaned. `redaction/README.md` describes the form of an entry.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator, model_validator

from projector._file_problems import file_problem, parse_toml
from projector._resources import resource
from projector._validation import FIELDS_MAX, describe, nearest
from projector.contracts import codec
from projector.redaction import patterns
from projector.redaction.internals import Internals
from projector.redaction.rules import Context, Format, Rules, TextClass, Word, shipped
from projector.redaction.text_checks import CHECKS

FILES: Final = (
    "words.toml",
    "formats/clouds.toml",
    "formats/models.toml",
    "formats/code_hosts.toml",
    "formats/services.toml",
    "formats/payments.toml",
    "formats/operations.toml",
    "formats/marks.toml",
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

_PLACEHOLDER: Final = re.compile(r"\{([a-z]+)(:\d{1,3})\}")
_MATERIAL: Final = re.compile(r"\{(mixed|upper|lower|hex|rhex):(\d{1,3})\}|\{(uuid|join)\}")


class RuleFileError(ValueError):
    """A rule file is invalid; the message names the file, the entry and the expected form, never a sample."""


def _pattern(text: str) -> str:
    if (at := patterns.first_fault(text)) is not None:
        language = "redaction/README.md: The pattern language"
        raise ValueError(f"expected a literal, a class or a count at character {at + 1} ({language})")
    return text


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression; at character {(error.pos or 0) + 1}: {error.msg}") from None
    return text


def _beginning(text: str) -> str:
    """Check the beginning of each alternative, by which a search finds it."""
    for way in patterns.alternatives(text):
        first = patterns.pieces(way)[0]
        chars = patterns.characters(first.atom, below=128)
        if not first.least or (first.atom != patterns.WORD and (not chars or not chars.isdisjoint(" \t\r\n"))):
            raise ValueError("expected alternatives that begin with an ASCII character, not optional and not blank")
    return text


def _without_word(text: str) -> str:
    if patterns.WORD in text:
        raise ValueError("expected a pattern without `WORD`, which stands in anchors only")
    return text


def _class(text: str) -> str:
    if text[0] != "[" or patterns.pieces(text) != [patterns.Piece(text)]:
        raise ValueError("expected one class, such as `[A-Za-z0-9]`")
    return text


def _counted_class(text: str) -> str:
    pieces = patterns.pieces(text)
    if len(pieces) != 1 or text[0] != "[" or pieces[0].least != pieces[0].most:
        raise ValueError("expected one class with an exact count, such as `[A-Za-z0-9]{52}`")
    return text


def _open_chars(value: object) -> object:
    if value != "never" and (type(value) is not int or value < 1):
        raise ValueError('expected a whole number of at least 1, or "never"')
    return value


def _samples(samples: list[str]) -> list[str]:
    for name, size in _PLACEHOLDER.findall("\n".join(samples)):
        if name not in MATERIAL and (meant := nearest(name, MATERIAL)):
            raise ValueError(f"unknown placeholder `{name}`; did you mean `{{{meant}{size}}}`?")
    return samples


_AnyPattern: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
_Pattern: TypeAlias = Annotated[_AnyPattern, AfterValidator(_without_word)]
_Anchor: TypeAlias = Annotated[_AnyPattern, AfterValidator(_beginning)]
_Expression: TypeAlias = Annotated[str, AfterValidator(_expression)]
_Samples: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1)]], Field(min_length=1), AfterValidator(_samples)
]
_Words: TypeAlias = tuple[Annotated[str, Field(min_length=1)], ...]


class _Entry(BaseModel, extra="forbid", strict=True, hide_input_in_errors=True):
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")]
    about: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    matches: _Samples
    harmless: _Samples


def _letters(word: str) -> str:
    """Check that keys can contain a word: small letters of any script, with their marks."""
    if word != word.lower() or not all(unicodedata.category(char)[0] in "LM" for char in word):
        raise ValueError("expected small letters only, as keys are compared")
    return word


_KeyWord: TypeAlias = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_letters)]


class _CountEntry(_Entry):
    words: list[_KeyWord] = []

    @model_validator(mode="after")
    def _is_word(self) -> Self:
        """Check that keys can contain the word, which is the name if there are no others."""
        if not self.words and not self.name.isalpha():
            raise ValueError("`name`: expected letters a-z only, as keys are compared, or `words`")
        return self


class _WordEntry(_CountEntry):
    where: Literal["contains", "is", "ends"] = "contains"
    keys_only: bool = False


class _ExceptionEntry(_CountEntry):
    where: Literal["contains", "begins", "ends"] = "contains"


class _FormatEntry(_Entry):
    anchor: _Anchor
    pattern: _Pattern
    tail: Annotated[_Pattern, AfterValidator(_class)] = ""
    open_chars: Annotated[Any, AfterValidator(_open_chars)] = 1
    pattern_at_end: _Pattern = ""
    keep_anchor: bool = False
    ignore_case: bool = False
    inside_words: bool = False
    value: Annotated[str, Field(pattern=r"^[A-Za-z-]*$")] = ""
    before: Annotated[_Pattern, AfterValidator(_counted_class)] = ""
    not_after: Annotated[_Pattern, AfterValidator(_class)] = ""
    word: bool = False
    exact: bool = False

    @model_validator(mode="after")
    def _check_tail(self) -> _FormatEntry:
        """Check that what may follow the shortest form is in the tail: otherwise the end would depend on the cuts."""
        if self.value:
            return self
        tail = self.tail or patterns.last_class(self.pattern)
        if not tail:
            raise ValueError("`tail`: expected one class, because the first alternative of `pattern` has none")
        chars = patterns.characters(tail)
        for piece in patterns.optional_ends(self.pattern):
            if not patterns.characters(piece.atom) <= chars:
                end = f"`{piece.atom}` at the end of `pattern`, which may be repeated or left out"
                raise ValueError(f"`tail`: expected a class with the characters of {end}")
        return self

    @model_validator(mode="after")
    def _check_length(self) -> _FormatEntry:
        """Check the minimum length: the search depends on it, and shorter formats match ordinary text."""
        shortest = min(patterns.shortest_length(body) for body in patterns.alternatives(self.pattern))
        if not shortest:
            raise ValueError("`pattern`: expected alternatives of at least one character")
        for way in patterns.alternatives(self.anchor):
            certain, literal = patterns.shortest_length(way), patterns.shortest_length(way, literal_only=True)
            if patterns.WORD in way:
                continue
            if self.before or self.exact:
                certain = literal = certain + _LITERAL_CHARS
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
    begins: Annotated[_Pattern, AfterValidator(_beginning)]
    run: Annotated[_Pattern, AfterValidator(_class)] = ""
    least: Annotated[int, Field(ge=1, le=512)] = 1
    most: Annotated[int, Field(ge=1, le=512)] = 64
    before: _Pattern = "[0-9A-Za-z_]"
    sure: Annotated[_Pattern, AfterValidator(_class)] = ""
    check: str = ""

    @field_validator("check")
    @classmethod
    def _is_check(cls, name: str) -> str:
        if name and name not in CHECKS:
            raise ValueError(f"expected one of {', '.join(CHECKS)}")
        return name

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
    table = _toml(resource("redaction") / INTERNALS_FILE)
    try:
        found = _InternalsFile.model_validate(table)
    except ValidationError as error:
        text = describe(error, table, _InternalsFile)
    else:
        rows = tuple(_row(Format, entry) for entry in found.identifier)
        return Internals(rows, found.resources, found.owned, found.domains, found.public_hosts)
    raise RuleFileError(f"{INTERNALS_FILE}: {text}")


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
    """Read rule files, in order; raise `RuleFileError` if one is not TOML, or with each entry that is invalid."""
    found: dict[str, list[Any]] = {table: [] for table in _TABLES}
    problems: list[str] = []
    for path in files:
        for table, location, row in _rows(path):
            try:
                entry = _entry(table, row, location)
            except RuleFileError as error:
                problems.append(str(error))
                continue
            if any(entry.name == other.name for other in found[table]):
                problems.append(f"{location}: `name`: expected a new name; another entry has this one")
            found[table].append(entry)
    if problems:
        raise RuleFileError("; ".join(problems[:FIELDS_MAX]))
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
            f"{file}: `{rows[0].name}`: expected entries that begin with one of {_OWN_LIST};"
            " the other tables are for the shipped files"
        )
    if len(rows) > OWN_MAX_ENTRIES:
        raise RuleFileError(f"{file}: expected at most {OWN_MAX_ENTRIES} {table}")
    for row in rows:
        if row.name in known:
            raise RuleFileError(f"{file}: `{row.name}`: `name`: expected a new name; a shipped entry has this one")
        if isinstance(row, Format) and not row.before and (fields := [f for f in _WITH_BEFORE if getattr(row, f)]):
            where = "redaction/README.md: A credential format"
            raise RuleFileError(f"{file}: `{row.name}`: `{fields[0]}`: expected with `before` only ({where})")
        for field in _COSTLY.get(type(row), ()):
            if problem := _cost_problem(getattr(row, field)):
                raise RuleFileError(f"{file}: `{row.name}`: `{field}`: {problem}")


OWN_TABLES: Final = {table: name for table, name in zip(Rules._fields, _TABLES, strict=True) if name != "context"}
_OWN_LIST: Final = ", ".join(f"`[[{name}]]`" for name in OWN_TABLES.values())
OWN_MAX_ENTRIES: Final = 1_000
OWN_MAX_ALTERNATIVES: Final = 64
OWN_MAX_CHARS: Final = 2_048
OWN_MAX_REPEATS: Final = 1_024
"""Limits of a host's own rules. A search cannot backtrack, so a character costs at most as many steps as the pattern
takes characters, and each alternative may have its own."""

_WITH_BEFORE: Final = ("word", "exact", "not_after")
"""Fields of a format that is found in generated characters. Shipped ones may have them without `before`: their anchors
are too common for any other search, which would withhold names in code."""

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


def _rows(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the entries of a file: table, file and entry for errors, row."""
    for table, rows in _toml(path).items():
        if table not in _TABLES or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise RuleFileError(f"{path.name}: `{table[:80]}`: expected entries that begin with one of {_OWN_LIST}")
        for number, row in enumerate(rows, 1):
            name = row.get("name")
            yield table, f"{path.name}: `{name[:64] if isinstance(name, str) else f'[[{table}]] {number}'}`", row


def _toml(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return parse_toml(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        shown = path if isinstance(error, OSError) else path.name
        raise RuleFileError(f"{shown}: {file_problem(error, text)}") from None


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
