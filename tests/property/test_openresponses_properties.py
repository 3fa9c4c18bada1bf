"""Properties of Open Responses for any input: valid, accepted by a client, no secret, no hidden reasoning."""

from __future__ import annotations

import json
import warnings
from typing import Any, Final

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIError, OpenAI

from projector.contracts.stream_rules.table import check_lines
from projector.core.sse import encode_sse
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
from tests.protocols.openresponses.checker import OpenResponsesChecker

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
DIALECT: Final = "openresponses"


def assert_sound(said: bytes) -> None:
    """Check every rule, the JSON answer, and that there is no internal fault."""
    lines = said.splitlines()
    assert check_lines(OpenResponsesChecker(), lines) == []
    answer = assemble(lines)
    assert (answer.status == 200) == (answer.body.get("object") == "response")
    assert (answer.body.get("error") or {}).get("code") not in OURS


def assert_accepted(said: bytes) -> None:
    """The SDK's accumulator reads the stream to its end; it raises the error of an `error` event and no other."""
    lines = said.splitlines()
    body = b"".join(encode_sse(line, json.loads(line)["type"]) for line in lines[:-1]) + encode_sse(lines[-1])
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    transport = httpx2.MockTransport(lambda _request: answer)
    with OpenAI(api_key="none", http_client=httpx2.Client(transport=transport), max_retries=0) as client:
        try:
            with (
                warnings.catch_warnings(action="ignore", category=UserWarning),  # of items that it does not know
                client.responses.stream(model="any", input="Hi") as stream,
            ):
                names = [event.type for event in stream]
        except APIError:
            assert any(line.startswith(b'{"type":"error",') for line in lines)
        else:
            assert names == [json.loads(line)["type"] for line in lines[:-1]]


# any input


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(play_lines(DIALECT, case, lines[:end], reasoning="full"))


@each_case
def test_the_client_accepts_a_truncated_stream(case: Case) -> None:
    lines = lines_of(case)
    for end in {len(lines) // 3, len(lines) * 2 // 3}:
        assert_accepted(play_lines(DIALECT, case, lines[:end], reasoning="full"))


@examples(300)
@given(spoiled(), st.sampled_from(LEVELS))
def test_any_stream_is_sound(stream: tuple[Case, Lines], reasoning: str) -> None:
    case, lines = stream
    assert_sound(play_lines(DIALECT, case, lines, reasoning=reasoning))


@examples(120)
@given(spoiled())
def test_the_client_accepts_any_stream(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    assert_accepted(play_lines(DIALECT, case, lines, reasoning="full"))


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


# secrets


@pytest.mark.parametrize("reasoning", LEVELS)
def test_no_registered_value_is_written_from_any_field(reasoning: str) -> None:
    assert leaks(told(DIALECT, assert_sound, everywhere(SECRET), reasoning=reasoning), SECRET) == set()
    assert all(
        leaks(told(DIALECT, assert_sound, [error], reasoning=reasoning), SECRET) == set()
        for error in errors_with(SECRET)
    )


@pytest.mark.parametrize("kind", [*DELTAS, "reasoning_text"])
def test_no_registered_value_is_written_at_any_cut(kind: str) -> None:
    events = cut_everywhere(f"is {SECRET} here", kind if kind in DELTAS else "output_text")
    if kind not in DELTAS:
        events = [{**event, "type": f"response.{kind}.delta"} for event in events]
    said = told(DIALECT, assert_sound, [*events, {"type": "response.completed"}], reasoning="full")
    assert leaks(said, SECRET) == set()


def test_no_credential_of_a_tool_is_written() -> None:
    key = "AKIA" + "Q3EGSNDKLOPQRTU7"
    assert leaks(told(DIALECT, assert_sound, everywhere(key)), key[4:]) == set()


# data that the policy hides


@pytest.mark.parametrize(
    ("level", "has_thought", "has_gist"), [("off", False, False), ("summary", False, True), ("full", True, True)]
)
def test_reasoning_is_written_as_the_policy_allows(*, level: str, has_thought: bool, has_gist: bool) -> None:
    said = told(DIALECT, assert_sound, reasoned(), reasoning=level)
    assert (bool(leaks(said, THOUGHT)), bool(leaks(said, GIST))) == (has_thought, has_gist)


# cost


@pytest.mark.parametrize("events", [many_deltas, many_items, many_parts, many_citations])
def test_cost_is_linear(events: Any) -> None:
    assert_linear_cost(DIALECT, events)
