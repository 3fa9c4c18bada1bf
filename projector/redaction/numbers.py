"""Numbers of a document, read digit by digit; a registered value may be one (`4711` as a PIN)."""

from __future__ import annotations

from typing import Final

from projector.redaction.detector import Values
from projector.redaction.filters import Step
from projector.redaction.grammar import DIGIT_RUN, NUMBER, NUMBER_START, WHOLE_NUMBERS, Digits

_RUNS: Final = frozenset({Digits.WHOLE, Digits.FRACTION, Digits.POWER})


class NumberSieve:
    """One number. It is said as it comes, unless it may become a registered one."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._digits: Digits | None = None
        self._held: str | None = "" if values.numbers else None

    @property
    def whole(self) -> bool:
        """Whether the number may end here."""
        return self._digits in WHOLE_NUMBERS

    def read(self, text: str, at: int) -> int:
        """Give the place of the first character that does not go on with the number."""
        while at < len(text):
            digits = (NUMBER_START if self._digits is None else NUMBER[self._digits]).get(text[at])
            if digits is None:
                break
            self._digits = digits
            at += 1
            if digits in _RUNS and (run := DIGIT_RUN.match(text, at)) is not None:
                at = run.end()
        return at

    def feed(self, text: str) -> list[Step]:
        """Take what was read; give the steps that are certain now."""
        if self._held is None:
            return [(len(text), None)]
        self._held += text
        if any(value.startswith(self._held) for value in self._values.numbers):
            return []
        held, self._held = self._held, None
        return [(len(held), None)]

    def end(self, *, at_end: bool) -> list[Step]:
        """Take the end of the number, or of the text; give the steps over what was held."""
        if not self._held:
            return []
        held, self._held = self._held, None
        mark = self._values.mark_of_number(held, at_end=at_end)
        return [(len(held), None if mark is None else f'"{mark}"')]
