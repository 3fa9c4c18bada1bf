"""What becomes of a value in text: it is masked, reported or blocked, counted, or passes because the caller sent it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from projector.contracts.kinds import REDACTED
from projector.redaction.policy import CREDENTIALS
from projector.redaction.steps import Step
from projector.redaction.text_view import view_of


class BlockedError(Exception):
    """A value of a class that the policy blocks; it ends the stream. The message is the name of the class."""


class Tally(NamedTuple):
    """Numbers of values by class: withheld, and found but shown."""

    withheld: Counter[str]
    shown: Counter[str]


class Echo:
    """Values of a request, as keyed hashes: they may be shown to the caller that sent them."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._hashes: set[bytes] = set()

    def add(self, name: str, value: str) -> None:
        """Remember a value."""
        self._hashes.add(self._hash(name, value))

    def knows(self, name: str, value: str) -> bool:
        """Return whether the caller sent this value."""
        return self._hash(name, value) in self._hashes

    def _hash(self, name: str, value: str) -> bytes:
        plain = value if name == CREDENTIALS else _SEPARATORS.sub("", view_of(value).text).lower()
        return blake2b(f"{name}\0{plain}".encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()


_SEPARATORS: Final = re.compile(r"[ ()/-]")


class Ledger:
    """The actions of a policy, applied to the steps of one text.

    Args:
        actions: class -> action.
        echo: whether a value may pass because the caller sent it; None: none may.
    """

    __slots__ = ("_actions", "_echo", "_has_begun", "_has_rest", "_mark", "_raw", "_simple", "_value", "tally")

    def __init__(self, actions: Mapping[str, str], echo: Echo | None) -> None:
        self._actions = actions
        self._echo = echo
        self._simple = echo is None and all(action == "mask" for action in actions.values())
        self._has_begun = False  # whether a character was read that is not the rest of a value of another text
        self._has_rest = False
        self._raw = ""
        self._mark: str | None = None
        self._value = ""
        self.tally = Tally(Counter(), Counter())

    @property
    def is_open(self) -> bool:
        """Whether a value is held until its end is known."""
        return self._mark is not None

    def drop_held(self) -> None:
        """Forget the characters that no step covers yet, which the caller will feed again."""
        self._raw = ""

    def settle(self, steps: list[Step], text: str, *, at_end: bool = False) -> list[Step]:
        """Return the steps with the action of each class applied."""
        if not self._has_begun and steps:
            steps = self._begin(steps)
        if self._simple:
            self.tally.withheld.update(class_of(mark) for _, mark in steps if mark)
            return steps
        raw, at = self._raw + text, 0
        found: list[Step] = []
        for count, mark in steps:
            part = raw[at : at + count]
            at += count
            if mark == "" and self._mark is not None:
                self._value += part
                continue
            self._flush(found)
            if mark:
                self._mark, self._value = mark, part
            else:
                found.append((count, mark))
        self._raw = raw[at:]
        if at_end or (self._mark is not None and class_of(self._mark) != CREDENTIALS):
            self._flush(found)
        return found

    def _begin(self, steps: list[Step]) -> list[Step]:
        """Apply the action of credentials to the rest of one that another text begins: steps without a mark."""
        rest = next((at for at, (_, mark) in enumerate(steps) if mark != ""), len(steps))
        self._has_begun = rest < len(steps)
        if not sum(count for count, _ in steps[:rest]):
            return steps
        action = self._actions.get(CREDENTIALS, "mask")
        if action == "block":
            raise BlockedError(CREDENTIALS)
        is_reported = action == "report"
        if not self._has_rest:
            self._has_rest = True
            (self.tally.shown if is_reported else self.tally.withheld)[CREDENTIALS] += 1
        return [*((count, None if is_reported else "") for count, _ in steps[:rest]), *steps[rest:]]

    def _flush(self, found: list[Step]) -> None:
        """Add the steps over the value whose end is known."""
        mark, value, self._mark, self._value = self._mark, self._value, None, ""
        if mark is None:
            return
        name = class_of(mark)
        if self._echo is not None and self._echo.knows(name, value):
            found.append((len(value), None))
            return
        action = self._actions.get(name, "mask")
        if action == "block":
            raise BlockedError(name)
        if action == "report":
            self.tally.shown[name] += 1
            found.append((len(value), None))
        else:
            self.tally.withheld[name] += 1
            found.append((len(value), mark))


def class_of(mark: str) -> str:
    """Return the class that a mark stands for."""
    mark = mark.strip('"')
    return CREDENTIALS if mark == REDACTED else mark[len("<redacted:") : -1]
