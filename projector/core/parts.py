"""What has been said of one growing text: message text, refusal, summary, reasoning, code.

The deltas and the whole are cleaned by the same stream, so what a `done` adds to the deltas is found by comparing clean
text with clean text; the raw text is never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from projector.contracts import codec
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText, Notice
from projector.redaction.stream import TextStream


def aligned(streamed: Collection[int], finished: Iterable[int]) -> dict[int, int]:
    """Give, for each position in a finished item, the position under which its text was streamed.

    They are the same, except that some gateways count reasoning parts and texts together while they stream, and only
    the texts in the finished item: then the next streamed position that the finished item lacks is meant.
    """
    found = dict.fromkeys(finished)
    strays = [position for position in sorted(streamed) if position not in found]
    return {position: position if position in streamed or not strays else strays.pop(0) for position in found}


class Length:
    """Counts the code points of a text that comes in fragments: a surrogate pair in two halves is one."""

    __slots__ = ("is_half",)

    def __init__(self) -> None:
        self.is_half = False
        """Whether the text ends with the first half of a pair, which is counted already."""

    def take(self, fragment: str) -> int:
        """Give by how much the text is longer with this fragment."""
        text = codec.scrub(fragment) if len(fragment) > 1 else fragment
        joins = self.is_half and "\udc00" <= fragment[:1] <= "\udfff"
        if fragment:
            self.is_half = "\ud800" <= fragment[-1] <= "\udbff"
        return len(text) - joins


class TextPart:
    """One text that grows by deltas and may be completed by a `done`."""

    __slots__ = ("_fed", "_length", "_make_stream", "_places", "_said", "_settled", "_stream", "done", "notices")

    def __init__(self, make_stream: Callable[[], TextStream]) -> None:
        self._make_stream = make_stream
        self._stream = make_stream()
        self._places = self._stream.places
        self._said: compose.Gathered[CleanText] = compose.Gathered()
        self._fed = 0
        self._length = Length()
        self.notices: tuple[Notice, ...] = ()
        self._settled = False
        self.done = False
        """Whether we have said a `done` for it."""

    @property
    def text(self) -> CleanText:
        """All that has been said so far."""
        return self._said.text

    def place(self, position: int, *, is_end: bool = False) -> int:
        """Give where a position of the provider's text, in code points, stands in what was said of it."""
        return self._places.of(position, is_end=is_end)

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Take a delta; give what may be said of it now."""
        length = self._length
        self._fed += len(fragment) if fragment.isascii() and not length.is_half else length.take(fragment)
        said = self._stream.feed(fragment)
        value, notices = said
        self._said.add(value)
        if notices:
            self.notices = notices
        return said

    def complete(self, text: str) -> Cleaned[CleanText] | None:
        """Take the provider's whole text; give what the deltas did not say of it, None where it contradicts them.

        Then the deltas win, because they have been shown (CONTRACT D23, D30).
        """
        if self._settled:
            return compose.NOTHING if len(text) == self._fed else None
        whole = self._make_stream()
        certain = self._fed - self._length.is_half
        if whole.feed(text[:certain]).value != self._said.text:
            return None
        self._stream, self._places, self._fed, self._length = whole, whole.places, certain, Length()
        more = self.feed(text[certain:])
        rest = self.close()
        self._settled = True
        return compose.joined(more, rest)

    def close(self) -> Cleaned[CleanText]:
        """Give what was still held back, now that nothing more comes."""
        said = self._stream.close()
        self._stream = self._make_stream()  # nothing is given twice
        self._said.add(said.value)
        if said.notices:
            self.notices = said.notices
        return said
