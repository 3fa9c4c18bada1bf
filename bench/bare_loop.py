"""The bare loop: the shortest Python that turns the same bytes into as many frames with the same keys.

It splits at blank lines, parses each event, encodes one dict literal per frame, and joins. It has no decoder, no state,
no checks and no redaction; the difference to a pipeline is their cost. It works only for the streams of `bench.inputs`.

Values that are the same in all frames of a stream are constants, because a loop without state does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

import orjson

from bench.inputs import CALL_NAME, CHAT_ID, RESPONSE_ID

Frames: TypeAlias = Callable[[list[bytes], Iterator[int]], list[bytes]]
"""Blocks of one read, and the event IDs -> encoded frames."""

STREAM_ID: Final = "stream_" + "0" * 32
TIMESTAMP: Final = "2025-12-15T12:00:00.000Z"
CHAT_MESSAGE_ID: Final = f"msg_{CHAT_ID}_0"
CALL_ID: Final = "call_" + "0" * 24


def run(frames: Frames, reads: Sequence[bytes]) -> list[bytes]:
    """Return the output after each read."""
    numbers, rest, written = count(1), b"", []
    for read in reads:
        *blocks, rest = (rest + read).split(b"\n\n")
        output = frames(blocks, numbers)
        written.append(b"data: " + b"\n\ndata: ".join(output) + b"\n\n" if output else b"")
    return written


def text(blocks: list[bytes], numbers: Iterator[int]) -> list[bytes]:
    """Return a `message.delta` for each text delta."""
    return [
        orjson.dumps(
            {
                "schema": "public_sse_v1",
                "event_id": next(numbers),
                "stream_id": STREAM_ID,
                "server_timestamp": TIMESTAMP,
                "response_id": RESPONSE_ID,
                "kind": "message.delta",
                "output_index": event["output_index"],
                "item_id": event["item_id"],
                "content_index": event["content_index"],
                "delta": event["delta"],
                "provider_sequence_number": event["sequence_number"],
            }
        )
        for block in blocks
        if "delta" in (event := orjson.loads(block[block.index(b"{") :]))
    ]


def arguments(blocks: list[bytes], numbers: Iterator[int]) -> list[bytes]:
    """Return a `tool.arguments.delta` for each fragment."""
    return [
        orjson.dumps(
            {
                "schema": "public_sse_v1",
                "event_id": next(numbers),
                "stream_id": STREAM_ID,
                "server_timestamp": TIMESTAMP,
                "response_id": RESPONSE_ID,
                "kind": "tool.arguments.delta",
                "output_index": event["output_index"],
                "item_id": event["item_id"],
                "tool_call_id": CALL_ID,
                "tool_type": "function",
                "tool_name": CALL_NAME,
                "delta": event["delta"],
                "provider_sequence_number": event["sequence_number"],
            }
        )
        for block in blocks
        if "delta" in (event := orjson.loads(block[block.index(b"{") :]))
    ]


def chat(blocks: list[bytes], numbers: Iterator[int]) -> list[bytes]:
    """Return a `message.delta` for each chunk with text."""
    return [
        orjson.dumps(
            {
                "schema": "public_sse_v1",
                "event_id": (number := next(numbers)),
                "stream_id": STREAM_ID,
                "server_timestamp": TIMESTAMP,
                "response_id": chunk["id"],
                "kind": "message.delta",
                "output_index": 0,
                "item_id": CHAT_MESSAGE_ID,
                "content_index": 0,
                "delta": content,
                "provider_sequence_number": number,
            }
        )
        for block in blocks
        if b"{" in block
        and (content := (chunk := orjson.loads(block[block.index(b"{") :]))["choices"][0]["delta"].get("content"))
    ]


def recorded(known: Sequence[dict[str, Any]]) -> Frames:
    """Return a bare loop for a stream with any events, which encodes frames that are known in advance."""

    def frames(blocks: list[bytes], _numbers: Iterator[int]) -> list[bytes]:
        for block in blocks:
            orjson.loads(block[block.index(b"{") :])
        return [orjson.dumps({**frame}) for frame in known]

    return frames
