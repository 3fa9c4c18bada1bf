"""The table of docs/dialects.md against streams that have each content once, with a text of its own to search for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from projector import Policy, StreamContext, build_pipeline
from projector.contracts import codec
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DialectOptions

ROOT: Final = Path(__file__).parents[2]
POLICY: Final = {
    "reasoning": "full",
    "encrypted_reasoning": True,
    "images": "chunks",
    "registered": [{"id": "value", "value": "heron-7-heron-7"}],
}
CONTEXT: Final = StreamContext(
    stream_id="s",
    conversation_id="probe-conversation",
    agent="probe-agent",
    workflow={"stage_name": "a", "step_name": "probe-step"},
)

Event: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = str


def part(kind: str, **members: object) -> Event:
    """Return an event about the first part of the item that it names."""
    return {"type": f"response.{kind}", "content_index": 0, **members}


def item(at: int, kind: str, **members: object) -> list[Event]:
    """Return the beginning and the end of an item; what only its end has comes with `_end`."""
    end = members.pop("_end", {})
    assert isinstance(end, dict)
    described = {"id": f"i{at}", "type": kind, "status": "in_progress", **members}
    added = {"type": "response.output_item.added", "output_index": at, "item": described}
    done = {"type": "response.output_item.done", "output_index": at, "item": described | {"status": "completed"} | end}
    return [added, done]


def within(events: list[Event], *inner: Event) -> list[Event]:
    """Return events between the beginning and the end of an item."""
    at = events[0]["output_index"]
    return [events[0], *({"item_id": f"i{at}", "output_index": at, **event} for event in inner), events[1]]


def stream(*items: list[Event], text_format: Event | None = None, **end: object) -> list[Event]:
    """Return a whole response."""
    response = {"id": "r", "model": "probe-model", "status": "in_progress", "text": {"format": text_format}}
    usage = {"input_tokens": 424_242, "output_tokens": 1, "total_tokens": 424_243}
    return [
        {"type": "response.created", "response": response},
        *(event for each in items for event in each),
        {"type": "response.completed", "response": response | {"status": "completed", "usage": usage} | end},
    ]


TEXT: Final = '{"text": "probe-text heron-7-heron-7", "parsed": "probe\\u002dparsed"}'
URL: Final = {"type": "url_citation", "url": "https://probe.example/citation", "title": "a", "start_index": 0}
ANSWER: Final = stream(
    within(
        item(0, "reasoning", summary=[], _end={"encrypted_content": "probe-encrypted"}),
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "probe-summary "},
    ),
    within(item(1, "reasoning", summary=[]), part("reasoning_text.delta", delta="probe-full ")),
    within(
        item(2, "message", role="assistant", content=[]),
        part("output_text.delta", delta=TEXT),
        part("output_text.annotation.added", annotation_index=0, annotation=URL | {"end_index": 3}),
        part(
            "output_text.annotation.added",
            annotation_index=1,
            annotation={"type": "file_path", "file_id": "probe-file-path", "index": 0},
        ),
    ),
    text_format={"type": "json_schema", "name": "a", "schema": {"type": "object"}},
)
REFUSAL: Final = stream(
    within(item(0, "message", role="assistant", content=[]), part("refusal.delta", delta="probe-refusal "))
)
FUNCTION: Final = within(
    item(0, "function_call", call_id="c0", name="probe_function", arguments=""),
    {"type": "response.function_call_arguments.delta", "delta": '{"city": "probe-arguments", "other": "ab'},
    {"type": "response.function_call_arguments.done", "arguments": '{"city": "probe-arguments", "other": "abc"}'},
)
CALLS: Final = stream(
    FUNCTION,
    within(
        item(
            1,
            "mcp_call",
            name="probe_hosted",
            server_label="a",
            arguments="",
            _end={"arguments": "{}", "output": "probe-hosted-output"},
        ),
        {"type": "response.mcp_call_arguments.delta", "delta": "{}"},
        {"type": "response.mcp_call_arguments.done", "arguments": "{}"},
        {"type": "response.mcp_call.completed"},
    ),
    within(
        item(2, "code_interpreter_call", code="", container_id="a", _end={"code": "probe_code(1)\nmore(2)"}),
        {"type": "response.code_interpreter_call_code.delta", "delta": "probe_code(1)\nmore"},
        {"type": "response.code_interpreter_call_code.done", "code": "probe_code(1)\nmore(2)"},
    ),
    within(
        item(3, "image_generation_call", result=None),
        {
            "type": "response.image_generation_call.partial_image",
            "partial_image_index": 0,
            "partial_image_b64": "iVBORw0KGgoAprobeimage++",
        },
    ),
)
HOST: Final[list[Event]] = [
    {"type": "projector.tool_output", "call_id": "c0", "output": {"a": "probe-function-output"}},
    {"type": "projector.attachment", "attachment": {"object_id": "probe-attachment", "url": "https://a.example/b"}},
]
"""Before the end of `CALLS`."""

STREAMS: Final[Mapping[str, list[Event]]] = {
    "answer": ANSWER,
    "refusal": REFUSAL,
    "function": stream(FUNCTION),
    "calls": [*CALLS[:-1], *HOST, CALLS[-1]],
}
PROBES: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("answer", "probe-text"),
    "refusal": ("refusal", "probe-refusal"),
    "citation": ("answer", "probe.example/citation"),
    "path of a file": ("answer", "probe-file-path"),
    "reasoning summary": ("answer", "probe-summary"),
    "full reasoning": ("answer", "probe-full"),
    "encrypted reasoning": ("answer", "probe-encrypted"),
    "call of a function": ("function", "probe_function"),
    "its arguments": ("function", "probe-arguments"),
    "output of a function": ("calls", "probe-function-output"),
    "call of a hosted tool": ("calls", "probe_hosted"),
    "output of a hosted tool": ("calls", "probe-hosted-output"),
    "code": ("calls", "probe_code"),
    "partial image": ("calls", "probeimage"),
    "parsed output": ("answer", "probe-parsed"),
    "attachments": ("calls", "probe-attachment"),
    "usage": ("answer", "424242"),
    "model": ("answer", "probe-model"),
    "conversation ID": ("answer", "probe-conversation"),
    "agent": ("answer", "probe-agent"),
    "position in a workflow": ("answer", "probe-step"),
    "notices": ("answer", "notice"),
}
"""Content -> a stream that has it, and the text by which it is found."""


@cache
def outputs(dialect: str, name: str, extensions: bool) -> list[tuple[str, str]]:  # noqa: FBT001 - the key of a cache
    """Return each event of a stream as text, with what the dialect writes for it."""
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        policy=Policy.load(POLICY),
        context=CONTEXT,
        run=name == "calls",
        options=DialectOptions(extensions=extensions, include_usage=True),
    )
    found: list[tuple[str, str]] = []
    for event in STREAMS[name]:
        is_host = event["type"].startswith("projector.")
        read = codec.dumps(event)
        written = pipeline.host(event) if is_host else pipeline.feed(b"data: " + read + b"\n\n")
        if event is STREAMS[name][-1]:
            written += pipeline.close()
        found.append((read.decode(), written.decode()))
    return found


def cell(dialect: str, content: str) -> Cell:
    """Return what the table has to say of a content."""
    name, probe = PROBES[content]
    events, plain = zip(*outputs(dialect, name, False), strict=True)
    extended = [data for _, data in outputs(dialect, name, True)]
    written = next((at for at, data in enumerate(plain) if probe in data), None)
    if written is None:
        return "asked" if any(probe in data for data in extended) else "—"
    own = next((at for at, event in enumerate(events) if probe in event), 0)
    is_late = own and written > own  # what the first event or the context has comes with the first output
    return "end" if is_late or written == len(events) - 1 else "yes"


def rows() -> list[list[str]]:
    page = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
    table = page.partition("## What each one has")[2].partition("\n## ")[0]
    lines = [[one.strip() for one in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    return [[content, *cells] for contents, *cells in lines for content in contents.split(", ")]


def test_the_table_has_each_dialect_and_content() -> None:
    names, _, *cells = rows()
    assert {name.strip("`") for name in names[1:]} == DIALECTS.keys()
    assert sorted(row[0] for row in cells) == sorted(PROBES)


@pytest.mark.parametrize("content", PROBES)
def test_each_cell_says_when_the_content_is_written(content: str) -> None:
    names, _, *cells = rows()
    (row,) = [row[1:] for row in cells if row[0] == content]
    assert row == [cell(name.strip("`"), content) for name in names[1:]]
