"""Properties of the dialect `responses` for any input: valid for the SDK's models, no secret, no hidden reasoning."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts.kinds import VENDOR
from projector.contracts.stream_rules.table import check_lines
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case
from tests.json_answers import assemble
from tests.property.canaries import DELTAS, cut_everywhere, errors_with, everywhere, leaks
from tests.property.mutations import CASES, Lines, lines_of, spoiled
from tests.property.response_streams import (
    GIST,
    LEVELS,
    SECRET,
    THOUGHT,
    assert_linear_cost,
    assert_the_same_for_every_cut,
    cuts,
    host_calls,
    many_citations,
    many_deltas,
    many_items,
    many_parts,
    play_lines,
    play_with_host,
    reasoned,
    told,
)
from tests.property.soundness import OURS, examples
from tests.protocols.responses.checker import ResponsesChecker
from tests.sdk_models import faults_of

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
DIALECT: Final = "responses"
ENDS: Final = {"response.completed", "response.incomplete", "response.failed"}


def assert_sound(said: bytes) -> None:
    """Check every rule, one end, no name of ours, the JSON answer, and that there is no internal fault."""
    lines = said.splitlines()
    assert check_lines(ResponsesChecker(), lines) == []
    assert faults_of(lines) == []
    names = [json.loads(line)["type"] for line in lines]
    assert [name for name in names if name in ENDS] == names[-1:]
    assert not any(name.startswith(VENDOR) for name in names)
    answer = assemble(lines, DIALECT)
    assert (answer.status == 200) == (answer.body.get("object") == "response")
    assert (answer.body.get("error") or {}).get("code") not in OURS


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(play_lines(DIALECT, case, lines[:end], reasoning="full"))


@examples(250)
@given(spoiled(), st.sampled_from(LEVELS))
def test_any_stream_is_sound(stream: tuple[Case, Lines], reasoning: str) -> None:
    case, lines = stream
    assert_sound(play_lines(DIALECT, case, lines, reasoning=reasoning, encrypted_reasoning=True))


@examples(60)
@given(spoiled(), cuts)
def test_bytes_may_be_cut_anywhere(stream: tuple[Case, Lines], places: list[int]) -> None:
    assert_the_same_for_every_cut(DIALECT, stream, places)


@examples(100)
@given(spoiled(most=2), host_calls)
def test_host_events_at_any_time_keep_the_stream_sound(
    stream: tuple[Case, Lines], calls: list[tuple[int, str]]
) -> None:
    assert_sound(play_with_host(DIALECT, stream, calls))


@examples(60)
@given(spoiled())
def test_extensions_only_add_events(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    plain = play_lines(DIALECT, case, lines).splitlines()
    extended = play_lines(DIALECT, case, lines, options=DialectOptions(extensions=True)).splitlines()
    assert check_lines(ResponsesChecker(), extended) == []
    left = [event for event in map(json.loads, extended) if not event["type"].startswith(VENDOR)]
    assert [{**event, "sequence_number": at} for at, event in enumerate(left)] == [*map(json.loads, plain)]


# secrets


@pytest.mark.parametrize("reasoning", LEVELS)
def test_no_registered_value_is_written_from_any_field(reasoning: str) -> None:
    policy = {"reasoning": reasoning, "encrypted_reasoning": True}
    assert leaks(told(DIALECT, assert_sound, everywhere(SECRET), **policy), SECRET) == set()
    assert all(leaks(told(DIALECT, assert_sound, [error], **policy), SECRET) == set() for error in errors_with(SECRET))


@pytest.mark.parametrize("kind", [*DELTAS, "reasoning_text"])
def test_no_registered_value_is_written_at_any_cut(kind: str) -> None:
    events = cut_everywhere(f"is {SECRET} here", kind if kind in DELTAS else "output_text")
    if kind not in DELTAS:
        events = [{**event, "type": f"response.{kind}.delta"} for event in events]
    said = told(DIALECT, assert_sound, [*events, {"type": "response.completed"}], reasoning="full")
    assert leaks(said, SECRET) == set()


KEY: Final = "AKIA" + "Q3EGSNDKLOPQRTU7"

DETAILS: Final[dict[str, dict[str, Any]]] = {
    "query": {"type": "web_search_call", "action": {"type": "search", "query": KEY, "queries": [KEY]}},
    "page": {"type": "web_search_call", "action": {"type": "open_page", "url": f"https://example.org/?a={KEY}"}},
    "pattern": {"type": "web_search_call", "action": {"type": "find_in_page", "pattern": KEY}},
    "source": {"type": "web_search_call", "action": {"sources": [{"url": f"https://example.org/{KEY}"}]}},
    "type of an action": {"type": "web_search_call", "action": {"type": KEY}},
    "phase": {"type": "message", "phase": KEY, "content": []},
    "error of a server": {"type": "mcp_call", "name": "f", "error": {"type": KEY, "content": KEY}},
    "message of a server": {"type": "mcp_call", "name": "f", "error": {"type": "http_error", "message": KEY}},
}


@pytest.mark.parametrize("item", DETAILS.values(), ids=DETAILS)
def test_no_credential_is_in_what_only_this_dialect_writes(item: dict[str, Any]) -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    said = told(DIALECT, assert_sound, [done, {"type": "response.completed"}])
    assert leaks(said, KEY[4:]) == set()
    assert item["type"].encode() in said


def test_no_credential_of_a_tool_is_written() -> None:
    assert leaks(told(DIALECT, assert_sound, everywhere(KEY)), KEY[4:]) == set()


@pytest.mark.parametrize(
    ("level", "has_thought", "has_gist"), [("off", False, False), ("summary", False, True), ("full", True, True)]
)
def test_reasoning_is_written_as_the_policy_allows(*, level: str, has_thought: bool, has_gist: bool) -> None:
    said = told(DIALECT, assert_sound, reasoned(), reasoning=level)
    assert (bool(leaks(said, THOUGHT)), bool(leaks(said, GIST))) == (has_thought, has_gist)


# cost


def many_images(count: int) -> list[dict[str, Any]]:
    data = base64.b64encode(b"pixel" * 100).decode()
    name = "response.image_generation_call.partial_image"
    return [{"type": name, "partial_image_index": at, "partial_image_b64": data} for at in range(count)]


def many_arguments(count: int) -> list[dict[str, Any]]:
    return [{"type": "response.function_call_arguments.delta", "delta": "1"}] * count


@pytest.mark.parametrize("events", [many_deltas, many_items, many_parts, many_citations, many_images, many_arguments])
def test_cost_is_linear(events: Any) -> None:
    assert_linear_cost(DIALECT, events)
