"""Trees of values: outputs, attributes, parsed arguments (CONTRACT D25, D27, D31).

What comes out holds nothing but the types of JSON, in bounded strings, containers and depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import REDACTED, NoticeType
from projector.redaction.clean import Cleaned, CleanJson, CleanText, Notice, bounded, notice, render
from projector.redaction.policy import Limits
from projector.redaction.rules import Verdict
from projector.redaction.texts import bound

CleanString: TypeAlias = Callable[[str], Cleaned[CleanText]]

_INT64: Final = range(-(2**63), 2**64)  # what JSON encoders write: signed or unsigned 64 bits
_MAX_BITS: Final = 13_000  # about 3,900 digits; Python refuses to write integers of more than 4,300
_MAX_PLACES: Final = 64  # more than an event has notices; what follows is said of the whole tree


class TreeRules(NamedTuple):
    """How the parts of a tree are cleaned: strings, keys, what a key says of its value, registered numbers."""

    limits: Limits
    string: CleanString
    key: CleanString
    verdict: Callable[[str], Verdict]
    numbers: Mapping[str, str]


def bounding(limits: Limits, string_max_chars: int | None) -> TreeRules:
    """Give the rules for a tree that was parsed from clean text: it only needs its bounds."""
    return TreeRules(
        limits=limits,
        string=lambda text: bound(codec.scrub(text), string_max_chars),
        key=lambda text: bound(codec.scrub(text), limits.key_max_chars),
        verdict=lambda _key: Verdict.PLAIN,
        numbers={},
    )


def clean(value: object, rules: TreeRules) -> Cleaned[CleanJson]:
    """Give a tree of JSON's types, and what is missing from it."""
    walk = _Walk(rules)
    tree = walk.value(value)
    return Cleaned(CleanJson(tree), bounded(walk.notices))


class _Walk:
    """One walk through a tree, with the place where it is."""

    def __init__(self, rules: TreeRules) -> None:
        self._rules = rules
        self._place: list[str | int] = []
        self.notices: dict[Notice, None] = {}  # a set in order

    def _notice(self, kind: NoticeType) -> None:
        self.notices[notice(kind, render(self._place) if len(self.notices) < _MAX_PLACES else "")] = None

    def value(self, value: object) -> object:
        if isinstance(value, str):
            return self._string(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._object(value)
        if isinstance(value, list | tuple):
            return self._array(value)
        self._notice("redacted")  # a host's own type: what it would print is not known to be safe
        return None

    def _string(self, text: str) -> str:
        cleaned = self._rules.string(text)
        self._notices_of(cleaned)
        return cleaned.value

    def _notices_of(self, cleaned: Cleaned[CleanText]) -> None:
        for each in cleaned.notices:
            self._notice(each.type)

    def _number(self, value: float) -> object:
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            self._notice("truncated")
            return None
        if self._rules.numbers and (mark := self._rules.numbers.get(repr(value))) is not None:
            self._notice("redacted")
            return mark
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return value if value in _INT64 else str(value)

    def _array(self, entries: list[object] | tuple[object, ...]) -> list[object]:
        found: list[object] = []
        room = self._room()
        self._place.append(0)
        for at, entry in enumerate(entries[:room]):
            self._place[-1] = at
            found.append(self.value(entry))
        self._place.pop()
        if len(entries) > room:
            self._notice("truncated")
        return found

    def _object(self, members: Mapping[object, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        room = self._room()
        self._place.append("")
        for name, member in list(members.items())[:room]:
            cleaned = self._rules.key(str(name))
            self._place[-1] = cleaned.value
            self._notices_of(cleaned)
            found[cleaned.value] = self._member(str(name), member)
        self._place.pop()
        if len(members) > room:
            self._notice("truncated")
        return found

    def _member(self, name: str, member: object) -> object:
        verdict = self._rules.verdict(name)
        number = isinstance(member, int | float) and not isinstance(member, bool)
        if verdict is Verdict.PLAIN or (verdict is Verdict.SENSITIVE_UNLESS_NUMBER and number):
            return self.value(member)
        self._notice("redacted")
        return REDACTED

    def _room(self) -> int:
        """Give how many entries a container may have here: none below the deepest level."""
        limits = self._rules.limits
        return limits.container_max_entries if len(self._place) < limits.container_max_depth else 0
