"""Quotas of callers over all servers with one store: runs that have not ended, runs that wait, and readers.

A caller has one value for its runs and one for its readers: their IDs, each with the time until which it counts. Every
server renews its own, so those of a server that died are free after its lease. A run that waits belongs to no server,
and counts until it is answered, or its time is over. While the store is away, each server counts by itself
(`RunStore`, `ReaderLimit`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, Protocol, TypeAlias

from projector.contracts import codec
from projector.openwop.host.host_errors import HostError
from projector.server.control.rate_limits import owner_of
from projector.store.protocol import LEASE_S, Change, StoreUnavailableError

RUNS: Final = "openwop-runs"
READERS: Final = "openwop-readers"
WAITING: Final = 1
"""State of a run that waits; 0 of any other, and of readers."""
CLOSE_S: Final = 2.0
"""Seconds to give up what is held when the server stops."""

_Held: TypeAlias = dict[str, tuple[float, int]]
"""ID -> seconds since 1970-01-01 UTC until which it counts, and its state."""


class Updating(Protocol):
    """The part of a store that quotas need."""

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `projector.store.protocol.Store`."""


class CallerLimits(NamedTuple):
    """Limits of one caller."""

    runs: int
    waiting: int
    readers: int
    wait_s: float
    """Seconds that a run may wait."""


class Quotas:
    """The quotas of all callers, as one server sees them."""

    def __init__(self, store: Updating, limits: CallerLimits, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._own: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """Kind and owner -> what this server holds, and renews."""
        self._leaving: set[asyncio.Task[None]] = set()

    async def enter(self, caller: str, run_id: str) -> None:
        """Count a new run; raise `HostError` if the caller has too many."""
        limits = self._limits

        def check(held: _Held) -> str | None:
            if len(held) >= limits.runs:
                return "Too many active runs of this caller."
            waiting = sum(state == WAITING for _, state in held.values())
            return "Too many runs of this caller wait for approval." if waiting >= limits.waiting else None

        await self._take(RUNS, owner_of(caller), run_id, check)

    def leave(self, caller: str, run_id: str) -> None:
        """Count a run no longer, soon. Idempotent."""
        self._give_up(RUNS, owner_of(caller), run_id)

    async def park(self, caller: str, run_id: str) -> None:
        """Count a run as one that waits and belongs to no server. To be called before others may continue it."""
        owner, until_s = owner_of(caller), self._clock() + self._limits.wait_s + LEASE_S
        self._disown(RUNS, owner, run_id)

        def put(held: _Held) -> bool:
            held[run_id] = (until_s, WAITING)
            return True

        await self._change(RUNS, owner, put)

    def adopt(self, caller: str, run_id: str) -> None:
        """Count a run that waited as one of this server, soon."""
        owner = owner_of(caller)
        self._own[RUNS, owner].add(run_id)
        self._soon(self._renew(RUNS, owner, ()))

    @asynccontextmanager
    async def reading(self, caller: str) -> AsyncIterator[None]:
        """Count a reader; raise `HostError` if the caller has too many."""
        owner, reader, most = owner_of(caller), secrets.token_hex(8), self._limits.readers
        await self._take(
            READERS, owner, reader, lambda held: "Too many readers of this caller." if len(held) >= most else None
        )
        try:
            yield
        finally:
            self._give_up(READERS, owner, reader)

    async def renew(self, waiting: Collection[str]) -> None:
        """Renew what this server holds; `waiting` are its runs that wait."""
        for kind, owner in [*self._own]:
            await self._renew(kind, owner, waiting)

    async def aclose(self) -> None:
        """Wait until what is given up is, for a while."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_S)

    async def _take(self, kind: str, owner: str, name: str, check: Callable[[_Held], str | None]) -> None:
        refusal: str | None = None

        def add(held: _Held) -> bool:
            nonlocal refusal
            refusal = check(held)
            held[name] = (self._clock() + LEASE_S, 0)
            return refusal is None

        with suppress(StoreUnavailableError):
            await self._change(kind, owner, add)
        if refusal is not None:
            raise HostError("rate_limited", refusal)
        self._own[kind, owner].add(name)

    async def _renew(self, kind: str, owner: str, waiting: Collection[str]) -> None:
        until_s = self._clock() + LEASE_S

        def put(held: _Held) -> bool:
            own = self._own.get((kind, owner), set())  # some may have been given up meanwhile
            held.update({name: (until_s, WAITING if name in waiting else 0) for name in [*own]})
            return True

        await self._change(kind, owner, put)

    def _give_up(self, kind: str, owner: str, name: str) -> None:
        self._disown(kind, owner, name)
        self._soon(self._change(kind, owner, lambda held: held.pop(name, None) is not None))

    def _disown(self, kind: str, owner: str, name: str) -> None:
        self._own[kind, owner].discard(name)
        if not self._own[kind, owner]:
            del self._own[kind, owner]

    async def _change(self, kind: str, owner: str, change: Callable[[_Held], bool]) -> None:
        """Change what an owner holds; `change` returns whether there is something to store."""
        wait_s = self._limits.wait_s + 2 * LEASE_S

        def changed(values: Sequence[bytes | None]) -> Sequence[bytes | None] | None:
            now_s = self._clock()
            stored = {} if values[0] is None else codec.loads(values[0])
            held: _Held = {name: (until_s, state) for name, (until_s, state) in stored.items() if until_s > now_s}
            return [codec.dumps(held) if held else None] if change(held) else None

        await self._store.update(kind, [owner], changed, wait_s)

    def _soon(self, work: Coroutine[None, None, None]) -> None:
        """Do work that nothing waits for; without the store, what was held ends with its time."""

        async def do() -> None:
            with suppress(StoreUnavailableError):
                await work

        task = asyncio.create_task(do())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
