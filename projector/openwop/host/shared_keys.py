"""`Idempotency-Key` of the requests that start runs, in the store: the same key is one run on all servers."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.runs import HostRun, IdempotencyKey
from projector.store.protocol import Store, StoreUnavailableError

KIND: Final = "openwop-key"
KEPT_S: Final = 86_400.0
BEGIN_S: Final = 5.0
"""Seconds for the log of a run to appear in the store, after which the run is taken for gone."""
_POLL_S: Final = 0.05

Find: TypeAlias = Callable[[str, str], Awaitable[HostRun]]
"""Returns a run of a caller; raises `HostError` if there is none."""


class SharedKeys:
    """The keys of all servers with one store; without the store, each server has its own."""

    def __init__(self, store: Store, find: Find) -> None:
        self._store = store
        self._find = find

    async def enter(self, key: IdempotencyKey, run_id: str) -> HostRun | None:
        """Claim a key for a new run; return the run that it belongs to already, None if it is the new one.

        A key whose run is not kept any more is free.

        Raises:
            HostError: the key belongs to another request.
        """
        ours = codec.dumps({"run": run_id, "request": key.digest.hex()})
        began_at = time.monotonic()
        try:
            while True:
                stored = await self._store.claim(KIND, _place(key), ours, KEPT_S)
                if stored == ours:
                    return None
                found = codec.loads(stored)
                if found["request"] != key.digest.hex():
                    raise HostError("idempotency_key_mismatch")
                try:
                    return await self._find(found["run"], key.caller)
                except HostError:
                    is_late = time.monotonic() - began_at > BEGIN_S
                if is_late and await self._store.replace(KIND, _place(key), stored, ours, KEPT_S):
                    return None
                await asyncio.sleep(_POLL_S)
        except StoreUnavailableError:
            return None

    async def leave(self, key: IdempotencyKey) -> None:
        """Give up a key whose run could not start."""
        try:
            await self._store.drop(KIND, _place(key))
        except StoreUnavailableError:
            return


def _place(key: IdempotencyKey) -> str:
    return hashlib.sha256(f"{key.caller}\n{key.name}".encode()).hexdigest()
