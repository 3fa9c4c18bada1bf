"""The store in a file: restarts, and files that cannot be used."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from projector.store import sqlite
from projector.store.protocol import INTERRUPTED, RENEWAL_S, Batch, StoreLimits, StoreUnavailableError
from projector.store.sqlite import SqliteStore
from tests.store.rigs import SMALL, Clock, batch, frames, head, read_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


async def test_what_was_written_survives_a_restart(path: Path) -> None:
    clock = Clock()
    store = SqliteStore(path, SMALL, clock)
    for stream_id in ("sealed", "open"):
        assert await store.open(head(stream_id))
        await store.append([batch(1, 3, stream_id)])
    await store.seal("sealed", first=4, frames=frames(4, 4))
    await store.put("owner", {"response": b"ann"}, 60)
    await store.aclose()

    store = SqliteStore(path, SMALL, clock)
    assert not await store.open(head("open"))
    assert await read_all(store, "sealed") == frames(1, 4)
    assert await store.get("owner", ["response"]) == [b"ann"]
    page = await store.read("open", 0, 1_000)
    assert (page.frames, page.seal) == (frames(1, 3), None)
    await store.wait("open", 3, 60)
    page = await store.read("open", 3, 1_000)
    assert page.seal is not None
    assert page.seal.reason == INTERRUPTED
    await store.aclose()


async def test_a_clock_that_is_set_ends_no_stream(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, now_s = SqliteStore(path), time.time()
    assert await store.open(head())
    for ahead_s in (3_600, 100_800, -100_800):
        monkeypatch.setattr(time, "time", lambda ahead_s=ahead_s: now_s + ahead_s)
        assert (await store.read("s", 0, 1_000)).seal is None
    assert await store.seal("s", first=1, frames=frames(1, 1))
    await store.aclose()


KILLED = """
import asyncio, os, sys
from pathlib import Path
from projector.store.sqlite import SqliteStore
from tests.store.rigs import batch, head

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open(head())
    await store.append([batch(1, 50)])
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_what_was_written_survives_the_death_of_the_process(path: Path) -> None:
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, str(path)], check=False)
    store = SqliteStore(path)
    status = await store.find("s")
    assert status is not None
    assert (status.last, status.seal and status.seal.reason) == (50, INTERRUPTED)
    await store.aclose()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
async def test_only_the_user_can_read_the_files(path: Path) -> None:
    store = SqliteStore(path)
    await store.open(head())
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {f"store.sqlite{end}": 0o600 for end in ("", "-wal", "-shm", ".lock")}
    await store.aclose()


@pytest.mark.parametrize("how", ["deleted", "expired"])
async def test_no_file_has_what_was_removed(path: Path, how: str) -> None:
    clock = Clock()
    store = SqliteStore(path, SMALL, clock)
    assert await store.open(head())
    await store.append([Batch("s", 1, [b'"a-canary"' * 900])])
    await store.seal("s", reason="x", ending=b'"a-canary"')
    assert b"a-canary" in b"".join(one.read_bytes() for one in path.parent.iterdir())
    if how == "deleted":
        await store.delete("s")
    else:
        clock.now_s += SMALL.retention_s + 1
        assert await store.open(head("t"))
    assert b"a-canary" not in b"".join(one.read_bytes() for one in path.parent.iterdir())
    await store.aclose()


def _below_a_file(path: Path) -> Path:
    path.write_bytes(b"")
    return path / "store.sqlite"


def _text(path: Path) -> Path:
    path.write_bytes(b"no database" * 999)
    return path


def _damaged(path: Path) -> Path:
    """Return a file with a good header and nothing behind it."""
    _foreign(path)
    path.write_bytes(path.read_bytes()[:1_000] + bytes(7_192))
    return path


def _foreign(path: Path) -> Path:
    """Return a database of another program."""
    code = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript('CREATE TABLE a (b); PRAGMA user_version = 7')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    return path


def _earlier(path: Path) -> Path:
    """Return a store of an earlier version of this project."""
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE streams (id TEXT); PRAGMA user_version = 3")
    connection.close()
    return path


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_below_a_file, "File exists"),
        (_folder, "cannot be opened"),
        (_text, "not a database"),
        (_damaged, "damaged"),
        (_foreign, "has version 7"),
        (_earlier, "has version 3, expected 4: move it away to start with an empty store"),
    ],
)
async def test_a_file_that_cannot_be_used(path: Path, make: Callable[[Path], Path], reason: str) -> None:
    store = SqliteStore(make(path))
    for use in (store.ping, lambda: store.open(head()), lambda: store.read("s", 0, 1), lambda: store.get("k", ["a"])):
        with pytest.raises(StoreUnavailableError, match=reason) as error:
            await use()
        assert re.match("store `.*store.sqlite`: ", str(error.value))
    await store.aclose()


async def test_a_file_has_one_process(path: Path) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    await first.open(head())
    with pytest.raises(StoreUnavailableError, match="another process uses the file"):
        await second.ping()
    await first.aclose()
    await second.ping()
    await second.aclose()


async def _result(call: Awaitable[object]) -> str:
    """Return the message of the error, empty without one."""
    try:
        await call
    except StoreUnavailableError as error:
        return str(error)
    return ""


async def test_a_full_disk(path: Path) -> None:
    """The maximum of pages is what SQLite reports like a full disk."""
    store = SqliteStore(path, StoreLimits(total_bytes=1_000_000, values=10**9))
    assert await store.open(head())
    await store.append([batch(1, 3)])
    results = [await _result(store.put("k", {str(number): bytes(2**20)}, 60)) for number in range(30)]
    assert 10 < results.count("") < 20
    assert "the disk is full" in results[-1]
    with pytest.raises(StoreUnavailableError):
        await store.append([batch(4, 4), batch(5, 3_000_000 // 40, size=40)])
    assert (await store.read("s", 0, 10**6)).frames == frames(1, 3), "all of a call, or nothing"
    await store.update("k", ["0"], lambda _: [None], 0)
    assert await store.append([batch(4, 4)]) == {}
    await store.aclose()


def _no_room(*_: object, **__: object) -> sqlite3.Connection:
    raise sqlite3.OperationalError("unable to open database file")


async def test_a_disk_stays_full_until_something_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path, StoreLimits(total_bytes=1_000_000, values=10**9))
    assert await store.open(head())
    await store.append([batch(1, 3)])
    for size in (2**20, 2**14, 2**10):
        while not await _result(store.put("k", {os.urandom(8).hex(): bytes(size)}, 60)):
            pass
    monkeypatch.setattr(sqlite3, "connect", _no_room)
    for _ in range(2):
        assert (await store.renew(["s"]))["s"].lost is None, "nothing was written"
        assert (await store.read("s", 0, 10**6)).frames == frames(1, 3)
        for use in (store.ping(), store.read("s", 3, 10**6)):
            assert "the disk is full" in await _result(use)
    monkeypatch.undo()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM stored")
    connection.close()
    await store.ping()
    assert not (await store.read("s", 3, 10**6)).frames
    assert await store.get("probe", ["probe"]) == [None]
    await store.aclose()


async def test_a_file_that_others_lock_ends_no_stream(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process lives, though it could not renew the lease for longer than one lasts."""
    monkeypatch.setattr(sqlite, "_BUSY_S", 0.0)
    clock = Clock()
    store = SqliteStore(path, clock=clock)
    assert await store.open(head())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(4):
            clock.now_s += RENEWAL_S
            assert "another process has locked the file" in await _result(store.renew(["s"]))
    assert await store.append([batch(1, 1)]) == {}
    assert (await store.read("s", 1, 99)).seal is None
    await store.aclose()


@pytest.mark.parametrize(
    "remove",
    [
        pytest.param(lambda path: [one.unlink() for one in path.parent.iterdir()], id="deleted"),
        pytest.param(lambda path: path.rename(path.with_name("old")), id="moved"),
        pytest.param(lambda path: path.parent.rename(path.parent.with_name("old")), id="folder-moved"),
    ],
)
async def test_a_file_that_goes_while_it_is_used(path: Path, remove: Callable[[Path], object]) -> None:
    """What is written next is in a new file, instead of one that ends with the process."""
    path = path.parent / "folder" / path.name
    store, other = SqliteStore(path), SqliteStore(path)
    assert await store.open(head())
    remove(path)
    assert await store.append([batch(1, 1)]) == {"s": "unknown"}
    assert await store.open(head("t"))
    assert "another process uses the file" in await _result(other.ping())
    await store.aclose()
    assert await other.find("t") is not None
    await other.aclose()


async def test_a_file_that_is_replaced_while_it_is_used(path: Path) -> None:
    """The log of SQLite, with what is not in its file yet, belongs to the file that was moved away."""
    store = SqliteStore(path)
    assert await store.open(head("first"))
    backup = path.with_name("backup")
    with closing(sqlite3.connect(path)) as other:
        other.execute("VACUUM INTO ?", (str(backup),))
    ids = [f"later-{number}" for number in range(50)]
    for one in ids:
        assert await store.open(head(one))
    _replace(path, backup)
    assert [one.head.stream_id for one in await store.recent(99)] == ["first"]
    assert await store.open(head("last"))
    await store.aclose()
    old = SqliteStore(path.with_name("old"))
    assert {one.head.stream_id for one in await old.recent(99)} == {"first", *ids}
    await old.aclose()


def _replace(path: Path, backup: Path) -> None:
    path.rename(path.with_name("old"))
    backup.rename(path)


def _overwrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:8_192] + Random(1).randbytes(len(content) - 8_192))


async def test_a_file_that_was_damaged_while_it_is_used(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(20):
        await store.open(head(f"s{number}"))
        await store.append([batch(1, 100, f"s{number}", size=500)])
    await store.aclose()
    _overwrite(path)
    store = SqliteStore(path)
    results = [await _result(read_all(store, f"s{number}", max_bytes=10**6)) for number in range(20)]
    assert "the file is damaged" in " ".join(results)
    await store.aclose()


async def test_a_closed_store_refuses(path: Path) -> None:
    store = SqliteStore(path)
    await store.ping()
    await store.aclose()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.ping()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.get("k", ["a"])
