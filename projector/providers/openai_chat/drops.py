"""Counting what a stage does not read, so that nothing disappears without a trace (CONTRACT D30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from projector.state import DROP_NAMES_MAX, OTHER

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
