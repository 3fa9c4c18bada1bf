"""The canonical event with the readers that check its members, counts of what is not read, types of what is written.

A reader returns a checked value or raises `UnreadableEvent`, which stays inside the projector: the event is dropped
and counted under its type (CONTRACT D30).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar

from projector.contracts import codec

CanonicalEvent: TypeAlias = Mapping[str, object]
"""An event in the vocabulary of the OpenAI Responses stream; untrusted, read through the readers below only."""

Frame: TypeAlias = dict[str, Any]
"""A clean event; its shape is defined in `projector.core.frames` only."""

WireEvent: TypeAlias = tuple[str | None, bytes]
"""One event of a dialect: SSE event name or None, and data. A plain tuple, since one is made for every token."""

Known: TypeAlias = Mapping[str, frozenset[str]]
"""Kind of an object, and names of members that are objects -> the members that each of them has."""

INDEX_MAX: Final = 1_000_000
"""Larger indexes are invalid: a stream of a million items would have exceeded its size limit before."""
COUNT_END: Final = 2**53
"""Larger numbers lose digits in JavaScript."""

TYPE_MAX_CHARS: Final = 80
"""Maximum characters of an unknown type in the counts."""
NO_TYPE: Final = "(no type)"
"""The type, in the counts, of an object without one."""
DROP_NAMES_MAX: Final = 64
"""Maximum number of names that are counted separately; a hostile provider could send a new one with every event."""
DROP_NAME_MAX_CHARS: Final = 96
"""Maximum characters of such a name: a type with the reason before it."""
OTHER: Final = "other"

_Clean = TypeVar("_Clean")


class UnreadableEvent(Exception):  # noqa: N818 - an outcome for one event, not an error in the code
    """A member of an event is missing, has the wrong type, or refers to something closed."""


def text(event: CanonicalEvent, key: str) -> str:
    """Return a member as text."""
    value = event.get(key)
    if type(value) is str:
        return value
    raise _unreadable(event, key, "text")


def text_or_none(event: CanonicalEvent, key: str) -> str | None:
    """Return a member as text; None if it is missing, empty or not text."""
    value = event.get(key)
    return value if type(value) is str and value else None


def cleaned(event: CanonicalEvent, key: str, clean: Callable[[str], _Clean]) -> _Clean | None:
    """Return a member that is a text as `clean` returns it; None if it is missing, empty or not text."""
    value = text_or_none(event, key)
    return None if value is None else clean(value)


def index(event: CanonicalEvent, key: str) -> int:
    """Return a member as an index; a missing one is 0 (D30)."""
    value = event.get(key, 0)
    if type(value) is int and 0 <= value <= INDEX_MAX:
        return value
    raise _unreadable(event, key, "an index")


def index_or_none(event: CanonicalEvent, key: str) -> int | None:
    """Return a member as an index; None if it is missing or not an index."""
    value = event.get(key)
    return value if type(value) is int and 0 <= value <= INDEX_MAX else None


def count_or_none(event: CanonicalEvent, key: str) -> int | None:
    """Return a member as a count; None if it is missing, negative or not a whole number."""
    value = event.get(key)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < COUNT_END else None


def has_counts(value: object) -> bool:
    """Return whether a usage has a count other than 0, at any depth."""
    if isinstance(value, dict):
        return any(map(has_counts, value.values()))
    return (type(value) is int or type(value) is float) and value > 0


def number_or_none(event: CanonicalEvent, key: str) -> float | None:
    """Return a member as a number; None if it is missing, infinite or not a number."""
    value = event.get(key)
    return value if (type(value) is int or type(value) is float) and math.isfinite(value) else None


def mapping(event: CanonicalEvent, key: str) -> Mapping[str, object]:
    """Return a member as an object."""
    value = event.get(key)
    if isinstance(value, dict):
        return value
    raise _unreadable(event, key, "an object")


def mapping_or_empty(event: CanonicalEvent, key: str) -> Mapping[str, object]:
    """Return a member as an object; an empty one if it is missing or not an object."""
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def mappings(event: CanonicalEvent, key: str) -> list[Mapping[str, object]]:
    """Return the objects in a list member, in order; empty if it is not a list."""
    value = event.get(key)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def texts(event: CanonicalEvent, key: str) -> list[str]:
    """Return the texts in a list member, in order; empty if it is not a list."""
    value = event.get(key)
    return [entry for entry in value if type(entry) is str] if isinstance(value, list) else []


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Check that a value is a JSON object."""
    return isinstance(value, dict)


def type_name(value: object) -> str:
    """Return a type for the counts."""
    return value[:TYPE_MAX_CHARS] if type(value) is str else NO_TYPE


def object_in(data: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object that some text is; None if it is anything else."""
    try:
        value = codec.loads(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
    except codec.CodecError:
        return None
    return value if isinstance(value, dict) else None


def json_text(value: object) -> str:
    """Return a value as JSON text; empty if it is nested more deeply than JSON can be written (CONTRACT D31)."""
    try:
        return codec.dumps(value).decode()
    except codec.CodecError:
        return ""


def input_text(holder: Mapping[str, object], key: str) -> str | None:
    """Return the input of a call as text: some servers send the object that it is. None if it cannot be read."""
    value = holder.get(key)
    if is_mapping(value):
        return json_text(value) or None
    return value if type(value) is str else None


class Drops(Counter[str]):
    """Counts of input that is not read, by name; the number of names is bounded."""

    def __init__(self, counts: Iterable[tuple[str, int]] = ()) -> None:
        """Start with some counts. The constructor of `Counter` takes longer than all that most streams do with one."""
        dict.__init__(self, counts)

    def note(self, name: str, times: int = 1) -> None:
        """Count input that is not read."""
        name = name[:DROP_NAME_MAX_CHARS]
        known = name in self or len(self) < DROP_NAMES_MAX
        self[name if known else OTHER] += times

    def drop(self, name: str) -> list[Any]:
        """Count input that is not read, and return no events."""
        self.note(name)
        return []

    def input_of(self, holder: Mapping[str, object], key: str, name: str) -> str:
        """Return the input of a call as text. One that cannot be read is counted, and empty; a missing one is not."""
        text = input_text(holder, key)
        if text is None and holder.get(key) is not None:
            self.note(name)
        return text or ""

    def note_unknown_in(self, value: Mapping[str, object], known: Known, kind: str = "event") -> None:
        """Count what `unknown_members` finds in an object."""
        for member in unknown_members(value, known, kind):
            self.note(member)

    def objects(
        self, holder: Mapping[str, object], kind: str, name: str, known: Known | None = None
    ) -> list[Mapping[str, object]]:
        """Return the objects in a list field. Non-objects are counted, and members that are not known, if some are."""
        value = holder.get(name)
        entries = value if isinstance(value, list) else [] if value is None else [value]
        found = mappings(holder, name)
        if len(found) < len(entries):
            self.note(f"{kind}.{name}", len(entries) - len(found))
        for one in found if known is not None else ():
            self.note_unknown_in(one, known or {}, name)
        return found


def unknown_members(value: Mapping[str, object], known: Known, kind: str = "event") -> list[str]:
    """Return the unknown members of an object of a kind, and of the objects directly in it that `known` names."""
    found: list[str] = []
    for name, members in known.items():
        inner = value if name == kind else value.get(name)
        if inner is not None and isinstance(inner, dict) and not members.issuperset(inner):
            found += [f"{name}.{member}" for member in inner if member not in members]
    return found


def _unreadable(event: CanonicalEvent, key: str, expected: str) -> UnreadableEvent:
    name = event.get("type")
    return UnreadableEvent(f"`{name if type(name) is str else 'event'}`: `{key}` is not {expected}")
