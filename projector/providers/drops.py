"""Counts of a provider's input that is not read, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from projector.core import canonical as read
from projector.core.state import DROP_NAMES_MAX, OTHER

NAME_MAX_CHARS: Final = 80
"""Maximum length of a counted name, which may come from the provider."""


class Drops(Counter[str]):
    """Counts by name. The number of names is bounded: a hostile provider could invent one with every chunk."""

    def note(self, name: str, times: int = 1) -> None:
        """Count input that is not read."""
        name = name[:NAME_MAX_CHARS]
        known = name in self or len(self) < DROP_NAMES_MAX
        self[name if known else OTHER] += times

    def drop(self, name: str) -> list[Any]:
        """Count input that is not read, and return no events."""
        self.note(name)
        return []

    def note_unknown(self, kind: str, names: Iterable[str]) -> None:
        """Count unknown members of a kind of object."""
        for name in names:
            self.note(f"{kind}.{name}")

    def objects(self, holder: Mapping[str, object], kind: str, name: str) -> list[Mapping[str, object]]:
        """Return the objects in a list field. Non-objects are counted; a missing field is not."""
        value = holder.get(name)
        entries = value if isinstance(value, list) else [] if value is None else [value]
        found = read.mappings(holder, name)
        if len(found) < len(entries):
            self.note(f"{kind}.{name}", len(entries) - len(found))
        return found
