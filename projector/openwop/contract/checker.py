"""The checker of a run's log: event after event, the rules in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.checking import check_lines, violations
from projector.contracts.stream_rules.table import Breach, Violation
from projector.openwop.contract.events import parse_event
from projector.openwop.contract.rules import RULES
from projector.openwop.contract.watches import CallWatch, ChunkWatch, EnvelopeWatch, ReasoningWatch, RunWatch, Watch


class LogChecker:
    """Checks the log of one run, given as lines of JSON. Bad input is a violation, never an exception."""

    def __init__(self) -> None:
        self._run = RunWatch()
        self._watches: tuple[Watch, ...] = (
            EnvelopeWatch(),
            self._run,
            ReasoningWatch(),
            CallWatch(),
            ChunkWatch(),
        )
        self._line = 0
        self._sequence: int | None = None

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Take one line; return what it breaks. A blank line says nothing."""
        line = line.strip()
        if not line:
            return []
        self._line, self._sequence = line_no, None
        try:
            event = codec.loads(line)
        except codec.CodecError:
            return self._violations([Breach("json", "expected JSON in UTF-8")])
        if not isinstance(event, dict):
            return self._violations([Breach("json", "expected a JSON object")])
        sequence = event.get("sequence")
        self._sequence = sequence if type(sequence) is int else None
        return self._violations(self._shape(event) or self._rules(event))

    def close(self) -> list[Violation]:
        """Take the end of the log; return what is missing."""
        if self._run.has_ended or self._run.is_waiting:
            return []
        return self._violations([Breach("terminal_missing", "expected the end of the run, or a node that waits")])

    def _shape(self, event: Mapping[str, Any]) -> list[Breach]:
        try:
            parse_event(event)
        except ValidationError as error:
            return [Breach("shape", text) for text in sentences(error, event, root="event")]
        return []

    def _rules(self, event: Mapping[str, Any]) -> list[Breach]:
        return [breach for watch in self._watches for breach in watch.see(event)]

    def _violations(self, breaches: list[Breach]) -> list[Violation]:
        return violations(RULES, self._line, self._sequence, breaches)


def check_log(lines: Iterable[bytes | str]) -> list[Violation]:
    """Check a whole log; lines are numbered from 1, and every violation is given in their order."""
    return check_lines(LogChecker(), lines)
