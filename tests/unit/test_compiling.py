"""Patterns are compiled before the first stream: a stream that compiles holds the event loop for up to 0.3 s."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from projector import build_pipeline
from projector.redaction.policy import CREDENTIALS, Policy
from projector.redaction.redactor import Redactor
from projector.redaction.rules import shipped

EXAMPLES = Path(__file__).parent.parent.parent / "examples_ndjson"

SHORT_CHARS = 200
"""Length of a pattern that is compiled in a tenth of a millisecond."""


@pytest.mark.parametrize("provider", ["openai_responses", "openai_chat"])
def test_no_stream_compiles_a_long_pattern(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    streams = [path.read_bytes() for path in sorted((EXAMPLES / provider).glob("*.ndjson"))]
    assert streams
    play(streams, provider, Redactor(Policy(text="off")))  # imports all modules, which have patterns of their own
    classes = {CREDENTIALS, *(row.name for row in shipped().classes)}
    redactor = Redactor(Policy(sensitive_keys_add=("nosuchwordelsewhere",), text=dict.fromkeys(classes, "mask")))
    redactor.compile()
    re.purge()
    compiled: list[str] = []
    compile_pattern = re._compiler.compile  # type: ignore[attr-defined] # `re.compile` returns what it has cached

    def record(pattern: str, flags: int = 0) -> object:
        compiled.append(pattern)
        return compile_pattern(pattern, flags)

    monkeypatch.setattr("re._compiler.compile", record)
    play(streams, provider, redactor)
    assert [pattern for pattern in compiled if len(pattern) > SHORT_CHARS] == []


def play(streams: list[bytes], provider: str, redactor: Redactor) -> None:
    """Read whole streams."""
    for stream in streams:
        pipeline = build_pipeline(
            provider=provider, dialect="public_sse_v1", redactor=redactor, input_format="ndjson", takes_host_events=True
        )
        pipeline.feed(stream)
        pipeline.close()
