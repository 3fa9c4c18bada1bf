"""What providers want back with calls, between the requests of a caller: see `projector.conversation.opaque`.

It is kept in the memory of this process, and in a store that outlasts it, by a key with the caller, so that the ID of
another caller's call finds nothing. It may contain what redaction removed, so the store gets it encrypted, with a key
that only the ID of the call gives: when its stream is deleted, or has expired, nobody but its client knows that. Or
it is sealed and sent to the client: encrypted as the values of a store are (`projector.store.encryption`), bound to
the caller. Inside are the value and its place, so that it returns to no other upstream or model. The length of a
sealed value shows that of the value to `_STEP_BYTES`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from projector.contracts import codec
from projector.conversation.opaque import SEALED, UNREADABLE, Carried, KeptCall, KeptCalls, Place
from projector.server.http.problems import problem
from projector.server.ownership import BackgroundWrites, ids_of, stored
from projector.store.protocol import Store, StoreUnavailableError, reading

if TYPE_CHECKING:
    from projector.store.encryption import Keys

KIND: Final = "opaque"
MEMORY_MAX_BYTES: Final = 64 * 2**20
"""Size of what one process keeps in memory; the oldest values go first."""
VALUE_MAX_BYTES: Final = 2**20
"""A larger value is neither kept nor sealed: the reasoning before one call takes a few dozen KB."""


class CallKeeper(BackgroundWrites[str, bytes]):
    """Keeps what belongs to the calls of all callers.

    Args:
        store: where values are kept besides this process; None: nowhere.
        ttl_s: seconds for which a value is kept.
        max_bytes: size of the values in this process.
        clock: returns seconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        store: Store | None,
        ttl_s: float,
        *,
        max_bytes: int = MEMORY_MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._store = store
        self.ttl_s = ttl_s
        self._max_bytes = max_bytes
        self._clock = clock
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def keep(self, caller: str, call_id: str, place: Place, own: Any, before: tuple[Any, ...]) -> None:
        """Keep what belongs to a call; nothing, if it has the ID of an earlier one, takes the place of what that had.

        It may be called in any thread, and is written to the store by `write`.
        """
        if own is None and not before and _key(caller, call_id) not in self._values:
            return
        key, value = _key(caller, call_id), codec.dumps([place, self._clock(), own, before])
        if len(value) > VALUE_MAX_BYTES:
            return
        self._add(key, value)
        if self._store is not None:
            self._waiting[key] = _keys([_secret(caller, call_id)]).encrypt(KIND, [key.encode()], [value])[0]

    async def load(self, body: Mapping[str, Any], caller: str) -> KeptCalls:
        """Return what is kept of the calls that a request names."""
        if self._store is None and not self._values:
            return {}
        ids = ids_of(body)
        keys = [_key(caller, one) for one in ids]
        found = {one: value for one, key in zip(ids, keys, strict=True) if (value := self._values.get(key)) is not None}
        missing = [(one, key) for one, key in zip(ids, keys, strict=True) if one not in found]
        if missing and self._store is not None:
            self.write()
            values = await stored(self._store, KIND, [key for _, key in missing])
            for (one, key), value in zip(missing, values, strict=True):
                if value is not None:
                    found[one] = _keys([_secret(caller, one)]).decrypt(KIND, [key.encode()], [value])[0]
        calls = {one: _read(value) for one, value in found.items()}
        oldest = self._clock() - self.ttl_s
        return {one: call for one, call in calls.items() if call.at >= oldest and (call.own is not None or call.before)}

    def _is_wanted(self, key: str, /) -> bool:
        return key in self._values  # a value that is not in memory any more was one too many

    async def _put(self, batch: dict[str, bytes]) -> None:
        if self._store is not None:
            await self._store.put(KIND, batch, self.ttl_s)

    def _add(self, key: str, value: bytes) -> None:
        self._bytes += len(value) - len(self._values.pop(key, b""))
        self._values[key] = value
        while self._bytes > self._max_bytes and self._values:
            _, oldest = self._values.popitem(last=False)
            self._bytes -= len(oldest)


def _key(caller: str, call_id: str) -> str:
    return hashlib.sha256(codec.dumps([caller, call_id])).hexdigest()


def _secret(caller: str, call_id: str) -> bytes:
    """Return the key of a call's value. It is kept nowhere, and the key of the row tells nothing about it."""
    return hashlib.sha256(codec.dumps([caller, call_id, KIND])).digest()


def _read(value: bytes) -> KeptCall:
    with reading():
        place, at, own, before = codec.loads(value)
        return KeptCall(Place(*place), at, own, tuple(before))


SEALED_MAX_CHARS: Final = len(SEALED) + 2 * VALUE_MAX_BYTES
"""A longer text was not sealed here: base64 takes a third more than the value."""
_STEP_BYTES: Final = 256
_SCOPE: Final = "state"


class StateSealer:
    """Seals and opens values of all callers.

    Args:
        keys: the first one seals, all of them open; without keys nothing is sealed.
        clock: returns seconds since 1970-01-01 UTC.
    """

    def __init__(self, keys: Sequence[bytes], *, clock: Callable[[], float] = time.time) -> None:
        self._keys = _keys(keys) if keys else None
        self._clock = clock

    @property
    def is_on(self) -> bool:
        """Whether there is a key."""
        return self._keys is not None

    def seal(self, caller: str, place: Place, value: Any, before: tuple[Any, ...] = ()) -> str | None:
        """Return a value, and those before it, as a text for the caller; None if it is too large, or without a key."""
        if self._keys is None:
            return None
        text = codec.dumps([place, self._clock(), value, *before])
        if len(text) > VALUE_MAX_BYTES:
            return None
        padded = text.ljust(-(-len(text) // _STEP_BYTES) * _STEP_BYTES)
        return SEALED + base64.b64encode(self._keys.encrypt(_SCOPE, [_bound(caller)], [padded])[0]).decode()

    def open(self, caller: str, sealed: str) -> KeptCall | None:
        """Return what was sealed; None if it was for another caller, was changed, or its key is not configured."""
        if self._keys is None or len(sealed) > SEALED_MAX_CHARS:
            return None
        try:
            encrypted = base64.b64decode(sealed.removeprefix(SEALED), validate=True)
            if SEALED + base64.b64encode(encrypted).decode() != sealed:  # bits after the end change no byte
                return None
            place, at, value, *before = codec.loads(self._keys.decrypt(_SCOPE, [_bound(caller)], [encrypted])[0])
        except (binascii.Error, ValueError, StoreUnavailableError):
            return None
        return KeptCall(Place(*place), at, value, tuple(before))

    def opened(self, caller: str, carried: Iterable[Carried]) -> KeptCalls:
        """Return what is in the sealed values of a request; raise `Problem` if one is needed and cannot be opened.

        That of an earlier call is left out, so that what the server has kept of it counts.
        """
        found: dict[str, KeptCall] = {}
        for one in carried:
            call = self.open(caller, one.sealed)
            if call is None and one.is_needed:
                raise problem("invalid_request", f"`{one.param}` {_REFUSED}", param=one.param)
            if one.call_id is None:
                found[one.sealed] = call or UNREADABLE
            elif call is not None:
                found[one.call_id] = call
        return found


_REFUSED: Final = (
    "is not valid: it was changed, belongs to another caller, or has expired. Reasoning before calls that are not "
    "finished must come back unchanged."
)


def _keys(keys: Sequence[bytes]) -> Keys:
    from projector.store.encryption import Keys  # noqa: PLC0415 - a start without it is faster

    return Keys(keys)


def _bound(caller: str) -> bytes:
    return codec.dumps(caller)
