"""Rules of chunks (seed sections 7.3 and 9.11, CONTRACT D21)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from projector.contracts.limits import IMAGE_CHUNK_MAX_CHARS
from projector.contracts.parts import ChunkTarget
from projector.contracts.public_sse_v1 import ChunkDelta, ChunkDone, ErrorEvent, FinalEvent, PublicEvent
from projector.contracts.stream_rules.table import Breach

_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(slots=True)
class _Chunks:
    slot: int
    next_index: int = 0
    is_open: bool = True


class ChunkWatch:
    """Follows each chunk target."""

    def __init__(self) -> None:
        self._targets: dict[ChunkTarget, _Chunks] = {}

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        match event:
            case ChunkDelta() | ChunkDone():
                chunks = self._targets.setdefault(event.target, _Chunks(event.output_index))
                return _check(chunks, event)
            case ErrorEvent() | FinalEvent():
                return [
                    Breach("chunk_unfinished", f"expected `chunk.done` of item {chunks.slot} before the terminal")
                    for chunks in self._targets.values()
                    if chunks.is_open
                ]
        return []


def _check(chunks: _Chunks, event: ChunkDelta | ChunkDone) -> list[Breach]:
    if chunks.slot != event.output_index:
        return [Breach("chunk_item", f"expected the target to belong to item {chunks.slot}")]
    if not chunks.is_open:
        return [Breach("chunk_closed", f"expected no `{event.kind}` after `chunk.done`")]
    if isinstance(event, ChunkDone):
        chunks.is_open = False
        return []
    found = []
    if event.chunk_index != chunks.next_index:
        found.append(Breach("chunk_index", f"expected {chunks.next_index}, found {event.chunk_index}"))
    chunks.next_index = event.chunk_index + 1
    if len(event.data) > IMAGE_CHUNK_MAX_CHARS:
        found.append(Breach("chunk_chars", f"expected at most {IMAGE_CHUNK_MAX_CHARS}, found {len(event.data)}"))
    if _BASE64.fullmatch(event.data) is None:
        found.append(Breach("chunk_base64", "expected base64 that decodes alone"))
    return found
