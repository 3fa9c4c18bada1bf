"""Streams that obey every rule (`streams/`, without their envelopes), and changes that each break one rule."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from projector.contracts import limits
from projector.contracts.stream_rules import RULES, StreamChecker, Violation, check_stream
from tests.property.cost import assert_linear

Event: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[list[Event]], object]

STREAMS: Final = {
    path.stem: [json.loads(line) for line in path.read_text().splitlines()]
    for path in sorted((Path(__file__).parent / "streams").glob("*.ndjson"))
}
GONE: Final = object()  # `edit` removes the member


def sealed(events: list[Event]) -> list[Event]:
    """Add an envelope to each event; the event's own members take precedence."""
    return [
        {
            "schema": "public_sse_v1",
            "event_id": number,
            "stream_id": "stream_1",
            "server_timestamp": f"2025-12-15T12:00:{number // 2000:02}.{number // 2 % 1000:03}Z",
            **event,
        }
        for number, event in enumerate(events, 1)
    ]


def written(events: list[Event]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


@pytest.mark.parametrize("events", STREAMS.values(), ids=STREAMS)
def test_a_stream_that_obeys_is_told_nothing(events: list[Event]) -> None:
    lines = written(sealed(events))
    assert check_stream(lines) == []
    assert check_stream([line.decode() + "\n" for line in lines]) == []
    assert check_stream([part for line in lines for part in (line + b"\r\n", b"\n")]) == [], "blank lines say nothing"


def where(events: list[Event], kind: str, nth: int) -> int:
    return [index for index, event in enumerate(events) if event["kind"] == kind][nth]


def edit(kind: str, nth: int, /, **members: Any) -> Change:
    """Change members of the nth event of a kind; an object is merged, a member set to `GONE` is removed."""

    def change(events: list[Event]) -> None:
        event = events[where(events, kind, nth)]
        for name, value in members.items():
            event[name] = {**event[name], **value} if isinstance(value, dict) and name in event else value
            if value is GONE:
                del event[name]

    return change


def drop(kind: str, nth: int) -> Change:
    return lambda events: events.pop(where(events, kind, nth))


def again(kind: str, nth: int, /, **members: Any) -> Change:
    """Repeat an event, with some members changed in the copy."""

    def change(events: list[Event]) -> None:
        index = where(events, kind, nth)
        events.insert(index + 1, copy.deepcopy(events[index]) | members)

    return change


def before(kind: str, nth: int, event: Event) -> Change:
    return lambda events: events.insert(where(events, kind, nth), event)


def move(kind: str, nth: int, to_kind: str, to_nth: int) -> Change:
    """Move an event to just before another one; the target is counted after the event is removed."""

    def change(events: list[Event]) -> None:
        event = events.pop(where(events, kind, nth))
        events.insert(where(events, to_kind, to_nth), event)

    return change


def without_response_ids(events: list[Event]) -> None:
    for event in events:
        event.pop("response_id", None)


def copy_to(kind: str, nth: int, to_kind: str, to_nth: int) -> Change:
    """Insert a copy of an event just before another one."""

    def change(events: list[Event]) -> None:
        event = copy.deepcopy(events[where(events, kind, nth)])
        events.insert(where(events, to_kind, to_nth), event)

    return change


def chain(*changes: Change) -> Change:
    return lambda events: [change(events) for change in changes]


def notices(*places: str) -> list[Event]:
    """Write notices as `redacted output` and so on."""
    return [
        {"type": kind, "path": path, "message": "-"} for kind, _, path in (place.partition(" ") for place in places)
    ]


def deep(levels: int) -> Any:
    tree: Any = 0
    for _ in range(levels):
        tree = [tree]
    return tree


def many_notices(count: int) -> Change:
    said = notices(*(f"redacted output[{index}]" for index in range(count)))
    return edit("tool.output", 0, output=[0] * count, notices=said)


def many_arguments(chars: int) -> Change:
    """Stream more text than allowed, in a call that is cut off."""
    return chain(edit("tool.arguments.delta", 0, delta="x" * chars), drop("tool.arguments.done", 0))


def into_another_image(events: list[Event]) -> None:
    """Move a chunk of the first image into a second one."""
    move("output_item.added", 1, "chunk.delta", 2)(events)
    events[where(events, "output_item.added", 1)]["item_type"] = "image_generation_call"
    events[where(events, "chunk.delta", 2)] |= {"output_index": 1, "item_id": "b"}


def retyped(nth: int, item_type: str) -> Change:
    """Announce the nth item as one of another type."""
    return edit("output_item.added", nth, item_type=item_type)


def one_response_id(events: list[Event]) -> None:
    for event in events:
        event["response_id"] = "resp"


def everywhere(name: str) -> Change:
    """Set a member of every event to a text that is too long."""
    return lambda events: [event.update({name: LONG}) for event in events]


def attached(**members: str) -> Change:
    """Add an attachment to `final`."""
    return edit("final", 0, final={"attachments": [{"object_id": "o", **members}]})


LONG: Final = "x" * (limits.ID_MAX_CHARS + 1)
TOO_LONG: Final = [
    ("text", everywhere("stream_id")),
    ("text", everywhere("conversation_id")),
    ("text", everywhere("response_id")),
    ("text", everywhere("agent")),
    ("text", edit("final", 0, workflow={"workflow_key": LONG})),
    ("text", edit("final", 0, workflow={"step_agent": LONG})),
    ("text", edit("lifecycle", 2, reason=LONG)),
    ("error", edit("error", 0, error={"code": LONG})),
    ("image", retyped(1, LONG)),
    ("text", edit("output_item.added", 1, role=LONG)),
    ("mcp", edit("tool.status", 1, tool={"tool_name": LONG})),
    ("mcp", edit("tool.status", 1, tool={"server_label": LONG})),
    ("mcp", edit("tool.arguments.done", 0, tool_name=LONG)),
    ("code", edit("tool.status", 0, tool={"container_id": LONG})),
    ("image", edit("tool.status", 0, tool={"format": LONG})),
    ("image", edit("tool.status", 0, tool={"size": LONG})),
    ("image", edit("tool.status", 0, tool={"quality": LONG})),
    ("image", edit("tool.status", 0, tool={"background": LONG})),
    ("text", edit("message.citation", 0, citation={"file_id": LONG})),
    ("text", edit("message.citation", 0, citation={"filename": LONG})),
    ("files", edit("tool.status", 0, tool={"results": [{"file_id": LONG}]})),
    ("files", edit("tool.status", 0, tool={"results": [{"filename": LONG}]})),
    ("text", attached(object_id=LONG)),
    ("text", attached(filename=LONG)),
    ("text", attached(mime_type=LONG)),
]
"""Every field with an id or a name, with a value that is too long."""


class Row(NamedTuple):
    """A change of a stream, and the rule that it breaks."""

    rule: str
    stream: str
    change: Change
    after_sealing: bool = False  # the change is made with the envelopes on


ROWS: Final = [
    # one line
    Row("frame_bytes", "mcp", edit("tool.output", 0, output=["x" * 8_000] * 33)),
    Row("surrogate", "error", edit("message.delta", 0, delta="\ud800Hel")),
    Row("surrogate", "mcp", edit("tool.output", 0, output={"\udfff": [1]})),
    Row("surrogate", "mcp", edit("tool.output", 0, output=["\udc00"])),
    Row("kind", "text", before("final", 0, {"kind": "message.done"})),
    Row("kind", "text", before("final", 0, {"kind": ["final"]})),
    Row("kind", "text", edit("message.citation", 0, kind=GONE)),
    Row("schema", "text", edit("message.citation", 0, schema="public_sse_v2")),
    Row("extra_member", "text", edit("message.citation", 0, raw_event={"a": 1})),
    Row("extra_member", "search", edit("tool.status", 1, tool={"filters": None})),
    Row("shape", "text", edit("message.citation", 0, content_index="0")),
    Row("shape", "text", edit("message.citation", 0, content_index=True)),
    Row("shape", "text", edit("message.citation", 0, content_index=-1)),
    Row("shape", "text", edit("message.citation", 0, content_index=GONE)),
    Row("shape", "text", edit("message.citation", 0, citation={"type": "page_citation"})),
    Row("shape", "text", edit("lifecycle", 1, reason=None)),
    Row("shape", "function", edit("tool.status", 2, tool={"status": "searching"})),
    Row("shape", "text", edit("message.citation", 0, schema=GONE), after_sealing=True),
    Row("shape", "text", edit("message.citation", 0, event_id="10")),
    Row("null", "text", edit("message.citation", 0, agent=None)),
    Row("null", "text", edit("message.citation", 0, workflow={"step_name": None})),
    Row("null", "text", edit("final", 0, final={"structured_output": None})),
    # the envelope
    Row("event_id_rises", "text", edit("final", 0, event_id=12)),
    Row("event_id_gapless", "text", edit("final", 0, event_id=99)),
    Row("event_id_gapless", "empty", edit("error", 0, event_id=2)),
    Row("event_id_gapless", "text", drop("message.citation", 0), after_sealing=True),
    Row("one_stream", "text", edit("final", 0, stream_id="stream_2")),
    Row("timestamp_form", "text", edit("final", 0, server_timestamp="2025-12-15T12:00:00Z")),
    Row("timestamp_form", "text", edit("final", 0, server_timestamp="2025-13-15T12:00:00.000Z")),
    Row("timestamp_order", "text", edit("final", 0, server_timestamp="2025-12-15T11:59:59.999Z")),
    Row("one_conversation", "run", edit("final", 0, conversation_id="d")),
    # the end
    Row("terminal_missing", "text", drop("final", 0)),
    Row("terminal_missing", "empty", drop("error", 0)),
    Row("one_terminal", "text", again("final", 0)),
    Row("after_terminal", "text", lambda events: events.append({"kind": "lifecycle", "status": "queued"})),
    # the lifecycle
    Row("lifecycle_repeats", "text", again("lifecycle", 1)),
    Row("lifecycle_repeats", "text", again("lifecycle", 2)),
    Row("lifecycle_repeats", "text", again("lifecycle", 0)),
    Row("lifecycle_repeats", "text", chain(drop("lifecycle", 0), before("lifecycle", 0, STREAMS["mcp"][0]))),
    Row("lifecycle_order", "error", chain(one_response_id, again("lifecycle", 1, status="completed"))),
    Row("lifecycle_last", "text", move("lifecycle", 2, "output_item.done", 1)),
    Row("final_status", "mcp", edit("final", 0, final={"status": "completed"})),
    Row("final_status", "refusal", edit("lifecycle", 1, status="failed")),
    Row("lifecycle_repeats", "branches", again("lifecycle", 1)),
    Row("lifecycle_repeats", "branches", again("lifecycle", 2)),
    Row("lifecycle_last", "branches", move("lifecycle", 3, "output_item.done", 1)),
    Row("final_status", "branches", edit("final", 0, final={"status": "completed"})),
    Row("final_status", "run", edit("final", 0, final={"status": "completed"})),
    # items
    Row("slot", "text", edit("message.citation", 0, output_index=7)),
    Row("slot", "text", edit("message.citation", 0, item_id="other")),
    Row("slot", "text", edit("message.citation", 0, output_index=0)),
    Row("item_announced", "text", drop("output_item.added", 1)),
    Row("item_announced", "image", drop("output_item.added", 1)),
    Row("item_added_once", "text", again("output_item.added", 0)),
    Row("item_done_once", "text", again("output_item.done", 0)),
    Row("item_after_done", "text", move("output_item.done", 1, "message.citation", 0)),
    Row("item_after_done", "mcp", move("output_item.done", 1, "tool.status", -1)),
    Row("item_after_done", "search", chain(again("tool.status", 3), edit("tool.status", 4, tool={"query": "other"}))),
    Row("item_after_done", "search", drop("message.citation", 0)),
    Row("item_response", "branches", edit("message.delta", 1, response_id="resp_a")),
    Row("item_response", "text", edit("message.delta", 0, response_id="resp_other")),
    Row("item_kind", "text", retyped(0, "message")),
    Row("item_kind", "text", retyped(1, "reasoning")),
    Row("item_kind", "refusal", retyped(0, "reasoning")),
    Row("item_kind", "search", retyped(0, "file_search_call")),
    Row("item_kind", "files", retyped(0, "web_search_call")),
    Row("item_kind", "code", retyped(0, "image_generation_call")),
    Row("item_kind", "code", edit("tool.output", 0, tool_type="mcp")),
    Row("item_kind", "image", retyped(0, "shell_call")),
    Row("item_kind", "function", retyped(0, "mcp_call")),
    Row("item_kind", "mcp", retyped(1, "function_call")),
    Row("item_closed", "text", drop("output_item.done", 0)),
    Row("item_closed", "error", drop("output_item.done", 0)),
    # tool calls
    Row("call_id", "function", edit("tool.arguments.done", 0, tool_call_id="other")),
    Row("call_id_unique", "function", edit("tool.status", 1, tool={"tool_call_id": "fc"})),
    Row("status_order", "search", move("tool.status", 0, "tool.status", 1)),
    Row("status_order", "function", chain(again("tool.status", 2), edit("tool.status", 3, tool={"status": "failed"}))),
    Row("status_repeats", "search", again("tool.status", 1)),
    Row("status_repeats", "function", again("tool.status", -1)),
    Row("call_order", "mcp", move("tool.output", 0, "output_item.done", 1)),
    Row("call_order", "mcp", move("tool.arguments.done", 0, "tool.status", -1)),
    Row("call_order", "mcp", move("tool.status", 1, "tool.status", -1)),
    Row("function_end", "function", chain(drop("tool.output", 0), move("tool.status", -1, "output_item.done", 0))),
    Row("arguments_closed", "function", again("tool.arguments.done", 0)),
    Row("arguments_closed", "function", copy_to("tool.arguments.delta", 1, "output_item.done", 0)),
    Row("arguments_joined", "function", edit("tool.arguments.delta", 1, delta='"UTC"}')),
    Row("arguments_parsed", "function", edit("tool.arguments.done", 0, arguments_json={"zone": "CET"})),
    Row("arguments_parsed", "mcp", edit("tool.arguments.done", 0, arguments_text="{,", arguments_json={})),
    Row("code_closed", "code", again("tool.code.done", 0)),
    Row("code_closed", "code", copy_to("tool.code.delta", 1, "tool.output", 0)),
    Row("code_joined", "code", edit("tool.code.done", 0, code="print(2)")),
    # chunks
    Row("chunk_item", "image", into_another_image),
    Row("chunk_index", "image", edit("chunk.delta", 0, chunk_index=1)),
    Row("chunk_index", "image", edit("chunk.delta", 2, chunk_index=2)),
    Row("chunk_closed", "image", again("chunk.done", 0)),
    Row("chunk_closed", "image", copy_to("chunk.delta", 2, "tool.status", -1)),
    Row("chunk_unfinished", "image", drop("chunk.done", 1)),
    Row("chunk_chars", "image", edit("chunk.delta", 0, data="A" * (limits.IMAGE_CHUNK_MAX_CHARS + 4))),
    Row("chunk_base64", "image", edit("chunk.delta", 0, data="AAA")),
    Row("chunk_base64", "image", edit("chunk.delta", 0, data="AA==AAAA")),
    Row("chunk_base64", "image", edit("chunk.delta", 0, data="AA-_")),
    # texts
    Row("refusal_closed", "refusal", again("refusal.done", 1)),
    Row("refusal_closed", "refusal", copy_to("refusal.delta", 0, "output_item.done", 0)),
    Row("refusal_joined", "refusal", edit("refusal.done", 0, refusal_text="I can.")),
    Row("final_text", "text", edit("final", 0, final={"response_text": "Hallo"})),
    Row("final_text", "text", edit("final", 0, final={"reasoning_summary_text": "First.Second."})),
    Row("final_text", "messages", edit("final", 0, final={"response_text": "First.Second."})),
    Row("final_text", "messages", edit("final", 0, final={"response_text": "Second.\n\nst.Fir and more"})),
    Row("final_text", "messages", edit("final", 0, final={"response_text": "Second.\n\nFirst."})),
    Row("final_text", "messages", edit("final", 0, final={"response_text": "First.\n\n"})),
    Row("final_text", "messages", edit("final", 0, final={"response_text": "First.\n\nAnother text."})),
    Row("final_text", "refusal", edit("final", 0, final={"refusal_text": "Sorry."})),
    Row("final_text", "text", lambda events: events[-1]["final"].pop("response_text")),
    # bounds
    Row("arguments_text_chars", "mcp", edit("tool.arguments.done", 0, arguments_text="x" * 8_001)),
    Row("arguments_text_chars", "mcp", edit("tool.status", 0, tool={"arguments_text": "x" * 8_001})),
    Row("arguments_text_chars", "cut", many_arguments(8_001)),
    Row("arguments_text_chars", "cut", chain(many_arguments(8_000), again("tool.arguments.delta", 0, delta="x"))),
    Row("arguments_json_chars", "mcp", edit("tool.status", 0, tool={"arguments_json": {"a": ["x" * 4_001] * 2}})),
    Row("output_chars", "mcp", edit("tool.output", 0, output="x" * 8_001)),
    Row("results_items", "files", edit("tool.status", 1, tool={"results": [{"attributes": {"x.y": 1}}] * 11})),
    Row("results_chars", "files", edit("tool.status", 0, tool={"results": [{"text": "x" * 2_001}]})),
    Row("error_chars", "error", edit("error", 0, error={"message": "x" * 501})),
    *[Row("id_chars", stream, change) for stream, change in TOO_LONG],
    Row("title_chars", "search", edit("message.citation", 0, citation={"title": "x" * 501})),
    Row("url_chars", "search", edit("message.citation", 0, citation={"url": "https://" + "x" * 4_089})),
    Row("url_scheme", "search", edit("message.citation", 0, citation={"url": "javascript:alert(1)"})),
    Row("url_scheme", "search", edit("tool.status", 3, notices=GONE)),
    Row("url_chars", "text", attached(url="https://" + "x" * 4_089)),
    Row("url_scheme", "text", attached(url="file:///etc/passwd")),
    Row("container_entries", "mcp", edit("tool.output", 0, output=[0] * 1_001)),
    Row("container_levels", "mcp", edit("tool.output", 0, output=deep(65))),
    Row("container_levels", "mcp", edit("tool.output", 0, output=deep(900))),
    Row("key_chars", "text", edit("final", 0, final={"structured_output": {"x" * 257: 1}})),
    Row("integer_bits", "mcp", edit("tool.output", 0, output=[2**64])),
    Row("integer_bits", "mcp", edit("tool.output", 0, output={"rolled": -(2**63) - 1})),
    # notices
    Row("notice_items", "mcp", many_notices(34)),
    Row("notice_once", "mcp", edit("tool.output", 0, notices=notices("redacted output", "redacted output"))),
    Row("notice_path", "mcp", edit("tool.output", 0, notices=notices("redacted output.rolled[2]"))),
    Row("notice_path", "mcp", edit("tool.output", 0, notices=notices("redacted "))),
]
FAIR: Final = [
    Row("the most characters", "mcp", edit("tool.output", 0, output="\U0001f600" * 8_000)),
    Row("the most of an id", "mcp", edit("tool.status", 1, tool={"server_label": "x" * 256})),
    Row("the most of a name", "text", attached(filename="x" * 256)),
    Row("another type of a function", "function", retyped(0, "custom_tool_call")),
    Row("the most of a key", "mcp", edit("tool.output", 0, output={"x" * 256: 1})),
    Row("the most of an integer", "mcp", edit("tool.output", 0, output=[2**64 - 1, -(2**63)])),
    Row("the most of a chunk", "image", edit("chunk.delta", 0, data="A" * limits.IMAGE_CHUNK_MAX_CHARS)),
    Row("the most results", "files", edit("tool.status", 1, tool={"results": [{"attributes": {"x.y": 1}}] * 10})),
    Row("the most entries and levels", "mcp", edit("tool.output", 0, output=[deep(63), *[0] * 999])),
    Row("the most notices", "mcp", many_notices(33)),
    Row("the most arguments", "cut", many_arguments(8_000)),
    Row("outputs of hosted tools", "files", edit("tool.output", 0, output="x" * 9_000)),
    Row("two types at one path", "mcp", edit("tool.output", 0, notices=notices("redacted output", "truncated output"))),
    Row("a parent stands for its texts", "cut", edit("final", 0, notices=notices("truncated final"))),
    Row(
        "a withheld URL", "search", edit("message.citation", 0, citation={"url": "-"}, notices=notices("redacted kind"))
    ),
    Row("commentary is left out", "messages", edit("final", 0, final={"response_text": "Second."})),
    Row("other commentary is left out", "messages", edit("final", 0, final={"response_text": "First."})),
    Row("a snapshot adds text", "messages", edit("final", 0, final={"response_text": "First.\n\nNew.\n\nSecond."})),
    Row("a run whose responses have one id", "run", one_response_id),
    Row("a second response that does not say that it begins", "run", chain(one_response_id, drop("lifecycle", 2))),
    Row("branches without ids", "branches", without_response_ids),
    Row("branches that have one id", "branches", one_response_id),
    Row("a status goes back", "text", again("lifecycle", 1, status="queued")),
    Row("a filled gap", "messages", edit("final", 0, final={"response_text": "First.\n\n-\n\nSecond."})),
    Row("a function that gives nothing", "function", drop("tool.output", 0)),
    Row("output before all arguments", "function", move("tool.output", 0, "tool.arguments.done", 0)),
    Row("a run that has no lifecycle", "run", chain(*[drop("lifecycle", 0)] * 4)),
    Row("a skipped status", "search", drop("tool.status", 1)),
    Row("a hosted tool that fails", "code", drop("tool.status", 2)),
    Row("cancelled by the host", "text", edit("final", 0, final={"status": "cancelled"})),
    Row("arguments without their object", "function", edit("tool.arguments.done", 0, arguments_json=GONE)),
    Row("arguments at once", "function", chain(*[drop("tool.arguments.delta", 0)] * 2)),
    Row("an escaped pair of surrogates", "text", edit("final", 0, final={"structured_output": "\U0001f600"})),
    Row("a fault after the response", "text", edit("final", 0, final=GONE, **STREAMS["empty"][0])),
]


def broken(row: Row) -> list[Violation]:
    events = copy.deepcopy(STREAMS[row.stream])
    if row.after_sealing:
        events = sealed(events)
        row.change(events)
        return check_stream(written(events))
    row.change(events)
    return check_stream(written(sealed(events)))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.rule}-{row.stream}-{number}" for number, row in enumerate(ROWS)])
def test_each_change_breaks_one_rule(row: Row) -> None:
    found = broken(row)
    assert {violation.rule for violation in found} == {row.rule}
    assert {violation.level for violation in found} == {RULES[row.rule].level}


@pytest.mark.parametrize("row", FAIR, ids=[row.rule for row in FAIR])
def test_what_the_contract_allows_is_told_nothing(row: Row) -> None:
    assert broken(row) == []


LINES: Final = [
    ("no JSON", b"data: {}"),
    ("a half", b'{"kind": "final"'),
    ("NaN", b'{"a": NaN}'),
    ("malformed UTF-8", b'{"a": "\xff"}'),
    ("an array", b"[]"),
    ("too deep for any parser", b"[" * 100_000),
]


@pytest.mark.parametrize("line", [line for _, line in LINES], ids=[name for name, _ in LINES])
def test_a_line_that_is_no_object(line: bytes) -> None:
    lines = written(sealed(STREAMS["text"]))
    found = check_stream([*lines[:3], line, *lines[3:]])
    assert [(violation.rule, violation.line, violation.event_id) for violation in found] == [("json", 4, None)]


def test_a_status_of_an_item_is_one_of_the_enumeration() -> None:
    assert "shape" in {
        found.rule for found in broken(Row("shape", "text", edit("output_item.added", 0, status="done")))
    }


def test_every_rule_is_broken_by_a_row() -> None:
    assert {row.rule for row in ROWS} | {"json"} == set(RULES)


def test_a_violation_says_line_event_rule_and_level() -> None:
    events = sealed(STREAMS["text"])
    events[6]["item_id"] = "an id"
    events[8]["delta"] = 1
    found = check_stream([b"", *written(events)])
    assert [violation[:4] for violation in found] == [
        (9, 8, "slot", "project"),
        (10, 9, "shape", "spec"),
        (11, 10, "slot", "project"),
        (12, 11, "slot", "project"),
        (14, 13, "item_closed", "project"),
    ]
    assert found[1].message == "`delta` must be a string"


def test_messages_hold_no_payload() -> None:
    secret = "sk-live 0123456789"
    events = sealed(copy.deepcopy(STREAMS["text"]))
    events[2] |= {secret: secret}
    events[7]["delta"] = {secret: secret}
    events[9]["citation"] = {"type": secret}
    events[-1]["final"]["response_text"] = secret
    events[-1]["notices"] = notices(f"redacted {secret}")
    found = check_stream([*written(events), secret.encode()])
    assert len(found) >= 6
    assert "live" not in repr(found)


def test_a_broken_terminal_is_a_terminal() -> None:
    events = sealed([*STREAMS["empty"], *STREAMS["empty"]])
    events[0]["error"] = {}
    assert [violation.rule for violation in check_stream(written(events))] == [*["shape"] * 3, "one_terminal"]


def test_a_hostile_event_is_not_told_a_thousand_times() -> None:
    events = sealed(STREAMS["empty"])
    events[0] |= {f"x{number}": number for number in range(5_000)}
    assert len(check_stream(written(events))) == 16


def test_the_checker_takes_lines_as_they_come() -> None:
    checker = StreamChecker()
    lines = written(sealed(STREAMS["text"]))
    assert [checker.feed(number, line) for number, line in enumerate(lines[:-1], 1)] == [[]] * (len(lines) - 1)
    found = checker.close()
    assert [violation[:3] for violation in found] == [(12, 12, "terminal_missing")]


@pytest.mark.parametrize(("more", "rules"), [(0, []), (1, ["frame_bytes"])])
def test_a_frame_has_its_bytes(more: int, rules: list[str]) -> None:
    line = written(sealed(STREAMS["empty"]))[0]
    padded = line[:-1] + b" " * (limits.FRAME_MAX_BYTES - len(line) + more) + b"}"
    assert [violation.rule for violation in check_stream([padded])] == rules


def test_an_empty_stream_has_no_terminal() -> None:
    assert [violation[:3] for violation in check_stream([])] == [(0, None, "terminal_missing")]


def test_cost_is_linear() -> None:
    delta = {"kind": "message.delta", "output_index": 0, "item_id": "msg", "content_index": 0, "delta": "x"}
    events = [event for event in STREAMS["error"] if event["kind"] != "error"]

    def work(copies: int) -> Callable[[], object]:
        lines = written(sealed([*events[:2], *[delta] * copies, *events[2:], STREAMS["error"][-1]]))
        assert check_stream(lines) == []
        return lambda: check_stream(lines)

    assert_linear(work, 60)
