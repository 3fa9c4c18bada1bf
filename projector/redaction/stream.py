"""Cleaning fragment by fragment: the arguments of a call, and texts that grow (CONTRACT D23 to D25, D31).

The same code cleans whole texts: `Redactor.arguments` is one `feed` and a `finish`. What a stream has said after n
characters depends on those n characters alone, however they were cut.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from projector.contracts import codec
from projector.redaction import trees
from projector.redaction.clean import (
    REDACTED_HERE,
    TRUNCATED_HERE,
    CleanArguments,
    Cleaned,
    CleanJson,
    CleanText,
    Notice,
    bounded,
    notice,
    render,
)
from projector.redaction.compose import Gathered
from projector.redaction.detector import Detector
from projector.redaction.documents import JsonSieve, Place
from projector.redaction.filters import Places, Said, Sieve, Step
from projector.redaction.grammar import ESCAPE
from projector.redaction.policy import Limits
from projector.redaction.texts import MARK, PIECE_CHARS, cut, in_pieces

_NOTHING: Final[Cleaned[CleanText]] = Cleaned(CleanText(""))
_UNPARSED_MAX_CHARS: Final = 4 * 1024 * 1024
"""Arguments beyond the limit of their text are kept to be parsed at the end, up to here; longer ones stay text."""


_as_it_is: Final = tuple.__new__  # a quarter of the price of a call of the class; one is made for every token


class ArgumentsEnd(NamedTuple):
    """The end of a call's arguments: what is still to be said as a last delta, and the whole."""

    rest: Cleaned[CleanText]
    arguments: CleanArguments


class _Halves:
    """Joins surrogate pairs that fragments part; a half without its other becomes U+FFFD (CONTRACT D31)."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""

    def take(self, fragment: str) -> str:
        """Give what is certain of a fragment; a high half at its end waits for the next."""
        if not self.held and fragment.isascii():
            return fragment
        text = self.held + fragment
        self.held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return codec.scrub(text[: len(text) - len(self.held)])

    def end(self) -> str:
        """Give what was held."""
        text, self.held = self.held, ""
        return codec.scrub(text)


class TextStream:
    """A text that grows. Without a sieve it only joins surrogates."""

    __slots__ = ("_halves", "_said", "_sieve", "places")

    def __init__(self, sieve: Sieve | None) -> None:
        self._sieve = sieve
        self._halves = _Halves()
        self._said = Said()
        self.places = Places()
        """Where what was taken stands in what was said."""

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a fragment; give what may be said now."""
        if self._sieve is None and fragment.isascii() and not self._halves.held:
            return _as_it_is(Cleaned, (fragment, ()))
        text = self._halves.take(fragment)
        if self._sieve is None:
            return Cleaned(CleanText(text))
        self._said.marked = False
        parts = [self._take(self._sieve.feed(piece), piece) for piece in in_pieces(text)]
        return self._cleaned("".join(parts))

    def close(self) -> Cleaned[CleanText]:
        """Take the end of the text; give what was held."""
        text = self._halves.end()
        if self._sieve is None:
            return Cleaned(CleanText(text))
        self._said.marked = False
        said = self._take(self._sieve.feed(text), text) if text else ""
        return self._cleaned(said + self._take(self._sieve.end(), ""))

    def _take(self, steps: list[Step], text: str) -> str:
        self.places.take(steps)
        return self._said.take(steps, text)

    def _cleaned(self, said: str) -> Cleaned[CleanText]:
        return Cleaned(CleanText(said), REDACTED_HERE if self._said.marked else ())


class ArgumentStream:
    """The arguments of one call. The deltas that it gives join to the text that it ends with."""

    def __init__(self, detector: Detector, limits: Limits) -> None:
        self._limits = limits
        self._sieve = JsonSieve(detector)
        self._halves = _Halves()
        self._sifted = Said()
        self._room = limits.arguments_text_max_chars
        self._is_cut = False
        self._marked = False
        self._unread = False
        self._clean: Gathered[CleanText] = (
            Gathered()
        )  # the whole clean text, to be parsed; what was said is how it begins
        self._late: Gathered[str] = Gathered()  # what came behind the limit, to be read at the end
        self._late_chars = 0

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a fragment; give what may be said now.

        Returns:
            A delta, "" when nothing is certain. Behind an error of syntax or the limit it is always "" (D23, D24).
        """
        text = self._halves.take(fragment)
        if not text or self._sieve.failed:
            return _NOTHING
        if self._is_cut:
            self._keep(text)
            return _NOTHING
        if len(text) <= PIECE_CHARS:
            return self._say(self._sifted.take(self._sieve.feed(text), text))
        return self._say(self._sift(text))

    def finish(self) -> ArgumentsEnd:
        """Take the end of the arguments; text that is not one whole JSON value ends with a notice, unparsed (D24)."""
        was_whole = not self._sieve.failed
        clean = self._sift(self._late.text + self._halves.end())
        if not self._sieve.failed:
            clean += self._end()
        rest = _NOTHING
        if self._is_cut:
            self._clean.add(CleanText(clean))
        elif was_whole:
            rest = self._say(clean)
        parsed = self._parse()
        return ArgumentsEnd(rest, CleanArguments(self._whole(parsed), parsed))

    def _sift(self, text: str) -> str:
        said = [
            self._sifted.take(self._sieve.feed(piece), piece) for piece in in_pieces(text) if not self._sieve.failed
        ]
        return "".join(said)

    def _end(self) -> str:
        return self._sifted.take(self._sieve.end(), "")

    def _keep(self, text: str) -> None:
        self._late_chars += len(text)
        if self._late_chars <= _UNPARSED_MAX_CHARS:
            self._late.add(text)

    def _say(self, clean: str) -> Cleaned[CleanText]:
        """Say clean text, up to the limit."""
        self._clean.add(CleanText(clean))
        if len(clean) <= self._room and not self._sifted.marked and not self._sieve.failed:
            self._room -= len(clean)
            return Cleaned(CleanText(clean)) if clean else _NOTHING
        said = _cut(clean, self._room)
        self._room -= len(said)
        self._is_cut = len(said) < len(clean)
        notices: tuple[Notice, ...] = ()
        if self._sifted.marked and MARK.search(said):
            self._marked = True
            notices = REDACTED_HERE
        self._sifted.marked = False
        if self._is_cut or self._sieve.failed:
            notices += TRUNCATED_HERE
        return Cleaned(CleanText(said), notices) if said or notices else _NOTHING

    def _parse(self) -> Cleaned[CleanJson] | None:
        """Parse the clean text, where it is an object, and bound it; the text itself is never cleaned beside it."""
        if self._sieve.failed or not self._sieve.complete or self._late_chars > _UNPARSED_MAX_CHARS:
            return None
        try:
            tree = codec.loads_exact(self._clean.text)
        except codec.CodecError:  # deeper than any parser reads, or an integer of thousands of digits
            self._unread = True
            return None
        if not isinstance(tree, dict):
            return None
        bounded_tree = trees.clean(tree, trees.bounding(self._limits, self._limits.arguments_json_string_max_chars))
        shown = [place for place in self._sieve.withheld if _shows(bounded_tree.value, place)]
        notices = [notice("redacted", render(place)) for place in shown]
        return Cleaned(bounded_tree.value, bounded([*notices, *bounded_tree.notices]))

    def _whole(self, parsed: Cleaned[CleanJson] | None) -> Cleaned[CleanText]:
        """Give the text with the notices that the parsed object does not show (D26)."""
        notices: tuple[Notice, ...] = ()
        if self._marked and not (parsed and all(_shows(parsed.value, place) for place in self._sieve.withheld)):
            notices = REDACTED_HERE
        whole = not self._sieve.failed and (self._sieve.complete or self._sieve.blank)
        if self._is_cut or self._unread or not whole:
            notices += TRUNCATED_HERE
        return Cleaned(CleanText(self._clean.text[: self._limits.arguments_text_max_chars - self._room]), notices)


def _cut(text: str, max_chars: int) -> str:
    """Give at most `max_chars` of JSON text, and no part of a mark or an escape."""
    if len(text) <= max_chars:
        return text
    said = cut(text, max_chars)
    for escape in ESCAPE.finditer(text, 0, len(said) + _ESCAPE_MAX_CHARS):
        if escape.start() < len(said) < escape.end():
            return text[: escape.start()]
    return said


_ESCAPE_MAX_CHARS: Final = 12


def _shows(tree: object, place: Place) -> bool:
    """Say whether a tree has the place, and a mark stands there: in the value, or in the key that leads to it."""
    for step in place:
        if isinstance(tree, dict):
            tree = tree.get(step, _ABSENT)
        elif isinstance(tree, list) and isinstance(step, int):
            tree = tree[step] if step < len(tree) else _ABSENT
        else:
            return False
    in_key = tree is not _ABSENT and MARK.search(str(place[-1:])) is not None
    return in_key or (isinstance(tree, str) and MARK.search(tree) is not None)


_ABSENT: Final = object()
