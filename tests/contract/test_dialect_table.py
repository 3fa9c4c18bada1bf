"""The table of docs/dialects.md against the output of every dialect for every frame of every example."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DialectOptions
from projector.recording import replay
from projector.redaction.policy import Policy

ROOT: Final = Path(__file__).parents[2]
CASES: Final = replay.load_cases(ROOT / "examples_ndjson")
KINDS: Final = {*Kind, *PrivateKind}
PUBLIC: Final = "public_sse_v1"
NOTHING: Final = "—"

Row: TypeAlias = dict[str, str]
"""Dialect -> cell; the empty name is the column of content."""


def rows() -> list[Row]:
    page = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
    table = page.partition("## Side by side")[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    names = ["", *(cell.strip("`") for cell in lines[0][1:])]
    return [dict(zip(names, cells, strict=True)) for cells in lines[2:]]


ROWS: Final = rows()
OTHERS: Final = [name for name in ROWS[0] if name not in {"", PUBLIC}]


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def kinds_of(row: Row) -> set[str]:
    return words(row[PUBLIC]) & KINDS


def frames_of(case: replay.Case) -> list[Frame]:
    settings = case.settings
    frames: list[Frame] = []
    pipeline = build_pipeline(
        provider=case.provider,
        dialect=PUBLIC,
        policy=Policy.load(settings.policy),
        context=StreamContext(stream_id=settings.stream_id, **dict(settings.context)),
        run=settings.run,
        profile=settings.profile,
        input_format="ndjson",
        takes_host_events=settings.host_events,
        on_frame=frames.append,
    )
    pipeline.feed(case.source.read_bytes())
    pipeline.close(FAULTS[settings.close] if settings.close else None)
    return frames


@cache
def heard() -> dict[str, dict[str, set[str]]]:
    """Return the event types that each dialect writes, by frame kind."""
    said: dict[str, dict[str, set[str]]] = {dialect: defaultdict(set) for dialect in DIALECTS}
    for case in CASES:
        frames = frames_of(case)
        for (dialect, described), extensions in product(DIALECTS.items(), (False, True)):
            writer = described.writer(Policy.load(case.settings.policy), DialectOptions(extensions=extensions))
            for frame in frames:
                events = [json.loads(data) for _, data in writer.feed(frame)]
                said[dialect][frame["kind"]].update(name for event in events for name in names_in(event))
    return said


def names_in(event: dict[str, Any]) -> set[str]:
    """Return the type of an event, or what a chunk of Chat Completions contains: it has no type."""
    if "type" in event or "kind" in event:
        return {event.get("type", event.get("kind"))}
    names = {name for name in ("error", "public_sse", "usage") if event.get(name) is not None}
    for choice in event.get("choices", ()):
        names |= {*choice["delta"], *(["finish_reason"] if choice["finish_reason"] else [])}
    return names


def test_the_columns_are_the_dialects() -> None:
    assert {PUBLIC, *OTHERS} == DIALECTS.keys()


def test_every_kind_has_one_row() -> None:
    named = [kind for row in ROWS for kind in kinds_of(row)]
    assert sorted(named) == sorted(KINDS)


def test_private_kinds_are_marked_as_dropped_in_the_public_stream() -> None:
    for kind in PrivateKind:
        [row] = [row for row in ROWS if kind in kinds_of(row)]
        assert NOTHING in row[PUBLIC]
        assert not heard()[PUBLIC][kind]


@pytest.mark.parametrize("dialect", OTHERS)
def test_every_event_in_a_cell_is_written(dialect: str) -> None:
    by_kind = heard()[dialect]
    known = set().union(*by_kind.values())
    for row in ROWS:
        kinds = kinds_of(row)
        said = set().union(*(by_kind[kind] for kind in kinds)) if kinds else known
        assert words(row[dialect]) & known <= said, row[""]


@pytest.mark.parametrize("dialect", OTHERS)
def test_every_written_event_is_in_its_cell(dialect: str) -> None:
    by_kind = heard()[dialect]
    everywhere = set().union(*(words(row[dialect]) for row in ROWS if not kinds_of(row)))
    named = set().union(*(words(row[dialect]) for row in ROWS))
    assert set().union(*by_kind.values()) <= named
    for row in ROWS:
        if kinds_of(row) and row[dialect].startswith(NOTHING):
            said = set().union(*(by_kind[kind] for kind in kinds_of(row)))
            assert said <= everywhere, row[""]
