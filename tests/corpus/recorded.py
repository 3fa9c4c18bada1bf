"""The recorded streams of OpenAI's APIs and of Agents SDK runs, and how they are played."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

from projector.core.context import StreamContext
from projector.core.input_formats import InputFormat
from projector.core.pipeline import Pipeline, build_pipeline
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
PROVIDERS: Final = {
    "responses": "openai_responses",
    "agents_sdk": "openai_responses",
    "chat_completions": "openai_chat",
}
"""Folder -> provider of its recordings."""
STREAMS: Final = [
    (path, provider) for folder, provider in PROVIDERS.items() for path in sorted(CORPUS.glob(f"{folder}/*.ndjson"))
]
each_stream: Final = pytest.mark.parametrize(
    ("path", "provider"), STREAMS, ids=lambda value: getattr(value, "stem", "")
)

FULL: Final = Redactor(Policy(reasoning="full"))


def is_run(path: Path) -> bool:
    """Return whether a recording is a run of agents, which has several responses."""
    return path.parent.name == "agents_sdk"


def events_of(path: Path) -> list[dict[str, Any]]:
    """Return the provider's events of a run of agents; some are wrapped in events of the run."""
    lines = map(json.loads, path.read_bytes().splitlines())
    return [line if "type" in line else line["payload"] for line in lines if line.get("kind") in _WITH_EVENT]


_WITH_EVENT: Final = {None, "raw_response_event"}
"""Kinds of the lines that contain a provider's event, directly or as the payload of an event of the run."""


def data_of(path: Path) -> bytes:
    """Return the provider's events of a recording, one a line."""
    return as_lines(events_of(path)) if is_run(path) else path.read_bytes()


def as_lines(events: list[dict[str, Any]]) -> bytes:
    """Return events as NDJSON."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def pipeline_of(
    provider: str, dialect: str, redactor: Redactor = FULL, *, input_format: InputFormat = "ndjson", **settings: Any
) -> Pipeline:
    """Return a pipeline with the ID and the clock of all recordings; its output is NDJSON."""
    return build_pipeline(
        provider=provider,
        dialect=dialect,
        context=StreamContext(stream_id="stream_of_the_corpus"),
        input_format=input_format,
        output_format="ndjson",
        clock=lambda: 0.0,
        redactor=redactor,
        **settings,
    )


def play(path: Path, provider: str, dialect: str, redactor: Redactor = FULL) -> list[bytes]:
    """Return the lines of a recording's output."""
    pipeline = pipeline_of(provider, dialect, redactor, run=is_run(path))
    return (pipeline.feed(data_of(path)) + pipeline.close()).splitlines()


def raw_streams(*folders: str) -> list[ParameterSet]:
    """Return the file of each recording whose bytes were kept, and the file with these bytes."""
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "INDEX.tsv").open() as index:
        rows = [row for row in csv.DictReader(index, delimiter="\t") if row["raw"]]
    named = [(CORPUS / row["path"], CORPUS / row["raw"]) for row in rows if row["path"].startswith(folders)]
    return [pytest.param(path, raw, id=path.stem) for path, raw in named]


PASSAGE_CHARS: Final = 40
"""Length of the pieces of private text that are searched for; any leak of twice this length contains a whole piece."""


def passages(text: str) -> list[str]:
    """Return the pieces of a private text that must not be found in the output; of a shorter text, none."""
    return [text[at : at + PASSAGE_CHARS] for at in range(0, len(text) - PASSAGE_CHARS + 1, PASSAGE_CHARS)]
