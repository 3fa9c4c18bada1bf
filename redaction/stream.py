"""Cleaning fragment by fragment: what may be said of a text before its end is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from contracts import codec
from redaction.clean import CleanArguments, Cleaned, CleanJson, CleanText

if TYPE_CHECKING:
    from redaction.mint import Redactor


class ArgumentsEnd(NamedTuple):
    """The end of a call's arguments: what is still to be said as a delta, and the whole."""

    rest: Cleaned[CleanText]
    arguments: CleanArguments


class ArgumentStream:
    """The arguments of one call."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[str] = []

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a fragment; give what may be said now."""
        self._held.append(fragment)
        return Cleaned(CleanText(""))

    def finish(self) -> ArgumentsEnd:
        """Take the end of the arguments."""
        limits = self._redactor.policy.limits
        text = "".join(self._held)
        try:
            tree = codec.loads_exact(text)
        except codec.CodecError:
            tree = None
        clean: Cleaned[CleanText] = Cleaned(CleanText(""))
        parsed: Cleaned[CleanJson] | None = None
        if isinstance(tree, dict):
            parsed = self._redactor.json(tree, string_max_chars=limits.arguments_json_string_max_chars)
            said = text if not parsed.notices else codec.dumps(parsed.value).decode()
            clean = Cleaned(CleanText(said[: limits.arguments_text_max_chars]))
        return ArgumentsEnd(clean, CleanArguments(clean, parsed))


class TextStream:
    """A text that grows."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a fragment; give what may be said now."""
        return Cleaned(CleanText(self._clean(fragment)))

    def close(self) -> Cleaned[CleanText]:
        """Take the end of the text."""
        return Cleaned(CleanText(""))
