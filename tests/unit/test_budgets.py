"""Budgets of callers: what passes, what waits, what is remembered. The clock is a number."""

from __future__ import annotations

from typing import Any

import pytest

from projector.store.budgets import OTHERS, Limit, MemoryBudgets

MINUTE = Limit("requests", 60.0, 60)
DAY = Limit("requests", 86_400.0, 100)
TOKENS = Limit("tokens", 60.0, 6_000)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Run:
    """Budgets and their clock."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.budgets = MemoryBudgets(self.clock, **options)

    async def passed(self, caller: str, times: int, *limits: Limit, amount: float = 1) -> int:
        """Return how many of some requests pass."""
        results = [await self.budgets.take(caller, [(limit, amount) for limit in limits]) for _ in range(times)]
        return sum(bool(receipts) for _, receipts in results)

    async def level(self, caller: str, limit: Limit) -> Any:
        levels, _ = await self.budgets.take(caller, [(limit, 0)])
        return levels[0]


@pytest.mark.parametrize(
    ("name", "steps", "passed"),
    [
        ("all at once", [(0, 100)], [60]),
        ("again at once", [(0, 100), (0, 100)], [60, 0]),
        ("a second later", [(0, 100), (1, 100)], [60, 1]),
        ("in parts of a second", [(0, 100), *[(0.1, 1)] * 10], [60, *[0] * 9, 1]),
        ("after a minute", [(0, 100), (60, 100)], [60, 60]),
        ("after a year", [(0, 100), (3e7, 100)], [60, 60]),
        ("a clock that is set back", [(0, 100), (-900, 100), (1, 100)], [60, 0, 1]),
        ("a clock that is set back and forth", [(0, 60), (-900, 1), (0, 1)], [60, 0, 0]),
    ],
)
async def test_requests_that_pass(name: str, steps: list[tuple[float, int]], passed: list[int]) -> None:
    run = Run()
    found = []
    for pause_s, times in steps:
        run.clock.now_s += pause_s
        found.append(await run.passed("a", times, MINUTE))
    assert found == passed, name


async def test_the_strictest_limit_counts_and_a_refused_request_does_not() -> None:
    run = Run()
    assert await run.passed("a", 100, MINUTE, DAY) == 60
    run.clock.now_s += 60
    assert await run.passed("a", 100, MINUTE, DAY) == 40  # those of the day; refused ones were not counted
    assert (await run.level("a", DAY)).remaining == 0


async def test_callers_and_agents_have_budgets_of_their_own() -> None:
    run = Run()
    assert await run.passed("a", 100, MINUTE) == 60
    assert await run.passed("b", 100, MINUTE) == 60
    assert await run.passed("a", 100, MINUTE._replace(agent="x")) == 60


async def test_waiting_as_told_is_enough() -> None:
    run = Run()
    await run.passed("a", 60, MINUTE)
    levels, receipts = await run.budgets.take("a", [(MINUTE, 1)])
    assert receipts == []
    assert (levels[0].remaining, levels[0].reset_s, levels[0].wait_s) == (0, 60, 1)
    run.clock.now_s += levels[0].wait_s
    assert await run.passed("a", 2, MINUTE) == 1


@pytest.mark.parametrize(
    ("name", "reserved", "after_s", "used", "left"),
    [
        ("less than reserved", 3_000, 0, 500, 5_500),
        ("more than reserved", 3_000, 0, 5_000, 1_000),
        ("more than the limit", 3_000, 0, 60_000, 0),
        ("nothing", 3_000, 0, 0, 6_000),
        ("nothing, after some time", 3_000, 10, 0, 6_000),
        ("less, after some time", 3_000, 10, 500, 5_500),  # used at the end
        ("more, after some time", 3_000, 10, 5_000, 2_000),
        ("more is reserved than there is", 60_000, 0, 500, 5_500),
    ],
)
async def test_reserved_tokens_are_settled(name: str, reserved: float, after_s: float, used: float, left: int) -> None:
    run = Run()
    _, receipts = await run.budgets.take("a", [(TOKENS, reserved)])
    run.clock.now_s += after_s
    await run.budgets.settle([(receipts[0], used)])
    assert (await run.level("a", TOKENS)).remaining == left, name


async def test_a_refund_never_covers_the_use_of_another_request() -> None:
    run = Run()
    _, first = await run.budgets.take("a", [(TOKENS, 6_000)])
    run.clock.now_s += 60
    _, second = await run.budgets.take("a", [(TOKENS, 6_000)])
    await run.budgets.settle([(first[0], 1)])
    assert (await run.level("a", TOKENS)).remaining == 0
    await run.budgets.settle([(second[0], 1)])
    assert (await run.level("a", TOKENS)).remaining == 5_999


async def test_the_last_token_admits_one_request() -> None:
    """What is reserved is not limited to what is left, or each token that becomes available would admit a request."""
    run = Run()
    assert await run.passed("a", 100, TOKENS, amount=2_500) == 3
    run.clock.now_s += 1  # a hundred tokens
    assert await run.passed("a", 100, TOKENS, amount=2_500) == 0


async def test_a_debt_is_waited_off() -> None:
    run = Run()
    _, receipts = await run.budgets.take("a", [(TOKENS, 100)])
    await run.budgets.settle([(receipts[0], 12_000)])
    assert (await run.level("a", TOKENS)).wait_s == pytest.approx(60.01)
    run.clock.now_s += 60.01
    assert await run.passed("a", 1, TOKENS) == 1


@pytest.mark.parametrize(
    ("name", "most", "remaining", "wait_s"),
    [
        ("a larger limit is available at once", 100, 40, 0),
        ("a smaller limit makes nobody wait longer", 6, 0, 10),
    ],
)
async def test_a_changed_limit(name: str, most: int, remaining: int, wait_s: float) -> None:
    run = Run()
    await run.passed("a", 60, MINUTE)
    level = await run.level("a", MINUTE._replace(most=most))
    assert (level.remaining, level.wait_s) == (remaining, wait_s), name


async def test_empty_buckets_are_dropped() -> None:
    run = Run()
    for number in range(1_000):
        run.clock.now_s += 1  # one request of each caller is forgotten after one second
        await run.passed(f"caller {number}", 1, MINUTE)
    assert run.budgets.buckets < 10


async def test_use_is_never_forgotten_to_make_room() -> None:
    run = Run(buckets_max=10)
    for number in range(10):
        assert await run.passed(f"caller {number}", 60, MINUTE) == 60
    assert [await run.passed(f"new {number}", 100, MINUTE) for number in range(5)] == [60, 0, 0, 0, 0]  # shared
    assert [await run.passed(f"caller {number}", 1, MINUTE) for number in range(10)] == [0] * 10
    assert run.budgets.buckets == 11
    run.clock.now_s += 60
    assert await run.passed("new 0", 100, MINUTE) == 60
    assert await run.passed("new 1", 100, MINUTE) == 60


async def test_the_name_of_the_others_is_no_caller() -> None:
    run = Run(buckets_max=1)
    await run.passed("a", 60, MINUTE)
    _, receipts = await run.budgets.take("b", [(MINUTE, 1)])
    assert receipts[0].caller == OTHERS


async def test_refused_requests_need_no_memory() -> None:
    run = Run()
    await run.passed("a", 60, MINUTE)
    for number in range(100):
        await run.budgets.take("a", [(MINUTE, 1), (MINUTE._replace(agent=f"agent {number}"), 1)])
    assert run.budgets.buckets == 1
