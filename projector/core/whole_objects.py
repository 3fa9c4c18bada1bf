"""Arguments that come as whole objects, one after the other, for one call: the last of them counts (CONTRACT D50).

Some servers send `{}` when a call begins, and the real arguments later. What was shown cannot be taken back, so a first
fragment that is a whole object waits for the end of its call, or for the object that replaces it.
"""

from __future__ import annotations

from projector.contracts import codec


class WholeObjects:
    """The fragments of one call's arguments."""

    __slots__ = ("has_passed", "held")

    def __init__(self) -> None:
        self.held = ""
        """The whole object that waits."""
        self.has_passed = False
        """Whether all that follows is passed on, and nothing waits."""

    def feed(self, fragment: str) -> str:
        """Return what of the fragments so far can be passed on now."""
        if self.has_passed:
            return fragment
        if is_whole_object(fragment):
            self.held = fragment
            return ""
        is_blank = not fragment or fragment.isspace()
        self.has_passed = not is_blank
        if not self.held:
            return fragment
        if is_blank:
            return ""
        held = self.take()
        return fragment if fragment.lstrip().startswith("{") else held + fragment

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


def is_whole_object(text: str) -> bool:
    """Check whether a text is one JSON object."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return False
    try:
        return isinstance(codec.loads(stripped.encode("utf-8", "surrogatepass")), dict)
    except codec.CodecError:
        return False
