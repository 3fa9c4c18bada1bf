"""Properties of every dialect that follows a protocol of others, for any input.

Each stream is sound, however it is cut or ends; no secret is written, and no reasoning that the policy hides; cost is
linear.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.dialects.descriptor import AI_SDK_LEVELS, DialectOptions
from projector.recording.replay import Case
from tests.property.canaries import DELTAS, cut_everywhere, errors_with, everywhere, leaks
from tests.property.dialect_streams import (
    CHECKS,
    SECRET,
    Event,
    assert_linear_cost,
    assert_sound,
    play,
    play_lines,
    told,
)
from tests.property.mutations import CASES, Lines, lines_of, spoiled, weave
from tests.property.soundness import CALLS, cut, examples, interrupted, pipeline_of

LEVELS: Final = ("off", "summary", "full")
OPTIONS: Final[Mapping[str, list[DialectOptions]]] = {
    "ai_sdk": [DialectOptions(level=level) for level in AI_SDK_LEVELS],
    "chat_completions": [DialectOptions(), DialectOptions(extensions=True)],
}
"""Dialect -> its options, by which its streams differ."""
DEFAULT: Final = [DialectOptions()]

each_dialect: Final = pytest.mark.parametrize("dialect", CHECKS)
each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.mark.parametrize(
    ("dialect", "options"),
    [(dialect, options) for dialect in CHECKS for options in OPTIONS.get(dialect, DEFAULT)],
)
@each_case
def test_a_stream_may_end_after_any_event(case: Case, dialect: str, options: DialectOptions) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(dialect, play_lines(dialect, case, lines[:end], options, reasoning="full"))


@each_dialect
@examples(250)
@given(stream=spoiled(), policy=st.tuples(st.sampled_from(LEVELS), st.booleans()), data=st.data())
def test_any_stream_is_sound(
    *, dialect: str, stream: tuple[Case, Lines], policy: tuple[str, bool], data: st.DataObject
) -> None:
    case, lines = stream
    options = data.draw(st.sampled_from(OPTIONS.get(dialect, DEFAULT)))
    said = play_lines(dialect, case, lines, options, reasoning=policy[0], encrypted_reasoning=policy[1])
    assert_sound(dialect, said)


@each_dialect
@examples(60)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_interleaved_streams_are_sound(dialect: str, case: Case, random: Any) -> None:
    assert_sound(dialect, play_lines(dialect, case, weave(random, lines_of(case))))


@each_dialect
@examples(60)
@given(spoiled(), st.lists(st.integers(0, 1 << 20), max_size=8))
def test_bytes_may_be_cut_anywhere(dialect: str, stream: tuple[Case, Lines], places: list[int]) -> None:
    case, lines = stream
    data, options = b"\n".join(lines), OPTIONS.get(dialect, DEFAULT)[-1]
    assert play(dialect, cut(data, places), case, options) == play(dialect, [data], case, options)


@each_dialect
@examples(120)
@given(stream=spoiled(most=2), run=st.booleans(), calls=st.lists(st.tuples(st.integers(0, 40), CALLS), max_size=3))
def test_host_events_at_any_time_keep_the_stream_sound(
    *, dialect: str, stream: tuple[Case, Lines], run: bool, calls: list[tuple[int, tuple[Any, ...]]]
) -> None:
    case, lines = stream
    pipeline = pipeline_of(dialect, case.provider, case.settings.model_copy(update={"run": run}))
    assert_sound(dialect, interrupted(pipeline, lines, calls))


# secrets


def widest(dialect: str) -> DialectOptions:
    """Return the options with which a dialect writes most; events of our own are checked by its own tests."""
    return OPTIONS.get(dialect, DEFAULT)[-1]


@pytest.mark.parametrize("reasoning", LEVELS)
@each_dialect
def test_no_registered_value_is_written_from_any_field(dialect: str, reasoning: str) -> None:
    policy = {"reasoning": reasoning, "encrypted_reasoning": True}
    for events in (everywhere(SECRET), *([error] for error in errors_with(SECRET))):
        assert leaks(told(dialect, events, widest(dialect), **policy), SECRET) == set()


@pytest.mark.parametrize("kind", [*DELTAS, "reasoning_text"])
@each_dialect
def test_no_registered_value_is_written_at_any_cut(dialect: str, kind: str) -> None:
    events = cut_everywhere(f"is {SECRET} here", kind if kind in DELTAS else "output_text")
    if kind not in DELTAS:
        events = [{**event, "type": f"response.{kind}.delta"} for event in events]
    said = told(dialect, [*events, {"type": "response.completed"}], widest(dialect), reasoning="full")
    assert leaks(said, SECRET) == set()


@each_dialect
def test_no_credential_of_a_tool_is_written(dialect: str) -> None:
    key = "AKIA" + "Q3EGSNDKLOPQRTU7"
    assert leaks(told(dialect, everywhere(key), widest(dialect)), key[4:]) == set()


# what the policy hides

THOUGHT: Final = "the heron waits until the tide has turned"
GIST: Final = "a bird is patient at the shore"
SEALED: Final = "gAAAA-sealed"


def reasoned() -> list[Event]:
    """Return full reasoning and its summary, each as deltas, as `done`, in a finished item and in the snapshot."""
    content, summary = [{"type": "reasoning_text", "text": THOUGHT}], [{"type": "summary_text", "text": GIST}]
    item = {"type": "reasoning", "content": content, "summary": summary, "encrypted_content": SEALED}
    return [
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": THOUGHT},
        {"type": "response.reasoning_summary_text.delta", "output_index": 1, "delta": GIST},
        {"type": "response.reasoning_text.done", "output_index": 2, "text": THOUGHT},
        {"type": "response.reasoning_summary_text.done", "output_index": 3, "text": GIST},
        {"type": "response.output_item.done", "output_index": 4, "item": item},
        {"type": "response.completed", "response": {"output": [item, item, item, item, item]}},
    ]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize(
    ("level", "has_thought", "has_gist"), [("off", False, False), ("summary", False, True), ("full", True, True)]
)
@each_dialect
def test_reasoning_is_written_as_the_policy_allows(
    *, dialect: str, level: str, has_thought: bool, has_gist: bool, encrypted: bool
) -> None:
    said = told(dialect, reasoned(), reasoning=level, encrypted_reasoning=encrypted)
    assert (bool(leaks(said, THOUGHT)), bool(leaks(said, GIST))) == (has_thought, has_gist)
    assert (SEALED.encode() in said) == (encrypted and dialect != "chat_completions"), "the API has no member for it"


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("level", LEVELS)
@each_dialect
def test_no_hidden_reasoning_is_written_amid_other_events(dialect: str, level: str, *, encrypted: bool) -> None:
    for case in CASES:
        if case.provider == "openai_responses":
            lines = lines_of(case)
            at = len(lines) // 2
            lines[at:at] = [json.dumps(event).encode() for event in reasoned()[:-1]]
            said = play_lines(dialect, case, lines, reasoning=level, encrypted_reasoning=encrypted)
            assert THOUGHT.encode() not in said or level == "full", case.name
            assert GIST.encode() not in said or level != "off", case.name
            assert SEALED.encode() not in said or encrypted, case.name


# cost


def text_of(index: int, part: int = 0) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": part, "delta": "word "}


def citation(at: int) -> Event:
    annotation = {"type": "url_citation", "url": f"https://example.org/{at}"}
    return {"type": "response.output_text.annotation.added", "annotation": annotation}


def call(index: int) -> Event:
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}", "name": "f", "arguments": "{}"}
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def partial_image(at: int) -> Event:
    data = base64.b64encode(b"pixel" * 100).decode()
    name = "response.image_generation_call.partial_image"
    return {"type": name, "partial_image_index": at, "partial_image_b64": data}


INPUTS: Final[Mapping[str, Callable[[int], Event]]] = {
    "deltas": lambda _at: text_of(0),
    "messages at once": text_of,
    "alternating messages": lambda at: text_of(at % 2),
    "parts": lambda at: text_of(0, at),
    "citations": citation,
    "calls": call,
    "images": partial_image,
    "arguments": lambda _at: {"type": "response.function_call_arguments.delta", "delta": "1"},
}
RUNS: Final = {"messages at once", "alternating messages", "calls"}
"""Inputs that a dialect may keep until a run ends."""


@pytest.mark.parametrize(("name", "run"), [(name, run) for name in INPUTS for run in {False, name in RUNS}])
@each_dialect
def test_cost_is_linear(dialect: str, name: str, *, run: bool) -> None:
    assert_linear_cost(dialect, INPUTS[name], run=run)
