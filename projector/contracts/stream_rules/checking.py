"""What the checkers of all dialects share: their form, their violations, a whole stream at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from projector.contracts.stream_rules.table import Breach, Rule, Violation


class Checker(Protocol):
    """Checks one stream, line by line."""

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Take one line; give what it breaks."""
        ...

    def close(self) -> list[Violation]:
        """Take the end of the stream; give what is missing."""
        ...


def violations(
    rules: Mapping[str, Rule], line: int, event_id: int | None, breaches: Iterable[Breach]
) -> list[Violation]:
    """Say where the breaches are, and how much each weighs."""
    return [Violation(line, event_id, breach.rule, rules[breach.rule].level, breach.message) for breach in breaches]


def check_lines(checker: Checker, lines: Iterable[bytes | str]) -> list[Violation]:
    """Check a whole stream; lines are numbered from 1, and every violation is given in their order."""
    found = []
    for number, line in enumerate(lines, 1):
        found += checker.feed(number, line)
    return found + checker.close()
