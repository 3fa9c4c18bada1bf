from __future__ import annotations

import asyncio

import pytest

from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account, Memory


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


async def test_one_at_a_time_while_the_budget_is_spent() -> None:
    memory = Memory(10)
    first, second, third = (Account(memory) for _ in range(3))
    for account in (first, second, third):
        account.read(b"data: ")
    await first.wait_for_turn()
    await first.wait_for_turn()  # its turn lasts
    waiting = [asyncio.create_task(account.wait_for_turn()) for account in (second, third)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    first.read(b"a\n\n")
    await asyncio.wait(waiting, timeout=1, return_when=asyncio.FIRST_COMPLETED)
    assert [one.done() for one in waiting] == [True, False]
    second.close()
    await asyncio.wait_for(waiting[1], 1)


async def test_all_continue_when_bytes_are_released() -> None:
    memory = Memory(10)
    body, first, second = (Account(memory) for _ in range(3))
    body.hold(8)
    first.read(b"data")
    second.read(b"data")
    await first.wait_for_turn()
    waiting = asyncio.create_task(second.wait_for_turn())
    await asyncio.sleep(0)
    body.close()
    await asyncio.wait_for(waiting, 1)


async def test_an_account_without_unfinished_event_needs_no_turn() -> None:
    memory = Memory(1)
    large, account = Account(memory), Account(memory)
    large.read(b"data: ")
    await large.wait_for_turn()
    await asyncio.wait_for(account.wait_for_turn(), 1)
