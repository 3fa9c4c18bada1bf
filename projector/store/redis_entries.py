"""The log of a stream as a Redis stream.

- The first entry, `0-1`, marks the beginning and has no frames.
- An entry with frames has the number of its last frame as its ID, and the fields `n`, their number, and `f`.
- The seal has the highest ID that exists: Redis then refuses every further entry of any caller. It has the fields `a`,
  the number of its first frame, `n`, `f`, `r`, the reason, `t`, the time in milliseconds, and `e`, the ending.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from projector.store.packing import pack, unpack
from projector.store.protocol import Batch, Page, Seal, StoreLimits, TrimmedError
from projector.store.redis_connection import Command

END: Final = "18446744073709551615-18446744073709551615"
BEGIN: Final = "0-1"
_END_NUMBER: Final = 2**64 - 1

ENTRY_BYTES: Final = 64
"""Memory of an entry besides its content."""
_PARTS: Final = 32
"""Parts of a log that are removed as a whole; so a trim needs no list of all its entries."""

GROUPS: Final = 32
"""Hash tags of streams. In a cluster one `XREAD` waits for keys of one slot only, so each takes a connection."""

RawEntry: TypeAlias = tuple[bytes, dict[bytes, bytes]]


def _tags() -> tuple[str, ...]:
    """Return a hash tag for each group; their slots are spread evenly over those that a cluster has."""
    found: dict[int, str] = {}
    for number in range(REDIS_CLUSTER_HASH_SLOTS):
        found.setdefault(key_slot(b"%d" % number) * GROUPS // REDIS_CLUSTER_HASH_SLOTS, str(number))
        if len(found) == GROUPS:
            break
    return tuple(f"{{{found[group]}}}:" for group in range(GROUPS))


TAGS: Final = _tags()


def tag_of(stream_id: str) -> str:
    """Return what the names of all keys of a stream begin with, after the prefix: it puts them into one slot."""
    return TAGS[zlib.crc32(stream_id.encode()) % GROUPS]


def begin_entry(key: str) -> Command:
    """Return the command that creates a log."""
    return ("XADD", key, BEGIN, "o", 1)


def batch_entry(key: str, batch: Batch, packed: bytes) -> Command:
    """Return the command that appends a batch. It answers with None if there is no such log."""
    last = batch.first + len(batch.frames) - 1
    return ("XADD", key, "NOMKSTREAM", f"{last}-0", "n", len(batch.frames), "f", packed)


def seal_entry(key: str, first: int, frames: Sequence[bytes], seal: Seal) -> Command:
    """Return the command that closes a log."""
    fields = ("a", first, "n", len(frames), "f", pack(frames), "r", seal.reason, "t", seal.at_ms, "e", seal.ending)
    return ("XADD", key, "NOMKSTREAM", END, *fields)


def number_of(entry: RawEntry) -> int:
    """Return the number of the last frame of an entry that is no seal; 0 for the first entry."""
    return int(entry[0].partition(b"-")[0])


def is_seal(entry: RawEntry) -> bool:
    """Return whether an entry is the seal."""
    return number_of(entry) == _END_NUMBER


def seal_of(entry: RawEntry) -> Seal:
    """Return the seal of its entry."""
    fields = entry[1]
    return Seal(fields[b"r"].decode(), int(fields[b"t"]), fields.get(b"e", b""))


def ends(newest: Sequence[RawEntry]) -> tuple[int, Seal | None]:
    """Return the number of the last frame and the seal, from the last two entries, the last one first."""
    if not newest:
        return 0, None
    if not is_seal(newest[0]):
        return number_of(newest[0]), None
    fields = newest[0][1]
    if count := int(fields[b"n"]):
        return int(fields[b"a"]) + count - 1, seal_of(newest[0])
    return number_of(newest[1]) if len(newest) > 1 else 0, seal_of(newest[0])


def first_of(entry: RawEntry) -> int:
    """Return the number of the first frame of an entry."""
    return int(entry[1][b"a"]) if is_seal(entry) else number_of(entry) - int(entry[1][b"n"]) + 1


def page_of(entries: Iterable[RawEntry], after: int, max_bytes: int) -> Page:
    """Return the frames after a number; see `Store.read`."""
    frames: list[bytes] = []
    size, expected = 0, after + 1
    for entry in entries:
        if b"f" not in entry[1]:
            continue
        packed = unpack(entry[1][b"f"])
        first = first_of(entry) if packed else expected
        if first > expected:
            if not frames:
                raise TrimmedError("the next frames of the stream are not kept any more")
            return Page(after + 1, frames, None)
        for frame in packed[expected - first :]:
            size += len(frame)
            if size > max_bytes and frames:
                return Page(after + 1, frames, None)
            frames.append(frame)
        expected = after + 1 + len(frames)
        if is_seal(entry):
            return Page(after + 1, frames, seal_of(entry))
    return Page(after + 1, frames, None)


class Written:
    """What this process has appended to a log.

    Args:
        owner: of the stream.
        last: number of the last frame.
        limits: of the log.
    """

    def __init__(self, owner: str, last: int, limits: StoreLimits) -> None:
        self.owner = owner
        self.last = last
        self.last_batch: tuple[int, int] = (0, 0)
        """First and last number of the last batch."""
        self.size = 0
        self.place: tuple[str, int] = "", -1
        """See `Servers.state_of`; the log had all frames up to the last one then."""
        self._limits = limits
        self._parts: deque[tuple[int, int]] = deque()
        """Last number and size of each part that is complete."""
        self._part_first, self._part_size = last + 1, 0
        self._first = last + 1

    def add(self, batch: Batch, size: int) -> int | None:
        """Record a batch that was appended; return the number of the first frame to keep if the log must be trimmed."""
        limits = self._limits
        is_full = self._part_size + size > limits.stream_bytes // _PARTS
        if self._part_size and (is_full or self.last - self._part_first >= limits.stream_frames // _PARTS):
            self._parts.append((self.last, self._part_size))
            self._part_first, self._part_size = self.last + 1, 0
        self.last = batch.first + len(batch.frames) - 1
        self.last_batch = (batch.first, self.last)
        self._part_size += size
        self.size += size
        before = self._first
        while self._parts and (self.size > limits.stream_bytes or self.last - self._first >= limits.stream_frames):
            last, freed = self._parts.popleft()
            self._first = last + 1
            self.size -= freed
        return self._first if self._first > before else None
