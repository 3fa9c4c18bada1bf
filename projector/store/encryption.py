"""Encryption of what a store keeps: AES-256-GCM, with a key for each stream and each kind of value.

Encrypted are frames, the `meta` of heads, endings, and values; not IDs, owners, the keys of values, budgets, sizes and
times. What is encrypted is bound to its place: a frame to its stream and number, a head to all its members, an ending
to its stream, a value to its kind and key. A store that moves, swaps or alters any of it is noticed; one that leaves
out the newest is not.

Each ciphertext is a version, the first bytes of a hash of its key, a nonce, and the result of AES-GCM. The keys of
streams are derived from the configured key: a nonce is random, and 2^32 of them per key are safe.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from projector.store.budgets import Change
from projector.store.packing import pack
from projector.store.protocol import Batch, Page, Refusal, Seal, Store, StreamHead, StreamStatus, UnreadableError

KEY_BYTES: Final = 32
_VERSION: Final = b"\x01"
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_PREFIX_BYTES: Final = len(_VERSION) + _ID_BYTES + _NONCE_BYTES
OVERHEAD_BYTES: Final = _PREFIX_BYTES + 16
"""By how much a ciphertext is longer."""
_ENDING: Final = b"ending"
"""Place of the ending of a stream, which no number of a frame equals."""
_CIPHERS_MAX: Final = 4_096
"""Derived keys that are kept; about 1 KB each."""


class Keys:
    """The configured keys. The first one encrypts, all of them decrypt.

    Raises:
        ValueError: a key has not 32 bytes, there is none, or one twice.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys) or len(set(keys)) != len(keys):
            raise ValueError(f"expected different keys of {KEY_BYTES} bytes")
        self._keys = {_VERSION + hashlib.sha256(key).digest()[:_ID_BYTES]: key for key in keys}
        if len(self._keys) != len(keys):
            raise ValueError("two keys have the same ID: replace one of them")
        self._first = next(iter(self._keys))
        self._cipher = lru_cache(maxsize=_CIPHERS_MAX)(self._derive)

    def encrypt(self, scope: str, places: Sequence[bytes], texts: Sequence[bytes]) -> list[bytes]:
        """Encrypt texts of one scope, each bound to its place."""
        cipher, nonces = self._cipher(self._first, scope), os.urandom(_NONCE_BYTES * len(texts))
        encrypted = []
        for index, (place, text) in enumerate(zip(places, texts, strict=True)):
            nonce = nonces[_NONCE_BYTES * index : _NONCE_BYTES * (index + 1)]
            encrypted.append(self._first + nonce + cipher.encrypt(nonce, text, place))
        return encrypted

    def decrypt(self, scope: str, places: Sequence[bytes], texts: Sequence[bytes]) -> list[bytes]:
        """Decrypt texts of one scope.

        Raises:
            UnreadableError: one is not for its place, was altered, or its key is not configured.
        """
        decrypted = []
        for place, text in zip(places, texts, strict=True):
            key_id, nonce = text[: len(self._first)], text[len(self._first) : _PREFIX_BYTES]
            if key_id not in self._keys:
                raise UnreadableError("the store has data of a key that is not configured")
            try:
                decrypted.append(self._cipher(key_id, scope).decrypt(nonce, text[_PREFIX_BYTES:], place))
            except (InvalidTag, ValueError):
                raise UnreadableError("the store has data that was altered") from None
        return decrypted

    def _derive(self, key_id: bytes, scope: str) -> AESGCM:
        return AESGCM(hmac.digest(self._keys[key_id], scope.encode(), "sha256"))


class EncryptedStore:
    """A store that encrypts what another one keeps. See `projector.store.protocol.Store`.

    Limits of sizes are those of the inner store, and count the ciphertexts.
    """

    def __init__(self, inner: Store, keys: Sequence[bytes]) -> None:
        self._inner = inner
        self._keys = Keys(keys)
        # these have nothing to encrypt: budgets are numbers of a caller
        self.budgets = inner.budgets
        self.wait, self.delete, self.renew = inner.wait, inner.delete, inner.renew
        self.request_cancel, self.listen = inner.request_cancel, inner.listen
        self.places, self.place_of, self.ping, self.aclose = inner.places, inner.place_of, inner.ping, inner.aclose

    async def open(self, head: StreamHead) -> bool:
        """See `Store`."""
        (meta,) = self._keys.encrypt(_stream(head.stream_id), [_head_place(head)], [head.meta])
        return await self._inner.open(head._replace(meta=meta))

    async def append(self, batches: Sequence[Batch]) -> Mapping[str, Refusal]:
        """See `Store`."""
        return await self._inner.append(
            [one._replace(frames=self._encrypt(one.stream_id, one.first, one.frames)) for one in batches]
        )

    async def seal(
        self, stream_id: str, *, first: int = 0, frames: Sequence[bytes] = (), reason: str = "", ending: bytes = b""
    ) -> bool:
        """See `Store`."""
        encrypted = self._encrypt(stream_id, first, frames)
        if ending:
            (ending,) = self._keys.encrypt(_stream(stream_id), [_ENDING], [ending])
        return await self._inner.seal(stream_id, first=first, frames=encrypted, reason=reason, ending=ending)

    async def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """See `Store`."""
        page = await self._inner.read(stream_id, after, max_bytes)
        places = _places(page.first, len(page.frames))
        frames = self._keys.decrypt(_stream(stream_id), places, page.frames)
        return page._replace(frames=frames, seal=self._seal(stream_id, page.seal))

    async def find(self, stream_id: str) -> StreamStatus | None:
        """See `Store`."""
        status = await self._inner.find(stream_id)
        return None if status is None else self._status(status)

    async def recent(self, count: int, owner: str | None = None) -> Sequence[StreamStatus]:
        """See `Store`. What cannot be decrypted is empty."""
        found = []
        for status in await self._inner.recent(count, owner):
            try:
                found.append(self._status(status))
            except UnreadableError:
                seal = None if status.seal is None else status.seal._replace(ending=b"")
                found.append(status._replace(head=status.head._replace(meta=b""), seal=seal))
        return found

    async def claim(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """See `Store`."""
        stored = await self._inner.claim(kind, self._all_closed(kind, values), ttl_s)
        return {key: self._opened(kind, key, value) for key, value in stored.items()}

    async def put(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> None:
        """See `Store`."""
        await self._inner.put(kind, self._all_closed(kind, values), ttl_s)

    async def get(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store`."""
        found = zip(keys, await self._inner.get(kind, keys), strict=True)
        return [None if value is None else self._opened(kind, key, value) for key, value in found]

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store`."""

        def changed(values: Sequence[bytes | None]) -> Sequence[bytes | None] | None:
            pairs = zip(keys, values, strict=True)
            new = change([None if value is None else self._opened(kind, key, value) for key, value in pairs])
            if new is None:
                return None
            pairs = zip(keys, new, strict=True)
            return [None if value is None else self._closed(kind, key, value) for key, value in pairs]

        await self._inner.update(kind, keys, changed, ttl_s)

    def _encrypt(self, stream_id: str, first: int, frames: Sequence[bytes]) -> list[bytes]:
        return self._keys.encrypt(_stream(stream_id), _places(first, len(frames)), frames)

    def _status(self, status: StreamStatus) -> StreamStatus:
        head = status.head
        (meta,) = self._keys.decrypt(_stream(head.stream_id), [_head_place(head)], [head.meta])
        return status._replace(head=head._replace(meta=meta), seal=self._seal(head.stream_id, status.seal))

    def _seal(self, stream_id: str, seal: Seal | None) -> Seal | None:
        if seal is None or not seal.ending:
            return seal
        (ending,) = self._keys.decrypt(_stream(stream_id), [_ENDING], [seal.ending])
        return seal._replace(ending=ending)

    def _all_closed(self, kind: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
        return {key: self._closed(kind, key, value) for key, value in values.items()}

    def _closed(self, kind: str, key: str, value: bytes) -> bytes:
        return self._keys.encrypt(f"value/{kind}", [key.encode()], [value])[0]

    def _opened(self, kind: str, key: str, value: bytes) -> bytes:
        return self._keys.decrypt(f"value/{kind}", [key.encode()], [value])[0]


def _stream(stream_id: str) -> str:
    return f"stream/{stream_id}"


def _places(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def _head_place(head: StreamHead) -> bytes:
    """Return the place of the meta of a head, which no number of a frame equals."""
    return b"head" + pack([head.owner.encode(), head.producer.encode(), b"%d" % head.created_ms])
