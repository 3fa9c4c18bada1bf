"""Budgets of callers in the values of a store, for all servers with that store. The buckets are as in `budgets`."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from projector.store.budgets import Bucket, Level, Limit, Receipt, decide, settlement
from projector.store.protocol import Change

_KIND: Final = "budget"
_BUCKET: Final = struct.Struct("!ddd")
_KEPT_PERIODS: Final = 30
"""Periods of its limit that a bucket is kept. A full one is empty after one; one request may use several limits."""


class Updating(Protocol):
    """The part of a store that budgets need."""

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `projector.store.protocol.Store`."""


class SharedBudgets:
    """Budgets that several servers share. See `projector.store.budgets.Budgets`.

    Args:
        store: has the buckets.
        clock: returns seconds since 1970-01-01 UTC. Where those of servers differ, the one that is ahead counts.
    """

    def __init__(self, store: Updating, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    async def take(self, caller: str, wanted: Sequence[tuple[Limit, float]]) -> tuple[list[Level], list[Receipt]]:
        """See `Budgets`."""
        now_s = self._clock()
        limits = [limit for limit, _ in wanted]
        decided: tuple[list[Level], list[Receipt]] = ([], [])

        def change(values: Sequence[bytes | None]) -> Sequence[bytes | None] | None:
            nonlocal decided
            buckets = [_bucket(value, limit, now_s) for value, limit in zip(values, limits, strict=True)]
            decided = decide([caller] * len(limits), wanted, [bucket.used for bucket in buckets], now_s)
            if not decided[1]:
                return None
            return [_with(bucket, amount) for bucket, (_, amount) in zip(buckets, wanted, strict=True)]

        if limits:
            ttl_s = _KEPT_PERIODS * max(limit.period_s for limit in limits)
            await self._store.update(_KIND, [_key(caller, limit) for limit in limits], change, ttl_s)
        return decided

    async def settle(self, used: Sequence[tuple[Receipt, float]]) -> None:
        """See `Budgets`."""
        for receipt, amount in used:
            await self._add(receipt.caller, receipt.limit, settlement(receipt, amount, self._clock()))

    async def _add(self, caller: str, limit: Limit, amount: float) -> None:
        def change(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
            return [_with(_bucket(values[0], limit, self._clock()), amount)]

        if amount:
            await self._store.update(_KIND, [_key(caller, limit)], change, _KEPT_PERIODS * limit.period_s)


def _key(caller: str, limit: Limit) -> str:
    agent = "" if limit.agent is None else f"{len(limit.agent)}:{limit.agent}"
    group = hashlib.blake2s(caller.encode(), digest_size=8).hexdigest()  # all limits of a caller are updated together
    return f"{group}|{limit.unit}/{limit.period_s:g}/{agent}/{caller}"


def _bucket(value: bytes | None, limit: Limit, now_s: float) -> Bucket:
    """Return the bucket as it is now. A clock that is more than a period ahead is wrong."""
    bucket = Bucket(0.0, now_s, limit.per_s) if value is None else Bucket(*_BUCKET.unpack(value))
    bucket.drain(now_s if bucket.at_s > now_s + limit.period_s else max(now_s, bucket.at_s))
    bucket.change_rate(limit.per_s)
    return bucket


def _with(bucket: Bucket, amount: float) -> bytes:
    return _BUCKET.pack(max(0.0, bucket.used + amount), bucket.at_s, bucket.per_s)
