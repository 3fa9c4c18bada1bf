"""Properties of the output for every input, however it is cut, mutated or ended."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts import codec
from projector.core.sse import encode_sse
from projector.recording.replay import Case, CaseSettings
from tests.property.mutations import ALL_LINES, CASES, KEEPING_MEMBERS, Lines, lines_of, parsed, places, spoiled
from tests.property.soundness import CALLS, assert_sound, cut, examples, frames_of, interrupted, pipeline_of, play
from tests.rule_samples import FORMATS

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
PLACES: Final = st.lists(st.integers(0, 1 << 20), max_size=12)


def as_sse(lines: Lines) -> bytes:
    return b"".join(map(encode_sse, lines))


def as_ndjson(lines: Lines) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def play_lines(case: Case, lines: Lines) -> bytes:
    return play([as_ndjson(lines)], case.provider, case.settings)


# how the bytes are cut


@examples(150)
@given(spoiled(), PLACES)
def test_spoiled_bytes_may_be_cut_anywhere(stream: tuple[Case, Lines], cuts: list[int]) -> None:
    case, lines = stream
    data = as_sse(lines)
    whole = play([data], case.provider, case.settings, "sse")
    assert play(cut(data, cuts), case.provider, case.settings, "sse") == whole
    assert_sound(whole)


# how deltas are cut


@each_case
def test_deltas_may_come_in_characters(case: Case) -> None:
    numbered = dict.fromkeys(line for line in lines_of(case) if b"sequence_number" in line)
    lines = [*numbered] or lines_of(case)  # a line that is sent again would be no repetition in pieces without numbers
    pieces = [piece for line in lines for piece in in_pieces(line, range(1, 20_000))]
    assert gist(play_lines(case, pieces)) == gist(play_lines(case, lines))


@examples(80)
@given(st.sampled_from(CASES), st.data())
def test_deltas_may_be_cut_anywhere(case: Case, data: st.DataObject) -> None:
    lines = lines_of(case)
    pieces = [piece for line in lines for piece in in_pieces(line, data.draw(st.sets(st.integers(1, 40), max_size=3)))]
    assert gist(play_lines(case, pieces)) == gist(play_lines(case, lines))


def in_pieces(line: bytes, cuts: Any) -> Lines:
    """Return a delta as several lines; any other line unchanged."""
    event = parsed(line)
    holder, name = delta_of(event) if isinstance(event, dict) else ({}, "")
    delta = holder.get(name)
    if not isinstance(delta, str) or not delta:
        return [line]
    edges = sorted({0, len(delta), *(at for at in cuts if at < len(delta))})
    if event.get("type") == "response.function_call_arguments.delta" and is_object(delta):
        return [line]  # whole objects that follow each other are arguments that replace each other
    if len(edges) > 2:
        event.pop("sequence_number", None)  # equal pieces with one number would be one delta, which was sent again
    pieces = []
    for start, end in pairwise(edges):
        holder[name] = delta[start:end]
        pieces.append(json.dumps(event).encode())
    return pieces


def is_object(text: str) -> bool:
    """Return whether a text is a whole JSON object."""
    return isinstance(parsed(text.encode("utf-8", "surrogatepass")), dict)


def delta_of(event: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the object and key of an event's delta: of a Responses event, or of a Chat chunk with nothing but text."""
    match event:
        case {"choices": [{"delta": {"content": str(), **others} as delta, "finish_reason": None}], **beside}:
            is_alone = not {*others} - {"role"} and not beside.get("usage")
            return (delta, "content") if is_alone else ({}, "")
    return event, "delta"


def gist(said: bytes) -> list[object]:
    """Return the content of a stream, independent of the number and cuts of its deltas."""
    joined: dict[object, str] = defaultdict(str)
    rest: list[object] = []
    for frame in frames_of(said):
        kept = {name: value for name, value in frame.items() if name not in {"event_id", "provider_sequence_number"}}
        if "delta" in frame:
            place = (frame["kind"], frame["item_id"], frame.get("content_index"), frame.get("summary_index"))
            joined[place] += frame["delta"]
        else:
            rest.append(kept)
    return [sorted(joined.items(), key=repr), *rest]


# effect of the events


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(play_lines(case, lines[:end]))


@each_case
def test_any_event_may_be_missing(case: Case) -> None:
    lines = lines_of(case)
    for at in range(len(lines)):
        assert_sound(play_lines(case, lines[:at] + lines[at + 1 :]))


@each_case
def test_any_event_may_come_again_late(case: Case) -> None:
    lines = lines_of(case)
    for line in lines[:-1]:
        assert_sound(play_lines(case, [*lines[:-1], line, lines[-1]]))


ADDITIONS: Final = {"projector.attachment"}
"""Events other than deltas that have new content each time."""


@pytest.mark.parametrize("case", [case for case in CASES if case.provider == "openai_responses"], ids=lambda c: c.name)
def test_what_is_no_delta_may_come_twice(case: Case) -> None:
    lines = lines_of(case)
    once = gist(play_lines(case, lines))
    for at, line in enumerate(lines):
        event = parsed(line)
        is_placed = isinstance(event, dict) and ("output_index" in event or "response" in event)
        if is_placed and "delta" not in event and event["type"] not in ADDITIONS:
            assert gist(play_lines(case, [*lines[:at], line, *lines[at:]])) == once


@examples(200)  # `make fuzz` tries ten thousand, other ones each time
@given(spoiled())
def test_whatever_comes_the_stream_is_sound(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    assert_sound(play_lines(case, lines))


PRIVATE_CHARS: Final = 24
"""Minimum length of a searched tool text; shorter ones are words of a schema, and names that a call may contain."""
PRIVATE: Final = {
    json.dumps(value)[1:-1].encode()
    for line in ALL_LINES
    for place, value in places(parsed(line))
    if {"instructions", "encrypted_content", "tools"} & {*place}
    and isinstance(value, str)
    and len(value) >= PRIVATE_CHARS
}


@examples(200)
@given(spoiled(mutations=KEEPING_MEMBERS))
def test_whatever_comes_nothing_private_is_said(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    said = play_lines(case, lines)
    of_host = b"".join(line for line in lines if b'"projector.' in line)  # a tool output may hold any member
    assert [text for text in PRIVATE if text in said and text not in of_host] == []


@examples(200)
@given(stream=spoiled(most=2), run=st.booleans(), calls=st.lists(st.tuples(st.integers(0, 40), CALLS), max_size=3))
def test_whenever_the_host_speaks_the_stream_is_sound(
    *, stream: tuple[Case, Lines], run: bool, calls: list[tuple[int, tuple[Any, ...]]]
) -> None:
    case, lines = stream
    pipeline = pipeline_of("public_sse_v1", case.provider, case.settings.model_copy(update={"run": run}))
    assert_sound(interrupted(pipeline, lines, calls))


# the output has the content of the input


TEXTS: Final = st.text(st.one_of(st.characters(codec=None, categories=("L", "S", "Zs", "Cs", "Cc"))), max_size=40)
"""Any text, with lone surrogates and control characters."""


BEGINNINGS: Final = st.builds(str.__add__, TEXTS, st.sampled_from([row.matches[0][:3] for row in FORMATS]))
"""Texts that end like the start of a credential: the held part is emitted at the end."""

GROWING: Final = {
    "output_text": ("message.delta", "text"),
    "refusal": ("refusal.delta", "refusal"),
    "reasoning_summary_text": ("reasoning_summary.delta", "text"),
    "code_interpreter_call_code": ("tool.code.delta", "code"),
}
"""Event of the provider -> kind of its public deltas, and the member with the complete text."""


@pytest.mark.parametrize("kind", GROWING)
@examples(60)
@given(text=TEXTS | BEGINNINGS, cuts=st.sets(st.integers(1, 40), max_size=5), has_done=st.booleans())
def test_text_joins_to_the_original(*, kind: str, text: str, cuts: set[int], has_done: bool) -> None:
    said_kind, member = GROWING[kind]
    lines = in_pieces(json.dumps({"type": f"response.{kind}.delta", "delta": text}).encode(), cuts)
    if has_done:
        lines.append(json.dumps({"type": f"response.{kind}.done", member: text}).encode())
    frames = frames_of(play([as_ndjson([*lines, b'{"type":"response.completed"}'])]))
    said = "".join(frame["delta"] for frame in frames if frame["kind"] == said_kind)
    wholes = [frame["code"] for frame in frames if frame["kind"] == "tool.code.done"]
    assert (said or "".join(wholes)) == codec.scrub(text)  # short complete code is in its `done` only
    if kind == "output_text":
        assert frames[-1]["final"].get("response_text", "") == said


JSON_TREES: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), TEXTS),
    lambda children: st.one_of(st.lists(children, max_size=3), st.dictionaries(TEXTS, children, max_size=3)),
    max_leaves=8,
)


@examples(100)
@given(
    tree=st.dictionaries(TEXTS, JSON_TREES, max_size=3),
    cuts=st.sets(st.integers(1, 200), max_size=6),
    is_ascii=st.booleans(),
)
def test_arguments_join_to_the_whole(*, tree: dict[str, object], cuts: set[int], is_ascii: bool) -> None:
    text = json.dumps(tree, ensure_ascii=is_ascii)
    delta = {"type": "response.function_call_arguments.delta", "delta": text}
    done = json.dumps({"type": "response.function_call_arguments.done", "arguments": text}).encode()
    alone = frames_of(play([done]))
    frames = frames_of(play([as_ndjson([*in_pieces(json.dumps(delta).encode(), cuts), done])]))
    said = "".join(frame["delta"] for frame in frames if frame["kind"] == "tool.arguments.delta")
    whole, own = (next(f for f in fs if f["kind"] == "tool.arguments.done") for fs in (frames, alone))
    assert said == whole["arguments_text"] == own["arguments_text"]
    assert whole.get("arguments_json") == own.get("arguments_json")


@examples(100)
@given(
    st.binary(min_size=1, max_size=300),
    st.sampled_from([4, 8, 60, 400]),
    st.sampled_from(["partial_image_b64", "image_b64"]),
)
def test_chunks_join_to_the_original(image: bytes, limit: int, field: str) -> None:
    data = base64.b64encode(image).decode()
    partial = {
        "type": "response.image_generation_call.partial_image",
        "partial_image_index": 3,
        "partial_image_b64": data,
    }
    whole = {"type": "response.output_item.done", "item": {"type": "image_generation_call", "result": data}}
    line = json.dumps(partial if field == "partial_image_b64" else whole).encode()
    policy = {"limits": {"image_chunk_max_chars": limit}}
    said = play([line], case=CaseSettings(policy=policy))
    assert_sound(said)
    chunks = [frame for frame in frames_of(said) if frame["kind"] == "chunk.delta"]
    assert {chunk["target"]["field"] for chunk in chunks} == {field}
    assert "".join(chunk["data"] for chunk in chunks) == data
    assert b"".join(base64.b64decode(chunk["data"], validate=True) for chunk in chunks) == image
    assert max(len(chunk["data"]) for chunk in chunks) <= limit
