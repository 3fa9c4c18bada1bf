"""What the decoders return: messages, and when the data of an unfinished one may count."""

from __future__ import annotations

from typing import Final, NamedTuple

from projector.contracts import codec

DONE: Final = b"[DONE]"
"""The data of the message that ends a Chat Completions stream; the one payload that is not JSON."""


class SseMessage(NamedTuple):
    """One message: its data as sent, lines joined by LF, and its event name, empty where none was given."""

    data: bytes
    event: str = ""


def is_whole(data: bytes) -> bool:
    """Tell whether the end of input came after the end of the data."""
    if data.strip() == DONE:
        return True
    try:
        codec.loads(data)
    except codec.CodecError:
        return False
    return True
