"""Values with a time to live, in the memory of one process."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence

from projector.store.protocol import Change


class MemoryValues:
    """The values of a store. See `projector.store.protocol.Store`.

    Args:
        kept_max: values of each kind; the least recently written go first.
        clock: returns seconds.
    """

    def __init__(self, kept_max: int, clock: Callable[[], float]) -> None:
        self._kept_max = kept_max
        self._value_clock = clock
        self._values: defaultdict[str, OrderedDict[str, tuple[bytes, float]]] = defaultdict(OrderedDict)

    async def claim(self, kind: str, key: str, value: bytes, ttl_s: float) -> bytes:
        """See `Store`."""
        found = self._find(kind, key)
        if found is None:
            self.put_now(kind, key, value, ttl_s)
            return value
        return found

    async def claim_many(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """See `Store`."""
        return {key: await self.claim(kind, key, value, ttl_s) for key, value in values.items()}

    async def put(self, kind: str, key: str, value: bytes, ttl_s: float) -> None:
        """See `Store`."""
        self.put_now(kind, key, value, ttl_s)

    async def get(self, kind: str, key: str) -> bytes | None:
        """See `Store`."""
        return self._find(kind, key)

    async def get_many(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store`."""
        return [self._find(kind, key) for key in keys]

    async def drop(self, kind: str, key: str) -> None:
        """See `Store`."""
        self._values[kind].pop(key, None)

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store`."""
        changed = change([self._find(kind, key) for key in keys])
        for key, value in zip(keys, changed or (), strict=changed is not None):
            if value is None:
                self._values[kind].pop(key, None)
            else:
                self.put_now(kind, key, value, ttl_s)

    def _find(self, kind: str, key: str) -> bytes | None:
        value, until_s = self._values[kind].get(key, (None, 0.0))
        return value if until_s > self._value_clock() else None

    def put_now(self, kind: str, key: str, value: bytes, ttl_s: float) -> None:
        """Do what `put` does."""
        values = self._values[kind]
        values[key] = (value, self._value_clock() + ttl_s)
        values.move_to_end(key)
        if len(values) > self._kept_max:
            values.popitem(last=False)
