"""Encryption: what a store sees, what it may not do to it, and changes of keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from projector.store.encryption import OVERHEAD_BYTES, EncryptedStore
from projector.store.memory import MemoryStore
from projector.store.protocol import StoreUnavailableError
from tests.store.rigs import batch, frames, head, read_all

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = b"a secret"


class Run:
    """A store, and what it keeps."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.store = EncryptedStore(self.inner, [OLD])

    async def fill(self) -> None:
        assert await self.store.open(head()._replace(meta=SECRET))
        assert await self.store.open(head("t"))
        assert await self.store.append([batch(1, 3), batch(1, 3, "t")]) == {}
        await self.store.put("owner", {"a": SECRET}, 60)
        await self.store.put("owner", {"b": b"another"}, 60)
        await self.store.put("other", {"a": b"another"}, 60)


@pytest.fixture
async def run() -> Run:
    made = Run()
    await made.fill()
    return made


async def test_a_store_sees_no_content(run: Run) -> None:
    page = await run.inner.read("s", 0, 10_000)
    status = await run.inner.find("s")
    (value,) = await run.inner.get("owner", ["a"])
    assert status is not None
    assert value is not None
    assert [len(frame) - OVERHEAD_BYTES for frame in page.frames] == [len(frame) for frame in frames(1, 3)]
    stored = b"".join([*page.frames, status.head.meta, value])
    assert b"event_id" not in stored
    assert SECRET not in stored
    assert len(set(page.frames)) == 3


async def _swapped_frames(run: Run) -> None:
    log = run.inner._open["s"].frames._last
    log[0], log[1] = log[1], log[0]
    await run.store.read("s", 0, 10_000)


async def _frame_of_another_stream(run: Run) -> None:
    run.inner._open["s"].frames._last[0] = run.inner._open["t"].frames._last[0]
    await run.store.read("s", 0, 10_000)


async def _altered_frame(run: Run) -> None:
    frame = run.inner._open["s"].frames._last[0]
    run.inner._open["s"].frames._last[0] = frame[:-1] + bytes([frame[-1] ^ 1])
    await run.store.read("s", 0, 10_000)


async def _empty_frame(run: Run) -> None:
    run.inner._open["s"].frames._last[0] = b""
    await run.store.read("s", 0, 10_000)


async def _another_owner(run: Run) -> None:
    log = run.inner._open["s"]
    log.head = log.head._replace(owner="mallory")
    await run.store.find("s")


async def _meta_of_another_stream(run: Run) -> None:
    log, other = run.inner._open["s"], run.inner._open["t"]
    log.head = log.head._replace(meta=other.head.meta)
    await run.store.find("s")


async def _value_of_another_key(run: Run) -> None:
    (value,) = await run.inner.get("owner", ["b"])
    await run.inner.put("owner", {"a": value or b""}, 60)
    await run.store.get("owner", ["a"])


async def _value_of_another_kind(run: Run) -> None:
    (value,) = await run.inner.get("other", ["a"])
    await run.inner.put("owner", {"a": value or b""}, 60)
    await run.store.get("owner", ["a"])


@pytest.mark.parametrize(
    "attack",
    [
        _swapped_frames,
        _frame_of_another_stream,
        _altered_frame,
        _another_owner,
        _meta_of_another_stream,
        _value_of_another_key,
        _value_of_another_kind,
    ],
)
async def test_what_was_moved_or_altered_is_noticed(run: Run, attack: Callable[[Run], Awaitable[None]]) -> None:
    with pytest.raises(StoreUnavailableError, match="altered"):
        await attack(run)


async def test_keys_are_changed_one_after_the_other(run: Run) -> None:
    both = EncryptedStore(run.inner, [NEW, OLD])
    assert await read_all(both) == frames(1, 3)
    assert await both.append([batch(4, 5)]) == {}
    await both.put("owner", {"a": b"new"}, 60)
    new = EncryptedStore(run.inner, [NEW])
    assert await read_all(new, after=3) == frames(4, 5)
    assert await new.get("owner", ["a"]) == [b"new"]
    for use in (new.read("s", 0, 10_000), new.find("s"), new.get("owner", ["b"])):
        with pytest.raises(StoreUnavailableError, match="key that is not configured"):
            await use
    assert await read_all(both) == frames(1, 5)
    assert await new.open(head("u")._replace(meta=SECRET))
    assert {status.head.stream_id: status.head.meta for status in await new.recent(9)} == {
        "s": b"",
        "t": b"",
        "u": SECRET,
    }


async def test_what_is_not_encrypted_is_not_read(run: Run) -> None:
    with pytest.raises(StoreUnavailableError, match="not configured"):
        await _empty_frame(run)


@pytest.mark.parametrize("keys", [[], [b"short"], [OLD, OLD]], ids=["none", "short", "twice"])
def test_keys_that_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="expected different keys of 32 bytes"):
        EncryptedStore(MemoryStore(), keys)
