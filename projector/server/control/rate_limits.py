"""Rate limits: what a request takes from the budgets of its caller, and how a response reports them.

A request takes one of its caller's requests before its body is read. Before its stream starts, it takes one request
for each agent, and reserves tokens; at the end of the stream the tokens that were used replace the reserved ones. A
request that is refused by a limit is not counted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

import anyio
from starlette.types import Scope

from projector.server.config.caller_settings import RateLimits
from projector.server.control.token_meter import TokenMeter
from projector.server.http.problems import Problem, problem
from projector.server.streaming.clock import repeat
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.request_facts import RequestFacts, facts_of
from projector.store.budgets import Budgets, Level, Limit, MemoryBudgets, Receipt, Unit
from projector.store.protocol import StoreUnavailableError

CODES: Final[Mapping[Unit, str]] = {"requests": "request_limit_exceeded", "tokens": "token_limit_exceeded"}
"""Unit -> code of the problem."""
HEADERS: Final = tuple(
    f"x-ratelimit-{what}-{unit}" for what in ("limit", "remaining", "reset") for unit in ("requests", "tokens")
)
RETRY_MAX_S: Final = 60
"""Longest wait that a client should retry after by itself; the OpenAI SDKs ignore a longer `Retry-After`."""

_PERIODS_S: Final = {"minute": 60.0, "day": 86_400.0}
_UNITS: Final[tuple[Unit, ...]] = ("requests", "tokens")
_SETTLED_S: Final = 5.0
"""Seconds between two settlements of a running stream: models write some hundred tokens in them."""
_IPV6_NETWORK_BITS: Final = 64
_SECOND_PART: Final = 1e-6
"""A part of a second that rounding may have added."""


@lru_cache
def owner_of(caller: str) -> str:
    """Return the name that the limits of a caller are kept by: IPv6 addresses of one network (/64) are one caller.

    A single client usually has a whole network, and may use a new address for each request.
    """
    kind, _, name = caller.partition(":")
    try:
        address = ip_address(name.partition("%")[0]) if kind == "address" else None
    except ValueError:
        address = None
    if not isinstance(address, IPv6Address):
        return caller
    return f"address:{address.ipv4_mapped or IPv6Network((address, _IPV6_NETWORK_BITS), strict=False)}"


def limits_of(table: RateLimits, agent: str | None = None) -> list[Limit]:
    """Return the limits of a table."""
    rows = ((unit, period) for unit in _UNITS for period in _PERIODS_S)
    return [
        Limit(unit, _PERIODS_S[period], most, agent)
        for unit, period in rows
        if (most := getattr(table, f"{unit}_per_{period}")) is not None
    ]


class RateLimiter:
    """Applies the limits of callers."""

    def __init__(self, budgets: Budgets, agents: Mapping[str, RateLimits]) -> None:
        self.budgets = budgets
        self.agents = {name: found for name, table in agents.items() if (found := limits_of(table, name))}
        """Limits of each caller's use of an agent."""

    def replace_with(self, other: RateLimiter) -> None:
        """Use the limits of another limiter from now on; the budgets stay."""
        self.agents = other.agents

    async def enter(self, scope: Scope, caller: str, limits: Sequence[Limit]) -> Admission:
        """Charge one request to a caller; raise `Problem` without one, or without a token."""
        admission = Admission(self, scope, owner_of(caller), limits)
        if admission.limits:
            await admission.take([(limit, 1.0 if limit.unit == "requests" else 0.0) for limit in admission.limits])
        return admission


class Admission:
    """What one request has taken from the budgets of its caller."""

    def __init__(self, limiter: RateLimiter, scope: Scope, owner: str, limits: Sequence[Limit]) -> None:
        self.limits = limits
        """Limits of the caller."""
        self._limiter = limiter
        self._scope = scope
        self._owner = owner
        self._levels: dict[Limit, Level] = {}
        self._receipts: list[Receipt] = []
        self._settling: asyncio.Task[None] | None = None
        self.meter: TokenMeter | None = None
        """Counts the tokens of the stream, if they are limited."""

    async def take(self, wanted: Sequence[tuple[Limit, float]]) -> None:
        """Charge units of limits; raise `Problem` if one of them is reached."""
        if not wanted:
            return
        levels, receipts = await self._limiter.budgets.take(self._owner, wanted)
        self._levels |= {level.limit: level for level in levels}
        facts = facts_of(self._scope)
        facts.headers = _headers(self._levels.values())
        if not receipts:
            raise _refusal(max(levels, key=lambda level: level.wait_s), facts)
        self._receipts += [receipt for receipt in receipts if receipt.amount > 0]

    async def take_stream(self, meter: TokenMeter | None) -> TokenMeter | None:
        """Charge one request for each agent, and reserve tokens; return the meter if it is to count them.

        Raises:
            Problem: one of the limits is reached. The request of the caller is returned.
        """
        if meter is None or not (self.limits or self._limiter.agents):
            return None
        of_agents = [limit for name in meter.agents for limit in self._limiter.agents.get(name, ())]
        tokens = [limit for limit in (*self.limits, *of_agents) if limit.unit == "tokens"]
        reserved = float(meter.estimate()) if tokens else 0.0
        wanted = [(limit, 1.0) for limit in of_agents if limit.unit == "requests"]
        try:
            await self.take([*wanted, *((limit, reserved) for limit in tokens)])
        except Problem:
            await self._settle([0.0] * len(self._receipts))
            raise
        if tokens:
            self.meter = meter
            # others could begin until a long stream ends, if what it uses were not counted while it runs
            settle = partial(self.settle, is_running=True)
            self._settling = asyncio.create_task(repeat(settle, _SETTLED_S))
        return self.meter

    async def close(self, code: str | None = None) -> None:
        """Settle the stream at its end; `code` is its error. Idempotent."""
        if self._settling is not None:
            self._settling.cancel()
        if self._receipts:
            await self.settle(code)

    async def settle(self, code: str | None = None, *, is_running: bool = False) -> None:
        """Replace the reserved tokens with those that were used; while the stream is running, only with more."""
        if not self._receipts:
            return
        self._receipts = [receipt for receipt in self._receipts if receipt.limit.unit == "tokens"]
        total, by_agent = self.meter.used(code) if self.meter is not None else (0, {})
        used = [total if one.limit.agent is None else by_agent.get(one.limit.agent, 0) for one in self._receipts]
        least = [receipt.amount if is_running else 0.0 for receipt in self._receipts]
        await self._settle([max(one, float(amount)) for one, amount in zip(least, used, strict=True)])

    async def _settle(self, amounts: Sequence[float]) -> None:
        used = list(zip(self._receipts, amounts, strict=True))
        self._receipts = [receipt._replace(amount=amount) for receipt, amount in used]
        if used:
            with anyio.CancelScope(shield=True):  # also after a disconnect
                await self._limiter.budgets.settle(used)


class _LocalReceipt(Receipt):
    """A receipt for units of the budgets in this process."""

    __slots__ = ()


class FallbackBudgets:
    """The budgets of a store. While it is away each server counts by itself, from nothing.

    Args:
        shared: the budgets in the store.
        logs: know whether the store is away, and try it again.
    """

    def __init__(self, shared: Budgets, logs: StreamLogs) -> None:
        self._shared = shared
        self._local = MemoryBudgets()
        self._logs = logs

    async def take(self, caller: str, wanted: Sequence[tuple[Limit, float]]) -> tuple[list[Level], list[Receipt]]:
        """See `Budgets`."""
        if self._logs.is_available:
            try:
                return await self._shared.take(caller, wanted)
            except StoreUnavailableError as error:
                self._logs.on_unavailable(error)
        levels, receipts = await self._local.take(caller, wanted)
        return levels, [_LocalReceipt(*receipt) for receipt in receipts]

    async def settle(self, used: Sequence[tuple[Receipt, float]]) -> None:
        """See `Budgets`. What cannot be settled stays reserved until it becomes available with time."""
        await self._local.settle([one for one in used if isinstance(one[0], _LocalReceipt)])
        shared = [one for one in used if not isinstance(one[0], _LocalReceipt)]
        if shared and self._logs.is_available:
            try:
                await self._shared.settle(shared)
            except StoreUnavailableError as error:
                self._logs.on_unavailable(error)


def _headers(levels: Iterable[Level]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response: for each unit those of the limit with the least remaining."""
    found: dict[str, str] = {}
    for unit in _UNITS:
        of_unit = [level for level in levels if level.limit.unit == unit]
        if of_unit:
            least = min(of_unit, key=lambda level: (level.remaining, -level.reset_s))
            found[f"x-ratelimit-limit-{unit}"] = str(least.limit.most)
            found[f"x-ratelimit-remaining-{unit}"] = str(least.remaining)
            found[f"x-ratelimit-reset-{unit}"] = duration_text(least.reset_s)
    return [(name.encode(), value.encode()) for name, value in found.items()]


def _refusal(level: Level, facts: RequestFacts) -> Problem:
    """Return the problem of a request that a limit refuses, and note the period of the limit."""
    limit, wait_s = level.limit, max(1, math.ceil(level.wait_s - _SECOND_PART))
    facts.reason = next(name for name, seconds in _PERIODS_S.items() if seconds == limit.period_s)
    units = limit.unit.removesuffix("s") if limit.most == 1 else limit.unit
    what = f"{limit.most} {units} per {facts.reason} for this caller" + ("" if limit.agent is None else " and agent")
    refused = problem(CODES[limit.unit], f"Rate limit reached: {what}. Try again in {duration_text(wait_s)}.")
    refused.headers["retry-after"] = str(wait_s)
    refused.error_type = limit.unit
    refused.should_retry = wait_s <= RETRY_MAX_S
    return refused


def duration_text(seconds: float) -> str:
    """Return a duration as the OpenAI API has it in headers: `120ms`, `1s`, `6m0s`."""
    ms = math.ceil((seconds - _SECOND_PART) * 1000)
    if ms < 1000:  # noqa: PLR2004 - a second
        return f"{ms}ms" if ms > 0 else "0s"
    minutes, ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{ms // 1000}.{ms % 1000:03}".rstrip("0").rstrip(".") if ms % 1000 else str(ms // 1000)
    return f"{hours}h{minutes}m{text}s" if hours else f"{minutes}m{text}s" if minutes else f"{text}s"
