"""Nothing harmless is withheld from recorded streams: their keys were removed when they were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
PROVIDERS: Final = {
    "responses": "openai_responses",
    "agents_sdk": "openai_responses",
    "chat_completions": "openai_chat",
}
"""Folder of recordings -> provider."""
STREAMS: Final = [path for folder in PROVIDERS for path in sorted(CORPUS.glob(f"{folder}/*.ndjson"))]
REDACTOR: Final = Redactor(Policy(error_messages="provider", reasoning="full"))

RIGHTLY: Final[Mapping[str, str]] = {
    "prism__openai_stream-rate-limited-1": "an error names the project and the organization",
    "pydantic-ai__test_openai_responses_test_openai_responses_code_execution_return_image_stream": "an image in a URL",
}
"""Recording -> what is withheld from it."""


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) > 600, corpus


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_nothing_is_withheld(path: Path) -> None:
    pipeline = build_pipeline(
        provider=PROVIDERS[path.parent.name],
        dialect="public_sse_v1",
        context=StreamContext(stream_id="stream_of_the_corpus"),
        run=path.parent.name == "agents_sdk",
        input_format="ndjson",
        output_format="ndjson",
        clock=lambda: 0.0,
        redactor=REDACTOR,
    )
    lines = (pipeline.feed(_event(path, path.read_bytes())) + pipeline.close()).splitlines()
    found = [
        line for line in map(json.loads, lines) if any(each["type"] == "redacted" for each in line.get("notices", ()))
    ]
    assert [frame for frame in found if path.stem not in RIGHTLY] == []


def _event(path: Path, data: bytes) -> bytes:
    """Return the provider's events of a recording; an event of an agents run is the payload of an event of the run."""
    if path.parent.name != "agents_sdk":
        return data
    lines = map(json.loads, data.splitlines())
    kept = [line if "type" in line else line["payload"] for line in lines if line.get("kind") in _RAW_KINDS]
    return b"".join(json.dumps(line).encode() + b"\n" for line in kept)


_RAW_KINDS: Final = (None, "raw_response_event")
