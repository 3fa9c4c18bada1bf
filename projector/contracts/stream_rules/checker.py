"""The checker: line after line, the rules in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.public_sse_v1 import PublicEvent
from projector.contracts.stream_rules.bounds import check_bounds
from projector.contracts.stream_rules.calls import CallWatch
from projector.contracts.stream_rules.checking import check_lines, violations
from projector.contracts.stream_rules.chunks import ChunkWatch
from projector.contracts.stream_rules.envelope import EnvelopeWatch, event_id_of
from projector.contracts.stream_rules.items import STRAY, ItemWatch
from projector.contracts.stream_rules.lifecycle import LifecycleWatch
from projector.contracts.stream_rules.lines import read_line
from projector.contracts.stream_rules.notices import check_notices
from projector.contracts.stream_rules.table import RULES, Breach, Violation, Watch
from projector.contracts.stream_rules.texts import TextWatch

_UNFIT: Final = STRAY | {"container_levels"}
"""After one of these an event is not looked at further: it belongs to no item, or is too deep to be compared."""


class StreamChecker:
    """Checks one stream of NDJSON lines. Bad input is a violation, never an exception."""

    def __init__(self) -> None:
        self._envelope = EnvelopeWatch()
        self._watches: tuple[Watch, ...] = (LifecycleWatch(), ItemWatch(), CallWatch(), ChunkWatch(), TextWatch())
        self._last_line = 0
        self._last_id: int | None = None
        self._is_ended = False

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Take one line; return what it breaks. A blank line says nothing.

        Args:
            line_no: the number of the line, from 1, for the violations.
            line: one event, with or without its line end.
        """
        line = line.strip()
        if not line:
            return []
        reading = read_line(line)
        self._last_line, self._last_id = line_no, event_id_of(reading.members or {})
        breaches = reading.breaches
        if reading.members is not None:
            is_terminal = reading.members.get("kind") in [*TERMINAL_KINDS]  # a list: a `kind` may be of any type
            if self._is_ended:
                rule = "one_terminal" if is_terminal else "after_terminal"
                breaches.append(Breach(rule, "expected nothing after the terminal"))
            elif reading.event is None:
                self._envelope.skip(reading.members)
            else:
                breaches += self._event(reading.event, reading.members)
            self._is_ended |= is_terminal
        return self._violations(breaches)

    def close(self) -> list[Violation]:
        """Take the end of the stream; return what is missing."""
        if self._is_ended:
            return []
        return self._violations([Breach("terminal_missing", "expected `final` or `error` at the end")])

    def _event(self, event: PublicEvent, members: Mapping[str, object]) -> list[Breach]:
        breaches = [*self._envelope.see(event), *check_bounds(members), *check_notices(event, members)]
        for watch in self._watches:
            if _UNFIT.intersection(breach.rule for breach in breaches):
                break
            breaches += watch.see(event)
        return breaches

    def _violations(self, breaches: list[Breach]) -> list[Violation]:
        return violations(RULES, self._last_line, self._last_id, breaches)


def check_stream(lines: Iterable[bytes | str]) -> list[Violation]:
    """Check a whole stream; lines are numbered from 1, and every violation is given in their order."""
    return check_lines(StreamChecker(), lines)
