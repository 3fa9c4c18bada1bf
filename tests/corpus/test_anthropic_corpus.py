"""Every recorded Messages stream in every dialect, at drawn cuts, against a plain reading of the same events."""

from __future__ import annotations

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from projector.core.sse import encode_sse
from projector.dialects import DIALECTS
from tests.corpus.every_cut import STREAMS, differences, pipeline_of
from tests.dialect_checks import violations_of
from tests.property.dialect_streams import CHECKS
from tests.property.dialect_streams import events_of as events_in
from tests.unit.test_anthropic_messages import came, went_back

PASSAGE_CHARS: Final = 60
EVERY: Final = 1 if "PROJECTOR_TESTS_EFFORT" in os.environ else 4
"""One in how many dialects reads a recording; each reads some, and each is read by some."""
CUTS: Final = 8
SIZES: Final = (1, 40, 400, 5000)
"""Largest pieces of the cuts."""
SPLICED: Final = "vercel-ai__anthropic_spliced-message-start"

Event = Mapping[str, Any]
Said = tuple[str, dict[str, str]]
"""Text of an answer, and the arguments of its calls."""


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def project(data: bytes, dialect: str, pieces: Iterator[int]) -> bytes:
    """Return the output for bytes that are cut into pieces of these sizes."""
    pipeline = pipeline_of(dialect)
    at, output = 0, b""
    while at < len(data):
        size = next(pieces)
        output += pipeline.feed(data[at : at + size])
        at += size
    return output + pipeline.close()


def drawn(seed: str, size_max: int) -> Iterator[int]:
    draw = Random(seed)
    while True:
        yield draw.randint(1, size_max)


def deltas_of(events: list[dict[str, Any]], kind: str, member: str) -> list[str]:
    """Return the deltas of a type, joined by block."""
    texts: dict[int, str] = defaultdict(str)
    for event in events:
        if event.get("type") == "content_block_delta" and event["delta"]["type"] == kind:
            texts[event["index"]] += event["delta"][member]
    return list(texts.values())


def messages_of(events: list[dict[str, Any]]) -> list[str]:
    """Return the texts of blocks of text that follow each other, joined."""
    found, is_new = list[str](), True
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] != "text":
            is_new = True
        elif text := event.get("delta", {}).get("text"):
            found += [""] if is_new else []
            found[-1] += text
            is_new = False
    return found


def source_of(events: list[dict[str, Any]]) -> Said:
    """Return text and calls of a stream."""
    calls: dict[int, Any] = {}
    inputs: dict[int, str] = defaultdict(str)
    for event in events:
        block, delta = event.get("content_block", {}), event.get("delta", {})
        if event["type"] == "message_start":
            calls |= dict(enumerate(event["message"]["content"]))
        elif event["type"] == "content_block_start":
            calls[event["index"]] = block
        elif delta.get("type") == "input_json_delta":
            inputs[event["index"]] += delta["partial_json"]
    return "".join(deltas_of(events, "text_delta", "text")), {
        block["id"]: inputs[at] or json.dumps(block["input"])
        for at, block in calls.items()
        if block["type"] == "tool_use"
    }


def _public(events: list[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        if event["kind"] in {"message.delta", "tool.arguments.done"}:
            yield event.get("tool_call_id", ""), event.get("delta") or event.get("arguments_text", "")


def _responses(events: list[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        if event["type"] == "response.output_text.delta":
            yield "", event["delta"]
        elif event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            yield event["item"]["call_id"], event["item"]["arguments"]


def _chat(events: list[Event]) -> Iterator[tuple[str, str]]:
    ids: dict[int, str] = {}
    for choice in (one for event in events for one in event.get("choices", ())):
        yield "", choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls", ()):
            ids.setdefault(call["index"], call.get("id", ""))
            yield ids[call["index"]], call["function"]["arguments"]


def _messages(events: list[Event]) -> Iterator[tuple[str, str]]:
    call = ""
    for event in events:
        if event["type"] == "content_block_start":
            call = event["content_block"].get("id", "")
        for name, value in event.get("delta", {}).items():
            if name in {"text", "partial_json"}:
                yield call, value


def _ag_ui(events: list[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        if event["type"] in {"TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"}:
            yield event.get("toolCallId", ""), event["delta"]


def _ai_sdk(events: list[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        if event["type"] in {"text-delta", "tool-input-delta"}:
            yield event.get("toolCallId", ""), event.get("delta") or event["inputTextDelta"]


def _openwop(events: list[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        payload = event["payload"]
        if event["type"] == "output.chunk":
            yield "", payload["chunk"]
        elif event["type"] == "agent.toolCalled":
            yield payload["callId"], json.dumps(payload.get("inputs"))


READERS: Final[Mapping[str, Callable[[list[Event]], Iterator[tuple[str, str]]]]] = {
    "public_sse_v1": _public,
    "responses": _responses,
    "openresponses": _responses,
    "chat_completions": _chat,
    "anthropic_messages": _messages,
    "ag_ui": _ag_ui,
    "ai_sdk": _ai_sdk,
    "openwop": _openwop,
}
"""Dialect -> yields what its reader joins: pieces of the text, and of the arguments of a call."""


def read_in(dialect: str, output: bytes) -> Said:
    """Return what the reader of a dialect joins."""
    found: dict[str, str] = defaultdict(str)
    for call, piece in READERS[dialect](events_in(output)):
        found[call] += piece
    return found.pop("", ""), found


def hidden_of(source: list[dict[str, Any]]) -> list[str]:
    """Return pieces of texts that nobody may see: compactions, advice, signatures."""
    blocks = [event["content_block"] for event in source if event.get("type") == "content_block_start"]
    texts = [
        *deltas_of(source, "signature_delta", "signature"),
        *[block.get("data", "") for block in blocks if block["type"] == "redacted_thinking"],
        *[
            event["delta"].get("content") or ""
            for event in source
            if event.get("type") == "content_block_delta" and event["delta"]["type"] == "compaction_delta"
        ],
        *[str(block["content"].get("text", "")) for block in blocks if block["type"] == "advisor_tool_result"],
    ]
    return [json.dumps(text)[1:-1][:PASSAGE_CHARS] for text in texts if len(text) >= PASSAGE_CHARS]


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) == 126, corpus
    assert READERS.keys() == DIALECTS.keys()


def check(path: Path, dialect: str, pieces: Iterator[int]) -> bytes:
    """Compare what a reader of a dialect joins with the source; return the output."""
    source = events_of(path)
    output = project(b"".join(encode_sse(json.dumps(one).encode()) for one in source), dialect, pieces)
    assert violations_of(dialect, output.splitlines()) == []
    CHECKS.get(dialect, len)(output)
    assert not [text for text in hidden_of(source) if text in output.decode()]
    expected, calls = source_of(source)
    text, found = read_in(dialect, output)
    assert text == ("\n\n".join(messages_of(source)) if dialect == "chat_completions" else expected)
    if source[-1]["type"] == "message_stop" and path.stem != SPLICED:
        known = {call: json.loads(found[call]) for call in calls}
        assert known == {call: json.loads(given) for call, given in calls.items()}
    return output


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_text_and_arguments_in_every_dialect(path: Path) -> None:
    for at, dialect in enumerate(DIALECTS):
        if (zlib.crc32(path.stem.encode()) + at) % EVERY == 0:
            check(path, dialect, drawn(path.stem, SIZES[at % len(SIZES)]))


@pytest.mark.parametrize("path", STREAMS[::EVERY], ids=lambda path: path.stem)
def test_cuts_into_two_reads(path: Path) -> None:
    """Some of them: `python -m tests.corpus.every_cut` compares all."""

    def cuts(size: int) -> list[int]:
        return Random(path.stem).sample(range(1, size), CUTS)

    dialects = [*DIALECTS]
    assert differences(path, cuts, dialects[len(path.stem) % len(dialects) :][:1])[2] == []


def test_blocks_go_back_as_they_came(corpus: Path) -> None:
    assert corpus.exists()
    for path in STREAMS:
        if path.stem != SPLICED:
            assert went_back(events_of(path)) == came(events_of(path)), path.stem
