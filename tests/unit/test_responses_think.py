"""Reasoning between tags in the texts of Responses streams (CONTRACT D46)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import pytest

from projector.contracts.stream_rules import check_stream
from projector.core.pipeline import build_pipeline
from projector.core.sse import SseMessage
from projector.dialects import DIALECTS
from projector.providers.openai_responses.stage import OpenAIResponsesStage, ResponsesProfile
from projector.providers.openai_responses.tagged_texts import TEXTS_MAX
from projector.providers.think import LONE_TAG
from projector.redaction.policy import Policy

Event: TypeAlias = dict[str, Any]

PLACE: Final[Event] = {"output_index": 0, "item_id": "m", "content_index": 0}


def delta(text: str) -> Event:
    return {"type": "response.output_text.delta", **PLACE, "delta": text}


def added() -> Event:
    return {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}


def message(text: str, *annotations: Event) -> Event:
    part = {"type": "output_text", "text": text, "annotations": [*annotations]}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


def ends(text: str, *annotations: Event) -> list[Event]:
    """Return the end of the text, of the message and of the response, each with the whole text."""
    item = message(text, *annotations)
    return [
        {"type": "response.output_text.done", **PLACE, "text": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}},
    ]


def run(events: Iterable[Event], dialect: str = "public_sse_v1", size: int = 10**6, **profile: object) -> list[Event]:
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        policy=Policy(reasoning="full"),
        profile=profile,
        output_format="ndjson",
    )
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    written = b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)) + pipeline.close()
    assert "done differs from its deltas" not in pipeline.dropped
    lines = [line for line in written.splitlines() if line != b"[DONE]"]
    assert dialect != "public_sse_v1" or check_stream(lines) == []
    return [json.loads(line) for line in lines]


def answer(said: Iterable[Mapping[str, Any]]) -> str:
    return "".join(frame["delta"] for frame in said if frame["kind"] == "message.delta")


def reasoning(said: Iterable[Event]) -> str:
    """Return the reasoning of an `openresponses` stream."""
    return "".join(event["delta"] for event in said if event["type"] == "response.reasoning.delta")


TEXTS: Final[dict[str, tuple[str, str, str]]] = {
    "tags": ("<think>Hm, well.</think>Yes.", "Hm, well.", "Yes."),
    "blanks": ("\n<think>\nHm.\n</think>\n\nYes.", "\nHm.\n", "\n\n\nYes."),
    "upper case": ("<THINK>Hm.</THINK>Yes.", "Hm.", "Yes."),
    "another spelling": ("<thinking>Hm.</thinking>Yes.", "Hm.", "Yes."),
    "channels": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        "Hm.",
        "Yes.",
    ),
    "no tag": ("Yes, `<think>` is a tag.", "", "Yes, `<think>` is a tag."),
    "after text": ("Well. <think>Hm.</think>Yes.", "Hm.", "Well. Yes."),
    "blanks in the tags": ("<think >Hm.</ think>Yes.", "Hm.", "Yes."),
    "the channels of Gemma": ("<|channel>thought\nHm.<channel|>Yes.", "\nHm.", "Yes."),
    "the beginning of one": ("<thin", "", "<thin"),
    "without an end": ("<think>Hm.", "Hm.", ""),
    "nothing else": ("<think>Hm.</think>", "Hm.", ""),
}


@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize(("text", "thought", "said"), TEXTS.values(), ids=TEXTS.keys())
def test_deltas(text: str, thought: str, said: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = [added(), *map(delta, pieces), *ends(text)]
    public = run(events)
    assert answer(public) == said
    assert public[-1]["final"].get("response_text", "") == said
    assert reasoning(run(events, "openresponses")) == thought


@pytest.mark.parametrize(("text", "thought", "said"), TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("first", [0, 1, 2], ids=["only in the text's end", "only in the item", "only in the snapshot"])
def test_texts_that_come_whole(text: str, thought: str, said: str, first: int) -> None:
    events = ends(text)[first:]
    public = run(events)
    assert answer(public) == said
    assert public[-1]["final"].get("response_text", "") == said
    assert reasoning(run(events, "openresponses")) == thought


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_dialect_shows_the_reasoning_as_text_under_the_default(dialect: str) -> None:
    text = "<think>Hm, well.</think>Yes."
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in [*map(delta, text), *ends(text)])
    pipeline = build_pipeline(provider="openai_responses", dialect=dialect)
    written = pipeline.feed(data) + pipeline.close()
    assert b"well" not in written
    assert b"hink" not in written.replace(b"rs_think_1", b"")


CITATION: Final = {"type": "url_citation", "url": "https://a.example/", "start_index": 18, "end_index": 21}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_citations_are_in_the_answer(*, is_streamed: bool) -> None:
    text = "<think>Hm</think>Yes, it is."
    cited = {"type": "response.output_text.annotation.added", **PLACE, "annotation": CITATION}
    before = [delta(text), cited] if is_streamed else []
    said = run([*before, *ends(text, CITATION)])
    found = [frame["citation"] for frame in said if frame["kind"] == "message.citation"]
    assert [(one["start_index"], one["end_index"]) for one in found] == [(1, 4)]


PROFILES: Final = {
    "off": ({"think_mode": "off"}, "<think>Hm.</think>Yes.", "<think>Hm.</think>Yes."),
    "opened by the template": ({"think_mode": "assume_open"}, "Hm.</think>Yes.", "Yes."),
    "anywhere": ({"think_mode": "anywhere"}, "Well. <think>Hm.</think>Yes.", "Well. Yes."),
    "its own tags": ({"think_tags": [["[T]", "[/T]"]]}, "[T]Hm.[/T]Yes<think>Hm.</think>.", "Yes."),
}


@pytest.mark.parametrize(("profile", "text", "said"), PROFILES.values(), ids=PROFILES.keys())
def test_profiles(profile: Event, text: str, said: str) -> None:
    assert answer(run([*map(delta, text), *ends(text)], **profile)) == said


def test_a_stream_that_breaks_off_keeps_what_was_held() -> None:
    said = run([added(), delta("<thi")])
    assert answer(said) == "<thi"
    assert said[-1]["error"]["code"] == "upstream_truncated"


@pytest.mark.parametrize("content", [{}, {"content": []}, {"content": None}])
@pytest.mark.parametrize("text", ["<", "a <th", "a <think"])
def test_an_item_that_is_done_without_content_keeps_what_was_held(text: str, content: Event) -> None:
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", **content}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}
    assert answer(run([added(), delta(text), done, end])) == text


@pytest.mark.parametrize(
    ("held", "said"), {"<": "<b", "a <th": "a <thb", "<think>a</thi": "b", "<think>a</think>b<": "b<b"}.items()
)
def test_the_next_part_follows_what_was_held(held: str, said: str) -> None:
    assert answer(run([added(), delta(held), {**delta("b"), "content_index": 1}])) == said


def test_another_message_at_the_same_place() -> None:
    first = [added(), delta("a"), *ends("a")[:2]]
    second = [{**event, "item_id": "n"} for event in (delta("<think>Hm</think>"), delta("b"))]
    again = {**added(), "item": {"type": "message", "id": "n"}}
    assert answer(run([*first, again, *second])) == "ab"


@pytest.mark.parametrize("place", [{"output_index": [1]}, {"item_id": {}}, {"content_index": "x"}, {}], ids=str)
def test_wrong_places_cost_no_stream(place: Event) -> None:
    said = run([{"type": "response.output_text.delta", "delta": "<think>a", **place}, *ends("Yes.")])
    assert said[-1]["final"]["status"] == "completed"


def test_texts_are_bounded() -> None:
    stage = OpenAIResponsesStage(ResponsesProfile())
    events = [{**delta("a"), "content_index": at} for at in range(TEXTS_MAX + 3)]
    read = [stage.feed(SseMessage(json.dumps(event).encode())) for event in events]
    assert sum(map(len, read)) <= TEXTS_MAX
    assert stage.dropped["(too many texts)"] == len(events) - sum(map(len, read))


@pytest.mark.parametrize("closed", ["</think>", "</thought>", "<channel|>"])
def test_d51_a_closing_tag_without_its_opening_one(closed: str) -> None:
    text = f"Hm.{closed}Yes."
    whole = run(ends(text))
    assert (answer(whole), reasoning(run(ends(text), "openresponses"))) == ("Yes.", "Hm.")
    shown = run([added(), delta("Hm."), delta(f"{closed}Ye"), delta("s."), *ends(text)])
    assert (answer(shown), shown[-1]["final"]["response_text"]) == ("Hm.Yes.", "Hm.Yes.")
    stage = OpenAIResponsesStage(ResponsesProfile())
    for event in (delta("Hm."), delta(closed)):
        stage.feed(SseMessage(json.dumps(event).encode()))
    assert stage.dropped == {LONE_TAG: 1}


def test_a_plain_text_passes_unchanged() -> None:
    stage = OpenAIResponsesStage(ResponsesProfile())
    events = [delta("Yes"), delta(", it is"), delta(" <b>."), *ends("Yes, it is <b>.")]
    assert [stage.feed(SseMessage(json.dumps(event).encode())) for event in events] == [[event] for event in events]
