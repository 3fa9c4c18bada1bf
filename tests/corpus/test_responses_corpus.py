"""Every recorded Responses stream, against a second reading of the same events (`responses_oracle`)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from random import Random
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.core.context import StreamContext
from projector.core.input_formats import InputFormat
from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus import responses_oracle as oracle

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
STREAMS: Final = [*sorted(CORPUS.glob("responses/*.ndjson")), *sorted(CORPUS.glob("agents_sdk/*.ndjson"))]
CASES: Final = pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)

PASSAGE_CHARS: Final = 40
"""Length of the pieces that are searched for; any leak of twice this length contains a whole piece."""
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
    lines = play([json.dumps(event).encode() + b"\n" for event in events], "ndjson", run=True).splitlines()
    frames = [json.loads(line) for line in lines]
    provider, said = oracle.streamed(events), oracle.public(frames)
    assert check_stream(lines) == []
    assert oracle.said_at_end(frames) == (provider.text, "", "")
    assert said.text == "\n\n".join(oracle.streamed(stream).text for stream in streams)
    assert (said.terminal, said.items, said.usage) == (provider.terminal, provider.items, provider.usage)


def raw_streams() -> list[ParameterSet]:
    """Return stem and raw file of each stream that was recorded as bytes."""
    if not STREAMS:
        return []
    with (CORPUS / "INDEX.tsv").open() as index:
        rows = csv.DictReader(index, delimiter="\t")
        named = [(Path(row["path"]).stem, row["raw"]) for row in rows if row["api"] == "responses" and row["raw"]]
    return [pytest.param(stem, raw, id=stem) for stem, raw in named]


@pytest.mark.parametrize(("stem", "raw"), raw_streams())
def test_raw_bytes_say_the_same_however_they_are_cut(stem: str, raw: str) -> None:
    data = (CORPUS / raw).read_bytes()
    random = Random(stem)
    cuts = sorted(random.sample(range(len(data) + 1), k=min(len(data), 200)))
    reads = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert play(reads, "sse") == project(CORPUS / "responses" / f"{stem}.ndjson")


def is_run(path: Path) -> bool:
    """Agents run several responses; a Responses stream is one."""
    return path.parent.name == "agents_sdk"


def read(path: Path) -> list[oracle.Event]:
    """Return the provider events of a stream, up to its end."""
    lines: list[oracle.Event] = [json.loads(line) for line in path.read_bytes().splitlines()]
    if not is_run(path):
        return next(oracle.responses(lines))
    return [line if "type" in line else line["payload"] for line in lines if line.get("kind") in RAW_EVENTS]


RAW_EVENTS: Final = {None, "raw_response_event"}
"""Kinds of lines of an agents run that contain a provider event, directly or as the payload of an event of the run."""


def shown(path: Path) -> list[oracle.Event]:
    return [json.loads(line) for line in project(path).splitlines()]


def project(path: Path, redactor: Redactor = REDACTOR) -> bytes:
    if is_run(path):
        reads = [json.dumps(event).encode() + b"\n" for event in read(path)]
        return play(reads, "ndjson", run=True, redactor=redactor)
    return play([path.read_bytes()], "ndjson", redactor=redactor)


def play(reads: list[bytes], input_format: InputFormat, *, run: bool = False, redactor: Redactor = REDACTOR) -> bytes:
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="public_sse_v1",
        context=StreamContext(stream_id="stream_of_the_corpus"),
        run=run,
        input_format=input_format,
        output_format="ndjson",
        clock=lambda: 0.0,
        redactor=redactor,
    )
    return b"".join(map(pipeline.feed, reads)) + pipeline.close()


def pieces(text: str) -> list[str]:
    """Return the pieces of a private text that must not be found in the output."""
    if len(text) < PASSAGE_CHARS:
        return [text] if len(text) >= NAME_CHARS else []
    return [text[at : at + PASSAGE_CHARS] for at in range(0, len(text) - PASSAGE_CHARS + 1, PASSAGE_CHARS)]
