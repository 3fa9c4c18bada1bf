"""Input streams: generated from fixed seeds, or read from the corpus.

They are divided into reads of a socket's size, and look like the provider's: event and data lines, IDs of its length,
obfuscation, closing events that repeat the text. `tests/contract/test_bench_inputs.py` checks each event against the
SDK's models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

Event: TypeAlias = dict[str, Any]

READ_BYTES: Final = 1_400
"""Payload of a TCP segment over Ethernet; reads of a live stream are rarely larger."""

CORPUS: Final = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "responses"

RESPONSE_ID: Final = "resp_" + "0a1b2c3d" * 6
CHAT_ID: Final = "chatcmpl-" + "0a1b2c3d" * 4
MODEL: Final = "model-of-the-benchmark"
MESSAGE_DELTAS: Final = 1_000
"""Length of a long answer."""
CALL_NAME: Final = "book_rooms"
CALL_CHARS: Final = 6_000
"""Arguments of one call: long, but below the contract's limit, so that no fragment is dropped."""

PROSE: Final = (
    "the stream of tokens is read and each word comes alone with its blank, so a page can show it at once; "
    "café naïve façade über — “quoted” it was for them that a model in an event says what it can"
)
WORDS: Final = PROSE.split()


class Input(NamedTuple):
    """Streams of one provider."""

    name: str
    provider: str
    streams: list[list[bytes]]
    events: int
    text: str
    """The joined deltas of all streams."""


def text(deltas: int, message_deltas: int = MESSAGE_DELTAS) -> Input:
    """Return a Responses stream of messages, a word in each delta."""
    words = list(_words(deltas))
    rng = Random(deltas)
    events: list[Event] = [{"type": "response.created", "response": _response("in_progress")}]
    for at, start in enumerate(range(0, deltas, message_deltas)):
        parts = words[start : start + message_deltas]
        place = {"item_id": f"msg_{at:048x}", "output_index": at, "content_index": 0}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(parts)}
        item = {"id": place["item_id"], "type": "message", "role": "assistant"}
        events += [
            _item("added", at, item, status="in_progress", content=[]),
            *(
                {
                    "type": "response.output_text.delta",
                    "delta": word,
                    **place,
                    "logprobs": [],
                    "obfuscation": "x" * rng.randint(2, 16),
                }
                for word in parts
            ),
            {"type": "response.output_text.done", "text": part["text"], **place, "logprobs": []},
            _item("done", at, item, status="completed", content=[part]),
        ]
    events.append({"type": "response.completed", "response": _response("completed")})
    return _responses("text", events, "".join(words))


def alone(subject: Input) -> Input:
    """Return the same streams with a read for each event, as events of a model arrive one by one."""
    wholes = (b"".join(reads) for reads in subject.streams)
    streams = [[event + b"\n\n" for event in whole.split(b"\n\n") if event] for whole in wholes]
    return subject._replace(name=f"{subject.name}, an event in each read", streams=streams)


def arguments(deltas: int, fragment_chars: int, call_chars: int = CALL_CHARS) -> Input:
    """Return a Responses stream of function calls, their arguments in fragments of one size."""
    rng = Random(fragment_chars)
    events: list[Event] = [{"type": "response.created", "response": _response("in_progress")}]
    wholes = [_document(rng, call_chars) for _ in range(deltas * fragment_chars // call_chars)]
    for at, whole in enumerate(wholes):
        place = {"item_id": f"fc_{at:048x}", "output_index": at}
        item = {"id": place["item_id"], "type": "function_call", "name": CALL_NAME, "call_id": f"call_{at:024x}"}
        events += [
            _item("added", at, item, status="in_progress", arguments=""),
            *(
                {
                    "type": "response.function_call_arguments.delta",
                    "delta": whole[start : start + fragment_chars],
                    **place,
                    "obfuscation": "x" * rng.randint(2, 16),
                }
                for start in range(0, len(whole), fragment_chars)
            ),
            {"type": "response.function_call_arguments.done", "arguments": whole, "name": CALL_NAME, **place},
            _item("done", at, item, status="completed", arguments=whole),
        ]
    events.append({"type": "response.completed", "response": _response("completed")})
    return _responses(f"arguments, {fragment_chars} characters each", events, "".join(wholes))


def chat(deltas: int) -> Input:
    """Return a Chat Completions stream of one message, a word in each chunk."""
    words = list(_words(deltas))
    chunks = [
        _chunk({"role": "assistant", "content": "", "refusal": None}),
        *(_chunk({"content": word}) for word in words),
        _chunk({}, "stop"),
    ]
    wire = [b"data: " + _json(chunk) + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]
    return Input("Chat text", "openai_chat", [_reads(wire)], len(wire), "".join(words))


def corpus() -> Input | None:
    """Return the recorded Responses streams; None if there are none."""
    recordings = [path.read_bytes().splitlines() for path in sorted(CORPUS.glob("*.ndjson"))]
    streams = [[_message(json.loads(line)) for line in lines if line.strip()] for lines in recordings]
    if not streams:
        return None
    return Input("corpus", "openai_responses", [_reads(wire) for wire in streams], sum(map(len, streams)), "")


def events_of(streams: Iterable[list[bytes]]) -> Iterator[Event]:
    """Yield the events of generated streams, in order, without the end mark of a Chat stream."""
    for reads in streams:
        for block in b"".join(reads).split(b"\n\n"):
            if b"{" in block:
                yield json.loads(block[block.index(b"{") :])


def _responses(name: str, events: list[Event], text: str) -> Input:
    wire = [_message(event | {"sequence_number": number}) for number, event in enumerate(events)]
    return Input(name, "openai_responses", [_reads(wire)], len(wire), text)


def _message(event: Mapping[str, Any]) -> bytes:
    return b"event: " + str(event.get("type")).encode() + b"\ndata: " + _json(event) + b"\n\n"


def _reads(wire: list[bytes]) -> list[bytes]:
    whole = b"".join(wire)
    return [whole[start : start + READ_BYTES] for start in range(0, len(whole), READ_BYTES)]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _words(count: int) -> Iterator[str]:
    rng = Random(count)
    return (f" {rng.choice(WORDS)}" for _ in range(count))


def _document(rng: Random, min_chars: int) -> str:
    """Return typical arguments: names, dates, numbers, prose, one level of nesting."""
    rooms: list[str] = []
    while sum(map(len, rooms)) < min_chars:
        room = {
            "room_id": rng.randint(100, 999),
            "from": f"2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "nightly_rate": rng.randint(8_000, 20_000) / 100,
            "breakfast": rng.choice([True, False]),
            "notes": " ".join(rng.choice(WORDS) for _ in range(12)),
            "tags": ["quiet", "first floor"],
        }
        rooms.append(json.dumps(room, ensure_ascii=False))
    return f'{{"guest": "A. Guest", "currency": "EUR", "rooms": [{", ".join(rooms)}]}}'


def _response(status: str) -> Event:
    """Return a snapshot without its items, as some servers send it: the bare loop cannot join long events."""
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": 1_750_000_000,
        "status": status,
        "model": MODEL,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }


def _item(what: str, at: int, item: Event, **members: object) -> Event:
    return {"type": f"response.output_item.{what}", "output_index": at, "item": item | members}


def _chunk(delta: Event, finish_reason: str | None = None) -> Event:
    return {
        "id": CHAT_ID,
        "object": "chat.completion.chunk",
        "created": 1_750_000_000,
        "model": MODEL,
        "service_tier": "default",
        "system_fingerprint": None,
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
        "usage": None,
    }
