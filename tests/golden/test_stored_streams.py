"""Every case in every dialect, written again from its stored frames: the same bytes, from every event on."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any, Final

import pytest

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.context import parse_time
from projector.core.delta_frames import frames_of
from projector.core.pipeline import OutputFormat
from projector.core.replay import StreamReplay
from projector.core.sse import encode_numbered_events
from projector.dialects import DIALECTS
from projector.recording import replay
from projector.redaction.policy import Policy
from tests.dialect_checks import violations_of
from tests.golden.test_goldens import CASES, every_case, every_dialect, golden_of

PUBLIC_KINDS: Final = frozenset(Kind)
CLOCK: Final = parse_time(replay.CLOCK, "clock")


@cache
def _stored(name: str) -> list[list[bytes]]:
    """Return the stored frames of a case, which is played once for all dialects; those of one step are together."""
    stored: list[list[bytes]] = []
    (case,) = [case for case in CASES if case.name == name]
    replay.play(case, "public_sse_v1", on_output=lambda sent, _: stored.append([*map(codec.dumps, frames_of(sent))]))
    return stored


def stored_steps(case: replay.Case) -> list[list[dict[str, Any]]]:
    """Return the frames of a case as a store returns them, through JSON, in steps."""
    return [[codec.loads(frame) for frame in step] for step in _stored(case.name)]


def stored_frames(case: replay.Case) -> list[dict[str, Any]]:
    return [*chain(*stored_steps(case))]


def replayed(case: replay.Case, dialect: str, after: int = 0, output_format: OutputFormat = "ndjson") -> StreamReplay:
    return StreamReplay(
        dialect=dialect,
        policy=Policy.load(case.settings.policy),
        is_run=case.settings.run,
        after=after,
        output_format=output_format,
    )


@every_dialect
@every_case
def test_stored_frames_are_the_whole_stream(case: replay.Case, dialect: str) -> None:
    reader = replayed(case, dialect)
    assert reader.feed(stored_frames(case)) == golden_of(case, dialect)
    assert reader.ended


@every_case
def test_deltas_are_encoded_once(case: replay.Case) -> None:
    steps: list[tuple[list[Any], list[bytes | None]]] = []
    for dialect in ("public_sse_v1", "openresponses"):
        steps.clear()
        said = replay.play(case, dialect, on_output=lambda output, sent: steps.append((frames_of(output), sent)))
        pairs = [pair for frames, sent in steps for pair in zip(frames, sent, strict=True)]
        assert all(data == codec.dumps(frame) for frame, data in pairs if data is not None)
        kept, lines = [data for _, data in pairs if data is not None], said.splitlines()
        if dialect == "public_sse_v1":  # all up to the first one that was truncated to be an event
            assert kept == lines[: len(kept)]
            assert not {*lines[len(kept) : len(kept) + 1]} & {codec.dumps(frame) for frame, _ in pairs}
        else:
            assert kept == []


@every_dialect
@every_case
def test_a_reader_gets_what_follows_each_event(case: replay.Case, dialect: str) -> None:
    frames, lines = stored_frames(case), golden_of(case, dialect).splitlines(keepends=True)
    end_mark = DIALECTS[dialect].end_mark
    count = len(lines) - (end_mark is not None)
    for after in range(count + 1):
        reader = replayed(case, dialect, after)
        assert b"".join(reader.feed([frame]) for frame in frames) == b"".join(lines[after:])
        assert reader.position == count


NUMBERED: Final = [name for name, row in DIALECTS.items() if row.has_event_ids]


@pytest.mark.parametrize("dialect", NUMBERED)
@every_case
def test_events_have_the_number_after_which_a_reader_goes_on(case: replay.Case, dialect: str) -> None:
    frames, lines = stored_frames(case), golden_of(case, dialect).splitlines()
    for after in range(len(lines) + 1):
        reader = replayed(case, dialect, after, "sse")
        written = b"".join(reader.feed([frame]) for frame in frames)
        assert written == encode_numbered_events([(None, line) for line in lines[after:]], after + 1)


def test_numbered_events_have_no_end_mark() -> None:
    assert NUMBERED == ["ag_ui"]
    assert all(DIALECTS[name].end_mark is None for name in NUMBERED)


@every_dialect
@every_case
def test_an_interrupted_stream_ends_with_one_terminal(case: replay.Case, dialect: str) -> None:
    *steps, last = stored_steps(case)
    for count in {*range(0, len(steps), max(1, len(steps) // 8)), len(steps)}:
        reader, later = replayed(case, dialect), replayed(case, dialect)
        frames = [*chain(*steps[:count])]
        begin = reader.feed(frames)
        assert not reader.ended
        end = reader.interrupt(case.settings.stream_id, CLOCK)
        assert reader.ended
        assert (reader.feed(last), reader.interrupt(case.settings.stream_id, CLOCK)) == (b"", b"")
        assert b"stream_interrupted" in end or dialect in {"anthropic_messages", "chat_completions"}
        assert violations_of(dialect, (begin + end).splitlines()) == []
        assert later.feed(frames) + later.interrupt(case.settings.stream_id, CLOCK) == begin + end


def test_cases_are_stored_with_their_terminal() -> None:
    assert all(stored_frames(case)[-1]["kind"] in {"final", "error"} for case in CASES)
