"""Every recorded stream after recording it again: same output, and no data that a recording must not keep (ADR 12)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from projector.recording import record
from tests.corpus import recorded
from tests.property.recordings import FINDER, essence
from tests.property.soundness import play

STREAMS: Final = [(path, provider) for path, provider in recorded.STREAMS if not recorded.is_run(path)]
CASES: Final = pytest.mark.parametrize(("path", "provider"), STREAMS, ids=lambda value: getattr(value, "stem", value))

NEVER_KEPT: Final = frozenset({"instructions", "encrypted_content", "prompt_cache_key", "safety_identifier", "user"})
"""Members of a response or item that repeat the request, or that only the provider can read."""


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) > 600, corpus


@CASES
def test_a_recorded_stream_plays_as_it_did_and_lacks_what_is_private(path: Path, provider: str) -> None:
    given = path.read_bytes()
    kept = record(provider, given, FINDER, input_format="ndjson")
    before, now = play([given], provider), play([kept.data], provider)
    assert now == before if not kept.withheld else essence(now) == essence(before)
    assert record(provider, kept.data, FINDER, input_format="ndjson").data == kept.data
    for event, left in zip(lines(given), lines(kept.data), strict=True):
        private = {text for name, text in members(event) if name in NEVER_KEPT and len(text) >= LEAST_CHARS}
        assert not private & {text for _, text in members(left)}
        assert_no_configuration(left.get("response"))


def assert_no_configuration(response: object) -> None:
    if isinstance(response, dict):
        assert {tool["type"] for tool in response.get("tools") or []} <= {"code_interpreter"}
        assert not response.get("instructions")
        assert not response.get("metadata")


LEAST_CHARS: Final = 8
"""Minimum length of a searched text; shorter ones are common words."""


def lines(data: bytes) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in data.splitlines() if line[:1] == b"{"]
    return [line for line in found if isinstance(line, dict)]


def members(value: object) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each text in a tree."""
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, str):
                yield name, member
            yield from members(member)
    elif isinstance(value, list):
        for entry in value:
            yield from members(entry)
