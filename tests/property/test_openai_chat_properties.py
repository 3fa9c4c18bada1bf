"""Properties of every Chat stream: order, completeness, privacy, linear time, independence of cuts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.core.faults import Fault
from projector.core.sse import SseMessage
from projector.providers.openai_chat.chunk_fields import ChatProfile
from projector.providers.openai_chat.stage import OpenAIChatStage
from projector.providers.think import BUILT_IN, MARKS, Operation, ThinkMode, ThinkSplitter
from tests.property.cost import assert_linear
from tests.property.soundness import assert_sound, cut, examples, frames_of, play

PROVIDER: Final = "openai_chat"
TAGS: Final = ("<think>", "</think>")
ID: Final = "chatcmpl-1"

# --- reasoning between tags ---

TAGGED: Final = st.lists(
    st.sampled_from([*TAGS, "<", "</", "<thi", "nk>", "/think>", "a", " ", "\n", "\ud83c", "\udf1e"]), max_size=20
).map("".join)
SPELLED: Final = st.lists(
    st.sampled_from(
        [tag for pair in BUILT_IN for tag in pair]
        + [*MARKS, "<TH", "INKING>", "<|chan", "nel|>", "analysis", "<|", "a"]
    ),
    max_size=20,
).map("".join)
MODES: Final = st.sampled_from(get_args(ThinkMode))


def split(mode: ThinkMode, pieces: Iterable[str]) -> list[Operation]:
    """Return the operations with neighbours of one kind joined, as after other text: see `ThinkSplitter`."""
    splitter = ThinkSplitter(mode)
    splitter.has_shown = True
    joined: list[Operation] = []
    for kind, text in [*(found for piece in pieces for found in splitter.push(piece)), *splitter.close()]:
        if joined and kind == joined[-1].kind in {"text", "reasoning"}:
            text = joined.pop().text + text  # noqa: PLW2901 - what came before belongs to it
        joined.append(Operation(kind, text))
    return joined


def cut_text(text: str, cuts: Iterable[int]) -> list[str]:
    edges = sorted(at % (len(text) + 1) for at in cuts)
    return [text[start:end] for start, end in pairwise([0, *edges, len(text)])]


CUTS: Final = st.lists(st.integers(0, 1000), max_size=10)


@given(mode=MODES, text=TAGGED | SPELLED, cuts=CUTS)
@examples(200)
def test_cuts_do_not_move_tags(mode: ThinkMode, text: str, cuts: list[int]) -> None:
    whole = split(mode, [text])
    assert split(mode, cut_text(text, cuts)) == whole
    assert split(mode, text) == whole


@given(mode=MODES, text=TAGGED)
@examples(200)
def test_only_tags_are_removed(mode: ThinkMode, text: str) -> None:
    opening, closing = TAGS
    rebuilt = ""
    is_inside = False
    for kind, piece in split(mode, [text]):
        if kind in {"reasoning", "close"} and not is_inside:
            rebuilt += opening
        rebuilt += closing if kind in {"close", "drop"} else piece
        is_inside = kind == "reasoning"
    sent = opening + text if mode == "assume_open" else text
    sent, rebuilt = "".join(sent.split()), "".join(rebuilt.split())  # a tag may contain blanks
    assert rebuilt in (sent, sent + closing)


# --- any stream of chunks ---

ENDS_OF_RESPONSES: Final = frozenset(
    f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled")
)


def chunk(delta: object, finish: object = None) -> dict[str, Any]:
    return {"id": ID, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def fragment(members: dict[str, Any], name: str | None, arguments: object) -> dict[str, Any]:
    return {**members, "function": {"name": name, "arguments": arguments}}


TEXTS: Final = st.sampled_from(["a", "b c", " ", "\n", "", *TAGS, "<th"])
FRAGMENTS: Final = st.builds(
    fragment,
    st.fixed_dictionaries({}, optional={"index": st.integers(0, 2), "id": st.sampled_from(["", "c1", "c2"])}),
    st.sampled_from([None, "", "f", "g"]),
    st.sampled_from([None, "", "{", "}", {"a": 1}]),
)
DETAIL_ENTRIES: Final = st.one_of(
    st.builds(lambda text: {"type": "reasoning.text", "text": text}, TEXTS),
    st.builds(lambda text: {"type": "reasoning.summary", "summary": text}, TEXTS),
    st.builds(lambda data: {"type": "reasoning.encrypted", "data": data}, st.sampled_from(["x", "y"])),
)
DELTAS: Final = st.fixed_dictionaries(
    {},
    optional={
        "content": TEXTS,
        "reasoning": TEXTS,
        "reasoning_content": TEXTS,
        "reasoning_details": st.lists(DETAIL_ENTRIES, max_size=2),
        "refusal": st.sampled_from(["", "No"]),
        "tool_calls": st.lists(FRAGMENTS, max_size=2),
        "annotations": st.just([{"type": "url_citation", "url": "https://a.example"}]),
    },
)
FINISHES: Final = st.sampled_from([None, None, None, "stop", "length", "tool_calls", "error", "abort"])
ENDS: Final = st.sampled_from([[], ["[DONE]"], [{"error": {"message": "No.", "code": "x"}}], ["oops"]])
STREAMS: Final = st.tuples(st.lists(st.builds(chunk, DELTAS, FINISHES), max_size=12), ENDS).map(
    lambda s: [*s[0], *s[1]]
)

SAID: Final = {
    "response.output_text.delta": ("output_text", "text"),
    "response.refusal.delta": ("refusal", "refusal"),
    "response.reasoning_text.delta": ("reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary_text", "text"),
}
"""Delta -> the part of the finished item that must have the same text."""


def to_lines(sent: Iterable[object]) -> bytes:
    return b"".join((one if isinstance(one, str) else json.dumps(one)).encode() + b"\n" for one in sent)


def read(sent: Iterable[object], profile: ChatProfile | None = None) -> list[Any]:
    stage = OpenAIChatStage(profile) if profile else OpenAIChatStage()
    said: list[Any] = []
    for line in to_lines(sent).splitlines():
        said += stage.feed(SseMessage(line))
    return said + stage.close()


def parts_of(item: dict[str, Any]) -> dict[str, str]:
    parts = [*item.get("content", []), *item.get("summary", [])]
    return {part["type"]: part.get("text", part.get("refusal")) for part in parts}


@given(STREAMS)
@examples(250)
def test_items_are_consistent_with_their_deltas(sent: list[object]) -> None:
    """Each item opens before its deltas, closes once, and its end repeats its deltas; reasoning closes first."""
    open_items: dict[int, dict[str, str]] = {}
    reasoning: int | None = None
    events = read(sent)
    for event in [event for event in events if not isinstance(event, Fault) and "output_index" in event]:
        place = event["output_index"]
        if event["type"] == "response.output_item.added":
            assert place not in open_items
            assert place == len(open_items)
            assert reasoning is None
            open_items[place] = {}
            reasoning = place if event["item"]["type"] == "reasoning" else None
            continue
        said = open_items[place]
        assert "(done)" not in said
        if event["type"] == "response.output_item.done":
            assert parts_of(event["item"]) == {kind: text for kind, text in said.items() if kind != "input"}
            assert event["item"].get("arguments", "") == said.get("input", "")
            said["(done)"] = ""
            reasoning = None if reasoning == place else reasoning
        elif event["type"].endswith(".delta"):
            kind, _ = SAID.get(event["type"], ("input", ""))
            assert event["delta"]
            assert reasoning in (None, place)
            said[kind] = said.get(kind, "") + event["delta"]


@given(STREAMS)
@examples(200)
def test_numbers_rise_and_nothing_follows_the_end(sent: list[object]) -> None:
    events = read(sent)
    ends = [at for at, event in enumerate(events) if is_end(event)]
    assert ends in ([], [len(events) - 1])
    numbers = [event["sequence_number"] for event in events if not isinstance(event, Fault)]
    assert numbers == list(range(len(numbers)))
    finishes = [one["choices"][0]["finish_reason"] for one in sent if isinstance(one, dict) and "choices" in one]
    if any(finishes) or (finishes and sent[-1] == "[DONE]"):
        assert events[-1]["type"] in ENDS_OF_RESPONSES


def is_end(event: Any) -> bool:
    return isinstance(event, Fault) or event["type"] in {*ENDS_OF_RESPONSES, "error"}


@given(STREAMS, CUTS)
@examples(150)
def test_the_public_stream_is_sound_at_every_cut(sent: list[object], cuts: list[int]) -> None:
    data = to_lines(sent)
    said = play([data], PROVIDER)
    assert_sound(said)
    assert play(cut(data, cuts), PROVIDER) == said


@given(TAGGED, st.sampled_from(["start", "anywhere"]), CUTS)
@examples(150)
def test_how_a_server_cuts_its_text_does_not_matter(text: str, mode: ThinkMode, cuts: list[int]) -> None:
    profile = ChatProfile(think_mode=mode)
    said = [
        [
            (event["type"], event["item"])
            for event in read(sent, profile)
            if event["type"] == "response.output_item.done"
        ]
        for sent in (
            [chunk({"content": "x"}), chunk({"content": text}, "stop")],
            [
                chunk({"content": "x"}),
                *(chunk({"content": piece}) for piece in cut_text(text, cuts)),
                chunk({}, "stop"),
            ],
        )
    ]
    assert said[0] == said[1]


NAMES: Final = (
    *("id", "model", "created", "choices", "usage", "x_groq", "error", "code", "message", "type", "citations"),
    *("search_results", "url", "title", "index", "delta", "finish_reason", "content", "refusal", "annotations"),
    *("reasoning", "reasoning_details", "text", "summary", "data", "thinking", "tool_calls", "function", "custom"),
    *("name", "arguments", "input", "function_call", "prompt_tokens", "completion_tokens_details", "object"),
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats() | st.sampled_from(["", "x", "text", "error", "stop"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6), max_size=5))
@examples(250)
def test_no_json_value_breaks_the_stage(sent: list[object]) -> None:
    assert_sound(play([to_lines(sent)], PROVIDER))


# --- privacy ---

SECRET: Final = "the moon is made of Gruyere, which must stay between us"
SPELLINGS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "reasoning_content": lambda text: {"content": "", "reasoning_content": text},
    "reasoning": lambda text: {"reasoning": text},
    "both": lambda text: {"reasoning": text, "reasoning_content": text},
    "with details": lambda text: {
        "reasoning": text,
        "reasoning_details": [{"type": "reasoning.text", "text": text}],
    },
    "details": lambda text: {"reasoning_details": [{"type": "reasoning.text", "text": text, "signature": text}]},
    "encrypted": lambda text: {"reasoning_details": [{"type": "reasoning.encrypted", "data": text}]},
    "parts": lambda text: {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]},
    "parts of text": lambda text: {"content": [{"type": "thinking", "thinking": text}]},
    "tags": lambda text: {"content": f"<think>{text}</think>"},
    "tags in capitals": lambda text: {"content": f"<THINKING>{text}</THINKING>"},
    "channels": lambda text: {"content": f"<|channel|>analysis<|message|>{text}<|end|>"},
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS.keys())
@given(pieces=CUTS, cuts=CUTS)
@examples(25)
def test_no_reasoning_leaves_in_any_spelling(
    spell: Callable[[str], dict[str, Any]], pieces: list[int], cuts: list[int]
) -> None:
    thoughts = [spell(piece) for piece in cut_text(SECRET, pieces) if piece.strip()]
    sent = [*map(chunk, thoughts), chunk({"content": "Hello."}), chunk({}, "stop"), "[DONE]"]
    said = play(cut(to_lines(sent), cuts), PROVIDER)
    shown = [frame for frame in frames_of(said) if frame["kind"] not in {"output_item.added", "output_item.done"}]
    opened, closed = (
        [frame["item_id"] for frame in frames_of(said) if frame["kind"] == kind and frame["item_type"] == "reasoning"]
        for kind in ("output_item.added", "output_item.done")
    )
    assert opened
    assert opened == closed
    assert [frame["delta"] for frame in shown if "delta" in frame] == ["Hello."]
    assert not [word for word in ("moon", "Gruyere", "between") if word.encode() in said]


# --- linear time ---


def texts(pieces: Iterable[str]) -> list[SseMessage]:
    return [SseMessage(json.dumps(chunk({"content": piece})).encode()) for piece in pieces]


def run_stage(messages: list[SseMessage]) -> None:
    stage = OpenAIChatStage()
    for message in messages:
        stage.feed(message)
    stage.close()


def run_splitter(pieces: list[str]) -> None:
    splitter = ThinkSplitter("anywhere")
    for piece in pieces:
        splitter.push(piece)
    splitter.close()


HOSTILE: Final[dict[str, tuple[Callable[[Any], None], Callable[[int], Any]]]] = {
    "many blocks in one text": (run_splitter, lambda size: ["<think>a</think>" * size * 2]),
    "many tags that are none": (run_splitter, lambda size: ["<thin" * size * 10]),
    "many channels that are none": (run_splitter, lambda size: ["<|channel|>analysis<" * size * 10]),
    "one block byte by byte": (run_splitter, lambda size: ["<think>", *"a<" * size * 2]),
    "blanks that wait": (run_stage, lambda size: texts(" " * size)),
    "a long text": (run_stage, lambda size: texts("a" * size)),
    "blocks before the text": (run_stage, lambda size: texts(["<think>a</think>"] * size)),
    "calls that never end": (
        run_stage,
        lambda size: [
            SseMessage(json.dumps(chunk({"tool_calls": [fragment({"id": f"c{at}"}, "f", "{")]})).encode())
            for at in range(size)
        ],
    ),
}


@pytest.mark.parametrize(("run", "make"), HOSTILE.values(), ids=HOSTILE.keys())
def test_cost_is_linear(run: Callable[[Any], None], make: Callable[[int], Any]) -> None:
    def work(size: int) -> Callable[[], object]:
        made = make(size)
        return lambda: run(made)

    assert_linear(work, 600)
