"""The threads of a SQLite store: one writes, in transactions of many steps; one reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Final, NamedTuple, TypeVar

from projector.store.protocol import StoreError, StoreLimits, StoreUnavailableError
from projector.store.sqlite_tables import Writing, create

T = TypeVar("T")

STEPS_MAX: Final = 256
"""Steps in a transaction. More would gain little, and the first would wait."""
_FILE_FACTOR: Final = 3
_FILE_SPARE: Final = 16 * 2**20
"""The file may have three times the size of all logs and 16 MB: for indexes, values, and pages that are partly used."""
_BUSY_S: Final = 2.0

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


class _Step(NamedTuple):
    run: Callable[[Writing], Any]
    future: asyncio.Future[Any]


class Threads:
    """The file, and its two threads. It is opened when it is first used, and again after a failure to open it.

    Args:
        path: of the file; it is created, with a second one to lock it.
        limits: what is kept.
        clock: returns seconds since 1970-01-01 UTC.
    """

    def __init__(self, path: Path, limits: StoreLimits, clock: Callable[[], float]) -> None:
        self._path = path
        self._limits = limits
        self._clock = clock
        self._lock: IO[bytes] | None = None
        self._steps: SimpleQueue[_Step | None] = SimpleQueue()
        self._writer: Thread | None = None
        self._reader = ThreadPoolExecutor(1, "store-reader")
        self._reading: sqlite3.Connection | None = None
        self._is_open = False
        """Whether the writer has the file: it creates, checks and locks it before it is read."""
        self._is_closed = False
        self.failure = ""
        """Why the last transaction that was to change something failed; empty if it did not."""

    async def write(self, run: Callable[[Writing], T]) -> T:
        """Run a step in the next transaction; return its result when that is committed.

        Raises:
            StoreUnavailableError: the transaction failed; none of its steps has changed anything.
        """
        if self._is_closed:
            raise StoreUnavailableError("the store is closed")
        if self._writer is None:
            self._writer = Thread(target=self._write_all, name="store-writer", daemon=True)
            self._writer.start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._steps.put(_Step(run, future))
        return await future

    async def read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Run a step that reads what is committed."""
        if self._is_closed:
            raise StoreUnavailableError("the store is closed")
        if not self._is_open:
            await self.write(lambda _: None)
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read, run)

    async def aclose(self) -> None:
        """Finish what was asked for, and close the file."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._reader, self._close_reading)
        self._reader.shutdown(wait=False)
        if self._writer is not None:
            self._steps.put(None)
            await loop.run_in_executor(None, self._writer.join)

    def _read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._reading is None:
                self._reading = self._connect()
            return run(self._reading)
        except (sqlite3.Error, ValueError) as error:
            self._close_reading()
            raise unavailable(self._path, error) from error

    def _close_reading(self) -> None:
        if self._reading is not None:
            with contextlib.suppress(sqlite3.Error):
                self._reading.close()
            self._reading = None

    def _write_all(self) -> None:
        """Run steps until there is a None."""
        writing: Writing | None = None
        steps: list[_Step | None] = []
        while None not in steps:
            steps = [self._steps.get()]
            while not self._steps.empty() and len(steps) < STEPS_MAX:
                steps.append(self._steps.get())
            asked = [step for step in steps if step is not None]
            try:
                writing = writing or self._open()
                self._is_open = True
                before = writing.connection.total_changes
                results = _transaction(writing, asked)
                if writing.connection.total_changes != before:
                    self.failure = ""
                _report(asked, results)
            except (sqlite3.Error, OSError) as error:
                failed = unavailable(self._path, error)
                self.failure = str(failed)
                _report(asked, [failed] * len(asked))
                writing = _roll_back(writing)
                self._is_open = writing is not None
        if writing is not None:
            writing.connection.close()
        if self._lock is not None:
            self._lock.close()

    def _open(self) -> Writing:
        _create_file(self._path)
        self._lock = self._lock or _locked(self._path.with_name(f"{self._path.name}.lock"))
        connection = self._connect()
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the process loses nothing
            create(connection)
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            pages = (_FILE_FACTOR * self._limits.total_bytes + _FILE_SPARE) // page_bytes
            connection.execute(f"PRAGMA max_page_count = {pages}")
            return Writing(connection, self._limits, self._clock)
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _transaction(writing: Writing, steps: list[_Step]) -> list[object]:
    """Run steps in one transaction, and return their results or the errors of those that refused."""
    results: list[object] = []
    connection = writing.connection
    connection.execute("BEGIN IMMEDIATE")
    for step in steps:
        try:
            results.append(step.run(writing))
        except StoreError as refusal:
            results.append(refusal)
    connection.execute("COMMIT")
    return results


def _roll_back(writing: Writing | None) -> Writing | None:
    """Undo a transaction; return None if the file has to be opened again."""
    if writing is None:
        return None
    try:
        if writing.connection.in_transaction:
            writing.connection.execute("ROLLBACK")
        writing.count()
    except sqlite3.Error:
        writing.connection.close()
        return None
    return writing


def _report(steps: list[_Step], results: list[Any]) -> None:
    for step, result in zip(steps, results, strict=True):
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            step.future.get_loop().call_soon_threadsafe(_settle, step.future, result)


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if future.done():  # the caller was cancelled
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _create_file(path: Path) -> None:
    """Create the file and its folder, readable by this user only: SQLite's other files get the same rights."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _locked(path: Path) -> IO[bytes]:
    """Lock a file until it is closed: a second process would take the streams of the first for interrupted."""
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
