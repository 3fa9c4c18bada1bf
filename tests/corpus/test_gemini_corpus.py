"""Every recorded Gemini stream in every dialect, at drawn cuts, against a plain reading of the same chunks."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus.recorded import CORPUS, pipeline_of, raw_streams
from tests.dialect_checks import violations_of

CHUNKS: Final = sorted(CORPUS.glob("gemini/*.ndjson"))
INTERACTIONS: Final = sorted(CORPUS.glob("gemini_interactions/*.ndjson"))
STREAMS: Final = [*CHUNKS, *INTERACTIONS]
CASES: Final = pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
SHOWN: Final = Redactor(Policy.load({"text": "off", "limits": {"arguments_text_max_chars": 1_000_000}}))
PASSAGE_CHARS: Final = 60
"""Length of the beginnings of hidden texts that are searched for."""


def objects_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip().startswith(b"{")]


def framed(path: Path, framing: str) -> bytes:
    """Return the bytes of a stream as SSE, or as a JSON array that is written like Google's."""
    objects = objects_of(path)
    if framing == "array":
        return b"[" + b"\n,\r\n".join(json.dumps(one, indent=2).encode() for one in objects) + b"\n]\n"
    return b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in objects)


def project(data: bytes, path: Path, dialect: str, *, size_max: int) -> bytes:
    """Return the output for bytes that are cut at drawn places."""
    profile = {"api": "interactions"} if path in INTERACTIONS else {}
    pipeline = pipeline_of("gemini", dialect, SHOWN, input_format="sse", profile=profile)
    draw, at, output = Random(path.stem), 0, b""
    while at < len(data):
        size = draw.randint(1, size_max)
        output += pipeline.feed(data[at : at + size])
        at += size
    return output + pipeline.close()


def parts_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    candidates = [one for chunk in objects for one in chunk.get("candidates") or []]
    return [part for one in candidates for part in one.get("content", {}).get("parts") or []]


def texts_of(objects: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the answer and the summary of the reasoning."""
    parts = parts_of(objects)
    answer = [part["text"] for part in parts if "text" in part and not part.get("thought")]
    thought = [part["text"] for part in parts if "text" in part and part.get("thought")]
    deltas = [event["delta"] for event in objects if "delta" in event]
    answer += [delta["text"] for delta in deltas if delta["type"] == "text"]
    thought += [delta["content"]["text"] for delta in deltas if delta["type"] == "thought_summary"]
    return "".join(answer), "".join(thought)


def whole_calls(objects: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return name and arguments of the calls; streamed arguments are put into a tree by simple paths."""
    calls: list[tuple[str, Any]] = []
    for given in (part["functionCall"] for part in parts_of(objects) if "functionCall" in part):
        if "name" in given:
            calls.append((given["name"], given.get("args", {})))
        for one in given.get("partialArgs", ()):
            steps = one["jsonPath"].removeprefix("$.").replace("[", ".[").split(".")
            holder: Any = calls[-1][1]
            for step, following in zip(steps, (*steps[1:], ""), strict=True):
                key: Any = int(step[1:-1]) if step.startswith("[") else step
                if isinstance(holder, list) and key == len(holder):
                    holder.append(None)
                if not following:
                    before = holder[key] if isinstance(holder, list) else holder.get(key)
                    holder[key] = (before or "") + one["stringValue"]
                elif (holder[key] if isinstance(holder, list) else holder.get(key)) is None:
                    holder[key] = [] if following.startswith("[") else {}
                holder = holder[key]
    return calls


def usage_of(objects: list[dict[str, Any]]) -> dict[str, int]:
    """Return the usage at the end of a stream: of each member, the last count."""
    counts: dict[str, int] = {}
    for one in objects:
        given = one.get("usageMetadata") or one.get("interaction", {}).get("usage") or {}
        counts |= {name: count for name, count in given.items() if isinstance(count, int)}
    sums = {
        "input_tokens": ("promptTokenCount", "toolUsePromptTokenCount", "total_input_tokens", "total_tool_use_tokens"),
        "output_tokens": ("candidatesTokenCount", "thoughtsTokenCount", "total_output_tokens", "total_thought_tokens"),
        "total_tokens": ("totalTokenCount", "total_tokens"),
        "cached_input_tokens": ("cachedContentTokenCount", "total_cached_tokens"),
        "reasoning_output_tokens": ("thoughtsTokenCount", "total_thought_tokens"),
    }
    found = {name: [counts[one] for one in members if one in counts] for name, members in sums.items()}
    return {name: sum(values) for name, values in found.items() if values}


def hidden_of(objects: list[dict[str, Any]]) -> list[str]:
    """Return the beginnings of texts that nobody may see: signatures, and HTML of others."""
    found: list[str] = []

    def walk(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                walk(one, key)
        elif isinstance(value, list):
            for one in value:
                walk(one, name)
        elif name in {"thoughtSignature", "signature", "renderedContent", "search_suggestions"} and isinstance(
            value, str
        ):
            found.append(json.dumps(value)[1:-1][:PASSAGE_CHARS])

    walk(objects)
    return [text for text in found if len(text) == PASSAGE_CHARS]


def test_the_corpus_is_there(corpus: Path) -> None:
    assert (len(CHUNKS), len(INTERACTIONS)) == (87, 8), corpus


@CASES
@pytest.mark.parametrize("framing", ["sse", "array"])
def test_the_public_stream(path: Path, framing: str) -> None:
    lines = project(framed(path, framing), path, "public_sse_v1", size_max=400).splitlines()
    assert check_stream(lines) == []
    frames = [json.loads(line) for line in lines]
    assert [frame["kind"] in TERMINAL_KINDS for frame in frames] == [False] * (len(frames) - 1) + [True]
    objects = objects_of(path)
    said = {
        kind: "".join(frame["delta"] for frame in frames if frame["kind"] == kind)
        for kind in ("message.delta", "reasoning_summary.delta")
    }
    assert tuple(said.values()) == texts_of(objects)
    given = [
        (frame["tool_name"], json.loads(frame["arguments_text"]))
        for frame in frames
        if frame["kind"] == "tool.arguments.done"
    ]
    assert given == whole_calls(objects)
    final = frames[-1]["final"]
    assert final["usage"] == usage_of(objects)
    finishes = [one.get("finishReason") for chunk in objects for one in chunk.get("candidates") or []]
    assert final["status"] == ("incomplete" if {"MAX_TOKENS", 2} & {*finishes} else "completed")


@CASES
def test_citations_have_the_text_that_they_quote(path: Path) -> None:
    frames = [
        json.loads(line) for line in project(framed(path, "sse"), path, "public_sse_v1", size_max=400).splitlines()
    ]
    objects = objects_of(path)
    answer, _ = texts_of(objects)
    supports = [
        support
        for chunk in objects
        for one in chunk.get("candidates") or []
        for support in one.get("groundingMetadata", {}).get("groundingSupports", ())
    ]
    expected = [support["segment"]["text"] for support in supports for _ in support["groundingChunkIndices"]]
    cited = [frame["citation"] for frame in frames if frame["kind"] == "message.citation"]
    if any(one["type"] == "file_citation" for one in cited):
        assert [answer[: one["index"]].endswith(text) for one, text in zip(cited, expected, strict=True)]
    elif supports:
        assert [answer[one["start_index"] : one["end_index"]] for one in cited] == expected


SAID: Final = frozenset({"delta", "content", "text"})
"""Members that have pieces of texts, in every dialect."""
ARGUMENTS: Final = frozenset({"delta", "arguments", "arguments_text", "inputTextDelta", "partial_json"})
"""Members that have pieces of arguments."""


def said_in(output: bytes, members: frozenset[str] = SAID) -> str:
    """Return the pieces of texts of a stream, joined, without blanks."""
    found: list[str] = []

    def walk(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                walk(one, key)
        elif isinstance(value, list):
            for one in value:
                walk(one)
        elif isinstance(value, str) and name in members:
            found.append(value)

    for line in output.splitlines():
        walk(json.loads(line) if line.startswith(b"{") else None)
    return "".join("".join(found).split())


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_every_dialect(dialect: str, corpus: Path) -> None:
    """A stream is valid by the rules of its dialect, ends once, has answer and arguments, and nothing hidden."""
    assert corpus.exists()
    for path in STREAMS:
        output = project(framed(path, "sse"), path, dialect, size_max=5000)
        assert violations_of(dialect, output.splitlines()) == [], path.stem
        objects = objects_of(path)
        assert "".join(texts_of(objects)[0].split()) in said_in(output), path.stem
        arguments = "".join(output.decode().split()) if dialect == "openwop" else said_in(output, ARGUMENTS)
        for _, given in whole_calls(objects):
            assert "".join(json.dumps(given, ensure_ascii=False).split()) in arguments, path.stem
        assert not [text for text in hidden_of(objects) if text in output.decode()], path.stem


@pytest.mark.parametrize(("path", "raw"), raw_streams("gemini"))
def test_raw_bytes_say_the_same(path: Path, raw: Path) -> None:
    expected = project(framed(path, "sse"), path, "public_sse_v1", size_max=400)
    assert project(raw.read_bytes(), path, "public_sse_v1", size_max=40) == expected
