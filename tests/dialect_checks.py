"""Check a stream with the checker of its dialect."""

from __future__ import annotations

from collections.abc import Sequence

from projector.dialects import DIALECTS


def violations_of(dialect: str, lines: Sequence[bytes]) -> list[str]:
    """Return the violations that the dialect's checker finds, as text."""
    checker = DIALECTS[dialect].checker()
    found = [one for number, line in enumerate(lines, 1) for one in checker.feed(number, line)]
    return [str(one) for one in [*found, *checker.close()]]
