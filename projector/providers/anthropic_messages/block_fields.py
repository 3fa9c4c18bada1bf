"""The members of events and blocks: what is read, what is not and why, and how each becomes part of canonical items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from projector.core import canonical as read
from projector.providers.descriptor import InputTables
from projector.providers.stage_parts import REASONS, Counts, usage_of

WEB: Final = "web_search_call"
CODE: Final = "code_interpreter_call"
MCP: Final = "mcp_call"
CALLER: Final = "caller"
"""Member of a call that code on the server made, and of its opaque value."""
TOOLSET: Final = "toolset_name"
"""Member of a call that its client needs, beside name and input; also of its opaque value."""

CUT: Final = "max_output_tokens"
ENDS: Final[Mapping[str, tuple[str, str | None]]] = {
    **{name: (status, CUT if reason == "length" else reason) for name, (status, reason) in REASONS.items()},
    "end_turn": ("completed", None),
    "stop_sequence": ("completed", None),
    "tool_use": ("completed", None),
    "refusal": ("completed", None),
    "model_context_window_exceeded": ("incomplete", "model_context_window_exceeded"),
    "compaction": ("incomplete", "compaction"),
}
"""`stop_reason` in lower case -> status and reason of the response; any other is a normal end. A refusal after visible
text is incomplete, with `content_filter`."""

SERVER_TOOLS: Final[Mapping[str, str]] = {
    "web_search": WEB,
    "web_fetch": WEB,
    "code_execution": CODE,
    "bash_code_execution": CODE,
    "text_editor_code_execution": CODE,
    "tool_search_tool_regex": "tool_search_call",
    "tool_search_tool_bm25": "tool_search_call",
    "advisor": "advisor_call",
}
"""Name of a tool of the server -> type of its item. Unknown tools are `server_tool_call`."""

RESULTS: Final[Mapping[str, str]] = {
    **{f"{name}_tool_result": item_type for name, item_type in SERVER_TOOLS.items() if "tool_search" not in name},
    "tool_search_tool_result": "tool_search_call",
    "mcp_tool_result": MCP,
}
"""Block with a result -> type of the item of its call."""

UNSHOWN: Final[Mapping[str, str]] = {
    "compaction": "its content is the whole conversation",
    "fallback": "only the name of the other model is public",
    "container_upload": "the file has no public type",
    "mcp_tool_listing": "the tool list of a server is configuration",
}
"""Block that becomes an item of its type without content -> why."""

GROWING: Final = frozenset({"text", "thinking", "tool_use", "server_tool_use", "mcp_tool_use"})
"""Blocks with deltas of text or input. In any other one these are hidden, as its content is."""

MEMBERS: Final = {
    "event": frozenset({
        "content_block", "context_management", "delta", "error", "index", "input_transformations", "message",
        "request_id", "type", "usage",
    }),
    "message": frozenset({
        "container", "content", "context_management", "diagnostics", "id", "input_transformations", "model", "role",
        "stop_details", "stop_reason", "stop_sequence", "type", "usage",
    }),
    "content_block": frozenset({
        "caller", "citations", "content", "data", "encrypted_content", "file_id", "from", "id", "input", "is_error",
        "mcp_server_name", "name", "server_name", "signature", "text", "thinking", "to", "tool_changes", "tool_use_id",
        "tools", "toolset_name", "trigger", "type",
    }),
    "delta": frozenset({
        "citation", "container", "content", "encrypted_content", "estimated_tokens", "partial_json", "signature",
        "stop_details", "stop_reason", "stop_sequence", "text", "thinking", "type",
    }),
    "usage": frozenset({
        "cache_creation", "cache_creation_input_tokens", "cache_read_input_tokens", "fallback_credit", "inference_geo",
        "input_tokens", "iterations", "output_tokens", "output_tokens_details", "server_tool_use", "service_tier",
        "speed",
    }),
}  # fmt: skip
"""Members of an event, and of an object in it, that the API has: others are counted (CONTRACT D30)."""

READ: Final[Mapping[str, Mapping[str, str]]] = {
    "event": {
        "message_start": "`response.created`, and blocks that it contains",
        "content_block_start": "an item, or a part of one",
        "content_block_delta": "a delta of text, reasoning or arguments",
        "content_block_stop": "the end of an item",
        "message_delta": "status and usage of the response",
        "message_stop": "the end of the response",
        "error": "the error",
    },
    "block": {
        "text": "text of a message",
        "thinking": "a reasoning item",
        "redacted_thinking": "a reasoning item without text",
        "tool_use": "a function call",
        "server_tool_use": "a call of a hosted tool",
        "mcp_tool_use": "a call of an MCP tool",
        **dict.fromkeys(RESULTS, "the result of its call"),
        **dict.fromkeys(UNSHOWN, "an item without content"),
        "fallback": "an item without content, and the model of the response",
    },
}
DROPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "event": {"ping": "only keeps the connection open"},
    "delta": {"compaction_delta": "its content is the whole conversation: only the provider gets it back"},
    "citation": {"cited_text": "text of a source", "encrypted_index": "opaque to everyone but the provider"},
    "result": {"encrypted_content": "opaque to everyone but the provider", "page_age": "not part of the contract"},
    "stop_details": {"fallback_credit_token": "a credential"},
}


def input_tables() -> InputTables:
    """Return the tables of this module, for `projector explain` and docs/mapping.md."""
    return InputTables(
        read=READ, dropped=DROPPED, finish_reasons={reason: status for reason, (status, _) in ENDS.items()}
    )


# citations


def citation_of(raw: Mapping[str, object], start: int, end: int) -> dict[str, object] | None:
    """Return the annotation of a citation of the text from `start` to `end`, None if it names no source."""
    kind = read.text_or_none(raw, "type")
    place = {"start_index": start, "end_index": end}
    if kind in {"web_search_result_location", "search_result_location"}:
        url = read.text_or_none(raw, "url" if kind == "web_search_result_location" else "source") or ""
        if url.startswith(("https://", "http://")):
            return {"type": "url_citation", "url": url, "title": read.text_or_none(raw, "title") or "", **place}
        return None
    if kind in {"char_location", "page_location", "content_block_location"}:
        number = read.count_or_none(raw, "document_index") or 0
        return {
            "type": "file_citation",
            "file_id": read.text_or_none(raw, "file_id") or f"document_{number}",
            "filename": read.text_or_none(raw, "document_title") or "",
            "index": end,
        }
    return None


# usage


_INPUT: Final = "input_tokens + cache_creation_input_tokens + cache_read_input_tokens"
COUNTS: Final[Counts] = {
    "input_tokens": (_INPUT,),
    "output_tokens": ("output_tokens",),
    "total_tokens": (f"{_INPUT} + output_tokens",),
    "input_tokens_details.cached_tokens": ("cache_read_input_tokens",),
    "output_tokens_details.reasoning_tokens": ("output_tokens_details.thinking_tokens",),
}


def responses_usage(usage: Mapping[str, object]) -> dict[str, object]:
    """Return counts in the shape of a Responses `usage`: its input includes what caches had."""
    known = usage_of(usage, COUNTS)
    if read.count_or_none(usage, "input_tokens") is None:
        known.pop("input_tokens", None)
    if not {"input_tokens", "output_tokens"} <= known.keys():
        known.pop("total_tokens", None)
    return known if known.keys() & {"input_tokens", "output_tokens"} else {}


# hosted tools


class Outcome(NamedTuple):
    """What a result adds to the item of its call."""

    members: dict[str, Any]
    has_failed: bool = False
    file_ids: tuple[str, ...] = ()


def outcome_of(block: Mapping[str, object], item_type: str) -> Outcome:
    """Return the outcome in a result block."""
    reader = OUTCOMES.get(item_type)
    return Outcome({}, _is_error(block)) if reader is None else reader(block)


def _is_error(block: Mapping[str, object]) -> bool:
    return "error_code" in read.mapping_or_empty(block, "content")


def _web(block: Mapping[str, object]) -> Outcome:
    urls = [url for result in read.mappings(block, "content") if (url := read.text_or_none(result, "url"))]
    return Outcome({"sources": [{"type": "url", "url": url} for url in urls]}, _is_error(block))


def _code(block: Mapping[str, object]) -> Outcome:
    content = read.mapping_or_empty(block, "content")
    if "content" in content and isinstance(content["content"], str):
        logs = content["content"]  # a file that was viewed
    else:
        logs = "".join(read.text_or_none(content, name) or "" for name in ("stdout", "stderr"))
    if _is_error(block):
        logs = read.text_or_none(content, "error_message") or str(content["error_code"])
    files = tuple(one for file in read.mappings(content, "content") if (one := read.text_or_none(file, "file_id")))
    has_failed = _is_error(block) or bool(read.count_or_none(content, "return_code"))
    return Outcome({"outputs": [{"type": "logs", "logs": logs}] if logs else []}, has_failed, files)


def _mcp(block: Mapping[str, object]) -> Outcome:
    content = block.get("content")
    text = content if isinstance(content, str) else ""
    text = text or "".join(read.text_or_none(part, "text") or "" for part in read.mappings(block, "content"))
    has_failed = block.get("is_error") is True
    return Outcome({"error" if has_failed else "output": text}, has_failed)


OUTCOMES: Final[Mapping[str, Callable[[Mapping[str, object]], Outcome]]] = {WEB: _web, CODE: _code, MCP: _mcp}
"""Type of an item -> what reads its result."""


def action_of(name: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the action of a web search or fetch, from its input."""
    if name == "web_fetch":
        return {"type": "open_page", "url": read.text_or_none(given, "url") or ""}
    return {"type": "search", "query": read.text_or_none(given, "query") or ""}


def code_of(given: Mapping[str, object]) -> str:
    """Return what ran in the container, from the input of its call."""
    texts = (read.text_or_none(given, name) for name in ("code", "command") if set(given) <= {name, "restart"})
    return next((text for text in texts if text), "") or (read.json_text(dict(given)) if given else "")
