"""Counting what a stage does not read, so that nothing disappears without a trace (CONTRACT D30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from projector.core.state import DROP_NAMES_MAX, OTHER

NAME_MAX_CHARS: Final = 80
"""Names are cut here: they may come from the provider."""


class Drops(Counter[str]):
    """Counts by name. The number of names is bounded: a hostile provider could invent one with every chunk."""

    def note(self, name: str, times: int = 1) -> None:
        """Count something that is not read."""
        name = name[:NAME_MAX_CHARS]
        known = name in self or len(self) < DROP_NAMES_MAX
        self[name if known else OTHER] += times

    def note_unknown(self, kind: str, names: Iterable[str]) -> None:
        """Count unknown members of a kind of object."""
        for name in names:
            self.note(f"{kind}.{name}")

    def objects(self, holder: Mapping[str, object], kind: str, name: str) -> list[dict[str, object]]:
        """Return the objects in a list field. Non-objects are counted; a missing field is not."""
        value = holder.get(name)
        if value is None:
            return []
        entries = value if isinstance(value, list) else [value]
        found = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
        if len(found) < len(entries):
            self.note(f"{kind}.{name}", len(entries) - len(found))
        return found
