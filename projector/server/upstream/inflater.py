"""Compressed bodies of responses, for providers that compress although the request does not accept it (D48)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from projector.core.faults import FAULTS
from projector.server.upstream.protocol import UpstreamError

ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
PIECE_MAX_BYTES: Final = 65_536
"""Size of one inflated piece. The limits of events and of the response count the pieces, as they are read."""
_ANY_HEADER: Final = 47
"""`wbits` of zlib for both formats, told apart by their header."""


class Inflater:
    """Inflates a body, wherever its bytes are cut."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ANY_HEADER)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what some bytes inflate to, in pieces; raise `UpstreamError` if they are not compressed."""
        piece = b""
        try:
            while data or len(piece) == PIECE_MAX_BYTES:
                if self._stream.eof:  # a body may have several members
                    self._stream = zlib.decompressobj(_ANY_HEADER)
                piece = self._stream.decompress(data, PIECE_MAX_BYTES)
                data = self._stream.unused_data or self._stream.unconsumed_tail
                if piece:
                    yield piece
        except zlib.error:
            raise UpstreamError(FAULTS["upstream_malformed"]) from None


def inflater_of(headers: Mapping[str, str]) -> Inflater | None:
    """Return the inflater of a response; None if its body is not compressed, or in an encoding that is not read."""
    return Inflater() if headers.get("Content-Encoding", "").strip().lower() in ENCODINGS else None
