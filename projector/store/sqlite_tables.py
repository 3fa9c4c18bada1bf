"""The tables of a SQLite store.

`streams` has a row for each log, `entries` one for each batch of frames, `stored` one for each value. Times are seconds
since 1970-01-01 UTC.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from projector.store.budgets import Change
from projector.store.memory import Room
from projector.store.packing import frames_after, pack
from projector.store.protocol import (
    INTERRUPTED,
    Batch,
    Page,
    Refusal,
    Seal,
    StoreLimits,
    StreamHead,
    TrimmedError,
    UnknownStreamError,
)

SCHEMA_VERSION: Final = 4
STREAM_BYTES: Final = 1_000
"""Size of a stream without frames, with its rows in indexes."""
FRAME_BYTES: Final = 8
_TRIM_PART: Final = 8
"""An eighth of a log is removed at once."""

SCHEMA: Final = f"""
CREATE TABLE streams (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, producer TEXT NOT NULL,
    created_ms INTEGER NOT NULL, meta BLOB NOT NULL, opened_s REAL NOT NULL, first INTEGER NOT NULL DEFAULT 1,
    last INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL, reason TEXT, sealed_s REAL, ending BLOB
);
CREATE INDEX streams_by_owner ON streams (owner, sealed_s);
CREATE INDEX streams_by_seal ON streams (sealed_s);
CREATE TABLE entries (stream INTEGER NOT NULL, last INTEGER NOT NULL, first INTEGER NOT NULL, frames BLOB NOT NULL);
CREATE UNIQUE INDEX entries_by_number ON entries (stream, last);
CREATE TABLE stored (kind TEXT, key TEXT, value BLOB NOT NULL, until_s REAL NOT NULL, PRIMARY KEY (kind, key));
CREATE INDEX stored_by_end ON stored (until_s);
PRAGMA user_version = {SCHEMA_VERSION};
"""


class Row(NamedTuple):
    """A row of `streams`."""

    number: int
    id: str
    owner: str
    producer: str
    created_ms: int
    meta: bytes
    opened_s: float
    first: int
    last: int
    size: int
    reason: str | None
    sealed_s: float | None
    ending: bytes | None

    @property
    def head(self) -> StreamHead:
        """The head of the stream."""
        return StreamHead(self.id, self.owner, self.producer, self.created_ms, self.meta)

    @property
    def refusal(self) -> Refusal | None:
        """Why nothing can be appended."""
        return None if self.sealed_s is None else "sealed"

    @property
    def seal(self) -> Seal | None:
        """The seal of the stream."""
        if self.reason is None or self.sealed_s is None:
            return None
        return Seal(self.reason, int(1000 * self.sealed_s), self.ending or b"")


def create(connection: sqlite3.Connection) -> None:
    """Create the tables in a new file.

    Raises:
        sqlite3.DatabaseError: the file has other tables.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (found := version_problem(version)) is not None:
        raise sqlite3.DatabaseError(found)
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT;")


def version_problem(version: int) -> str | None:
    """Return what is wrong with the version of a file; None for ours, and for 0, a file without tables."""
    if version in {0, SCHEMA_VERSION}:
        return None
    return f"the file has version {version}, expected {SCHEMA_VERSION}: move it away to start with an empty store"


_RECENT: Final = (
    "SELECT id FROM streams WHERE sealed_s IS NULL AND (?1 IS NULL OR owner = ?1) ORDER BY number DESC LIMIT ?2",
    "SELECT id FROM streams WHERE sealed_s >= 0 AND (?1 IS NULL OR owner = ?1) ORDER BY sealed_s DESC LIMIT ?2",
)
"""Queries of streams that run, and of those that are sealed; an index has their order."""


_FIRST_SEALED: Final = "SELECT number, owner, size FROM streams WHERE sealed_s IS NOT NULL ORDER BY sealed_s LIMIT 1"
_FIRST_SEALED_OF: Final = (
    "SELECT number, owner, size FROM streams WHERE owner = ? AND sealed_s IS NOT NULL ORDER BY sealed_s LIMIT 1"
)


class Tables:
    """The steps, each within a transaction of its caller. An object belongs to the thread of the store.

    Args:
        connection: to the file.
        limits: what is kept.
        clock: returns seconds since 1970-01-01 UTC.
    """

    def __init__(self, connection: sqlite3.Connection, limits: StoreLimits, clock: Callable[[], float]) -> None:
        self.connection = connection
        self.has_dropped = False
        """Whether streams were dropped that the log of SQLite may still have."""
        self._limits = limits
        self._clock = clock
        self._room = Room(limits, STREAM_BYTES, self._drop_sealed)
        for owner, streams, size in self.connection.execute(
            "SELECT owner, count(*), sum(size) FROM streams GROUP BY owner"
        ):
            self._room.add(owner, streams, size)

    def find(self, stream_id: str) -> Row | None:
        """Return the row of a log that has not expired."""
        found = self.connection.execute("SELECT * FROM streams WHERE id = ?", (stream_id,)).fetchone()
        row, now_s, limits = None if found is None else Row(*found), self._clock(), self._limits
        if row is None or (row.opened_s + limits.open_max_s <= now_s and row.sealed_s is None):
            return None
        return None if row.sealed_s is not None and row.sealed_s + limits.retention_s <= now_s else row

    def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """See `Store.read`."""
        row = self.find(stream_id)  # before the entries: a seal seen here has its frames there
        if row is None:
            raise UnknownStreamError("there is no such stream")
        if after < row.first - 1:
            raise TrimmedError("the next frames of the stream are not kept any more")
        entries = self.connection.execute(
            "SELECT first, frames FROM entries WHERE stream = ? AND last > ? ORDER BY last", (row.number, after)
        )
        frames, _ = frames_after(entries, after, max_bytes)
        return Page(after + 1, frames, row.seal if after + len(frames) >= row.last else None)

    def recent(self, count: int, owner: str | None) -> list[str]:
        """Return the IDs of streams, those that run first; see `Store.recent`."""
        found: list[str] = []
        for query in _RECENT:
            found += [one for (one,) in self.connection.execute(query, (owner, count - len(found)))]
        return found

    def get(self, kind: str, key: str) -> bytes | None:
        """Return a value that has not expired."""
        query = "SELECT value FROM stored WHERE kind = ? AND key = ? AND until_s > ?"
        found = self.connection.execute(query, (kind, key, self._clock())).fetchone()
        return None if found is None else bytes(found[0])

    def open(self, head: StreamHead) -> bool:
        """See `Store.open`."""
        self.sweep()
        if self.find(head.stream_id) is not None:
            return False
        self._room.make(head.owner)
        self.connection.execute(
            "INSERT INTO streams (id, owner, producer, created_ms, meta, opened_s, size) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*head[:4], head.meta, self._clock(), STREAM_BYTES),
        )
        self._room.add(head.owner, 1, STREAM_BYTES)
        return True

    def append(self, batches: Iterable[Batch]) -> dict[str, Refusal]:
        """See `Store.append`."""
        refused: dict[str, Refusal] = {}
        for batch in batches:
            row = self.find(batch.stream_id)
            if row is None:
                refused[batch.stream_id] = "unknown"
            elif row.refusal is not None:
                refused[batch.stream_id] = row.refusal
            elif batch.first == row.last + 1:
                self._extend(row, batch.frames)
            elif not self._is_repeated(row, batch):
                refused[batch.stream_id] = "gap"
        return refused

    def seal(self, stream_id: str, first: int, frames: Sequence[bytes], reason: str, ending: bytes) -> bool:
        """See `Store.seal`."""
        row = self.find(stream_id)
        if row is None or row.sealed_s is not None:
            return False
        if frames and first != row.last + 1:
            frames, reason, ending = (), INTERRUPTED, b""
        if frames:
            self._extend(row, frames)
        self.connection.execute(
            "UPDATE streams SET reason = ?, sealed_s = ?, ending = ?, size = size + ? WHERE number = ?",
            (reason, self._clock(), ending, len(ending), row.number),
        )
        self._room.add(row.owner, 0, len(ending))
        return True

    def delete(self, stream_id: str) -> None:
        """See `Store.delete`."""
        row = self.find(stream_id)
        if row is not None:
            self._drop(row.number, row.owner, row.size)

    def status_of(self, stream_ids: Iterable[str]) -> dict[str, Refusal | None]:
        """Return for each stream why it cannot be continued, None if it can."""
        rows = {stream_id: self.find(stream_id) for stream_id in stream_ids}
        return {key: "unknown" if row is None else row.refusal for key, row in rows.items()}

    def claim(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> dict[str, bytes]:
        """See `Store.claim`."""
        stored: dict[str, bytes] = {}
        for key, value in values.items():
            found = self.get(kind, key)
            stored[key] = value if found is None else found
            if found is None:
                self._put(kind, key, value, ttl_s)
        return stored

    def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store.update`."""
        changed = change([self.get(kind, key) for key in keys])
        for key, value in zip(keys, changed or (), strict=changed is not None):
            if value is None:
                self.connection.execute("DELETE FROM stored WHERE kind = ? AND key = ?", (kind, key))
            else:
                self._put(kind, key, value, ttl_s)

    def _put(self, kind: str, key: str, value: bytes, ttl_s: float) -> None:
        until_s = self._clock() + ttl_s
        self.connection.execute("INSERT OR REPLACE INTO stored VALUES (?, ?, ?, ?)", (kind, key, value, until_s))

    def sweep(self) -> None:
        """Drop what has expired, and values over their limit: those that would expire first."""
        now_s, limits = self._clock(), self._limits
        old = self.connection.execute(
            "SELECT number, owner, size FROM streams WHERE sealed_s <= ? OR sealed_s IS NULL AND opened_s <= ?",
            (now_s - limits.retention_s, now_s - limits.open_max_s),
        )
        for found in old.fetchall():
            self._drop(*found)
        self.connection.execute("DELETE FROM stored WHERE until_s <= ?", (now_s,))
        kinds = self.connection.execute(
            "SELECT kind, count(*) FROM stored GROUP BY kind HAVING count(*) > ?", (limits.values,)
        )
        for kind, count in kinds.fetchall():
            self.connection.execute(
                "DELETE FROM stored WHERE rowid IN (SELECT rowid FROM stored WHERE kind = ? ORDER BY until_s LIMIT ?)",
                (kind, count - limits.values),
            )

    def _extend(self, row: Row, frames: Sequence[bytes]) -> None:
        size = sum(map(len, frames)) + FRAME_BYTES * len(frames)
        last = row.last + len(frames)
        self.connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?)", (row.number, last, row.last + 1, pack(frames))
        )
        self.connection.execute(
            "UPDATE streams SET last = ?, size = size + ? WHERE number = ?", (last, size, row.number)
        )
        self._room.add(row.owner, 0, size)
        row = row._replace(last=last, size=row.size + size)
        limits = self._limits
        row = self._trim(row, limits.stream_bytes)
        if (over := self._room.shrink(row.owner)) > 0:
            self._trim(row, row.size - over)

    def _trim(self, row: Row, max_bytes: int) -> Row:
        """Remove the first entries of a log that is over a limit, and return its new row."""
        limits = self._limits
        if row.size <= max_bytes and row.last - row.first < limits.stream_frames:
            return row
        kept = min(limits.stream_frames, row.last - row.first + 1) * (_TRIM_PART - 1) // _TRIM_PART
        first, freed = row.first, 0
        for one, last, packed_bytes in self.connection.execute(
            "SELECT first, last, length(frames) FROM entries WHERE stream = ? ORDER BY last", (row.number,)
        ):
            if row.last - one < kept and row.size - freed <= max_bytes:
                break
            first = last + 1
            freed += packed_bytes + (FRAME_BYTES - 4) * (last - one + 1)
        self.connection.execute("DELETE FROM entries WHERE stream = ? AND last < ?", (row.number, first))
        self.connection.execute(
            "UPDATE streams SET first = ?, size = size - ? WHERE number = ?", (first, freed, row.number)
        )
        self._room.add(row.owner, 0, -freed)
        return row._replace(first=first, size=row.size - freed)

    def _drop_sealed(self, owner: str | None) -> bool:
        """Drop the log that was sealed first, of an owner or of all; return whether there was one."""
        query, given = (_FIRST_SEALED, ()) if owner is None else (_FIRST_SEALED_OF, (owner,))
        found = self.connection.execute(query, given).fetchone()
        if found is not None:
            self._drop(*found)
        return found is not None

    def _drop(self, number: int, owner: str, size: int) -> None:
        self.connection.execute("DELETE FROM entries WHERE stream = ?", (number,))
        self.connection.execute("DELETE FROM streams WHERE number = ?", (number,))
        self._room.add(owner, -1, -size)
        self.has_dropped = True

    def _is_repeated(self, row: Row, batch: Batch) -> bool:
        last = batch.first + len(batch.frames) - 1
        found = self.connection.execute(
            "SELECT 1 FROM entries WHERE stream = ? AND last = ? AND first = ?", (row.number, last, batch.first)
        ).fetchone()
        return found is not None
