"""Every recorded Messages stream in every dialect, at drawn cuts, against a plain reading of the same events."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.core.pipeline import build_pipeline
from projector.core.sse import encode_sse
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
STREAMS: Final = sorted(CORPUS.glob("anthropic/*.ndjson"))
SHOWN: Final = Policy.load({"text": "off", "limits": {"arguments_text_max_chars": 1_000_000}})
PASSAGE_CHARS: Final = 60


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def project(path: Path, dialect: str, *, size_max: int) -> bytes:
    """Return the output for SSE bytes that are cut at drawn places."""
    data = b"".join(encode_sse(line) for line in path.read_bytes().splitlines() if line.strip())
    pipeline = build_pipeline(
        provider="anthropic_messages", dialect=dialect, output_format="ndjson", policy=SHOWN, clock=lambda: 0
    )
    draw, at, output = Random(path.stem), 0, b""
    while at < len(data):
        size = draw.randint(1, size_max)
        output += pipeline.feed(data[at : at + size])
        at += size
    return output + pipeline.close()


def deltas_of(events: list[dict[str, Any]], kind: str, member: str) -> list[str]:
    """Return the deltas of a type, joined by block."""
    texts: dict[int, str] = defaultdict(str)
    for event in events:
        if event.get("type") == "content_block_delta" and event["delta"]["type"] == kind:
            texts[event["index"]] += event["delta"][member]
    return list(texts.values())


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) == 126, corpus


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_the_public_stream(path: Path) -> None:
    lines = project(path, "public_sse_v1", size_max=400).splitlines()
    assert check_stream(lines) == []
    frames = [json.loads(line) for line in lines]
    assert [frame["kind"] in TERMINAL_KINDS for frame in frames] == [False] * (len(frames) - 1) + [True]
    source = events_of(path)
    said = "".join(frame["delta"] for frame in frames if frame["kind"] == "message.delta")
    assert said == "".join(deltas_of(source, "text_delta", "text"))
    if frames[-1]["kind"] == "error":
        return  # a call that was cut off has no end
    calls = {
        event["index"]: event["content_block"]["id"]
        for event in source
        if event.get("type") == "content_block_start" and event["content_block"]["type"] == "tool_use"
    }
    sent: dict[str, str] = defaultdict(str)
    for event in source:
        if event.get("type") == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            sent[calls.get(event["index"], "")] += event["delta"]["partial_json"]
    given = {frame["tool_call_id"]: frame["arguments_text"] for frame in frames if "arguments_text" in frame}
    assert {call: text for call, text in sent.items() if text and call} == {
        call: given[call] for call in sent if sent[call] and call
    }


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


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_no_hidden_text_in_any_dialect(dialect: str, corpus: Path) -> None:
    assert corpus.exists()
    for path in STREAMS:
        output = project(path, dialect, size_max=5000).decode()
        assert output, path.stem
        assert not [text for text in hidden_of(events_of(path)) if text in output], path.stem
