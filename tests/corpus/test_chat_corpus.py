"""Every recorded Chat Completions stream, against a second reading of the same chunks (`chat_oracle`)."""

from __future__ import annotations

import functools
import json
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Final

import pytest

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.core.input_formats import InputFormat
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus import chat_oracle as oracle
from tests.corpus.recorded import CORPUS, passages, pipeline_of, raw_streams
from tests.corpus.responses_oracle import strings

STREAMS: Final = sorted(CORPUS.glob("chat_completions/*.ndjson"))
CASES: Final = pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)

DONE: Final = b"[DONE]"

REASONING_DELTAS: Final = ("response.reasoning_summary_text.delta", "response.reasoning.delta")

REDACTOR: Final = Redactor(Policy())

DISAGREEMENTS: Final[dict[tuple[str, str], str]] = {}
"""(File, field) where the public stream differs from the oracle -> why."""

RAW_DISAGREEMENTS: Final[dict[str, str]] = {
    "ruby_llm__vcr_chat_with_extended_thinking_gpustack_qwen3_streams_thinking_content_when_available": (
        "the error stands in an SSE line `error: {...}`, which the recorded objects lack"
    ),
}
"""File whose bytes differ from the objects that were made of them -> why."""


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) > 400, corpus


def test_every_disagreement_is_of_a_file(corpus: Path) -> None:
    named = {name for name, _ in DISAGREEMENTS} | RAW_DISAGREEMENTS.keys()
    assert named <= {path.stem for path in STREAMS}, corpus


@CASES
def test_the_stream_obeys_the_contract(path: Path) -> None:
    lines = project(path).splitlines()
    assert check_stream(lines) == []
    kinds = [json.loads(line)["kind"] for line in lines]
    assert [kind in TERMINAL_KINDS for kind in kinds] == [False] * (len(kinds) - 1) + [True]


@CASES
def test_the_stream_says_what_the_provider_said(path: Path) -> None:
    provider, said = read(path), oracle.public(shown(path))
    differ = {name for name, theirs, ours in zip(said._fields, provider, said, strict=True) if theirs != ours}
    assert differ == {name for stem, name in DISAGREEMENTS if stem == path.stem}
    final = shown(path)[-1].get("final")
    if final is not None:
        assert (final.get("response_text", ""), final.get("refusal_text", "")) == (said.text, said.refusal)


@CASES
def test_of_the_reasoning_only_a_summary_is_said(path: Path) -> None:
    objects, _ = oracle.chunks(path.read_bytes())
    summary = oracle.summary(objects)
    frames = shown(path)
    provider = read(path)
    answer = "\n".join([provider.text, provider.refusal, *(part for call in provider.calls for part in call)])
    words = "\n".join([*strings(frames), oracle.public(frames).text])
    private = [piece for text in oracle.reasoning(objects) if text != summary for piece in passages(text)]
    assert [piece for piece in private if piece in words and piece not in answer] == []
    opened = [frame["item_id"] for frame in frames if is_reasoning(frame, "output_item.added")]
    assert opened == [frame["item_id"] for frame in frames if is_reasoning(frame, "output_item.done")]
    assert "".join(frame["delta"] for frame in frames if frame["kind"] == "reasoning_summary.delta") == summary


def test_d44_a_summary_that_another_member_repeats_is_said_once(corpus: Path) -> None:
    named = 0
    for path in corpus.glob("chat_completions/*.ndjson"):
        summary = oracle.summary(oracle.chunks(path.read_bytes())[0])
        if not summary:
            continue
        named += 1
        assert shown(path)[-1]["final"]["reasoning_summary_text"] == summary
        pipeline = pipeline_of("openai_chat", "openresponses")
        lines = (pipeline.feed(path.read_bytes()) + pipeline.close()).splitlines()
        events = [json.loads(line) for line in lines if line != DONE]
        deltas = {kind: "".join(one["delta"] for one in events if one["type"] == kind) for kind in REASONING_DELTAS}
        assert list(deltas.values()) == [summary, ""]
    assert named >= 5


@pytest.mark.parametrize(("path", "raw"), raw_streams("chat_completions/"))
def test_raw_bytes_say_the_same_however_they_are_cut(path: Path, raw: Path) -> None:
    data = raw.read_bytes()
    random = Random(path.stem)
    expected = play([data], "sse")
    assert play(cut(data, random.sample(range(len(data) + 1), k=min(len(data), 200))), "sse") == expected
    sizes = raw.with_suffix(".chunks.json")
    if sizes.exists():
        assert play(cut(data, list(accumulate(json.loads(sizes.read_bytes())))), "sse") == expected
    objects = path.read_bytes() + (DONE + b"\n") * (DONE in data)
    assert (play([objects], "ndjson") == expected) == (path.stem not in RAW_DISAGREEMENTS)


def test_an_error_in_an_unknown_field_ends_the_stream(corpus: Path) -> None:
    for stem in RAW_DISAGREEMENTS:
        last = json.loads(play([(corpus / "raw_sse" / f"{stem}.sse").read_bytes()], "sse").splitlines()[-1])
        assert last["kind"] == "error"
        assert last["error"]["code"] == "provider_error"


def cut(data: bytes, at: list[int]) -> list[bytes]:
    return [data[start:end] for start, end in pairwise([0, *sorted(at), len(data)])]


@functools.cache
def read(path: Path) -> oracle.Reading:
    objects, is_done = oracle.chunks(path.read_bytes())
    return oracle.provider(objects, is_done=is_done)


@functools.cache
def shown(path: Path) -> list[oracle.Chunk]:
    return [json.loads(line) for line in project(path).splitlines()]


@functools.cache
def project(path: Path) -> bytes:
    return play([path.read_bytes()], "ndjson")


def play(reads: list[bytes], input_format: InputFormat) -> bytes:
    pipeline = pipeline_of("openai_chat", "public_sse_v1", REDACTOR, input_format=input_format)
    return b"".join(map(pipeline.feed, reads)) + pipeline.close()


def is_reasoning(frame: oracle.Chunk, kind: str) -> bool:
    return bool(frame["kind"] == kind and frame["item_type"] == "reasoning")
