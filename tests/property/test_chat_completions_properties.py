"""Properties of Chat Completions alone: extensions, joined content, and our own provider as a reader."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from hypothesis import given

from projector.core.canonical import Frame
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case, CaseSettings
from tests.chat_sdk import assemble
from tests.property.dialect_streams import events_of, play_lines
from tests.property.mutations import CASES, Lines, lines_of, spoiled
from tests.property.soundness import examples, pipeline_of

DIALECT: Final = "chat_completions"
Event = dict[str, Any]

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@examples(60)
@given(spoiled())
def test_extensions_change_nothing_else(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    with_them = events_of(play_lines(DIALECT, case, lines, DialectOptions(extensions=True)))
    without = events_of(play_lines(DIALECT, case, lines))
    assert [chunk for chunk in with_them if "public_sse" not in chunk] == without


# the content


def messages_in(frames: list[Frame]) -> tuple[str, bool]:
    """Return the texts of all answers in the order in which they begin, and whether any was streamed."""
    texts: dict[str, str] = {}
    commentary: set[str] = set()
    for frame in frames:
        name = frame.get("item_id", "")
        if frame["kind"] == "item.details" and frame["details"].get("phase") == "commentary" and name not in texts:
            commentary.add(name)
        elif frame["kind"] == "message.delta" and name not in commentary and (frame["delta"] or name in texts):
            texts[name] = texts.get(name, "") + frame["delta"]
    return "\n\n".join(texts.values()), bool(texts)


def assert_joined(case: Case, lines: Lines) -> None:
    """The content is the text of all messages, and of a single response in order the `response_text` of its end."""
    frames: list[Frame] = []
    answer = assemble(play_lines(DIALECT, case, lines, on_frame=frames.append).splitlines())
    if answer.status != 200:
        return
    content = answer.body["choices"][0]["message"]["content"] or ""
    joined, is_streamed = messages_in(frames)
    final = frames[-1]["final"].get("response_text", "")
    assert content == (joined if is_streamed else final)
    slots = list(dict.fromkeys(frame["output_index"] for frame in frames if frame["kind"] == "message.delta"))
    responses = {frame.get("response_id") for frame in frames if frame["kind"] == "message.delta"}
    if len(responses) == 1 and slots == sorted(slots) and not case.settings.run:
        assert content == final


@each_case
def test_the_content_is_the_text_of_all_messages(case: Case) -> None:
    assert_joined(case, lines_of(case))


@examples(120)
@given(spoiled(most=2))
def test_the_content_of_any_stream_is_the_text_of_all_messages(stream: tuple[Case, Lines]) -> None:
    frames: list[Frame] = []
    case, lines = stream
    answer = assemble(play_lines(DIALECT, case, lines, on_frame=frames.append).splitlines())
    joined, is_streamed = messages_in(frames)
    if answer.status == 200 and is_streamed:
        assert (answer.body["choices"][0]["message"]["content"] or "") == joined


# our own provider reads it again

PLAIN: Final = CaseSettings(profile={"think_mode": "off"}, policy={"reasoning": "full"})


def read_again(said: bytes) -> bytes:
    pipeline = pipeline_of(DIALECT, "openai_chat", PLAIN)
    return pipeline.feed(said) + pipeline.close()


@each_case
def test_our_provider_reads_the_same_completion(case: Case) -> None:
    said = play_lines(DIALECT, case, lines_of(case))
    again = read_again(said)
    first, second = assemble(said.splitlines()), assemble(again.splitlines())
    assert second.status == first.status
    assert as_read_again(second.body) == as_read_again(cut_like(second.body, as_waiting(first.body)))


def as_read_again(body: Event) -> Event:
    """Return the answer with one blank line at most: where reasoning resumes after a text, a reader adds one."""
    for choice in body.get("choices", ()):
        if "reasoning_content" in choice["message"]:
            choice["message"]["reasoning_content"] = re.sub("\n{2,}", "\n\n", choice["message"]["reasoning_content"])
    return body


def cut_like(again: Event, body: Event) -> Event:
    """Return the answer with the arguments that a reader has of a call that its source closed and `length` cut off.

    What is held of such arguments is not shown (CONTRACT D23), so they are the beginning of those that were said.
    """
    for choice, other in zip(body.get("choices", ()), again.get("choices", ()), strict=True):
        calls = choice["message"].get("tool_calls", ())
        if choice["finish_reason"] == "length" and calls:
            said, read = calls[-1]["function"], other["message"]["tool_calls"][-1]["function"]
            assert said["arguments"].startswith(read["arguments"])
            said["arguments"] = read["arguments"]
    return body


def as_waiting(body: Event) -> Event:
    """Return the answer as if its calls waited for the client: a reader cannot see that the host executed them."""
    choice = body["choices"][0] if "choices" in body else {}
    if choice.get("finish_reason") != "stop" or "tool_calls" not in choice["message"]:
        return body
    return {**body, "choices": [{**choice, "finish_reason": "tool_calls"}]}


@examples(120)
@given(spoiled(most=3))
def test_our_provider_reads_the_same_completion_of_any_stream(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    said = play_lines(DIALECT, case, lines)
    if b'"name":"unknown"' in said:  # a call without a name: a reader waits for it, so that the order changes
        return
    first, second = assemble(said.splitlines()), assemble(read_again(said).splitlines())
    assert second.status == first.status
    body = cut_like(second.body, as_waiting(first.body))
    assert without_reasoning(second.body) == without_reasoning(body)


def without_reasoning(body: Event) -> Event:
    """Return the answer without reasoning: where it resumes after a text, a reader sees another item.

    Of a citation that is repeated a reader keeps one. The message for a code that nothing knows is left out too: the
    reader chooses it by the type, which is new.
    """
    if "error" in body:
        return {"error": {name: value for name, value in body["error"].items() if name != "message"}}
    for choice in body.get("choices", ()):
        message = choice["message"]
        message.pop("reasoning_content", None)
        cited = message.get("annotations") or []
        message["annotations"] = [one for at, one in enumerate(cited) if one not in cited[:at]]
    return body
