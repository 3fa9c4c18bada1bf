"""Each case in each dialect, byte for byte, however its bytes arrive; every public golden obeys the contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from projector import Fault, Pipeline
from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS
from projector.recording import replay
from tests.dialect_checks import violations_of

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
CASES: Final = replay.load_cases(EXAMPLES)

SECTION_11: Final = (
    "chat-web-search",
    "chat-code-interpreter",
    "chat-file-search",
    "chat-function-tool",
    "chat-image-generation-partials",
    "chat-mcp-tool",
    "chat-refusal",
    "chat-reasoning-summary",
    "chat-provider-error",
    "workflow-analysis-code",
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def golden_of(case: replay.Case, dialect: str) -> bytes:
    return (EXAMPLES / dialect / f"{case.name}.ndjson").read_bytes()


@every_dialect
@every_case
def test_goldens(case: replay.Case, dialect: str) -> None:
    difference = replay.compare(EXAMPLES, case, dialect, update=False)
    assert difference is None, f"{difference}; if it is meant: make goldens"


def test_no_golden_is_without_input() -> None:
    assert replay.orphans(EXAMPLES, CASES, update=False) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_has_cases(provider: str) -> None:
    assert any(case.provider == provider for case in CASES)


@pytest.mark.parametrize("name", SECTION_11)
def test_the_examples_of_section_11_are_there(name: str) -> None:
    assert (EXAMPLES / "openai_responses" / f"{name}.ndjson").is_file()
    assert (EXAMPLES / "public_sse_v1" / f"{name}.ndjson").is_file()


@every_case
def test_every_case_says_what_it_shows(case: replay.Case) -> None:
    assert len(case.settings.about.split()) > 3
    assert case.settings.about.endswith(".")


@every_case
def test_goldens_obey_the_models_and_rules_of_their_dialects(case: replay.Case) -> None:
    """`make goldens` writes what comes, valid or not."""
    found = {dialect: violations_of(dialect, golden_of(case, dialect).splitlines()) for dialect in DIALECTS}
    assert {dialect: violations for dialect, violations in found.items() if violations} == {}


TOOL_DATA: Final = frozenset({"output", "arguments_json", "structured_output", "attributes"})
"""Members with values of a tool or of the model, where null is allowed."""


def nulls(value: object, place: str) -> Iterator[str]:
    """Yield the paths of nulls outside tool data."""
    if value is None:
        yield place
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from nulls(entry, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, member in value.items():
            if name not in TOOL_DATA or member is None:
                yield from nulls(member, f"{place}.{name}")


@every_case
def test_d3_public_goldens_hold_no_null(case: replay.Case) -> None:
    lines = golden_of(case, "public_sse_v1").splitlines()
    found = [place for line, text in enumerate(lines, 1) for place in nulls(json.loads(text), str(line))]
    assert [place for place in found if not place.endswith(".output")] == []


def as_sse(source: bytes) -> bytes:
    return b"".join(b"data: " + line + b"\n\n" for line in source.splitlines() if line.strip())


class InPieces:
    """A pipeline that receives its bytes in reads of one size."""

    def __init__(self, pipeline: Pipeline, size: int) -> None:
        self._pipeline = pipeline
        self._size = size

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._pipeline.feed(data[at : at + self._size]) for at in range(0, len(data), self._size))

    def close(self, fault: Fault | None = None) -> bytes:
        return self._pipeline.close(fault)


ARRIVALS: Final = (
    *((dialect, "sse", as_sse, 1) for dialect in DIALECTS),
    ("public_sse_v1", "auto", as_sse, 1_000_000),
    ("public_sse_v1", "auto", bytes, 1),
    ("public_sse_v1", "ndjson", bytes, 1),
)
"""Dialect, input format, framing of the lines, and size of the reads. A dialect receives frames, so it needs one
combination only."""


@every_case
@pytest.mark.parametrize(("dialect", "input_format", "framed", "size"), ARRIVALS)
def test_it_does_not_matter_how_the_bytes_arrive(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    case: replay.Case,
    dialect: str,
    input_format: str,
    framed: Callable[[bytes], bytes],
    size: int,
) -> None:
    expected = replay.play(case, dialect)

    def build(**settings: Any) -> InPieces:
        return InPieces(build_pipeline(**{**settings, "input_format": input_format}), size)

    monkeypatch.setattr(replay, "build_pipeline", build)
    source = tmp_path / case.source.name
    source.write_bytes(framed(case.source.read_bytes()))
    assert replay.play(case._replace(source=source), dialect) == expected
