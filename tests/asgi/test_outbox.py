from __future__ import annotations

import asyncio

from projector.asgi.memory import Account, Memory
from projector.asgi.outbox import Outbox


async def test_what_waits_is_taken_at_once_and_in_order() -> None:
    outbox = Outbox(100, Account(Memory(1000)))
    for part in (b"a", b"", b"b", b"c"):
        outbox.add(part)
    assert await outbox.take() == b"abc"
    assert outbox.is_empty


async def test_take_waits_for_bytes_and_ends_with_none() -> None:
    outbox = Outbox(100, Account(Memory(1000)))
    taking = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    outbox.add(b"a")
    assert await taking == b"a"
    outbox.close()
    outbox.add(b"too late")
    assert await outbox.take() == b""
    assert outbox.is_drained


async def test_what_was_added_before_the_close_is_still_taken() -> None:
    outbox = Outbox(100, Account(Memory(1000)))
    outbox.add(b"a")
    outbox.close()
    assert not outbox.is_drained
    assert await outbox.take() == b"a"
    assert outbox.is_drained


async def test_it_is_full_until_the_taker_comes_back() -> None:
    outbox = Outbox(2, Account(Memory(1000)))
    outbox.add(b"ab")
    assert not outbox.is_full
    outbox.add(b"c")
    assert outbox.is_full
    room = asyncio.create_task(outbox.room())
    assert await outbox.take() == b"abc"
    await asyncio.sleep(0)
    assert not room.done()  # the bytes are with the taker, and still in memory
    taking = asyncio.create_task(outbox.take())
    await asyncio.wait_for(room, 1)
    outbox.close()
    assert await taking == b""


async def test_adding_is_not_lost_when_waiting_for_room_is_cancelled() -> None:
    outbox = Outbox(1, Account(Memory(1000)))
    outbox.add(b"ab")
    room = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    room.cancel()
    assert await outbox.take() == b"ab"


async def test_while_the_budget_is_spent_any_byte_is_too_many() -> None:
    memory = Memory(10)
    outbox, other = Outbox(100, Account(memory)), Account(memory)
    outbox.add(b"abc")
    assert not outbox.is_full
    other.hold(7)
    assert outbox.is_full
    assert await outbox.take() == b"abc"
    assert memory.held_bytes == 10
    outbox.close()
    await outbox.take()
    assert not outbox.is_full
    assert memory.held_bytes == 7
