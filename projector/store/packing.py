"""Frames packed as one value, and the frames of one log in memory, which differ in little: most are compressed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from projector.store.protocol import TrimmedError

_LENGTH: Final = 4
"""Bytes of a length."""


def pack(frames: Iterable[bytes]) -> bytes:
    """Join frames."""
    return b"".join([part for frame in frames for part in (len(frame).to_bytes(_LENGTH, "big"), frame)])


def unpack(packed: bytes) -> list[bytes]:
    """Split what `pack` has joined.

    Raises:
        ValueError: it was not made by `pack`.
    """
    frames, start = [], 0
    while start < len(packed):
        end = start + _LENGTH + int.from_bytes(packed[start : start + _LENGTH], "big")
        frames.append(packed[start + _LENGTH : end])
        start = end
    if start != len(packed):
        raise ValueError("packed frames are cut off")
    return frames


def frames_after(entries: Iterable[tuple[int, bytes]], after: int, max_bytes: int) -> tuple[list[bytes], bool]:
    """Return the frames after a number as `Store.read` does, and whether all frames of the entries are among them.

    An entry is the number of its first frame, and its packed frames.

    Raises:
        TrimmedError: the next frame is missing.
    """
    frames: list[bytes] = []
    size, expected = 0, after + 1
    for first, packed in entries:
        if first > expected:
            if not frames:
                raise TrimmedError("the next frames of the stream are not kept any more")
            return frames, False
        for frame in unpack(packed)[expected - first :]:
            size += len(frame)
            if size > max_bytes and frames:
                return frames, False
            frames.append(frame)
        expected = after + 1 + len(frames)
    return frames, True


FRAME_BYTES: Final = 48
"""Memory of a frame besides its content: an object of bytes, and its place in a list."""
BLOCK_FRAMES: Final = 16
"""Frames of a block. Those of a text are eleven times smaller then, at the cost of half a microsecond for each."""
BLOCK_MAX_BYTES: Final = 65_536
"""Blocks of larger frames are not compressed: that would take milliseconds."""
_LEVEL: Final = 1
_WINDOW_BITS: Final = -12
"""Without a header, and with a window of some frames: a larger one takes longer to begin than to search."""
_MEMORY_LEVEL: Final = 4
"""Places for the beginnings of what was read, 2,048: a block has no more. The default takes half as long again."""


_Block: TypeAlias = bytes | list[bytes]
"""Frames, compressed or as they are."""


class FrameBlocks:
    """A sequence of frames that grows at its end, and is removed from its start."""

    __slots__ = ("_blocks", "_dropped", "_is_packed", "_last", "count")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._is_packed = True
        """Whether the last block became smaller; frames that are encrypted do not."""
        self._dropped = 0
        """Frames of the first block that were removed."""
        self._last: list[bytes] = []
        self.count = 0
        """Number of frames."""

    def extend(self, frames: Sequence[bytes]) -> None:
        """Add frames. So many at once come from a fast provider, whose stream is over soon: they are not compressed."""
        last = self._last
        last += frames
        self.count += len(frames)
        if len(last) >= BLOCK_FRAMES:
            end = len(last) - len(last) % BLOCK_FRAMES
            to_block = self._block if len(frames) < BLOCK_FRAMES else list
            self._blocks += [to_block(last[at : at + BLOCK_FRAMES]) for at in range(0, end, BLOCK_FRAMES)]
            del last[:end]

    def read(self, start: int) -> Iterator[bytes]:
        """Yield the frames from a position."""
        start += self._dropped
        first, within = divmod(start, BLOCK_FRAMES)
        for block in self._blocks[first:]:
            yield from islice(_frames(block), within, None)
            within = 0
        yield from self._last[max(0, start - BLOCK_FRAMES * len(self._blocks)) :]

    def drop(self, count: int, size: int) -> tuple[int, int]:
        """Remove at least so many of the first frames, and at least so many bytes; return how many were removed."""
        dropped = freed = 0
        for frame in self.read(0):
            if dropped >= count and freed >= size:
                break
            dropped, freed = dropped + 1, freed + len(frame) + FRAME_BYTES
        self.count -= dropped
        self._dropped += dropped
        blocks = min(self._dropped // BLOCK_FRAMES, len(self._blocks))
        del self._blocks[:blocks]
        self._dropped -= blocks * BLOCK_FRAMES
        if not self._blocks:
            del self._last[: self._dropped]
            self._dropped = 0
        return dropped, freed

    def _block(self, frames: list[bytes]) -> _Block:
        if self._is_packed and len(packed := pack(frames)) <= BLOCK_MAX_BYTES:
            compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
            block = compressor.compress(packed) + compressor.flush()
            self._is_packed = 2 * len(block) < len(packed)
            return block
        return frames


def size_of(frames: Sequence[bytes]) -> int:
    """Return the memory of frames that are not in a block."""
    return sum(map(len, frames)) + FRAME_BYTES * len(frames)


def _frames(block: _Block) -> list[bytes]:
    return unpack(zlib.decompress(block, _WINDOW_BITS)) if isinstance(block, bytes) else block
