"""Every recorded Responses stream, against a second reading of the same events (`responses_oracle`)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Final

import pytest

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.core.input_formats import InputFormat
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus import recorded
from tests.corpus import responses_oracle as oracle
from tests.corpus.recorded import PASSAGE_CHARS, as_lines, is_run, passages, pipeline_of, raw_streams

STREAMS: Final = [path for path, provider in recorded.STREAMS if provider == "openai_responses"]
CASES: Final = pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)

NAME_CHARS: Final = 24
"""Minimum length of a searched private text; shorter ones are words of a schema (`function`, `string`, `query`)."""

REDACTOR: Final = Redactor(Policy())
OPEN_REDACTOR: Final = Redactor(Policy(reasoning="full", encrypted_reasoning=True))

DISAGREEMENTS: Final = {
    (
        "vercel-ai__openai_responses_openai-shell-container.1",
        "text",
    ): "its recorder shortened the deltas but not the `done`; what was shown wins (D30)",
}
"""(File, field) -> why the public stream differs from the provider's events or snapshot."""


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) > 200, corpus


def test_every_disagreement_is_of_a_file(corpus: Path) -> None:
    assert {name for name, _ in DISAGREEMENTS} <= {path.stem for path in STREAMS}, corpus


@CASES
def test_the_stream_obeys_the_contract(path: Path) -> None:
    lines = project(path).splitlines()
    assert check_stream(lines) == []
    kinds = [json.loads(line)["kind"] for line in lines]
    assert [kind in TERMINAL_KINDS for kind in kinds] == [False] * (len(kinds) - 1) + [True]


@CASES
def test_the_stream_says_what_the_provider_said(path: Path) -> None:
    events, frames = read(path), shown(path)
    said = oracle.public(frames)
    differ = {
        name
        for provider in (oracle.streamed(events), oracle.finished(events))
        for name, theirs, ours in zip(said._fields, provider, said, strict=True)
        if theirs != ours
    }
    assert differ == {name for stem, name in DISAGREEMENTS if stem == path.stem}
    if frames[-1]["kind"] == "final":
        assert oracle.said_at_end(frames) == (said.text, said.refusal, said.summary)


@CASES
def test_nothing_private_is_said(path: Path) -> None:
    events, frames = read(path), shown(path)
    provider, said = oracle.streamed(events), oracle.public(frames)
    public_words = "\n".join(oracle.public_words(events, provider))
    shown_words = "\n".join([*oracle.strings(frames), said.text, said.refusal, said.summary, *said.inputs])
    leaked = {
        piece
        for text in oracle.private_texts(events)
        for piece in pieces(text)
        if piece in shown_words and piece not in public_words
    }
    assert leaked == set()


@CASES
def test_what_only_other_dialects_may_say_changes_nothing(path: Path) -> None:
    assert project(path, OPEN_REDACTOR) == project(path)


def test_d43_commentary_is_no_answer(corpus: Path) -> None:
    phases = set()
    for path in corpus.glob("responses/*.ndjson"):
        items = [event["item"] for event in read(path) if event["type"] == "response.output_item.done"]
        texts = {
            item["phase"]: "".join(part.get("text", "") for part in item["content"])
            for item in items
            if item["type"] == "message" and item.get("phase")
        }
        if texts and shown(path)[-1]["kind"] == "final":
            answer = texts.get("final_answer", texts.get("commentary"))
            assert shown(path)[-1]["final"].get("response_text", "") == answer
            phases |= texts.keys()
    assert phases == {"commentary", "final_answer"}


def test_agents_of_one_run_speak_one_after_another(corpus: Path) -> None:
    streams = [read(path) for path in sorted(corpus.glob("agents_sdk/*multiple_agents*.ndjson"))]
    events = [event for stream in streams for event in stream]
    lines = play([as_lines(events)], "ndjson", run=True).splitlines()
    frames = [json.loads(line) for line in lines]
    provider, said = oracle.streamed(events), oracle.public(frames)
    assert check_stream(lines) == []
    assert oracle.said_at_end(frames) == (provider.text, "", "")
    assert said.text == "\n\n".join(oracle.streamed(stream).text for stream in streams)
    assert (said.terminal, said.items, said.usage) == (provider.terminal, provider.items, provider.usage)


@pytest.mark.parametrize(("path", "raw"), raw_streams("responses/"))
def test_raw_bytes_say_the_same_however_they_are_cut(path: Path, raw: Path) -> None:
    data = raw.read_bytes()
    random = Random(path.stem)
    cuts = sorted(random.sample(range(len(data) + 1), k=min(len(data), 200)))
    reads = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert play(reads, "sse") == project(path)


def read(path: Path) -> list[oracle.Event]:
    """Return the provider events of a stream, up to its end."""
    if is_run(path):
        return recorded.events_of(path)
    return next(oracle.responses([json.loads(line) for line in path.read_bytes().splitlines()]))


def shown(path: Path) -> list[oracle.Event]:
    return [json.loads(line) for line in project(path).splitlines()]


def project(path: Path, redactor: Redactor = REDACTOR) -> bytes:
    if is_run(path):
        return play([as_lines(read(path))], "ndjson", run=True, redactor=redactor)
    return play([path.read_bytes()], "ndjson", redactor=redactor)


def play(reads: list[bytes], input_format: InputFormat, *, run: bool = False, redactor: Redactor = REDACTOR) -> bytes:
    pipeline = pipeline_of("openai_responses", "public_sse_v1", redactor, input_format=input_format, run=run)
    return b"".join(map(pipeline.feed, reads)) + pipeline.close()


def pieces(text: str) -> list[str]:
    """Return the pieces of a private text that must not be found in the output."""
    return passages(text) if len(text) >= PASSAGE_CHARS else [text] if len(text) >= NAME_CHARS else []
