"""A producer, readers, a take-over and cancels in any order, on a clock that is set by hand.

However they are interleaved: one seal, set once; every reader gets what the store has accepted, and the same end; a
producer that wakes up after it adds nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.redis_server import RedisServer
from projector.store.protocol import INTERRUPTED, LEASE_S, Batch, Page, Seal, StoreLimits
from tests.store.redis_rig import redis
from tests.store.rigs import LOCAL, Rig, frames, head, ignored

LIMITS: Final = StoreLimits(retention_s=10_000, open_max_s=10_000)
READERS: Final = 3

Action: TypeAlias = tuple[str, int]
Bursts: TypeAlias = Sequence[tuple[float, Sequence[Action]]]

ACTIONS: Final = st.one_of(
    st.tuples(st.sampled_from(["append", "append with a gap"]), st.integers(1, 4)),
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["append again", "renew", "finish"]), st.just(0)),
    st.tuples(st.sampled_from(["take over", "find", "cancel"]), st.just(0)),
    st.tuples(st.sampled_from([f"reader {number}" for number in range(READERS)]), st.integers(0, 200)),
)
BURSTS: Final = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.0, 3.0, LEASE_S + 1]), st.lists(ACTIONS, min_size=1, max_size=6)),
    max_size=12,
)
"""Seconds that pass, then what happens at the same time: each actor does its own part in order."""


@dataclass
class Reader:
    """What a reader has got."""

    frames: list[bytes] = field(default_factory=list)
    seal: Seal | None = None

    def add(self, page: Page) -> None:
        assert page.first == len(self.frames) + 1
        self.frames += page.frames
        self.seal = page.seal


class Run:
    """One stream and its actors."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.accepted: list[bytes] = []
        self.last_batch: Batch | None = None
        self.is_refused = False
        self.seals: list[str] = []
        self.readers = [Reader() for _ in range(READERS)]
        self.is_cancelled = False
        self.cancels: list[str] = []

    async def burst(self, actions: Sequence[Action]) -> None:
        parts: defaultdict[str, list[Callable[[], Awaitable[None]]]] = defaultdict(list)
        for name, number in actions:
            if name.startswith("reader"):
                parts[name].append(lambda name=name, number=number: self.read(int(name[-1]), number))
            elif name in {"take over", "find", "cancel"}:
                parts[name].append(getattr(self, name.replace(" ", "_")))
            else:
                parts["producer"].append(lambda name=name, number=number: self.produce(name, number))
        await asyncio.gather(*(_in_order(part) for part in parts.values()))

    async def produce(self, name: str, count: int) -> None:
        first = len(self.accepted) + 1
        if name == "renew":
            renewal = (await self.rig.one.renew(["s"]))["s"]
            self.is_refused = self.is_refused or renewal.lost is not None
        elif name == "finish":
            last = frames(first, first + 1)
            is_sealed = await self.rig.one.seal("s", first=first, frames=last)
            assert not (is_sealed and self.is_refused)
            if is_sealed:
                self.accepted += last
                self.seals.append("")
            self.is_refused = True
        elif name == "append again":
            if self.last_batch is not None:
                refused = await self.rig.one.append([self.last_batch])
                self.is_refused = self.is_refused or bool(refused)
        else:
            start = first + (name == "append with a gap")
            batch = Batch("s", start, frames(start, start + count - 1))
            refused = await self.rig.one.append([batch])
            if not refused:
                assert not self.is_refused, "after a refusal that is final"
                assert start == first
                self.accepted += batch.frames
                self.last_batch = batch
            elif refused["s"] != "gap":
                self.is_refused = True

    async def read(self, number: int, max_bytes: int) -> None:
        reader = self.readers[number]
        if reader.seal is None:
            reader.add(await self.rig.other.read("s", len(reader.frames), max_bytes))

    async def take_over(self) -> None:
        if await self.rig.other.seal("s", reason=INTERRUPTED):
            self.seals.append(INTERRUPTED)

    async def find(self) -> None:
        assert await self.rig.other.find("s") is not None

    async def cancel(self) -> None:
        if await self.rig.other.request_cancel("s"):
            self.is_cancelled = True

    async def finish(self) -> None:
        """Wait until the lease has lapsed, and all readers are at the end."""
        await self.rig.advance(LEASE_S + 1)
        for number, reader in enumerate(self.readers):
            while reader.seal is None:
                await self.read(number, 99)


async def _in_order(steps: Sequence[Callable[[], Awaitable[None]]]) -> None:
    for step in steps:
        await step()


async def _check(rig: Rig, bursts: Bursts) -> None:
    run = Run(rig)
    rig.one.listen(run.cancels.append, ignored)
    assert await rig.one.open(head())
    for seconds, actions in bursts:
        await rig.advance(seconds)
        await run.burst(actions)
    await run.finish()
    status = await rig.other.find("s")
    assert status is not None
    assert status.seal is not None
    assert status.last == len(run.accepted)
    assert len(run.seals) <= 1
    assert status.seal.reason == (run.seals[0] if run.seals else INTERRUPTED)
    for reader in run.readers:
        assert (reader.frames, reader.seal) == (run.accepted, status.seal)
    first = len(run.accepted) + 1
    assert await rig.one.append([Batch("s", first, frames(first, first))]) == {"s": "sealed"}
    assert not await rig.one.seal("s", first=first, frames=frames(first, first))
    assert (await rig.one.renew(["s"]))["s"].lost == "sealed"
    page = await rig.other.read("s", 0, 10**6)
    assert (page.frames, page.seal) == (run.accepted, status.seal)
    assert len(run.cancels) <= run.is_cancelled, "each stream is cancelled once"


def _run(make: Callable[[], AbstractAsyncContextManager[Rig]], bursts: Bursts) -> None:
    async def run() -> None:
        async with make() as rig:
            await asyncio.wait_for(_check(rig, bursts), 60)

    asyncio.run(run())


@settings(deadline=None, max_examples=30)
@given(bursts=BURSTS)
def test_some_orders_in_memory(bursts: Bursts) -> None:
    _run(lambda: LOCAL["memory"](LIMITS), bursts)


@pytest.mark.parametrize("store", LOCAL)
@settings(deadline=None)
@given(bursts=BURSTS)
def test_any_order(store: str, bursts: Bursts) -> None:
    _run(lambda: LOCAL[store](LIMITS), bursts)


@settings(deadline=None)
@given(bursts=BURSTS)
def test_any_order_in_redis(redis_server: RedisServer, bursts: Bursts) -> None:
    _run(lambda: redis(redis_server, LIMITS), bursts)
