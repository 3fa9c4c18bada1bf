"""`Idempotency-Key`: a request that is sent again attaches to the stream of the first one.

The key belongs to its caller and route. The same key with another body is an error, since the caller would get the
answer to another question.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from starlette.datastructures import Headers
from starlette.types import Scope

from projector.contracts import codec
from projector.server.http.problems import problem
from projector.store.protocol import Store, StoreUnavailableError, StreamStatus

KEY_MAX_CHARS: Final = 255
KIND: Final = "idempotency_key"
KEPT_S: Final = 86_400.0
"""Seconds that a key is kept. An answer that has expired before is not requested again."""
WAIT_S: Final = 120.0
"""Seconds for the first request to begin its stream, and after which a key is free whose server has died."""
LATE_S: Final = 1.0
"""Seconds for the log of a stream that has ended to arrive in the store."""
_POLL_S: Final = 0.1


def key_of(scope: Scope) -> str | None:
    """Return the key of a request, None without one; raise `Problem` if it is invalid."""
    key = Headers(scope=scope).get("idempotency-key")
    if key is None:
        return None
    if not key or len(key) > KEY_MAX_CHARS or not key.isascii() or not key.isprintable():
        expected = f"`Idempotency-Key` must have 1 to {KEY_MAX_CHARS} printable ASCII characters."
        raise problem("invalid_request", expected, param="Idempotency-Key")
    return key


class Claim:
    """The key of one request."""

    def __init__(self, store: Store, scope: Scope, caller: str, key: str, body: dict[str, Any]) -> None:
        self._store = store
        place = f"{scope['path']}?{scope['query_string'].decode('latin-1')}"
        self._key = hashlib.sha256("\n".join((caller, scope["path"], key)).encode()).hexdigest()
        self._request = hashlib.sha256(place.encode() + b"\n" + codec.dumps(body)).hexdigest()

    async def enter(self, stream_id: str) -> StreamStatus | None:
        """Claim the key for a new stream; return the stream that it belongs to already, None if it is the new one.

        Raises:
            Problem: the key was used with another request, or the stream of the first one does not begin or is gone.
        """
        ours = codec.dumps_to_keep({"stream_id": stream_id, "request": self._request})
        began_at = time.monotonic()
        while (waited_s := time.monotonic() - began_at) < WAIT_S:
            claimed = await self._store.claim(KIND, {self._key: ours}, WAIT_S)
            found = codec.loads(claimed[self._key])
            if found["request"] != self._request:
                raise problem("idempotency_key_reused")
            if found["stream_id"] == stream_id:
                return None
            status = await self._store.find(found["stream_id"])
            if status is not None:
                return status
            if found.get("has_ended") and waited_s > LATE_S:
                raise problem("events_gone", "The stream of this `Idempotency-Key` is not kept any more.")
            await asyncio.sleep(_POLL_S)
        raise problem("overloaded", "The first request with this `Idempotency-Key` has not begun.")

    @asynccontextmanager
    async def held(self, stream_id: str, has_begun: Callable[[], bool]) -> AsyncGenerator[None, None]:
        """Hold the key while its stream runs; a refused request may be sent again with the same key."""
        holding = asyncio.create_task(self._hold(stream_id))
        try:
            yield
        finally:
            holding.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([holding])
                if has_begun():
                    await self._put(stream_id, KEPT_S, has_ended=True)
                else:
                    with suppress(StoreUnavailableError):
                        await self._store.update(KIND, [self._key], lambda _: [None], 0)

    async def _hold(self, stream_id: str) -> None:
        while True:
            await asyncio.sleep(WAIT_S / 3)
            await self._put(stream_id, WAIT_S)

    async def _put(self, stream_id: str, ttl_s: float, **more: bool) -> None:
        value = {"stream_id": stream_id, "request": self._request, **more}
        with suppress(StoreUnavailableError):
            await self._store.put(KIND, {self._key: codec.dumps_to_keep(value)}, ttl_s)
