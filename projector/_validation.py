"""Texts for pydantic's validation errors: names and expectations, never a value of the input.

All validation errors of this project are described here. The module does not import pydantic: its callers have.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pydantic import ValidationError

FieldPath: TypeAlias = tuple[str | int, ...]

FIELDS_MAX: Final = 16
"""Maximum number of invalid fields that are reported; a hostile input could have thousands."""

_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_.$:/@-]{1,80}")
"""Form of the keys that may appear in errors. Any other key may contain user data."""

_TEXTS: Final[Mapping[str, str]] = {
    kind: text
    for kinds, text in (
        ("missing", "is missing"),
        ("extra_forbidden", "is unknown"),
        ("string_type", "must be a string"),
        ("string_too_short", "must have at least {min_length} characters"),
        ("string_too_long", "must have at most {max_length} characters"),
        ("string_pattern_mismatch", "must match `{pattern}`"),
        ("bool_type bool_parsing", "must be true or false"),
        ("int_type int_parsing int_from_float", "must be a whole number"),
        ("int_parsing_size", "must be a smaller number"),
        ("float_type float_parsing", "must be a number"),
        ("finite_number", "must be a finite number"),
        ("greater_than", "must be greater than {gt}"),
        ("greater_than_equal", "must be at least {ge}"),
        ("less_than", "must be less than {lt}"),
        ("less_than_equal", "must be at most {le}"),
        ("multiple_of", "must be a multiple of {multiple_of}"),
        ("dict_type mapping_type model_type model_attributes_type", "must be an object"),
        ("list_type tuple_type set_type frozen_set_type", "must be a list"),
        ("too_short", "must have at least {min_length} entries"),
        ("too_long", "must have at most {max_length} entries"),
        ("literal_error enum", "must be {expected}"),
        ("none_required", "must be null"),
        ("path_type", "must be a path"),
        ("union_tag_invalid", "has an unsupported {discriminator}; expected {expected_tags}"),
        ("union_tag_not_found", "has no {discriminator}"),
    )
    for kind in kinds.split()
}
"""pydantic's error type -> the text; a field in braces is a limit of the model, from the error's context."""
OURS: Final = "value_error"
"""Error type of the validators of this project, which write their own texts."""


class InvalidField(NamedTuple):
    """A field that a model rejected."""

    path: FieldPath
    """Position in the input, without the steps that pydantic adds for union branches and keys."""
    type: str
    """pydantic's error type."""
    text: str
    """What is wrong with the field; the name of the field is not in it."""

    @property
    def name(self) -> str:
        """Return the path as text, empty for the whole input; keys that may hold user data are masked."""
        return path_name(self.path)

    def sentence(self, name: str | None = None) -> str:
        """Return the field and what is wrong with it, without a full stop; `name` replaces the field's own."""
        name = self.name if name is None else name
        if not name:
            return self.text
        return f"`{name}`{': ' if self.type == OURS else ' '}{self.text}"


def invalid_fields(error: ValidationError, source: object, model: object = None) -> list[InvalidField]:
    """Return the first `FIELDS_MAX` invalid fields; unknown names first, missing ones last.

    A misspelled name is often the reason why another one is missing. Paths contain only the steps that exist in
    `source`, the input; the nearest known name is suggested if there is a `model`. Where a field may be a table or a
    name, and a table has an invalid field, only that field is reported.
    """
    rows = error.errors(include_input=False, include_url=False)
    rows.sort(key=lambda row: _ORDER.get(row["type"], 1))
    paths = [tuple(_in_source(row["loc"], source, row["type"])) for row in rows]
    outer = {path[:length] for path in paths for length in range(1, len(path))}
    fields: list[InvalidField] = []
    for row, path in zip(rows, paths, strict=True):
        if path in outer:
            continue
        if len(fields) == FIELDS_MAX:
            break
        kind = row["type"]
        text = _text(kind, row)
        if kind == "extra_forbidden" and path and (meant := _meant(str(path[-1]), model, path[:-1])):
            text += f"; did you mean {' or '.join(f'`{path_name((*path[:-1], *one))}`' for one in meant)}?"
        fields.append(InvalidField(path, kind, text))
    return fields


_ORDER: Final[Mapping[str, int]] = {"extra_forbidden": 0, "missing": 2}


def sentences(error: ValidationError, source: object, model: object = None, *, root: str = "") -> list[str]:
    """Return a sentence for each invalid field; see `invalid_fields`. `root` names the whole input."""
    return [field.sentence(field.name or root) for field in invalid_fields(error, source, model)]


def describe(error: ValidationError, source: object, model: object = None, *, root: str = "") -> str:
    """Return the `sentences` in one line."""
    return "; ".join(sentences(error, source, model, root=root))


def path_name(path: Iterable[str | int], *, is_masked: bool = True) -> str:
    """Return a path like `items[0].name`; keys that may hold user data are masked with `?`."""
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        else:
            name += f".{step if not is_masked or _SAFE_NAME.fullmatch(step) else '?'}"
    return name.removeprefix(".")


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar known name, None if none is similar."""
    import difflib  # noqa: PLC0415 - needed by errors only

    return next(iter(difflib.get_close_matches(name[:80], list(known), n=1, cutoff=cutoff)), None)


def _text(kind: str, row: Mapping[str, Any]) -> str:
    template = _TEXTS.get(kind)
    if template is None:
        return row["msg"].removeprefix("Value error, ") if kind == OURS else "is invalid"
    context = {name: _plain(value) for name, value in row.get("ctx", {}).items()}
    if context.get("min_length") == "1" or context.get("max_length") == "0":
        return "must not be empty" if "min_length" in context else "must be empty"
    return template.format(**context)


def _plain(limit: object) -> str:
    """Return a limit of a model as text: `1.0` is `1`, and a discriminator that is a function is a `type`."""
    text = str(limit)
    return "type" if text.endswith("()") else text.removesuffix(".0")


def _in_source(path: FieldPath, source: Any, kind: str) -> Iterator[str | int]:
    """Yield the steps of a path that exist in the input; the last one may be the name of a missing field."""
    for position, step in enumerate(path):
        rest = path[position + 1 :]
        if isinstance(source, Mapping):
            is_branch = rest and rest[0] in source and not isinstance(source.get(step), Mapping | list | tuple)
            if step in source and not is_branch:
                yield step
                source = source[step]
            elif kind == "missing" and not rest:
                yield step
        elif isinstance(source, list | tuple) and isinstance(step, int):
            yield step
            source = source[step]


def _meant(name: str, model: object, path: FieldPath) -> list[FieldPath]:
    """Return the known names for an unknown one: the same name in a member, else the most similar one."""
    known = dict(_known_fields(model, path))
    inner: list[FieldPath] = [(outer, name) for outer, kind in known.items() if name in _names_of_object(kind)]
    similar = None if inner else nearest(name, known)
    return inner if similar is None else [(similar,)]


def _names_of_object(kind: Any) -> set[str]:
    """Return the field names of a type that is a model, or a model or None."""
    models = [one for one in (kind, *typing.get_args(kind)) if hasattr(one, "model_fields")]
    is_list = typing.get_origin(kind) in {dict, Mapping, list, tuple}
    return set() if is_list else {name for one in models for name, _ in _known_fields(one, ())}


def _known_fields(kind: Any, path: FieldPath) -> Iterator[tuple[str, Any]]:
    """Yield the names and types of the fields that a type has at a path."""
    members = getattr(kind, "model_fields", None)
    if members is None:
        inner = typing.get_args(kind)
        if path and typing.get_origin(kind) in {dict, Mapping, list, tuple}:
            inner, path = inner[-1:] if typing.get_origin(kind) is dict else inner[:1], path[1:]
        for one in inner:
            yield from _known_fields(one, path)
        return
    named = {field.alias or name: field.annotation for name, field in members.items()}
    if not path:
        yield from named.items()
    elif path[0] in named:
        yield from _known_fields(named[path[0]], path[1:])
