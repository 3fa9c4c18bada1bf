"""Counting what a stage does not read, so that nothing disappears without a trace (CONTRACT D30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from projector.core.state import DROP_NAMES_MAX, OTHER

NAME_MAX_CHARS: Final = 80
"""What is kept of a name; names may come from the provider."""


class Drops(Counter[str]):
    """Counts by name, with a bound on the names: a hostile provider could invent a new one with every chunk."""

    def note(self, name: str, times: int = 1) -> None:
        """Count something that is not read."""
        name = name[:NAME_MAX_CHARS]
        known = name in self or len(self) < DROP_NAMES_MAX
        self[name if known else OTHER] += times

    def note_unknown(self, place: str, names: Iterable[str]) -> None:
        """Count members of which nobody has decided anything."""
        for name in names:
            self.note(f"{place}.{name}")

    def objects(self, holder: Mapping[str, object], place: str, name: str) -> list[dict[str, object]]:
        """Give the objects of a list member, in order; what is none is counted, a member that is absent is not."""
        value = holder.get(name)
        if value is None:
            return []
        entries = value if isinstance(value, list) else [value]
        found = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
        if len(found) < len(entries):
            self.note(f"{place}.{name}", len(entries) - len(found))
        return found
