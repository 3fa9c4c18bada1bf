"""Budgets of callers: token buckets, in this process or in the values of a store. `Budgets` is what every store offers.

A bucket holds what a caller has used. It empties at a constant rate, so that a full one is empty after the period of
its limit; a caller may use what is not in it. It may hold more than the limit: the real use of a request is known at
its end only. Each operation takes constant time.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

Unit: TypeAlias = Literal["requests", "tokens"]

Change: TypeAlias = Callable[[Sequence[bytes | None]], Sequence[bytes | None] | None]
"""From values to new values (None: absent, or to be removed). None as a whole changes nothing. It may be called several
times, in another thread, and must have no effects but to keep what it saw last."""

BUCKETS_MAX: Final = 100_000
"""About 30 MB. A caller has one bucket for each of its limits that it has used lately."""
OTHERS: Final = ""
"""Callers that share their buckets, because no more of their own can be kept."""

_CHECKED: Final = 4
"""Buckets that are checked when one is added. With more than one, empty buckets go faster than new ones come."""
_SLACK: Final = 1e-6
"""A part of a unit that rounding may have cost."""


class Limit(NamedTuple):
    """A limit of one caller, for all that it does or for one agent."""

    unit: Unit
    period_s: float
    most: int
    agent: str | None = None

    @property
    def per_s(self) -> float:
        """Units that become available per second."""
        return self.most / self.period_s


class Level(NamedTuple):
    """The state of a limit after a request for units of it."""

    limit: Limit
    remaining: int
    """Units that the caller may use now."""
    reset_s: float
    """Seconds until the whole limit is available."""
    wait_s: float
    """Seconds until one unit is available; 0 if it was."""


class Receipt(NamedTuple):
    """Units that were reserved, to be settled when the real use is known."""

    caller: str
    limit: Limit
    amount: float
    at_s: float


class Budgets(Protocol):
    """The budgets of all callers."""

    async def take(self, caller: str, wanted: Sequence[tuple[Limit, float]]) -> tuple[list[Level], list[Receipt]]:
        """Reserve units of several limits, or of none if one of them has no unit left.

        One unit that is left is enough to reserve more. Without receipts the request was refused; the levels are
        those of all limits in their order.
        """

    async def settle(self, used: Sequence[tuple[Receipt, float]]) -> None:
        """Replace reserved units with those that were used."""


@dataclass(slots=True)
class Bucket:
    """What a caller has used of one limit."""

    used: float
    at_s: float
    per_s: float

    def drain(self, now_s: float) -> None:
        """Remove what has become available; a clock that was set back stops it for no longer than that."""
        self.used = max(0.0, self.used - max(0.0, now_s - self.at_s) * self.per_s)
        self.at_s = now_s

    def change_rate(self, per_s: float) -> None:
        """Apply another limit. A smaller one counts past use in proportion: the caller waits no longer than before."""
        if per_s != self.per_s:
            self.used *= min(1.0, per_s / self.per_s)
            self.per_s = per_s


_Key: TypeAlias = tuple[str, str | None, str, float]


class MemoryBudgets:
    """The budgets in this process. `clock` returns seconds and should not be adjusted, like `time.monotonic`.

    Only empty buckets are dropped, so no use is forgotten. If there are too many others, new callers share theirs.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, buckets_max: int = BUCKETS_MAX) -> None:
        self._clock = clock
        self._buckets_max = buckets_max
        self._buckets: OrderedDict[_Key, Bucket] = OrderedDict()

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return len(self._buckets)

    async def take(self, caller: str, wanted: Sequence[tuple[Limit, float]]) -> tuple[list[Level], list[Receipt]]:
        """See `Budgets`."""
        now_s = self._clock()
        owners = [self._owner(caller, limit, now_s) for limit, _ in wanted]
        used = [self._used(owner, limit, now_s) for owner, (limit, _) in zip(owners, wanted, strict=True)]
        levels, receipts = decide(owners, wanted, used, now_s)
        for receipt in receipts:
            self._add(receipt.caller, receipt.limit, receipt.amount, now_s)
        return levels, receipts

    async def settle(self, used: Sequence[tuple[Receipt, float]]) -> None:
        """See `Budgets`."""
        now_s = self._clock()
        for receipt, amount in used:
            self._add(receipt.caller, receipt.limit, settlement(receipt, amount, now_s), now_s)

    def _owner(self, caller: str, limit: Limit, now_s: float) -> str:
        """Return the caller if it has a bucket, or there is room for one."""
        if _key(caller, limit) in self._buckets:
            return caller
        if len(self._buckets) >= self._buckets_max:
            self._drop_empty(now_s)
        return caller if len(self._buckets) < self._buckets_max else OTHERS

    def _used(self, caller: str, limit: Limit, now_s: float) -> float:
        bucket = self._buckets.get(_key(caller, limit))
        if bucket is None:
            return 0.0
        bucket.drain(now_s)
        bucket.change_rate(limit.per_s)
        return bucket.used

    def _add(self, caller: str, limit: Limit, amount: float, now_s: float) -> None:
        key = _key(caller, limit)
        bucket = self._buckets.get(key)
        if bucket is None:
            if amount <= 0:
                return
            self._drop_empty(now_s)
            bucket = self._buckets[key] = Bucket(0.0, now_s, limit.per_s)
        bucket.drain(now_s)
        bucket.used = max(0.0, bucket.used + amount)
        self._buckets.move_to_end(key)

    def _drop_empty(self, now_s: float) -> None:
        """Check the buckets that were not checked or used for the longest time, and drop those that are empty."""
        for key in list(islice(self._buckets, _CHECKED)):
            bucket = self._buckets[key]
            bucket.drain(now_s)
            if bucket.used > 0:
                self._buckets.move_to_end(key)
            else:
                del self._buckets[key]


def decide(
    owners: Sequence[str], wanted: Sequence[tuple[Limit, float]], used: Sequence[float], now_s: float
) -> tuple[list[Level], list[Receipt]]:
    """Return the levels of limits of which so much is used, and the receipts if units of all of them are left."""
    free = [limit.most - units for units, (limit, _) in zip(used, wanted, strict=True)]
    receipts: list[Receipt] = []
    if all(units >= 1 - _SLACK for units in free):
        receipts = [Receipt(owner, limit, amount, now_s) for owner, (limit, amount) in zip(owners, wanted, strict=True)]
        free = [units - receipt.amount for units, receipt in zip(free, receipts, strict=True)]
    levels = [_level(limit, units, is_refused=not receipts) for (limit, _), units in zip(wanted, free, strict=True)]
    return levels, receipts


def settlement(receipt: Receipt, amount: float, now_s: float) -> float:
    """Return what to add to a bucket. What has become available since the reservation is not returned again."""
    change = amount - receipt.amount
    if change < 0:
        change = min(0.0, change + max(0.0, now_s - receipt.at_s) * receipt.limit.per_s)
    return change


def _key(caller: str, limit: Limit) -> _Key:
    return caller, limit.agent, limit.unit, limit.period_s


def _level(limit: Limit, free: float, *, is_refused: bool) -> Level:
    wait_s = max(0.0, 1 - free) / limit.per_s if is_refused and free < 1 - _SLACK else 0.0
    return Level(limit, max(0, int(free + _SLACK)), (limit.most - free) / limit.per_s, wait_s)


_KIND: Final = "budget"
_BUCKET: Final = struct.Struct("!ddd")
_KEPT_PERIODS: Final = 30
"""Periods of its limit that a bucket is kept. A full one is empty after one; one request may use several limits."""


Update: TypeAlias = Callable[[str, Sequence[str], Change, float], Awaitable[None]]
"""See `projector.store.protocol.Store.update`."""


class SharedBudgets:
    """Budgets that several servers share. See `projector.store.budgets.Budgets`.

    Args:
        update: changes the buckets, which a store has.
        clock: returns seconds since 1970-01-01 UTC. Where those of servers differ, the one that is ahead counts.
    """

    def __init__(self, update: Update, clock: Callable[[], float]) -> None:
        self._update = update
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
            await self._update(_KIND, [_name_of(caller, limit) for limit in limits], change, ttl_s)
        return decided

    async def settle(self, used: Sequence[tuple[Receipt, float]]) -> None:
        """See `Budgets`."""
        for receipt, amount in used:
            await self._add(receipt.caller, receipt.limit, settlement(receipt, amount, self._clock()))

    async def _add(self, caller: str, limit: Limit, amount: float) -> None:
        def change(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
            return [_with(_bucket(values[0], limit, self._clock()), amount)]

        if amount:
            await self._update(_KIND, [_name_of(caller, limit)], change, _KEPT_PERIODS * limit.period_s)


def _name_of(caller: str, limit: Limit) -> str:
    agent = "" if limit.agent is None else f"{len(limit.agent)}:{limit.agent}"
    group = hashlib.blake2s(caller.encode(), digest_size=8).hexdigest()  # all limits of a caller are updated together
    return f"{group}|{limit.unit}/{limit.period_s:g}/{agent}/{caller}"


def _bucket(value: bytes | None, limit: Limit, now_s: float) -> Bucket:
    """Return the bucket as it is now. A clock that is more than a period ahead is wrong; so is another size."""
    bucket = Bucket(0.0, now_s, limit.per_s)
    if value is not None and len(value) == _BUCKET.size:
        bucket = Bucket(*_BUCKET.unpack(value))
    bucket.drain(now_s if bucket.at_s > now_s + limit.period_s else max(now_s, bucket.at_s))
    bucket.change_rate(limit.per_s)
    return bucket


def _with(bucket: Bucket, amount: float) -> bytes:
    return _BUCKET.pack(max(0.0, bucket.used + amount), bucket.at_s, bucket.per_s)
