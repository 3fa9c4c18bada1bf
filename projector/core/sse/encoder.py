"""Messages into bytes of an event stream."""

from __future__ import annotations

from collections.abc import Iterable


def encode_sse(data: bytes, event: str | None = None) -> bytes:
    """Give one message as bytes, line ends LF only (some clients split at LF LF).

    Data that holds line ends becomes one `data` line for each of its lines; a reader joins them with LF.
    """
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    if event is None:
        return b"data: " + lines + b"\n\n"
    return b"event: " + event.encode() + b"\ndata: " + lines + b"\n\n"


def encode_events(events: Iterable[tuple[str | None, bytes]]) -> bytes:
    """Give several messages, each a name or None and its data, as bytes: `encode_sse` of each, joined."""
    parts: list[bytes] = []
    for name, data in events:
        if name is None and b"\n" not in data and b"\r" not in data:
            parts += (b"data: ", data, b"\n\n")
        else:
            parts.append(encode_sse(data, name))
    return b"".join(parts)


def encode_comment(text: str) -> bytes:
    """Give one comment as bytes. It stays one line: readers that split at lines must not meet a field in it."""
    return b": " + " ".join(text.splitlines()).encode() + b"\n\n"
