"""The streams of the provider in `bench/proxy_sites.py`: the word in a request selects one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Iterable

from projector.contracts import codec

EVENTS_PER_S = 50
PACED_EVENTS = 250
BURST_EVENTS = 2_000
SLOW_S = 5
"""Seconds that a slow stream takes."""
THOUSAND = "thousand"
HUNDRED = "hundred"
"""Streams of a thousand events at once, and of a hundred, each in a read of its own."""
PACES = {b"paced": (PACED_EVENTS, 1 / EVENTS_PER_S), b"slow": (SLOW_S * 5, 1 / 5), b"burst": (BURST_EVENTS, 0)}
PACES |= {THOUSAND.encode(): (1_000, 0), HUNDRED.encode(): (100, 1 / 10)}
"""Load -> number of events, and the seconds between two of them."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
KEPT_HEAD = HEAD.replace(b"connection: close\r\n", b"")
_LIST = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
MODELS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_LIST), _LIST)
"""Answer to requests without a body: what gateways ask about health and models."""
PARTS = ("The weather", " in Paris", " is mild.")
TEXT = "".join(PARTS)
PART = {"type": "output_text", "annotations": [], "text": TEXT}
ITEM_STARTED = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
ITEM_DONE = ITEM_STARTED | {"status": "completed", "content": [PART]}
RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1741476777, "status": "in_progress", "model": "m"}
USAGE = {"input_tokens": 12, "output_tokens": 8, "total_tokens": 20}
AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
SHORT = [
    b"data: " + codec.dumps({"type": f"response.{kind}", "sequence_number": number} | members) + b"\n\n"
    for number, (kind, members) in enumerate(
        (
            ("created", {"response": RESPONSE | {"output": []}}),
            ("output_item.added", {"output_index": 0, "item": ITEM_STARTED}),
            ("content_part.added", AT | {"part": PART | {"text": ""}}),
            *(("output_text.delta", AT | {"delta": part, "logprobs": []}) for part in PARTS),
            ("output_text.done", AT | {"text": TEXT}),
            ("output_item.done", {"output_index": 0, "item": ITEM_DONE}),
            ("completed", {"response": RESPONSE | {"status": "completed", "output": [ITEM_DONE], "usage": USAGE}}),
        )
    )
]
"""A short answer, such as one between two tool calls: nine events."""
CHAT_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1741476777,"model":"m",'
    b'"choices":[{"index":0,"delta":{%b},"logprobs":null,"finish_reason":%b}]}\n\n'
)
CHAT_FIRST = CHAT_EVENT % (b'"role":"assistant","content":""', b"null")
CHAT_LAST = CHAT_EVENT % (b"", b'"stop"')
CHAT_END = b"data: [DONE]\n\n"
CHAT_DELTA = CHAT_EVENT % (b'"content":"hello there"', b"null")
CHAT_SHORT = [CHAT_FIRST, *[CHAT_DELTA] * 6, CHAT_LAST, CHAT_END]
LONG_BYTES = 64_000_000
"""Size of the text of a long answer, just below the limit of a stream."""
LONG_DELTA = 4_000
LONG_PAUSE_S = 3
"""Pause before the end of a long answer, during which the memory that is held for it is read."""
FIRST = b'data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}\n\n'
LAST = b'data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}\n\n'
EVENT = (
    b'data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,'
    b'"content_index":0,"delta":"hello there","logprobs":[],"obfuscation":"abcdefgh"}\n\n'
)
LARGE = (
    b'data: {"type":"response.image_generation_call.partial_image","item_id":"ig_1","output_index":1,'
    b'"partial_image_index":0,"partial_image_b64":"%b"}\n\n' % (b"A" * 2_000_000)
)
GARBAGE = b'data: {"type":\n\n'
ITEM = (
    b'data: {"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call","id":"fc_%d",'
    b'"call_id":"call_%d","name":"f","arguments":""}}\n\n'
)
ATTACKS = {
    b"items": lambda: (ITEM % (at, at, at) for at in range(10_000)),
    b"objects": lambda: iter([b'data: {"x":[' + b"{}," * 2**20 + b"0]}\n\n"]),
    b"lines": lambda: iter([b"data:\n" * 100_000]),
}
"""Load -> events of which the server must not read all."""
LONG_EVENT = (EVENT % 0).replace(b"hello there", b"word " * (LONG_DELTA // 5))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the requested streams: `paced`, `slow`, `burst` or a single event, `large` and `broken` ones too.

    The connection stays open after `short` answers, as those of providers do.
    """
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while await _answer(reader, writer):
            pass
    writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Send a stream; return whether another request may follow."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if head.startswith(b"GET "):
        writer.write(MODELS)
        return True
    is_chat = b"/chat/completions" in head.partition(b"\r\n")[0]
    if b"short" in body:
        await _send(writer, KEPT_HEAD, CHAT_SHORT if is_chat else SHORT)
        writer.write(b"0\r\n\r\n")
        return b"connection: close" not in head.lower()
    await _send(writer, HEAD, [CHAT_FIRST if is_chat else FIRST])
    if b"long" in body:
        await _send(writer, b"", itertools.repeat(LONG_EVENT, LONG_BYTES // LONG_DELTA))
        await asyncio.sleep(LONG_PAUSE_S)
    count, pause_s = next((pace for word, pace in PACES.items() if word in body), (1, 0))
    events = (CHAT_DELTA if is_chat else EVENT % number for number in range(count))
    await _send(writer, b"", events, pause_s)
    attack = next((events() for load, events in ATTACKS.items() if load in body), None)
    if attack is not None:
        await _send(writer, b"", attack)
        return False
    if b"large" in body:
        writer.write(_chunk(LARGE))
    is_broken, last = b"broken" in body, CHAT_LAST + CHAT_END if is_chat else LAST
    await _send(writer, b"", [GARBAGE if is_broken else last])
    if not is_broken:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return False


async def _send(writer: asyncio.StreamWriter, head: bytes, events: Iterable[bytes], pause_s: float = 0) -> None:
    writer.write(head)
    for event in events:
        writer.write(_chunk(event))
        await (asyncio.sleep(pause_s) if pause_s else writer.drain())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
