"""The input of one call as it grows: JSON arguments, or the one plain text of a custom tool (CONTRACT D22 to D24)."""

from __future__ import annotations

from typing import Protocol

from projector.core.parts import Length
from projector.redaction import compose
from projector.redaction.clean import CleanArguments, Cleaned, CleanText, Notice, bounded
from projector.redaction.redactor import Redactor
from projector.redaction.stream import ArgumentsEnd


class _Stream(Protocol):
    def feed(self, fragment: str, /) -> Cleaned[CleanText]: ...
    def finish(self) -> ArgumentsEnd: ...


class PlainInput:
    """The input of a custom tool: searched like tool code, cut where arguments are cut, never parsed (D22)."""

    __slots__ = ("_is_cut", "_notices", "_room", "_said", "_stream")

    def __init__(self, redactor: Redactor) -> None:
        self._stream = redactor.code_stream()
        self._said: compose.Gathered[CleanText] = compose.Gathered()
        self._notices: tuple[Notice, ...] = ()
        self._is_cut = False
        self._room = redactor.policy.limits.arguments_text_max_chars

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a delta; give what may be said of it now."""
        return self._limit(self._stream.feed(fragment))

    def finish(self) -> ArgumentsEnd:
        """Take the end; give what is still to say, and the whole."""
        rest = self._limit(self._stream.close())
        whole = Cleaned(self._said.text, self._notices)
        return ArgumentsEnd(rest, CleanArguments(whole, None))

    def _limit(self, cleaned: Cleaned[CleanText]) -> Cleaned[CleanText]:
        if self._is_cut:
            return compose.NOTHING
        said = compose.cut(cleaned, self._room)
        self._is_cut = len(said.value) < len(cleaned.value)
        self._room -= len(said.value)
        self._said.add(said.value)
        self._notices = bounded(self._notices + said.notices)
        return said


class CallArguments:
    """Arguments of one call: deltas as they come, the whole at the end, never one against the other.

    What has been said after n characters depends on those n characters alone. So a `done` text agrees with the deltas
    exactly if its first n characters, cleaned again, give what was said.
    """

    __slots__ = ("_fed", "_is_plain", "_length", "_redactor", "_said", "_stream", "agrees", "done")

    def __init__(self, redactor: Redactor, *, is_plain: bool) -> None:
        self._redactor = redactor
        self._is_plain = is_plain
        self._stream = self._new_stream()
        self._said: compose.Gathered[CleanText] = compose.Gathered()
        self._fed = 0
        self._length = Length()
        self.done = False
        """Whether `tool.arguments.done` has been said."""
        self.agrees = True
        """Whether the provider's `done` said the same as its deltas."""

    @property
    def began(self) -> bool:
        """Whether a delta has come."""
        return self._fed > 0

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a delta; give what may be said of it now."""
        length = self._length
        self._fed += len(fragment) if fragment.isascii() and not length.is_half else length.take(fragment)
        said = self._stream.feed(fragment)
        self._said.add(said.value)
        return said

    def complete(self, text: str | None) -> tuple[Cleaned[CleanText], CleanArguments]:
        """Take the provider's whole text, if it gave one; give the last delta and the whole."""
        began = bool(self._said.text)
        more = compose.NOTHING
        if text is not None:
            whole = self._new_stream()
            certain = self._fed - self._length.is_half
            self.agrees = whole.feed(text[:certain]).value == self._said.text
            if self.agrees:
                self._stream, self._fed, self._length = whole, certain, Length()
                more = self.feed(text[certain:])
        end = self._stream.finish()
        return compose.joined(more, end.rest) if began else compose.NOTHING, end.arguments

    def _new_stream(self) -> _Stream:
        return PlainInput(self._redactor) if self._is_plain else self._redactor.argument_stream()
