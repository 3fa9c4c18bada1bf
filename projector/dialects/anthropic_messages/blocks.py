"""The content blocks of one message: numbered without gaps, one open at a time, each started and stopped once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Event: TypeAlias = dict[str, Any]

DELTAS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "signature": ("signature_delta", "signature"),
    "tool_use": ("input_json_delta", "partial_json"),
    "citations": ("citations_delta", "citation"),
}
"""What a delta continues -> its type, and its member."""


class Block(NamedTuple):
    """A block of an item, before it has a number."""

    item_id: str
    part: int | str
    """What distinguishes it from other blocks of its item."""
    start: Mapping[str, Any]
    """`content_block` of its start."""


class Piece(NamedTuple):
    """A delta of a block that waits for its turn."""

    block: Block
    kind: str
    value: object


class ContentBlocks:
    """Writer of the blocks of one message. The blocks of one item are written at a time.

    Items that are streamed beside it, as calls of Chat Completions or parallel branches, wait until it is done. Each
    method returns the events to write now.
    """

    __slots__ = ("_block", "_current", "_done", "_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        """Number of blocks that have started."""
        self._current: str | None = None
        """The item whose turn it is."""
        self._block: Block | None = None
        """The open block."""
        self._waiting: dict[str, list[Piece]] = {}
        """Item -> its deltas, which cannot be written yet."""
        self._done: set[str] = set()
        """Items that have ended while they waited."""

    @property
    def index(self) -> int:
        """Index of the last block."""
        return self.count - 1

    def is_open(self, item_id: str, part: int | str) -> bool:
        """Return whether deltas of a block are written at once, without a start."""
        return self._block is not None and self._block[:2] == (item_id, part)

    def feed(self, block: Block, kind: str, value: object) -> list[Event]:
        """Add a delta of a block. An empty one starts the block without a delta."""
        if self._current is None or self._current == block.item_id:
            self._current = block.item_id
            return self._write(Piece(block, kind, value))
        self._waiting.setdefault(block.item_id, []).append(Piece(block, kind, value))
        return []

    def close(self, item_id: str) -> list[Event]:
        """End an item. If it is the current one, the next waiting item is written."""
        if item_id != self._current:
            self._done |= {item_id} & self._waiting.keys()
            return []
        events = self._stop()
        self._current = None
        while self._waiting:
            self._current = next(iter(self._waiting))
            events += [event for piece in self._waiting.pop(self._current) for event in self._write(piece)]
            if self._current not in self._done:
                break
            events += self._stop()
            self._current = None
        return events

    def finish(self) -> list[Event]:
        """End every item."""
        self._done |= self._waiting.keys()
        return [] if self._current is None else self.close(self._current)

    def _write(self, piece: Piece) -> list[Event]:
        block = piece.block
        events: list[Event] = []
        if not self.is_open(block.item_id, block.part):
            events = self._stop()
            events.append({"type": "content_block_start", "index": self.count, "content_block": dict(block.start)})
            self._block = block
            self.count += 1
        if piece.value:
            events.append(delta_event(self.index, piece.kind, piece.value))
        return events

    def _stop(self) -> list[Event]:
        if self._block is None:
            return []
        self._block = None
        return [{"type": "content_block_stop", "index": self.index}]


def delta_event(index: int, kind: str, value: object) -> Event:
    """Return the event of a delta."""
    delta_type, member = DELTAS[kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": delta_type, member: value}}
