"""Growing texts of items: from `delta` and `done` events to frames, the same way for every kind of text.

A delta is filtered and emitted at once. A complete text, from a `done` event or a finished item, adds what the deltas
left out. When the item closes, what the filter still held back is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.frames import TextBuilder
from projector.core.growing_text import CallArguments, TextPart, align_positions
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.core.truncation import split_delta
from projector.redaction.clean import Cleaned, CleanText


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class TextChannel:
    """One kind of growing text.

    Args:
        item_type: type of the items that have such texts.
        parts: returns the texts of an item, by position.
        delta: builds a delta frame.
        done: builds the frame with the complete text; None if there is none.
        index: event member with the position; None: there is one text, at position 0.
        member: event member with the complete text.
        levels: values of the policy's `reasoning` under which the text is emitted; None: always.
        find: returns the open item of an event, and the frames that announce it.
        new_part: creates an empty text of an item.
        key: returns the member that tells the texts of an item apart in frames.
        skips_empty: whether empty texts are ignored.
        is_brief: whether a short text that comes complete has no delta.
        is_done_on_close: whether an item that closes emits `done` for a text without one.
        is_in_turn: whether a text ends when another one of its item begins, because clients show them as paragraphs.
    """

    item_type: str
    parts: Callable[[Item], dict[int, TextPart]]
    delta: TextBuilder
    done: TextBuilder | None = None
    index: str | None = "content_index"
    member: str = "text"
    levels: frozenset[str] | None = None
    find: Callable[[StreamState, CanonicalEvent, str], tuple[Item, list[Frame]]] = StreamState.item_of
    new_part: Callable[[StreamState, Item], TextPart]
    key: Callable[[Item, int], int | CleanText] = lambda _item, position: position
    skips_empty: bool = False
    is_brief: bool = False
    is_done_on_close: bool = False
    is_in_turn: bool = False

    def on_delta(self, state: StreamState, event: CanonicalEvent) -> list[Frame]:
        """Emit the part of the delta that can be shown now."""
        position = 0 if self.index is None else read.index(event, self.index)
        delta = read.text(event, "delta")
        if self.skips_empty and not delta:
            return []
        item, output = self.find(state, event, self.item_type)
        if not self._is_shown(state):
            return output
        if self.is_in_turn and position not in (parts := self.parts(item)):
            for earlier, before in parts.items():
                output += self.emit_delta(item, earlier, before.settle())
        part = self.part(state, item, position)
        if part.is_complete or part.done:
            raise read.UnreadableEvent(f"`{event.get('type')}`: its text is complete")
        return output + self.emit_delta(item, position, part.feed(delta))

    def on_done(self, state: StreamState, event: CanonicalEvent) -> list[Frame]:
        """Emit the text that the deltas lack, then the complete text if its kind has a frame for it."""
        position = 0 if self.index is None else read.index(event, self.index)
        text = read.text(event, self.member)
        item, output = self.find(state, event, self.item_type)
        return output + self.complete(state, item, position, text)

    def complete(self, state: StreamState, item: Item, position: int, text: str) -> list[Frame]:
        """Emit the missing rest of a complete text. If it contradicts its deltas, they win, and it is counted (D30)."""
        if not self._is_shown(state):
            return []
        part = self.part(state, item, position)
        if self.skips_empty and not text and not part.text:
            return []
        is_new = self.is_brief and not part.text
        rest = part.complete(text)
        if rest is None:
            state.count("done differs from its deltas")
            rest = part.close()
        is_needless = (not rest.value and not rest.notices) or (is_new and len(part.text) <= DELTA_MAX_CHARS)
        return ([] if is_needless else self.emit_delta(item, position, rest)) + self.emit_done(item, position, part)

    def finish(self, state: StreamState, item: Item, texts: Mapping[int, str]) -> list[Frame]:
        """Emit the missing rest of the texts of a finished item."""
        output: list[Frame] = []
        for position, streamed in align_positions(self.parts(item), texts).items():
            output += self.complete(state, item, streamed, texts[position])
        return output

    def flush(self, item: Item) -> list[Frame]:
        """Emit the held text when the item closes."""
        output: list[Frame] = []
        for position, part in self.parts(item).items():
            output += self.emit_delta(item, position, part.close())
            if self.is_done_on_close:
                output += self.emit_done(item, position, part)
        return output

    def part(self, state: StreamState, item: Item, position: int) -> TextPart:
        """Return the text at a position, created if it is new."""
        parts = self.parts(item)
        part = parts.get(position)
        if part is None:
            state.slots.count()
            part = parts[position] = self.new_part(state, item)
        return part

    def emit_delta(self, item: Item, position: int, delta: Cleaned[CleanText]) -> list[Frame]:
        """Build the frames of a delta."""
        key = self.key(item, position)
        return [self.delta(item.place, key, piece) for piece in split_delta(delta)]

    def emit_done(self, item: Item, position: int, part: TextPart) -> list[Frame]:
        """Build the frame with the complete text, once; nothing if this kind has none."""
        if self.done is None or part.done:
            return []
        part.done = True
        whole = Cleaned(part.text, part.notices)
        return [self.done(item.place, self.key(item, position), whole)]

    def _is_shown(self, state: StreamState) -> bool:
        return self.levels is None or state.policy.reasoning in self.levels


class OpenText:
    """A text with the last frame of a delta, for as long as only its deltas follow: a cache of what decided about it.

    The indexes are the objects of the event. They are compared by identity, which also tells 1 from `true`; a large
    index may be another object in the next event, and is looked up then.

    Args:
        event: the event of a delta.
        part: the text.
        frame: the frame of the delta.
        emit: returns the frames of any other delta.
    """

    __slots__ = ("content_index", "count", "emit", "frame", "name", "output_index", "part")

    def __init__(
        self,
        event: CanonicalEvent,
        part: TextPart | CallArguments,
        frame: Frame,
        emit: Callable[[Cleaned[CleanText]], list[Frame]],
    ) -> None:
        self.name = event.get("type")
        self.output_index = event.get("output_index")
        self.content_index = event.get("content_index")
        self.part = part
        self.frame = frame
        self.emit = emit
        self.count = 0
        """Deltas that continued it."""


def is_plain_delta(output: list[Frame]) -> bool:
    """Return whether the next delta of a text may be equal to this output but for its text and numbers."""
    frame = output[0]  # an announcement, if nothing of the text can be shown yet
    return len(output) == 1 and "delta" in frame and "provider_sequence_number" in frame and "notices" not in frame
