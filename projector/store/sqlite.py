"""The store of one process in a file, which survives a restart. Leases and readers are in memory: they do not.

A thread does what is asked for, one transaction after another. `StreamLogs` collects the frames of all streams for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

from projector.store.budgets import Budgets, Change, SharedBudgets
from projector.store.memory import Live
from projector.store.protocol import (
    INTERRUPTED,
    Batch,
    Page,
    Refusal,
    Renewal,
    Store,
    StoreError,
    StoreLimits,
    StoreUnavailableError,
    StreamHead,
    StreamStatus,
)
from projector.store.sqlite_tables import Row, Tables, create

T = TypeVar("T")

_PROBE_BYTES: Final = 65_536
_PROBE_S: Final = 1.0
_FILE_FACTOR: Final = 3
_FILE_SPARE: Final = 16 * 2**20
"""The file may have three times the size of all logs and 16 MB: for indexes, values, and pages that are partly used."""
_BUSY_S: Final = 2.0
_TRUNCATE_S: Final = 10.0
"""Seconds after which the files have nothing of streams that were dropped, if streams go on: it waits for the disk."""

_REASONS: Final = {
    "SQLITE_FULL": "the disk is full, or the file has its maximum size",
    "SQLITE_CORRUPT": "the file is damaged: move it away to start with an empty store",
    "SQLITE_NOTADB": "the file is not a database: move it away to start with an empty store",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_READONLY": "the file cannot be written",
    "SQLITE_PERM": "the file cannot be written",
    "SQLITE_IOERR": "the disk does not read or write",
    "SQLITE_BUSY": "another process has locked the file",
}


def unavailable(path: Path, error: Exception) -> StoreUnavailableError:
    """Return the error that names what is wrong with the file."""
    name = getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"
    fitting = (reason for prefix, reason in _REASONS.items() if name.startswith(prefix))
    reason = next(fitting, error.strerror if isinstance(error, OSError) else str(error))
    return StoreUnavailableError(f"store `{path}`: {reason}")


@dataclass(slots=True, eq=False)
class _Produced(Live):
    """A stream that this process produces."""

    last: int = 0


class SqliteStore(Store):
    """The store in a file. See `projector.store.protocol.Store`.

    The file is opened when it is first used, and again after a failure to open it, or when it is gone. A stream that
    was open when the process ended has no lease: the first reader seals it.

    Args:
        path: of the file; it is created if it does not exist, with a second one to lock it.
        limits: what is kept.
        clock: returns seconds since 1970-01-01 UTC; by default one that is not adjusted while the process runs.
    """

    def __init__(self, path: Path, limits: StoreLimits | None = None, clock: Callable[[], float] | None = None) -> None:
        self._path = path
        self._limits = limits or StoreLimits()
        self._clock = clock or _steady_clock()
        self._live: dict[str, _Produced] = {}
        self.budgets: Budgets = SharedBudgets(self.update, self._clock)
        self._cancel: Callable[[str], None] = lambda _: None
        self._on_interrupted: Callable[[str], None] = lambda _: None
        self._thread = ThreadPoolExecutor(1, "store")
        self._lock: IO[bytes] | None = None
        self._tables: Tables | None = None
        self._file: tuple[int, int] | None = None
        """Identity of the open file."""
        self._is_closed = False
        self._truncated_s = 0.0
        self._failure = ""
        """Why the file could not be opened, or the last transaction failed; empty once one has changed something."""

    async def open(self, head: StreamHead) -> bool:
        """See `Store`."""
        is_new = await self._write(lambda tables: tables.open(head))
        if is_new:
            self._live[head.stream_id] = _Produced.begin(self._clock())
        return is_new

    async def append(self, batches: Sequence[Batch]) -> Mapping[str, Refusal]:
        """See `Store`."""
        refused = await self._write(lambda tables: tables.append(batches))
        for batch in batches:
            live = self._live.get(batch.stream_id)
            if (refusal := refused.get(batch.stream_id)) is not None:
                if refusal != "gap":
                    self._end(batch.stream_id)
            elif live is not None:
                live.last = batch.first + len(batch.frames) - 1
                live.wake()
        return refused

    async def seal(
        self, stream_id: str, *, first: int = 0, frames: Sequence[bytes] = (), reason: str = "", ending: bytes = b""
    ) -> bool:
        """See `Store`."""
        is_first = await self._write(lambda tables: tables.seal(stream_id, first, frames, reason, ending))
        self._end(stream_id)
        if is_first and reason:
            self._on_interrupted(stream_id)
        return is_first

    async def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """See `Store`."""
        page = await self._page(stream_id, after, max_bytes)
        if page.seal is not None or page.frames:
            return page
        if self._failure:  # what would follow may never be written
            raise StoreUnavailableError(self._failure)
        if self._is_leased(stream_id):
            return page
        await self.seal(stream_id, reason=INTERRUPTED)
        return await self._page(stream_id, after, max_bytes)

    async def _page(self, stream_id: str, after: int, max_bytes: int) -> Page:
        if (live := self._live.get(stream_id)) is not None:
            live.read_s = self._clock()
        return await self._read(lambda tables: tables.read(stream_id, after, max_bytes))

    async def wait(self, stream_id: str, after: int, timeout_s: float) -> None:
        """See `Store`."""
        live = self._live.get(stream_id)
        if live is not None and live.last <= after:
            await live.wait(timeout_s, self._clock)

    async def find(self, stream_id: str) -> StreamStatus | None:
        """See `Store`."""
        row = await self._row(stream_id)
        if row is not None and row.seal is None and not self._is_leased(stream_id):
            await self.seal(stream_id, reason=INTERRUPTED)
            row = await self._row(stream_id)
        if row is None:
            self._end(stream_id)
            return None
        return StreamStatus(row.head, row.first, row.last, row.seal)

    async def _row(self, stream_id: str) -> Row | None:
        return await self._read(lambda tables: tables.find(stream_id))

    async def recent(self, count: int, owner: str | None = None) -> Sequence[StreamStatus]:
        """See `Store`."""
        ids = await self._read(lambda tables: tables.recent(count, owner))
        return [status for one in ids if (status := await self.find(one)) is not None]

    async def delete(self, stream_id: str) -> None:
        """See `Store`. Then no file has what was deleted."""
        await self._write(lambda tables: tables.delete(stream_id))
        self._end(stream_id)
        await self._run(self._truncate)

    async def renew(self, stream_ids: Collection[str]) -> Mapping[str, Renewal]:
        """See `Store`."""
        known, now_s = self._live, self._clock()
        renewed = {one: known[one].renew(now_s) for one in stream_ids if one in known}  # even if the file is away
        lost = await self._write(lambda tables: tables.status_of(stream_ids))
        for stream_id, refusal in lost.items():
            if refusal is not None or stream_id not in renewed:
                self._end(stream_id)
                renewed[stream_id] = Renewal(refusal or "unknown", False, 0)
        return renewed

    async def request_cancel(self, stream_id: str) -> bool:
        """See `Store`."""
        row = await self._row(stream_id)
        live = self._live.get(stream_id)
        if row is None or row.seal is not None or live is None:
            return False
        if not live.cancel_requested:
            live.cancel_requested = True
            self._cancel(stream_id)
        return True

    def listen(self, on_cancel: Callable[[str], None], on_interrupted: Callable[[str], None], /) -> None:
        """See `Store`."""
        self._cancel, self._on_interrupted = on_cancel, on_interrupted

    async def claim(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """See `Store`."""
        return await self._write(lambda tables: tables.claim(kind, values, ttl_s))

    async def put(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> None:
        """See `Store`."""
        await self.update(kind, [*values], lambda _: [*values.values()], ttl_s)

    async def get(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store`."""
        return await self._read(lambda tables: [tables.get(kind, key) for key in keys])

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store`."""
        await self._write(lambda tables: tables.update(kind, keys, change, ttl_s))

    async def ping(self, place: str = "") -> None:  # noqa: ARG002 - there is one
        """See `Store`."""
        if not self._failure:
            await self._write(lambda tables: tables.sweep())
            return
        # nothing else shows that there is room again
        await self.put("probe", {"probe": bytes(_PROBE_BYTES)}, _PROBE_S)
        await self.update("probe", ["probe"], lambda _: [None], 0)

    async def aclose(self) -> None:
        """See `Store`."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)
        for stream_id in [*self._live]:
            self._end(stream_id)

    def _is_leased(self, stream_id: str) -> bool:
        live = self._live.get(stream_id)
        return live is not None and live.leased_until_s > self._clock()

    def _end(self, stream_id: str) -> None:
        live = self._live.pop(stream_id, None)
        if live is not None:
            live.wake()

    async def _write(self, run: Callable[[Tables], T]) -> T:
        """Run a step in a transaction.

        Raises:
            StoreUnavailableError: the transaction failed, and has changed nothing.
        """
        return await self._run(lambda: self._transaction(run))

    async def _read(self, run: Callable[[Tables], T]) -> T:
        """Run a step that reads."""
        return await self._run(lambda: run(self._opened()))

    async def _run(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise StoreUnavailableError("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._checked, work)

    # in the thread

    def _checked(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except UnicodeEncodeError:  # in an ID, an owner or a key: nothing is wrong with the file
            self._roll_back()
            raise
        except (sqlite3.Error, OSError, ValueError) as error:
            self._roll_back()
            raise unavailable(self._path, error) from error

    def _transaction(self, run: Callable[[Tables], T]) -> T:
        tables = self._opened()
        connection = tables.connection
        before = connection.total_changes
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = run(tables)
            except StoreError:  # what was dropped to make room stays dropped
                connection.execute("COMMIT")
                raise
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._failure = str(unavailable(self._path, error))
            raise
        if connection.total_changes != before:
            self._failure = ""
        if tables.has_dropped and self._clock() >= self._truncated_s + _TRUNCATE_S:
            self._truncate()
        return result

    def _truncate(self) -> None:
        """Empty the log of SQLite, which has pages as they were before."""
        tables = self._opened()
        with contextlib.suppress(sqlite3.Error):  # such as a full disk: it is tried again
            tables.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            tables.has_dropped, self._truncated_s = False, self._clock()

    def _opened(self) -> Tables:
        """Return the open file: it is created, locked and checked; again if it was deleted or moved away."""
        if self._tables is not None and _identity(self._path) != self._file:
            with contextlib.suppress(sqlite3.Error):  # else SQLite would take its log for that of the next file
                self._tables.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._close()
        if self._tables is None:
            try:
                self._tables = self._open()
            except (sqlite3.Error, OSError) as error:
                self._failure = str(unavailable(self._path, error))
                raise
        return self._tables

    def _open(self) -> Tables:
        _create_file(self._path)
        self._lock = self._lock or _locked(self._path.with_name(f"{self._path.name}.lock"))
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA secure_delete = ON")  # unused pages have zeros
            connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the process loses nothing
            create(connection)
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            pages = (_FILE_FACTOR * self._limits.total_bytes + _FILE_SPARE) // page_bytes
            connection.execute(f"PRAGMA max_page_count = {pages}")
            self._file = _identity(self._path)
            return Tables(connection, self._limits, self._clock)
        except BaseException:
            connection.close()
            raise

    def _roll_back(self) -> None:
        """Undo a transaction. The file stays open: on a full disk it may not be possible to open it again."""
        if self._tables is None:
            return
        connection = self._tables.connection
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._tables = Tables(connection, self._limits, self._clock)
        except sqlite3.Error:
            self._close_file()

    def _close_file(self) -> None:
        if self._tables is not None:
            with contextlib.suppress(sqlite3.Error):
                self._tables.connection.close()
            self._tables = None

    def _close(self) -> None:
        self._close_file()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what a file keeps when it is moved; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _steady_clock() -> Callable[[], float]:
    """Return a clock that shows the time of now, and goes on like `time.monotonic`: leases must not see a jump."""
    ahead_s = time.time() - time.monotonic()
    return lambda: ahead_s + time.monotonic()


def _create_file(path: Path) -> None:
    """Create the file and its folder, readable by this user only: SQLite's other files get the same rights."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _locked(path: Path) -> IO[bytes]:
    """Lock a file until it is closed: a second process would take the streams of the first for interrupted."""
    _create_file(path)
    file = path.open("ab")
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise sqlite3.OperationalError("another process uses the file") from error
    return file
