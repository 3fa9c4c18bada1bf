"""Properties of UI message streams for any input: valid at every level, one end, no secret, no hidden reasoning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts.stream_rules.table import check_lines
from projector.core.sse import DONE
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case
from tests.property.canaries import DELTAS, cut_everywhere, errors_with, everywhere, leaks
from tests.property.mutations import CASES, Lines, lines_of, spoiled
from tests.property.response_streams import (
    GIST,
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
from tests.property.response_streams import LEVELS as REASONING
from tests.property.soundness import OURS, examples
from tests.protocols.ai_sdk.checker import AiSdkChecker

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
DIALECT: Final = "ai_sdk"
LEVELS: Final = (5, 6, 7)


def assert_sound(said: bytes) -> None:
    """Check every rule, that `[DONE]` is the last line, and that there is no internal fault."""
    lines = said.splitlines()
    assert check_lines(AiSdkChecker(), lines) == []
    assert lines[-1] == DONE
    assert not any(f'"code":"{code}"'.encode() in line for line in lines for code in OURS)


@pytest.mark.parametrize("level", LEVELS)
@each_case
def test_a_stream_may_end_after_any_event(case: Case, level: int) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(play_lines(DIALECT, case, lines[:end], options=DialectOptions(level=level), reasoning="full"))


@examples(300)
@given(spoiled(), st.sampled_from(REASONING), st.sampled_from(LEVELS))
def test_any_stream_is_sound(stream: tuple[Case, Lines], reasoning: str, level: int) -> None:
    case, lines = stream
    assert_sound(play_lines(DIALECT, case, lines, options=DialectOptions(level=level), reasoning=reasoning))


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


@pytest.mark.parametrize("reasoning", REASONING)
def test_no_registered_value_is_written_from_any_field(reasoning: str) -> None:
    tell = partial(told, DIALECT, assert_sound, reasoning=reasoning)
    assert leaks(tell(everywhere(SECRET)), SECRET) == set()
    assert all(leaks(tell([error]), SECRET) == set() for error in errors_with(SECRET))


@pytest.mark.parametrize("kind", DELTAS)
def test_no_registered_value_is_written_at_any_cut(kind: str) -> None:
    events = cut_everywhere(f"is {SECRET} here", kind)
    said = told(DIALECT, assert_sound, [*events, {"type": "response.completed"}], reasoning="full")
    assert leaks(said, SECRET) == set()


def test_no_credential_of_a_tool_is_written() -> None:
    key = "AKIA" + "Q3EGSNDKLOPQRTU7"
    assert leaks(told(DIALECT, assert_sound, everywhere(key)), key[4:]) == set()


@pytest.mark.parametrize(
    ("level", "has_thought", "has_gist"), [("off", False, False), ("summary", False, True), ("full", True, True)]
)
def test_reasoning_is_written_as_the_policy_allows(*, level: str, has_thought: bool, has_gist: bool) -> None:
    said = told(DIALECT, assert_sound, reasoned(), reasoning=level)
    assert (bool(leaks(said, THOUGHT)), bool(leaks(said, GIST))) == (has_thought, has_gist)


@pytest.mark.parametrize("events", [many_deltas, many_items, many_parts, many_citations])
def test_cost_is_linear(events: Callable[[int], list[dict[str, Any]]]) -> None:
    assert_linear_cost(DIALECT, events)
