"""The inputs and floors of `make bench` are what they claim to be; otherwise its ratios mean nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from bench import bare_loop, inputs, memory, sdk_objects, subjects
from bench.inputs import Input
from bench.rounds import Cost, measure
from projector.contracts.stream_rules import check_stream
from tests.property.cost import alone

DELTAS: Final = 1_500


class Row(NamedTuple):
    """One kind of input: a stream, its bare loop, and the kind of its deltas."""

    subject: Input
    loop: bare_loop.Frames
    kind: str

    def bare(self) -> list[dict[str, Any]]:
        return written_frames(subjects.bare(self.subject, self.loop))

    def frames(self) -> list[dict[str, Any]]:
        (frames,) = subjects.frames_of(self.subject)
        return frames

    def deltas(self) -> list[dict[str, Any]]:
        return [frame for frame in self.frames() if frame["kind"] == self.kind]


MADE: Final = {
    "text": Row(inputs.text(DELTAS), bare_loop.text, "message.delta"),
    "arguments in short fragments": Row(inputs.arguments(DELTAS, 4), bare_loop.arguments, "tool.arguments.delta"),
    "arguments in long fragments": Row(inputs.arguments(DELTAS, 40), bare_loop.arguments, "tool.arguments.delta"),
    "chat": Row(inputs.chat(DELTAS), bare_loop.chat, "message.delta"),
}
ROWS: Final = pytest.mark.parametrize("row", MADE.values(), ids=MADE)

SHAPES: Final[dict[str, TypeAdapter[Any]]] = {
    "openai_responses": TypeAdapter(ResponseStreamEvent),
    "openai_chat": TypeAdapter(ChatCompletionChunk),
}


@ROWS
def test_each_event_is_one_of_the_provider(row: Row) -> None:
    events = list(inputs.events_of(row.subject.streams))
    assert len(events) == row.subject.events - (row.subject.provider == "openai_chat")  # its last message is `[DONE]`
    for event in events:
        SHAPES[row.subject.provider].validate_python(event)


@ROWS
def test_the_sdk_makes_each_event(row: Row) -> None:
    made = sdk_objects.objects(row.subject.provider, row.subject.streams[0])
    assert [event.model_dump(exclude_unset=True) for event in made] == list(inputs.events_of(row.subject.streams))


@ROWS
def test_a_read_is_a_whole_segment(row: Row) -> None:
    assert {len(read) for stream in row.subject.streams for read in stream[:-1]} == {inputs.READ_BYTES}


@ROWS
def test_the_pipeline_writes_the_text_in_a_valid_stream(row: Row) -> None:
    frames = row.frames()
    assert check_stream(json.dumps(frame) for frame in frames) == []
    assert "".join(frame["delta"] for frame in row.deltas()) == row.subject.text
    assert frames[-1]["final"]["status"] == "completed"


@ROWS
def test_the_bare_loop_writes_the_same_text(row: Row) -> None:
    assert "".join(frame["delta"] for frame in row.bare()) == row.subject.text


@ROWS
def test_the_bare_loop_writes_as_many_frames_with_the_same_keys(row: Row) -> None:
    bare, deltas = row.bare(), row.deltas()
    assert {frozenset(frame) for frame in bare} == {frozenset(frame) for frame in deltas}
    assert len(deltas) <= len(bare) <= 1.05 * len(deltas)  # a fragment may wait for the next one


@pytest.mark.parametrize("name", ["text", "chat"])
def test_the_bare_loop_writes_the_same_frames_of_text(name: str) -> None:
    """The bare loop shows each fragment at once; a search of the text may end one earlier."""
    row = MADE[name]
    (frames,) = subjects.frames_of(row.subject, subjects.TEXT_REDACTORS["off"])
    deltas = [frame for frame in frames if frame["kind"] == row.kind]
    assert [unnumbered(frame) for frame in row.bare()] == [unnumbered(frame) for frame in deltas]


def test_the_bare_loop_of_recordings_writes_the_same_frames() -> None:
    row = MADE["arguments in long fragments"]
    assert written_frames(subjects.bare_recorded(row.subject)()) == row.frames()


def test_the_corpus_is_read_whole(corpus: Path) -> None:
    recorded = inputs.corpus()
    assert recorded is not None
    assert len(recorded.streams) == len(list((corpus / "responses").glob("*.ndjson")))
    assert recorded.events == sum(1 for _ in inputs.events_of(recorded.streams))


@pytest.mark.parametrize("run", [subjects.decoder, subjects.provider, subjects.projector])
@ROWS
def test_each_stage_runs_alone(run: Callable[[Input], None], row: Row) -> None:
    run(row.subject)


def test_memory_holds_the_text() -> None:
    subject = inputs.text(DELTAS, message_deltas=DELTAS)
    with alone():
        assert memory.after_deltas(subject) > memory.at_rest(subject) + len(subject.text)


def test_each_event_may_have_a_read() -> None:
    subject = inputs.text(DELTAS)
    alone = inputs.alone(subject)
    assert [len(reads) for reads in alone.streams] == [subject.events]
    assert [b"".join(reads) for reads in alone.streams] == [b"".join(reads) for reads in subject.streams]


def test_subjects_take_turns() -> None:
    turns: list[str] = []
    costs = measure({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 3)
    assert turns == ["a", "b"] * 3
    assert [len(cost.rounds) for cost in costs.values()] == [3, 3]


def test_a_ratio_is_of_the_least_and_shows_its_spread() -> None:
    assert Cost([6.0, 4.0]).over(Cost([2.0, 1.0])) == (4.0, 3.0, 4.0)


def written_frames(written: list[list[bytes]]) -> list[dict[str, Any]]:
    blocks = b"".join(part for stream in written for part in stream).split(b"\n\n")
    return [json.loads(block.removeprefix(b"data: ")) for block in blocks if block]


def unnumbered(frame: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame.items() if name not in {"event_id", "provider_sequence_number"}}
