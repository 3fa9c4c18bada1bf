"""Budgets under any order of requests and settlements: nobody gets more than a limit allows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.store.budgets import Budgets, Limit, MemoryBudgets, Receipt, SharedBudgets
from projector.store.memory import MemoryStore

MOST, PERIOD_S = 10, 20.0
REQUESTS = Limit("requests", PERIOD_S, MOST)
TOKENS = Limit("tokens", PERIOD_S, MOST)

PAUSES = st.floats(-5, 15, allow_nan=False)
CALLERS = st.sampled_from("abcdef")


@given(st.lists(st.tuples(PAUSES, CALLERS, st.integers(1, 12)), max_size=40), st.integers(1, 6))
def test_no_caller_makes_more_requests_than_its_limit(steps: list[tuple[float, str, int]], buckets_max: int) -> None:
    async def run() -> None:
        now_s, forward_s, passed = 0.0, 0.0, Counter[str]()
        budgets = MemoryBudgets(lambda: now_s, buckets_max)
        for pause_s, caller, times in steps:
            now_s += pause_s
            forward_s += max(0.0, pause_s)
            for _ in range(times):
                passed[caller] += bool((await budgets.take(caller, [(REQUESTS, 1)]))[1])
            # a caller may have had a bucket of its own, and a part of that of the others
            assert passed[caller] <= 2 * (MOST + forward_s * REQUESTS.per_s) + 1
        assert passed.total() <= (buckets_max + 1) * MOST + 6 * forward_s * REQUESTS.per_s + 6
        assert budgets.buckets <= buckets_max + 1

    asyncio.run(run())


@pytest.mark.parametrize("make", [MemoryBudgets, lambda clock: SharedBudgets(MemoryStore(clock=clock).update, clock)])
@given(steps=st.lists(st.tuples(st.floats(0, 15), st.integers(0, 40), st.integers(0, 15), st.booleans()), max_size=40))
def test_no_use_of_tokens_is_forgiven(
    make: Callable[[Callable[[], float]], Budgets], steps: list[tuple[float, int, int, bool]]
) -> None:
    """Whatever is settled when, what was used and is not yet available again is in the bucket."""

    async def run() -> None:
        now_s, used = 0.0, 0.0
        budgets = make(lambda: now_s)
        open_requests: list[tuple[Receipt, int]] = []
        for pause_s, reserved, actual, is_settled in steps:
            now_s += pause_s
            _, receipts = await budgets.take("a", [(TOKENS, reserved)])
            if receipts:
                open_requests.append((receipts[0], actual))
            if is_settled and open_requests:
                receipt, amount = open_requests.pop(0)
                await budgets.settle([(receipt, float(amount))])
                used += amount
            (level,), _ = await budgets.take("a", [(TOKENS, 0)])
            assert level.reset_s * TOKENS.per_s >= used - now_s * TOKENS.per_s - 0.001

    asyncio.run(run())


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(-3, 3), st.sampled_from([0, 1])), max_size=40))
def test_servers_with_different_clocks_allow_no_more(steps: list[tuple[float, float, int]]) -> None:
    """Two servers share a bucket; their clocks differ by up to three seconds from the true one, at each request."""

    async def run() -> None:
        now_s, skew_s, passed = 100.0, 0.0, 0
        store = MemoryStore(clock=lambda: now_s)
        servers = [SharedBudgets(store.update, lambda: now_s + skew_s) for _ in range(2)]
        for pause_s, skew_s, server in steps:  # noqa: B007 - the clocks of the servers read it
            now_s += pause_s
            passed += bool((await servers[server].take("a", [(REQUESTS, 1)]))[1])
        assert passed <= MOST + (now_s - 100.0 + 6) * REQUESTS.per_s + 1

    asyncio.run(run())
