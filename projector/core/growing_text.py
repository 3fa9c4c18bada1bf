"""Texts that grow by deltas and may be completed by a `done`: message text, refusals, summaries, code, arguments.

The deltas and the complete text pass the same kind of filter. What the filter has emitted after n characters depends on
those n characters only, so a complete text agrees with the deltas exactly if filtering its first n characters again
produces the same output (CONTRACT D23, D30). The raw text is not kept. Where filtering is expensive a digest of the raw
deltas is: an equal digest proves agreement without filtering the text a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Generic, Protocol, TypeAlias, TypeVar

from projector.contracts import codec
from projector.contracts.limits import TEXT_MAX_CHARS
from projector.core.delta_frames import TEXT_MAX_CHARS as RUN_TEXT_MAX_CHARS
from projector.core.faults import FAULTS, LimitError
from projector.core.whole_objects import WholeObjects
from projector.redaction import compose
from projector.redaction.clean import CleanArguments, Cleaned, CleanText, Gathered, Notice, bounded
from projector.redaction.redactor import Redactor
from projector.redaction.streams import ArgumentsEnd, TextStream


class _Filter(Protocol):
    def feed(self, fragment: str, /) -> Cleaned[CleanText]: ...


class _ArgumentsFilter(_Filter, Protocol):
    def finish(self) -> ArgumentsEnd: ...


Filter = TypeVar("Filter", bound=_Filter)

Shown: TypeAlias = tuple[list[CleanText], Cleaned[CleanText] | None]
"""What each delta of a run shows, and what the next one gave if that is more than a short text. It may be fewer deltas
than possible; `feed` reads the next one."""


class GrowingText(Generic[Filter]):
    """A text with what was emitted of it so far.

    Args:
        make_filter: creates the filter of the text.
        is_costly: whether the filter is expensive, so that a digest of the raw text pays.
    """

    __slots__ = ("_digest", "_emitted", "_ends_in_half", "_filter", "_make_filter", "_received", "done", "notices")

    def __init__(self, make_filter: Callable[[], Filter], *, is_costly: bool = False) -> None:
        self._make_filter = make_filter
        self._filter = make_filter()
        self._emitted: Gathered[CleanText] = Gathered()
        self._received = 0  # code points
        self._ends_in_half = False  # with the first half of a surrogate pair, which is counted already
        self._digest = blake2b() if is_costly else None
        self.notices: tuple[Notice, ...] = ()
        self.done = False
        """Whether its `done` frame has been emitted."""

    @property
    def text(self) -> CleanText:
        """Everything emitted so far."""
        return self._emitted.text

    @property
    def began(self) -> bool:
        """Whether a delta was received."""
        return self._received > 0

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Filter a delta and return the part that can be shown now; raise `LimitError` if it is too long."""
        size = len(fragment)
        if size > TEXT_MAX_CHARS:
            raise LimitError(FAULTS["upstream_event_too_large"])
        if fragment.isascii() and not self._ends_in_half:
            self._received += size
        else:
            self._count(fragment)
        if self._digest is not None:
            self._digest.update(fragment.encode("utf-8", "surrogatepass"))
        cleaned = self._filter.feed(fragment)
        value, notices = cleaned.value, cleaned.notices
        self._emitted.add(value)
        if notices:
            self.notices = bounded([*self.notices, *notices])
        return cleaned

    def _extend(self, text: str) -> Cleaned[CleanText] | None:
        """Feed what a complete text adds to the deltas; return None if it contradicts them."""
        received = self._received - self._ends_in_half
        if not self._is_same(text[:received]):
            again = self._make_filter()
            if not self._filters_alike(again, text[:received]):
                return None
            self._filter, self._received, self._ends_in_half = again, received, False
        rest = text[received:]
        return self.feed(rest) if rest else compose.NOTHING

    def _filters_alike(self, again: Filter, text: str) -> bool:
        """Feed a text to a new filter; return whether it emits and holds what the deltas did."""
        return again.feed(text).value == self._emitted.text

    def _is_same(self, text: str) -> bool:
        """Return whether a text equals the joined deltas; False if that is unknown."""
        if self._digest is None or self._ends_in_half:
            return False
        return blake2b(text.encode("utf-8", "surrogatepass")).digest() == self._digest.digest()

    def _count(self, fragment: str) -> None:
        """Count the code points of a fragment: a surrogate pair in two halves is one."""
        text = codec.scrub(fragment) if len(fragment) > 1 else fragment
        joins = self._ends_in_half and codec.LOW <= fragment[:1] < codec.AFTER_LOW
        if fragment:
            self._ends_in_half = codec.HIGH <= fragment[-1] < codec.LOW
        self._received += len(text) - joins


class TextPart(GrowingText[TextStream]):
    """One text of an item."""

    __slots__ = ("_closed_at", "_positions", "is_complete")

    def __init__(self, make_filter: Callable[[], TextStream], *, is_costly: bool = False) -> None:
        super().__init__(make_filter, is_costly=is_costly)
        self._positions = self._filter.positions
        self._closed_at = 0  # characters received before the filter was closed: it holds nothing until there are more
        self.is_complete = False
        """Whether its complete text is known: further deltas are dropped."""

    def _filters_alike(self, again: TextStream, text: str) -> bool:
        again.take_place_of(self._filter)
        return super()._filters_alike(again, text) and again.held == self._filter.held

    def _is_same(self, text: str) -> bool:
        """Return whether a text equals the joined deltas: they were emitted or are held, or the digest is equal."""
        if self._filter.is_verbatim:
            return text == self._emitted.text + self._filter.held
        return super()._is_same(text)

    def feed_run(self, deltas: Sequence[str], start: int) -> Shown:
        """Feed valid deltas from a position on, as long as what each shows is decided quickly."""
        if self._digest is not None or self._ends_in_half:
            return [], None
        shown = self._filter.feed_run(deltas, start)
        self._received += len("".join(shown if shown == deltas else deltas[start : start + len(shown)]))
        self._emitted.extend(shown)
        return shown, None

    def position(self, raw: int, *, is_end: bool = False) -> int:
        """Convert a position in the provider's text to one in the emitted text, both in code points."""
        return self._positions.position(raw, is_end=is_end)

    def complete(self, text: str) -> Cleaned[CleanText] | None:
        """Return the part of the complete text that the deltas did not contain.

        None if the text contradicts the deltas, which then win because they were shown (CONTRACT D30).
        """
        if self.is_complete or self.done:
            return compose.NOTHING if self.is_complete and len(text) == self._received else None
        self.is_complete = True
        more = self._extend(text)
        if more is None:
            return None
        self._positions = self._filter.positions
        rest = self.close()
        return compose.joined(more, rest)

    def settle(self) -> Cleaned[CleanText]:
        """Return the text that the filter held back, as another text follows; if there was any, deltas are dropped."""
        if self.is_complete or self.done:
            return compose.NOTHING
        rest = self.close()
        self.is_complete = bool(rest.value)
        return rest

    def close(self) -> Cleaned[CleanText]:
        """Return the text that the filter held back, once."""
        if self._closed_at == self._received:
            return compose.NOTHING
        self._closed_at = self._received
        cleaned = self._filter.close()
        self._digest = None
        if not self.is_complete:  # deltas may follow
            self._filter = self._make_filter()
        self._emitted.add(cleaned.value)
        if cleaned.notices:
            self.notices = bounded([*self.notices, *cleaned.notices])
        return cleaned


class CallArguments(GrowingText[_ArgumentsFilter]):
    """The arguments of one call: JSON, or the plain text of a custom tool (CONTRACT D22 to D24)."""

    __slots__ = ("_objects", "agrees")

    def __init__(self, redactor: Redactor, *, is_plain: bool, tool: str | None = None) -> None:
        make = PlainInput if is_plain else Redactor.argument_stream
        super().__init__(lambda: make(redactor, tool), is_costly=True)
        self._objects = None if is_plain else WholeObjects()
        self.agrees = True
        """Whether the complete text agreed with the deltas."""

    @property
    def began(self) -> bool:
        """Whether a delta was received."""
        return super().began or (self._objects is not None and bool(self._objects.held))

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Filter a delta and return the part that can be shown now; see `WholeObjects`."""
        objects = self._objects
        passed = fragment if objects is None else objects.feed(fragment)
        if objects is not None and objects.has_passed:
            self._objects = None  # all that follows passes
        return super().feed(passed) if passed else compose.NOTHING

    def feed_run(self, deltas: Sequence[str], start: int) -> Shown:
        """Feed valid deltas from a position on, up to the first one with a notice or a long text."""
        shown: list[CleanText] = []
        feed = super().feed if self._objects is None else self.feed
        for delta in deltas[start:]:
            cleaned = feed(delta)
            if cleaned.notices or len(cleaned.value) > RUN_TEXT_MAX_CHARS:
                return shown, cleaned
            shown.append(cleaned.value)
        return shown, None

    def flush(self) -> Cleaned[CleanText]:
        """Return the part that can be shown as the call was cut off."""
        held = self._objects.take() if self._objects is not None else ""
        return super().feed(held) if held else compose.NOTHING

    def complete(self, text: str | None) -> tuple[Cleaned[CleanText], CleanArguments]:
        """Return the last delta and the complete arguments; `text` is the provider's complete text, if it sent one.

        Arguments without deltas need no last delta. If text and deltas differ, the deltas win.
        """
        objects, self._objects = self._objects, None
        more: Cleaned[CleanText] | None
        if objects is not None and objects.held:
            whole, self.agrees = objects.settle(text)
            has_deltas, more = True, self.feed(whole)
        else:
            has_deltas = bool(self.text)
            more = compose.NOTHING if text is None else self._extend(text)
            self.agrees = more is not None
        end = self._filter.finish()
        return compose.joined(more or compose.NOTHING, end.rest) if has_deltas else compose.NOTHING, end.arguments


class PlainInput:
    """The filter of a custom tool's input: cleaned as tool code, cut where arguments are cut, never parsed (D22)."""

    __slots__ = ("_emitted", "_is_cut", "_notices", "_room", "_stream")

    def __init__(self, redactor: Redactor, tool: str | None = None) -> None:
        self._stream = redactor.code_stream(tool)
        self._emitted: Gathered[CleanText] = Gathered()
        self._notices: tuple[Notice, ...] = ()
        self._is_cut = False
        self._room = redactor.policy.limits.arguments_text_max_chars

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Filter a fragment and return the part that can be shown now."""
        return self._limit(self._stream.feed(fragment))

    def finish(self) -> ArgumentsEnd:
        """Return what was held back, and the complete input."""
        rest = self._limit(self._stream.close())
        return ArgumentsEnd(rest, CleanArguments(Cleaned(self._emitted.text, self._notices), None))

    def _limit(self, cleaned: Cleaned[CleanText]) -> Cleaned[CleanText]:
        if self._is_cut:
            return compose.NOTHING
        limited = compose.cut(cleaned, self._room)
        self._is_cut = len(limited.value) < len(cleaned.value)
        self._room -= len(limited.value)
        self._emitted.add(limited.value)
        self._notices = bounded(self._notices + limited.notices)
        return limited


def align_positions(streamed: Collection[int], finished: Iterable[int]) -> dict[int, int]:
    """Map each position in a finished item to the position under which its text was streamed.

    They are equal, except that some gateways number reasoning parts and texts together while they stream, and only the
    texts in the finished item: then the next streamed position that the finished item lacks is used.
    """
    found = dict.fromkeys(finished)
    strays = [position for position in sorted(streamed) if position not in found]
    return {position: position if position in streamed or not strays else strays.pop(0) for position in found}
