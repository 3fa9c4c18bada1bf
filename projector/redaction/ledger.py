"""What becomes of a value in text: it is masked, reported or blocked, counted, or passes because the caller sent it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from projector.contracts.kinds import REDACTED
from projector.redaction.clean import REDACTED_HERE, Notice, bounded, counted_notice
from projector.redaction.policy import CREDENTIALS
from projector.redaction.spellings import PLAIN, Step, as_read
from projector.redaction.value_ends import Continued, Registered, is_reported


class BlockedError(Exception):
    """A value of a class that the policy blocks; it ends the stream. The message is the name of the class."""


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
        plain = value if name == CREDENTIALS else _SEPARATORS.sub("", as_read(value).translate(PLAIN)).lower()
        return blake2b(f"{name}\0{plain}".encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()


_SEPARATORS: Final = re.compile(r"[ ()/-]")


class Ledger:
    """The actions of a policy, applied to the steps of one text.

    Args:
        actions: class -> action.
        echo: whether a value may pass because the caller sent it; None: none may.
        of_classes: whether the actions are those of classes alone, because credentials are always withheld here.
    """

    __slots__ = (
        *("_actions", "_echo", "_has_begun", "_has_rest", "_is_simple", "_mark", "_others", "_raw", "_shown", "_value"),
        "_withheld",
    )

    def __init__(self, actions: Mapping[str, str], echo: Echo | None, *, of_classes: bool = False) -> None:
        self._actions = {name: actions[name] for name in actions if name != CREDENTIALS} if of_classes else actions
        self._echo = echo
        self._is_simple = echo is None and all(action == "mask" for action in actions.values()) and not of_classes
        self._has_begun = False  # whether a character was read that is not the rest of a value of another text
        self._has_rest = False
        self._raw = ""  # characters that no step covers yet
        self._mark: str | None = None  # of the value whose end is not known
        self._value = ""
        self._withheld: defaultdict[str, int] = defaultdict(int)  # class -> values; a counter takes longer to make
        self._shown: defaultdict[str, int] = defaultdict(int)
        self._others = False  # whether a value was withheld that belongs to no class

    @property
    def is_open(self) -> bool:
        """Whether a value waits for its end."""
        return self._mark is not None

    def resume(self, held: str) -> None:
        """Continue after text that was shown without steps; `held` are the characters that no step covers."""
        self._raw = held

    def settle(self, steps: list[Step], text: str, *, at_end: bool = False) -> list[Step]:
        """Return the steps with the action of each class applied; raise `BlockedError` for a value that is blocked."""
        if not self._has_begun and steps:
            steps = self._begin(steps)
        if self._is_simple:
            for _, mark in steps:
                if mark:
                    self._count(mark)
            return steps
        raw, at = self._raw + text, 0
        found: list[Step] = []
        for count, mark in steps:
            part = raw[at : at + count]
            at += count
            if mark == "" and self._mark is not None and (is_reported(self._mark) or not is_reported(mark)):
                self._value += part
                continue
            self._flush(found)
            if mark and self._class_of(mark) in self._actions:
                self._mark, self._value = mark, part
                continue
            if mark:
                self._count(mark)
            found.append((count, None if mark is None or is_reported(mark) else mark))
        self._raw = raw[at:]
        if at_end or (self._mark is not None and self._class_of(self._mark) != CREDENTIALS):
            self._flush(found)
        return found

    def notices(self) -> tuple[Notice, ...]:
        """Return the notice of the values since the last one."""
        if not (self._withheld or self._shown or self._others):
            return ()
        counted = (counted_notice(self._withheld, self._shown),) if self._withheld or self._shown else ()
        found = bounded([*(REDACTED_HERE if self._others else ()), *counted])
        self._withheld, self._shown, self._others = defaultdict(int), defaultdict(int), False
        return found

    def refuse(self, mark: str) -> None:
        """Raise `BlockedError` if the policy blocks what a mark stands for."""
        if self._actions.get(self._class_of(mark)) == "block":
            raise BlockedError(self._class_of(mark))

    def _begin(self, steps: list[Step]) -> list[Step]:
        """Add the rest of a value that another text begins: steps without a mark.

        Its class is that of any of the ways to join the texts, or credentials if none is known, as behind the seam of
        a text in which nothing was withheld.
        """
        rest = next((at for at, (_, mark) in enumerate(steps) if mark != ""), len(steps))
        self._has_begun = rest < len(steps)
        mark = steps[0][1]
        if not rest or isinstance(mark, Registered):
            return steps
        begun = mark.begun if isinstance(mark, Continued) else ()
        is_shown = mark is not None and is_reported(mark)
        names = [CREDENTIALS if not begun else self._class_of(each) for each in begun or ("",)]
        blocked = next((name for name in names if self._actions.get(name) == "block"), None)
        if blocked is not None and not is_shown:
            raise BlockedError(blocked)
        if not self._has_rest:
            self._has_rest = True
            if names[0] in self._actions:
                (self._shown if is_shown else self._withheld)[names[0]] += 1
            else:
                self._others = True
        shown = [(count, None if each is None or is_reported(each) else "") for count, each in steps[:rest]]
        return [*shown, *steps[rest:]]

    def _flush(self, found: list[Step]) -> None:
        """Add the steps over the value whose end is known."""
        mark, value, self._mark, self._value = self._mark, self._value, None, ""
        if mark is None:
            return
        name = self._class_of(mark)
        if self._echo is not None and self._echo.knows(name, value):
            found.append((len(value), None))
            return
        action = self._actions.get(name, "mask")
        if action == "block":
            raise BlockedError(name)
        if action == "report":
            self._shown[name] += 1
            found.append((len(value), None))
        else:
            self._count(mark)
            found.append((len(value), mark))

    def _count(self, mark: str) -> None:
        name = self._class_of(mark)
        if name in self._actions:
            self._withheld[name] += 1
        else:
            self._others = True

    def _class_of(self, mark: str) -> str:
        return "" if isinstance(mark, Registered) else class_of(mark)


def class_of(mark: str) -> str:
    """Return the class that a mark stands for."""
    mark = mark.strip('"')
    return CREDENTIALS if mark == REDACTED else mark[len("<redacted:") : -1]
