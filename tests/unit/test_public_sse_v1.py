"""The models accept the examples of the seed contract, and nothing else."""

from __future__ import annotations

from typing import Any, Final, get_args

import pytest
from pydantic import ValidationError

from projector.contracts import kinds, parts
from projector.contracts.public_sse_v1 import EVENT_ADAPTER, PublicEvent, parse_event

ENVELOPE: Final = {
    "schema": "public_sse_v1",
    "event_id": 1,
    "stream_id": "stream_1",
    "server_timestamp": "2025-12-15T12:00:00.000Z",
}
CONTEXT: Final = {
    "conversation_id": "uuid",
    "response_id": "resp_1",
    "agent": "triage",
    "workflow": {
        "workflow_key": "analysis_code",
        "workflow_run_id": "run_1",
        "stage_name": "stage-1",
        "step_name": "analysis",
        "step_agent": "researcher",
        "parallel_group": "group-0",
        "branch_index": 0,
    },
    "provider_sequence_number": 7,
    "notices": [{"type": "redacted", "path": "delta", "message": "Some fields were redacted."}],
}
PLACE: Final = {"output_index": 0, "item_id": "item_1"}
CALL: Final = {**PLACE, "tool_call_id": "call_1"}
TARGET: Final = {"entity_kind": "tool_call", "entity_id": "ig", "field": "partial_image_b64", "part_index": 0}


def status(tool_type: str, now: str, **members: object) -> dict[str, object]:
    tool = {"tool_type": tool_type, "tool_call_id": "call_1", "status": now, **members}
    return {"kind": "tool.status", **PLACE, "tool": tool}


def citation(kind: str, **members: object) -> dict[str, object]:
    return {"kind": "message.citation", **PLACE, "content_index": 0, "citation": {"type": kind, **members}}


def final(**members: object) -> dict[str, object]:
    return {"kind": "final", "final": {"status": "completed", **members}}


SHOWN: Final[list[dict[str, Any]]] = [
    {"kind": "lifecycle", "status": "incomplete", "reason": "max_output_tokens"},
    {"kind": "output_item.added", **PLACE, "item_type": "message", "role": "assistant", "status": "in_progress"},
    {"kind": "output_item.done", **PLACE, "item_type": "function_call"},
    {"kind": "message.delta", **PLACE, "content_index": 0, "delta": "text"},
    citation("url_citation", start_index=10, end_index=42, title="Example", url="https://example.com"),
    citation("file_citation", file_id="file_1", filename="a.txt", index=3),
    citation("container_file_citation", container_id="c", file_id="f", filename="a", start_index=0, end_index=1),
    citation("url_citation"),
    {"kind": "reasoning_summary.delta", **PLACE, "summary_index": 0, "delta": "summary text"},
    {"kind": "refusal.delta", **PLACE, "content_index": 0, "delta": "refusal"},
    {"kind": "refusal.done", **PLACE, "content_index": 0, "refusal_text": "final refusal"},
    status("web_search", "searching", query="q", sources=["https://example.com"]),
    status(
        "file_search", "completed", queries=["q"], results=[{"text": "t", "score": 0.5, "attributes": {"a": 1}}, {}]
    ),
    status("code_interpreter", "interpreting", container_id="c", container_mode="explicit"),
    status(
        "image_generation", "partial_image", revised_prompt="p", format="png", size="s", quality="q", background="b"
    ),
    status("function", "failed", name="f", arguments_text="{}", arguments_json={}, output=None),
    status(
        "mcp", "awaiting_approval", tool_name="t", server_label="s", arguments_text="{}", arguments_json={}, output=1
    ),
    {"kind": "tool.arguments.delta", **CALL, "tool_type": "function", "tool_name": "f", "delta": "{"},
    {
        "kind": "tool.arguments.done",
        **CALL,
        "tool_type": "mcp",
        "tool_name": "f",
        "arguments_text": "",
        "arguments_json": {},
    },
    {"kind": "tool.code.delta", **CALL, "delta": "print('hello')"},
    {"kind": "tool.code.done", **CALL, "code": "print('done')"},
    {"kind": "tool.output", **CALL, "tool_type": "web_search", "output": {"any": ["json"]}},
    {"kind": "chunk.delta", **PLACE, "target": TARGET, "encoding": "base64", "chunk_index": 0, "data": "AAAA"},
    {"kind": "chunk.done", **PLACE, "target": TARGET},
    {"kind": "error", "error": {"message": "human readable", "source": "server", "is_retryable": False}},
    {"kind": "error", "error": {"code": "c", "message": "m", "source": "provider", "is_retryable": True}},
    final(structured_output=None),
    {
        "kind": "final",
        "final": {
            "status": "refused",
            "response_text": "t",
            "structured_output": {"a": 1},
            "reasoning_summary_text": "s",
            "refusal_text": "r",
            "attachments": [
                {"object_id": "o", "filename": "a.png", "mime_type": "image/png", "url": "https://a.example"}
            ],
            "usage": {
                "input_tokens": 123,
                "output_tokens": 456,
                "total_tokens": 579,
                "cached_input_tokens": 0,
                "reasoning_output_tokens": 0,
            },
        },
    },
]


@pytest.mark.parametrize("members", SHOWN, ids=[row["kind"] for row in SHOWN])
@pytest.mark.parametrize("context", [{}, CONTEXT, dict.fromkeys(list(CONTEXT)[:4])], ids=["bare", "context", "nulls"])
def test_what_the_seed_shows_is_accepted(members: dict[str, Any], context: dict[str, Any]) -> None:
    event = ENVELOPE | context | members
    parsed = parse_event(event)
    assert parsed.kind == members["kind"]
    assert EVENT_ADAPTER.dump_python(parsed, by_alias=True, exclude_unset=True) == event


def test_every_kind_has_a_model() -> None:
    models = get_args(get_args(PublicEvent)[0])
    spoken = [get_args(model.model_fields["kind"].annotation) for model in models]
    assert spoken == [(kind.value,) for kind in kinds.Kind]
    assert {row["kind"] for row in SHOWN} == set(kinds.Kind)


def test_every_tool_type_has_a_model_and_an_order_of_its_statuses() -> None:
    statuses = {
        get_args(model.model_fields["tool_type"].annotation)[0]: set(get_args(model.model_fields["status"].annotation))
        for model in get_args(get_args(parts.AnyTool)[0])
    }
    assert statuses == {tool_type: set(ranks) for tool_type, ranks in kinds.STATUS_RANKS.items()}
    assert set(statuses) == set(get_args(kinds.ToolType))


def test_the_schema_is_the_one_of_the_vocabulary() -> None:
    assert ENVELOPE["schema"] == kinds.SCHEMA


DELTA: Final = {"kind": "message.delta", **PLACE, "content_index": 0, "delta": "text"}
REFUSED: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("no kind", {"kind": "response.output_text.delta"}, "union_tag_invalid"),
    ("other schema", DELTA | {"schema": "public_sse_v2"}, "literal_error"),
    ("event ids begin at 1", DELTA | {"event_id": 0}, "greater_than_equal"),
    ("numbers are not text", DELTA | {"event_id": "1"}, "int_type"),
    ("numbers are not booleans", DELTA | {"output_index": True}, "int_type"),
    ("numbers are whole", DELTA | {"output_index": 1.0}, "int_type"),
    ("indexes are not negative", DELTA | {"content_index": -1}, "greater_than_equal"),
    ("text is not a number", DELTA | {"delta": 1}, "string_type"),
    ("text is not null", DELTA | {"delta": None}, "string_type"),
    ("raw provider objects", DELTA | {"raw_event": {}}, "extra_forbidden"),
    ("null where the seed shows none", DELTA | {"notices": None}, "list_type"),
    ("null where the seed shows none", {"kind": "lifecycle", "status": "queued", "reason": None}, "string_type"),
    ("lifecycle has no refusal", {"kind": "lifecycle", "status": "refused"}, "literal_error"),
    ("notice type", DELTA | {"notices": [{"type": "hidden", "path": "delta", "message": "m"}]}, "literal_error"),
    ("notice message", DELTA | {"notices": [{"type": "redacted", "path": "delta"}]}, "missing"),
    ("status of another tool", status("web_search", "interpreting"), "literal_error"),
    ("hosted tools do not fail", status("code_interpreter", "failed"), "literal_error"),
    ("only MCP waits", status("function", "awaiting_approval", name="f"), "literal_error"),
    ("a function has a name", status("function", "completed"), "missing"),
    ("an MCP tool has a name", status("mcp", "completed", name="f"), "missing"),
    ("members of another tool", status("web_search", "completed", queries=["q"]), "extra_forbidden"),
    ("tool configuration", status("file_search", "searching", vector_store_ids=["vs"]), "extra_forbidden"),
    ("no such tool", status("computer", "in_progress"), "union_tag_invalid"),
    ("arguments are an object", status("function", "completed", name="f", arguments_json=[]), "dict_type"),
    ("no such citation", citation("file_path"), "union_tag_invalid"),
    (
        "hosted tools have no arguments",
        {"kind": "tool.code.delta", **CALL, "delta": "", "tool_type": "mcp"},
        "extra_forbidden",
    ),
    ("output is required", {"kind": "tool.output", **CALL, "tool_type": "mcp"}, "missing"),
    ("a fault is typed", {"kind": "error", "error": {"message": "m", "source": "provider"}}, "missing"),
    (
        "booleans are booleans",
        {"kind": "error", "error": {"message": "m", "source": "server", "is_retryable": 0}},
        "bool_type",
    ),
    ("final has a status", {"kind": "final", "final": {}}, "missing"),
    (
        "tokens are counted",
        {"kind": "final", "final": {"status": "completed", "usage": {"input_tokens": None}}},
        "int_type",
    ),
    ("other chunks", {"kind": "chunk.done", **PLACE, "target": TARGET | {"field": "text"}}, "literal_error"),
]


@pytest.mark.parametrize(("members", "error"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_everything_else_is_refused(members: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_event(ENVELOPE | members)
    assert [row["type"] for row in caught.value.errors()] in ([error], [error, "extra_forbidden"])


@pytest.mark.parametrize("value", [None, [], "final", 1, {}])
def test_what_is_no_event_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        parse_event(value)


@pytest.mark.parametrize("name", ["schema", "event_id", "stream_id", "server_timestamp", "kind"])
def test_the_envelope_is_required(name: str) -> None:
    event = ENVELOPE | DELTA
    del event[name]
    with pytest.raises(ValidationError):
        parse_event(event)


def test_an_event_does_not_change() -> None:
    event = parse_event(ENVELOPE | DELTA)
    with pytest.raises(ValidationError):
        setattr(event, "event_id", 2)  # noqa: B010  # mypy knows it as well, and refuses the plain line
