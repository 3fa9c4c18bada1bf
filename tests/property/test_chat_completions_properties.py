"""Properties of Chat Completions for any input: valid, accepted by the SDK, no secret, readable by our own provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts.stream_rules.table import check_lines
from projector.core.canonical import Frame
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.input_formats import InputFormat
from projector.core.pipeline import Pipeline, build_pipeline
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case, CaseSettings
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.chat_sdk import accumulate, assemble, check_answer, message_of
from tests.property.canaries import DELTAS, cut_everywhere, errors_with, everywhere, leaks
from tests.property.cost import assert_linear
from tests.property.mutations import CASES, Lines, lines_of, spoiled
from tests.property.soundness import CALLS, OURS, cut, examples, interrupted
from tests.protocols.chat_completions.checker import ChatCompletionsChecker

Event = dict[str, Any]

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
LEVELS: Final = ("off", "summary", "full")


def pipeline_of(
    provider: str,
    case: CaseSettings,
    *,
    extensions: bool = False,
    input_format: InputFormat = "ndjson",
    on_frame: Callable[[Frame], None] | None = None,
    **policy: object,
) -> Pipeline:
    now = datetime.fromisoformat(case.clock).timestamp()
    return build_pipeline(
        provider=provider,
        dialect="chat_completions",
        context=StreamContext(stream_id=case.stream_id, **case.context.model_dump()),
        run=case.run,
        profile=case.profile,
        input_format=input_format,
        output_format="ndjson",
        takes_host_events=case.host_events,
        clock=lambda: now,
        redactor=_redactor(json.dumps({**case.policy, **policy})),
        options=DialectOptions(extensions=extensions),
        on_frame=on_frame,
    )


@cache
def _redactor(policy: str) -> Redactor:
    return Redactor(Policy.load(json.loads(policy)))


def play(reads: Iterable[bytes], case: Case, **options: Any) -> bytes:
    """Return all output of a stream; check that nothing follows its end."""
    pipeline = pipeline_of(case.provider, case.settings, **options)
    said = b"".join(map(pipeline.feed, reads))
    said += pipeline.close(FAULTS[case.settings.close] if case.settings.close else None)
    assert pipeline.ended
    assert pipeline.feed(b'{"type":"response.created"}\n') + pipeline.close() == b""
    return said


def play_lines(case: Case, lines: Lines, **options: Any) -> bytes:
    return play([b"\n".join(lines)], case, **options)


def assert_sound(said: bytes) -> None:
    """Check every rule, that the SDK accepts each chunk and joins the same message as the JSON answer, and the end."""
    lines = said.splitlines()
    assert check_lines(ChatCompletionsChecker(), lines) == []
    answer = assemble(lines)
    completion = accumulate(lines)
    assert (answer.status == 200) == (completion is not None) == (answer.body.get("object") == "chat.completion")
    if completion is None:
        assert answer.body["error"]["code"] not in OURS
        return
    check_answer(answer)
    assert message_of(completion) == message_of(answer.body)
    assert completion["choices"][0]["finish_reason"] == answer.body["choices"][0]["finish_reason"]


# any input


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(play_lines(case, lines[:end], reasoning="full"))


@examples(250)
@given(stream=spoiled(), reasoning=st.sampled_from(LEVELS), extensions=st.booleans())
def test_any_stream_is_sound(*, stream: tuple[Case, Lines], reasoning: str, extensions: bool) -> None:
    case, lines = stream
    assert_sound(play_lines(case, lines, reasoning=reasoning, extensions=extensions))


@examples(60)
@given(spoiled(), st.lists(st.integers(0, 1 << 20), max_size=8))
def test_bytes_may_be_cut_anywhere(stream: tuple[Case, Lines], cuts: list[int]) -> None:
    case, lines = stream
    data = b"\n".join(lines)
    assert play(cut(data, cuts), case, extensions=True) == play([data], case, extensions=True)


@examples(100)
@given(stream=spoiled(most=2), run=st.booleans(), calls=st.lists(st.tuples(st.integers(0, 40), CALLS), max_size=3))
def test_host_events_at_any_time_keep_the_stream_sound(
    *, stream: tuple[Case, Lines], run: bool, calls: list[tuple[int, tuple[Any, ...]]]
) -> None:
    case, lines = stream
    pipeline = pipeline_of(case.provider, case.settings.model_copy(update={"run": run}))
    assert_sound(interrupted(pipeline, lines, calls))


@examples(60)
@given(spoiled())
def test_extensions_change_nothing_else(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    with_them = [json.loads(line) for line in play_lines(case, lines, extensions=True).splitlines()[:-1]]
    without = [json.loads(line) for line in play_lines(case, lines).splitlines()[:-1]]
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
    answer = assemble(play_lines(case, lines, on_frame=frames.append).splitlines())
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
    answer = assemble(play_lines(case, lines, on_frame=frames.append).splitlines())
    joined, is_streamed = messages_in(frames)
    if answer.status == 200 and is_streamed:
        assert (answer.body["choices"][0]["message"]["content"] or "") == joined


# our own provider reads it again

PLAIN: Final = CaseSettings(profile={"think_mode": "off"}, policy={"reasoning": "full"})


def read_again(said: bytes) -> bytes:
    pipeline = pipeline_of("openai_chat", PLAIN)
    return pipeline.feed(said) + pipeline.close()


@each_case
def test_our_provider_reads_the_same_completion(case: Case) -> None:
    said = play_lines(case, lines_of(case))
    again = read_again(said)
    first, second = assemble(said.splitlines()), assemble(again.splitlines())
    assert second.status == first.status
    assert second.body == as_waiting(first.body)


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
    said = play_lines(case, lines)
    if b'"name":"unknown"' in said:  # a call without a name: a reader waits for it, so that the order changes
        return
    first, second = assemble(said.splitlines()), assemble(read_again(said).splitlines())
    assert second.status == first.status
    assert without_reasoning(second.body) == without_reasoning(as_waiting(first.body))


def without_reasoning(body: Event) -> Event:
    """Return the answer without reasoning: where it resumes after a text, a reader sees another item.

    The message for a code that nothing knows is left out too: the reader chooses it by the type, which is new.
    """
    if "error" in body:
        return {"error": {name: value for name, value in body["error"].items() if name != "message"}}
    for choice in body.get("choices", ()):
        choice["message"].pop("reasoning_content", None)
    return body


# secrets

SECRET: Final = 'quay vault/6fe1 \u00fc\n"'
VAULT: Final = CaseSettings(
    host_events=True,
    policy={"registered": [{"id": "vault", "value": SECRET}], "error_messages": "provider"},
)


def told(events: list[Event], **policy: Any) -> bytes:
    """Return the output of a stream in the format of the search for canaries, with the texts as deltas of an item."""
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    pipeline = pipeline_of("openai_responses", VAULT, extensions=True, **policy)
    said = b"".join(map(pipeline.feed, lines)) + pipeline.close()
    assert_sound(said)
    wire = [shown for line in said.splitlines()[:-1] for shown in _shown(json.loads(line))]
    return b"\n".join(json.dumps(one, ensure_ascii=False).encode() for one in wire)


def _shown(event: Event) -> list[Event]:
    deltas = [choice["delta"] for choice in event.get("choices", ())]
    entries = [entry for delta in deltas for entry in delta.get("tool_calls", ())]
    texts = [(name, "", text) for delta in deltas for name, text in delta.items() if isinstance(text, str)]
    texts += [("call", str(entry["index"]), entry["function"]["arguments"]) for entry in entries]
    return [event, *({"kind": name, "item_id": item, "delta": text} for name, item, text in texts)]


@pytest.mark.parametrize("reasoning", LEVELS)
def test_no_registered_value_is_written_from_any_field(reasoning: str) -> None:
    assert leaks(told(everywhere(SECRET), reasoning=reasoning), SECRET) == set()
    assert all(leaks(told([error], reasoning=reasoning), SECRET) == set() for error in errors_with(SECRET))


@pytest.mark.parametrize("kind", [*DELTAS, "reasoning_text"])
def test_no_registered_value_is_written_at_any_cut(kind: str) -> None:
    events = cut_everywhere(f"is {SECRET} here", kind if kind in DELTAS else "output_text")
    if kind not in DELTAS:
        events = [{**event, "type": f"response.{kind}.delta"} for event in events]
    said = told([*events, {"type": "response.completed"}], reasoning="full")
    assert leaks(said, SECRET) == set()


def test_no_credential_of_a_tool_is_written() -> None:
    key = "AKIA" + "Q3EGSNDKLOPQRTU7"
    assert leaks(told(everywhere(key)), key[4:]) == set()


# data that the policy hides

THOUGHT: Final = "the heron waits until the tide has turned"
GIST: Final = "a bird is patient at the shore"


def reasoned() -> list[Event]:
    """Return full reasoning and its summary, each as deltas, as `done`, in a finished item and in the snapshot."""
    content, summary = [{"type": "reasoning_text", "text": THOUGHT}], [{"type": "summary_text", "text": GIST}]
    item = {"type": "reasoning", "content": content, "summary": summary}
    return [
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": THOUGHT},
        {"type": "response.reasoning_summary_text.delta", "output_index": 1, "delta": GIST},
        {"type": "response.reasoning_text.done", "output_index": 2, "text": THOUGHT},
        {"type": "response.reasoning_summary_text.done", "output_index": 3, "text": GIST},
        {"type": "response.output_item.done", "output_index": 4, "item": item},
        {"type": "response.completed", "response": {"output": [item, item, item, item, item]}},
    ]


@pytest.mark.parametrize(
    ("level", "has_thought", "has_gist"), [("off", False, False), ("summary", False, True), ("full", True, True)]
)
def test_reasoning_is_written_as_the_policy_allows(*, level: str, has_thought: bool, has_gist: bool) -> None:
    said = told(reasoned(), reasoning=level)
    assert (bool(leaks(said, THOUGHT)), bool(leaks(said, GIST))) == (has_thought, has_gist)


# cost


def text_of(index: int, part: int = 0) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": part, "delta": "word "}


def citation(url: int) -> Event:
    annotation = {"type": "url_citation", "url": f"https://example.org/{url}"}
    return {"type": "response.output_text.annotation.added", "annotation": annotation}


def call(index: int) -> Event:
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}", "name": "f", "arguments": "{}"}
    return {"type": "response.output_item.done", "output_index": index, "item": item}


INPUTS: Final[dict[str, Callable[[int], Event]]] = {
    "deltas": lambda _at: text_of(0),
    "messages at once": text_of,
    "alternating messages": lambda at: text_of(at % 2),
    "parts": lambda at: text_of(0, at),
    "citations": citation,
    "calls": call,
}


@pytest.mark.parametrize("run", [False, True])
@pytest.mark.parametrize("name", INPUTS)
def test_cost_is_linear(name: str, *, run: bool) -> None:
    def work(size: int) -> Callable[[], object]:
        data = b"".join(json.dumps(INPUTS[name](at)).encode() + b"\n" for at in range(size))

        def play_it() -> None:
            pipeline = pipeline_of("openai_responses", CaseSettings(run=run))
            assemble((pipeline.feed(data) + pipeline.close()).splitlines())

        return play_it

    assert_linear(work, 150)
