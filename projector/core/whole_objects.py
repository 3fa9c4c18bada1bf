"""Arguments that come as whole objects, one after the other, for one call: the last of them counts (CONTRACT D50).

Some servers send `{}` when a call begins, and the real arguments later. What was shown cannot be taken back, so a first
fragment that is a whole object waits for the end of its call, or for the object that replaces it.

Other servers repeat with each fragment all before it. The second fragment decides, if no JSON can go on with it.
"""

from __future__ import annotations

import re
from typing import Final

from projector.contracts import codec

_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_BEHIND_A_STRING: Final = ("", *":,]} \t\r\n")
_BEFORE_A_VALUE: Final = tuple(":[,")


class WholeObjects:
    """The fragments of one call's arguments."""

    __slots__ = ("_is_repeating", "_last", "has_passed", "held")

    def __init__(self) -> None:
        self.held = ""
        """The whole object that waits."""
        self.has_passed = False
        """Whether all that follows is passed on, and nothing waits."""
        self._last = ""
        """The first fragment that was passed on, or the last one if each repeats all before it."""
        self._is_repeating = False

    def feed(self, fragment: str) -> str:
        """Return what of the fragments so far can be passed on now."""
        if self.has_passed:
            return fragment
        if self._last:
            return self._after(self._last, fragment)
        if is_whole_object(fragment):
            self.held = fragment
            return ""
        if not fragment or fragment.isspace():
            return "" if self.held else fragment
        self._last = fragment
        self.has_passed = not fragment.startswith("{")
        held = self.take()
        return fragment if fragment.lstrip().startswith("{") else held + fragment

    def _after(self, last: str, fragment: str) -> str:
        if not fragment:
            return ""
        self._is_repeating = fragment.startswith(last) and (self._is_repeating or _begins_again(last, fragment))
        self.has_passed = not self._is_repeating
        self._last = fragment if self._is_repeating else ""
        return fragment[len(last) :] if self._is_repeating else fragment

    def take(self) -> str:
        """Return the object that waits, and forget it."""
        held, self.held = self.held, ""
        return held

    def settle(self, text: str | None) -> tuple[str, bool]:
        """Return the object that counts, as its call ends, and whether the complete text of the provider agrees.

        Args:
            text: the complete text; None if the provider sent none.
        """
        held = self.take()
        if text is None or text.endswith(held):  # the text may be all objects together
            return held, True
        is_more = text.startswith(held) or (not self.has_values(held) and is_whole_object(text))
        return (text if is_more else held), is_more

    @staticmethod
    def has_values(held: str) -> bool:
        """Check whether an object that waits has members."""
        return bool(held.strip("{} \t\r\n"))


def _begins_again(text: str, fragment: str) -> bool:
    """Check whether a fragment, which begins with the text so far, cannot follow it in JSON."""
    brace, quote, key = fragment.partition('"')
    if brace.strip() != "{" or not quote or ('"' in text and key[:1] in _BEHIND_A_STRING):
        return False  # the quote may end a string of the text
    is_in_string = _ESCAPED.sub("", text).count('"') % 2 == 1
    return is_in_string or text.rstrip()[-1] not in _BEFORE_A_VALUE


def is_whole_object(text: str) -> bool:
    """Check whether a text is one JSON object."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return False
    try:
        return isinstance(codec.loads(stripped.encode("utf-8", "surrogatepass")), dict)
    except codec.CodecError:
        return False
