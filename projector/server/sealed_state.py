"""What providers want back, sealed for clients: see `projector.conversation.opaque`.

A sealed value is encrypted as the values of a store are (`projector.store.encryption`): a version, the ID of the key, a
nonce, and the result of AES-256-GCM, bound to the caller. Inside are the value and its place, so that it returns to no
other upstream or model. Its length shows that of the value to `_STEP_BYTES`.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from projector.contracts import codec
from projector.conversation.opaque import SEALED, UNREADABLE, Carried, KeptCall, KeptCalls, Place
from projector.server.http.problems import problem
from projector.store.protocol import StoreUnavailableError

if TYPE_CHECKING:
    from projector.store.encryption import Keys

VALUE_MAX_BYTES: Final = 2**20
"""A larger value is not sealed: thinking of the longest answers takes half of it."""
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
