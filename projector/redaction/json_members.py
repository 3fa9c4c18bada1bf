"""What a JSON document has shown before, so that the same members and entries are read at once.

Documents with arrays of objects repeat their keys and many short strings. It is exact because what a key does depends
on the key alone, unless it is in a pair of a name and a value; because a clean value that is no container leaves
nothing to the next member; and because what a string leaves to the next one of its array depends on it alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from projector.redaction import json_grammar as grammar
from projector.redaction.content_filter import Carry
from projector.redaction.detector import Detector
from projector.redaction.rules import names_a_value
from projector.redaction.value_contexts import ANNOUNCE_CHARS

FIRST: Final = frozenset('",:}')
"""First characters of what is read at once."""
_MAX_KEPT: Final = 64
"""Maximum number of keys, strings and entries that are remembered; arrays of objects repeat fewer."""
_STRING_MAX_CHARS: Final = 24
"""Length of the longest string that is remembered; longer ones repeat rarely."""


class Members(NamedTuple):
    """Members up to a position: the last key, and whether its value is still to be read."""

    end: int
    key: str
    is_key_only: bool


class KnownParts:
    """Keys, strings and entries of one document that were shown whole."""

    __slots__ = ("_detector", "_entries", "_strings", "keys")

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self.keys: set[str] = set()
        """Keys whose values are not sensitive."""
        self._strings: set[str] = set()
        self._entries: dict[tuple[Carry | None, str], Carry | None] = {}  # (before, entry) -> what it leaves

    def add_key(self, key: str) -> None:
        """Remember a key that was shown, and whose value is not sensitive."""
        if len(key) <= ANNOUNCE_CHARS and len(self.keys) < _MAX_KEPT:
            self.keys.add(key)

    def add_entry(self, before: Carry | None, content: str, left: Carry | None) -> None:
        """Remember what a shown string of an array leaves, behind what the one before it left."""
        is_short = len(content) <= _STRING_MAX_CHARS and len(self._entries) < _MAX_KEPT
        if is_short and (before is None or not (before.reader or before.others)):
            self._entries[before, content] = left

    def knows_entry(self, before: Carry | None, content: str) -> bool:
        """Return whether a string of an array was shown behind the same before."""
        return (before, content) in self._entries

    def left_by(self, before: Carry | None, content: str) -> Carry | None:
        """Return what a known string of an array leaves."""
        return self._entries[before, content]

    def members(self, text: str, at: int) -> Members | None:
        """Return the members at a position, from a comma or a first key on, if at least the first key is known."""
        key, start = "", at
        while (found := grammar.SIMPLE_MEMBER[text[at]].match(text, at)) is not None:
            if not self._is_shown(*found.groups()):
                break
            key, at = found[1], found.end()
            if text[at] != ",":
                return Members(at, key, is_key_only=False)
        member = grammar.MEMBER[text[at]].match(text, at)
        if member is not None and member[1] in self.keys:
            return Members(member.end(), member[1], is_key_only=True)
        return Members(at, key, is_key_only=False) if at > start else None

    def rest_of_member(self, text: str, at: int, key: str) -> int:
        """Return the end of the value of a key that was read, from the colon on; `at` if the value takes more."""
        found = grammar.REST_OF_MEMBER.match(text, at)
        return found.end() if found is not None and self._is_shown(key, *found.groups()) else at

    def _is_shown(self, key: str, content: str | None, number: str | None) -> bool:
        """Return whether a member is shown, and leaves nothing to the next one."""
        if key not in self.keys or names_a_value(key):
            return False
        if content is None:
            return number is None or not self._detector.values.has_numbers
        if content in self._strings:
            return True
        if not self._detector.passes(content):
            return False
        if len(content) <= _STRING_MAX_CHARS and len(self._strings) < _MAX_KEPT:
            self._strings.add(content)
        return True
