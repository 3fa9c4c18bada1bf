"""Small readers for untrusted events: each gives a checked value, or says what was expected of which member.

`Unreadable` stays inside the projector: the event is dropped and counted under its type (CONTRACT D30).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeGuard

INDEX_MAX: Final = 1_000_000
"""Positions beyond this are no positions: a stream of a million items would have died of its size before."""


class Unreadable(Exception):  # noqa: N818 - a verdict about one event, not an error of ours
    """A member of an event is missing or of a wrong type."""


def text(event: Mapping[str, object], key: str) -> str:
    """Give the member as text."""
    value = event.get(key)
    if type(value) is str:
        return value
    raise _unreadable(event, key, "text")


def text_or_none(event: Mapping[str, object], key: str) -> str | None:
    """Give the member as text; None where it is missing, empty or something else."""
    value = event.get(key)
    return value if type(value) is str and value else None


def index(event: Mapping[str, object], key: str) -> int:
    """Give the member as a position; a missing one is 0 (D30)."""
    value = event.get(key, 0)
    if type(value) is int and 0 <= value <= INDEX_MAX:
        return value
    raise _unreadable(event, key, "a position")


def index_or_none(event: Mapping[str, object], key: str) -> int | None:
    """Give the member as a position; None where it is missing or something else."""
    value = event.get(key)
    return value if type(value) is int and 0 <= value <= INDEX_MAX else None


def count_or_none(event: Mapping[str, object], key: str) -> int | None:
    """Give the member as a count of something; None where it is missing, negative or something else."""
    value = event.get(key)
    return value if type(value) is int and 0 <= value < 2**53 else None


def number_or_none(event: Mapping[str, object], key: str) -> float | None:
    """Give the member as a number; None where it is missing, infinite or something else."""
    value = event.get(key)
    return value if (type(value) is int or type(value) is float) and math.isfinite(value) else None


def mapping(event: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Give the member as an object."""
    value = event.get(key)
    if is_mapping(value):
        return value
    raise _unreadable(event, key, "an object")


def mapping_or_empty(event: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Give the member as an object; an empty one where it is missing or something else."""
    value = event.get(key)
    return value if is_mapping(value) else {}


def mappings(event: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """Give the objects of a list member, in order; nothing where it is no list."""
    value = event.get(key)
    return [entry for entry in value if is_mapping(entry)] if isinstance(value, list) else []


def texts(event: Mapping[str, object], key: str) -> list[str]:
    """Give the texts of a list member, in order; nothing where it is no list."""
    value = event.get(key)
    return [entry for entry in value if type(entry) is str] if isinstance(value, list) else []


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Say whether the value is a JSON object."""
    return isinstance(value, dict)


def _unreadable(event: Mapping[str, object], key: str, expected: str) -> Unreadable:
    name = event.get("type")
    return Unreadable(f"`{name if type(name) is str else 'event'}`: `{key}` is not {expected}")
