from __future__ import annotations

import asyncio
import time

import pytest

from projector.server.streaming.memory import LARGE_EVENT_BYTES, SMALL_BYTES, TEXT_COPIES, Account, Memory


@pytest.mark.parametrize(
    ("name", "chunks", "held"),
    [
        ("whole events", [b"data: a\n\n", b"data: a\r\n\r\n", b"data: a\r\r"], 0),
        ("an unfinished event", [b"data: a\n\n", b"data"], 4),
        ("a start behind an end", [b"data: a\n\ndata"], 4),
        ("a start behind two kinds of ends", [b"a\n\nb\r\n\r\ncd"], 2),
        ("grows", [b"data", b": a\n", b"x"], 9),
        ("and ends", [b"data", b": a", b"\n\n"], 0),
    ],
)
def test_bytes_held_by_an_unfinished_event(name: str, chunks: list[bytes], held: int) -> None:
    memory = Memory(100)
    account = Account(memory)
    assert not any(account.read(chunk) for chunk in chunks)
    assert memory.held_bytes == held, name
    account.close()
    assert memory.held_bytes == 0


def test_the_end_of_a_large_event_is_detected() -> None:
    account = Account(Memory(10**9))
    half = b"x" * LARGE_EVENT_BYTES
    assert [account.read(part) for part in (half, b"x", b"x\n\ndata", b": small\n\n")] == [False, False, True, False]


GROWN = b"data: " + b"x" * SMALL_BYTES
"""The beginning of an event, after which a stream waits for its turn."""


async def test_one_at_a_time_while_the_budget_is_spent() -> None:
    memory = Memory(10)
    first, second, third = (Account(memory) for _ in range(3))
    for account in (first, second, third):
        account.read(GROWN)
    await first.wait_for_turn()
    await first.wait_for_turn()  # its turn lasts
    waiting = [asyncio.create_task(account.wait_for_turn()) for account in (second, third)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    first.read(b"a\n\n")
    await first.wait_for_turn()  # it has sent the event
    await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert [one.done() for one in waiting] == [True, False]
    second.close()
    await asyncio.wait_for(waiting[1], 60)


async def test_all_continue_when_bytes_are_released() -> None:
    memory = Memory(3 * SMALL_BYTES)
    body, first, second = (Account(memory) for _ in range(3))
    body.hold(2 * SMALL_BYTES)
    first.read(GROWN)
    second.read(GROWN)
    await first.wait_for_turn()
    waiting = asyncio.create_task(second.wait_for_turn())
    await asyncio.sleep(0)
    body.close()
    await asyncio.wait_for(waiting, 60)


async def test_a_stream_that_has_not_grown_needs_no_turn() -> None:
    memory = Memory(1)
    large, account = Account(memory), Account(memory)
    large.read(GROWN)
    await large.wait_for_turn()
    account.read(b"data: ")
    await asyncio.wait_for(account.wait_for_turn(), 60)


async def test_large_bodies_are_read_one_at_a_time_while_the_budget_is_spent() -> None:
    memory = Memory(3 * SMALL_BYTES)
    first, second = Account(memory), Account(memory)
    await first.receive(2 * SMALL_BYTES)
    await second.receive(SMALL_BYTES)  # a small one does not wait
    waiting = asyncio.create_task(second.receive(SMALL_BYTES))
    await asyncio.sleep(0)
    assert waiting.done(), "it has the turn"
    waiting = asyncio.create_task(first.receive(SMALL_BYTES))
    await asyncio.sleep(0)
    await second.wait_for_turn()  # the turn lasts until memory is released
    await asyncio.sleep(0)
    assert not waiting.done()
    second.close()
    await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize(
    ("name", "kept", "chunk", "is_exceeded"),
    [
        ("nothing", 0, b"", False),
        ("a text", 1_000, b"", False),
        ("a text that is too large", 1_001, b"", True),
        ("an event", 0, b"x" * 100_000, False),
        ("an event beyond the share", 0, b"x" * 100_001, True),
    ],
)
def test_the_limit_of_one_stream(name: str, kept: int, chunk: bytes, *, is_exceeded: bool) -> None:
    account = Account(Memory(400_000, max_text_bytes=1_000))
    account.keep(kept)
    account.read(chunk)
    assert account.is_exceeded is is_exceeded, name


def test_texts_beyond_the_fixed_amount_are_held_once() -> None:
    memory = Memory(10**9)
    account = Account(memory)
    part = account.part()
    for kept in (10, SMALL_BYTES, SMALL_BYTES, 2 * SMALL_BYTES):
        account.keep(kept)
    assert memory.held_bytes == (2 * TEXT_COPIES - 1) * SMALL_BYTES
    part.read(b"data")
    part.close()
    account.close()
    assert memory.held_bytes == 0


async def test_large_events_are_processed_one_at_a_time() -> None:
    memory, order = Memory(10**9), []

    def work(name: str) -> None:
        order.append(name)
        time.sleep(0.001)  # another thread may run
        order.append(name)

    await asyncio.gather(*(memory.process(work, name) for name in "abc"))
    assert sorted("".join(order[at : at + 2]) for at in (0, 2, 4)) == ["aa", "bb", "cc"]
