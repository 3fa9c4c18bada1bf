"""Rules over a Chat Completions stream: each broken stream is told apart from a sound one."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from projector.contracts.stream_rules.table import check_lines
from tests.protocols.chat_completions.checker import ChatCompletionsChecker

Event = dict[str, Any]

HEAD: Final = {"id": "resp_1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
USAGE: Final = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def chunk(delta: Event, finish: str | None = None, **members: Any) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **members}


def entry(index: int, **members: Any) -> Event:
    return {"tool_calls": [{"index": index, "function": {"arguments": ""}, **members}]}


def named(index: int, **members: Any) -> Event:
    first = {"id": f"call_{index}", "type": "function", "function": {"name": "get", "arguments": ""}}
    return entry(index, **{**first, **members})


def annotated(end: int) -> Event:
    source = {"start_index": 0, "end_index": end, "url": "https://a.example/", "title": ""}
    return {"annotations": [{"type": "url_citation", "url_citation": source}]}


ROLE: Final = chunk({"role": "assistant", "content": ""})
STOP: Final = chunk({}, "stop")
TOTAL: Final = {**HEAD, "choices": [], "usage": USAGE}
ERROR: Final = {"error": {"message": "m", "type": "server_error", "param": None, "code": "c"}}
DONE: Final = "[DONE]"
BOTH: Final = {"function": {"name": "sql", "arguments": ""}, "custom": {"name": "sql", "input": ""}}

SOUND: Final[dict[str, list[Any]]] = {
    "text": [ROLE, chunk({"content": "Hi"}), chunk(annotated(2)), STOP, TOTAL, DONE],
    "no usage": [ROLE, STOP, DONE],
    "a call": [ROLE, chunk(named(0)), chunk(entry(0)), chunk({}, "tool_calls"), DONE],
    "a call of a custom tool": [
        *(ROLE, chunk(named(0, **BOTH)), chunk(entry(0, custom={"input": ""})), chunk({}, "tool_calls"), DONE),
    ],
    "an error": [ROLE, ERROR, DONE],
    "only an error": [ERROR, DONE],
}
BROKEN: Final[dict[str, tuple[list[Any], str]]] = {
    "no JSON": ([ROLE, "{", STOP, DONE], "JSON"),
    "an unknown member": ([ROLE, chunk({"speech": ""}), STOP, DONE], "an event of the schema"),
    "another ID": ([ROLE, {**STOP, "id": "resp_2"}, DONE], "the same ID, time and model in every chunk"),
    "no role": ([STOP, DONE], "the role in the first chunk only"),
    "two roles": ([ROLE, ROLE, STOP, DONE], "the role in the first chunk only"),
    "no end": ([ROLE, DONE], "one end mark, after a finish reason or an error"),
    "no end mark": ([ROLE, STOP], "the end mark"),
    "two end marks": ([ROLE, STOP, DONE, DONE], "one end mark"),
    "two ends": ([ROLE, STOP, STOP, DONE], "nothing but the usage after the finish reason"),
    "an error after the end": ([ROLE, STOP, ERROR, DONE], "no error after a finish reason"),
    "a chunk after the usage": ([ROLE, STOP, TOTAL, TOTAL, DONE], "nothing after the end"),
    "a chunk after the end mark": ([ROLE, STOP, DONE, TOTAL], "nothing after the end"),
    "usage before the end": ([ROLE, TOTAL, DONE], "a choice, or the usage after the finish reason"),
    "usage with a choice": ([ROLE, chunk({}, "stop", usage=USAGE), DONE], "usage only without a choice"),
    "no choice and no usage": ([ROLE, STOP, {**HEAD, "choices": []}, DONE], "a choice, or the usage"),
    "tool calls without a call": ([ROLE, chunk({}, "tool_calls"), DONE], "a call before the finish reason"),
    "a gap between calls": ([ROLE, chunk(named(1)), STOP, DONE], "calls numbered from 0"),
    "a fragment of no call": ([ROLE, chunk(entry(0)), STOP, DONE], "calls numbered from 0"),
    "a call without a type": (
        [ROLE, chunk(entry(0, id="call_0")), STOP, DONE],
        "ID, type and name in the first fragment only",
    ),
    "a name again": (
        [ROLE, chunk(named(0)), chunk(entry(0, function={"name": "get", "arguments": ""})), STOP, DONE],
        "ID, type and name in the first fragment only",
    ),
    "a custom input of a function": (
        [ROLE, chunk(named(0)), chunk(entry(0, custom={"input": ""})), STOP, DONE],
        "`custom` with the same content",
    ),
    "a custom call that becomes a function": (
        [ROLE, chunk(named(0, **BOTH)), chunk(entry(0)), STOP, DONE],
        "`custom` with the same content",
    ),
    "annotations twice": (
        [ROLE, chunk({"content": "Hi"}), chunk(annotated(2)), chunk(annotated(2)), STOP, DONE],
        "all annotations in one chunk",
    ),
    "a citation beyond the content": ([ROLE, chunk(annotated(2)), STOP, DONE], "citations within the content"),
}


def violations(stream: list[Any]) -> list[str]:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in stream]
    return [str(found) for found in check_lines(ChatCompletionsChecker(), [line.encode() for line in lines])]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_stream_has_no_violation(name: str) -> None:
    assert violations(SOUND[name]) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_has_the_violation(name: str) -> None:
    stream, expected = BROKEN[name]
    assert any(f"expected {expected}" in found for found in violations(stream)), violations(stream)
