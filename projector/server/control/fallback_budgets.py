"""Budgets of callers in the store, and in this process while the store is away: rate limits stop no request then."""

from __future__ import annotations

from collections.abc import Sequence

from projector.server.streaming.stream_logs import StreamLogs
from projector.store.budgets import Budgets, Level, Limit, MemoryBudgets, Receipt
from projector.store.protocol import StoreUnavailableError


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
        local = [one for one in used if isinstance(one[0], _LocalReceipt)]
        shared = [one for one in used if not isinstance(one[0], _LocalReceipt)]
        if local:
            await self._local.settle(local)
        if shared and self._logs.is_available:
            try:
                await self._shared.settle(shared)
            except StoreUnavailableError as error:
                self._logs.on_unavailable(error)
