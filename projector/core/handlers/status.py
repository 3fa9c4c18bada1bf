"""Statuses of tool calls (seed contract, section 9.7; CONTRACT D8, D15 to D18).

A call is said in one order: its item, its first status, arguments or code, outputs, its last status, the item's end. So
what a provider reports of the end (`...completed`) is kept until the finished item has given the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.kinds import TOOL_TYPES
from projector.core import canonical as read
from projector.core import frames
from projector.core.arguments import CallArguments
from projector.core.calls import ToolCall
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import fields
from projector.core.state import StreamState
from projector.core.transcript import Item

PROGRESS: Final[Mapping[str, tuple[str, str]]] = {
    "response.web_search_call.in_progress": ("web_search_call", "in_progress"),
    "response.web_search_call.searching": ("web_search_call", "searching"),
    "response.file_search_call.in_progress": ("file_search_call", "in_progress"),
    "response.file_search_call.searching": ("file_search_call", "searching"),
    "response.code_interpreter_call.in_progress": ("code_interpreter_call", "in_progress"),
    "response.code_interpreter_call.interpreting": ("code_interpreter_call", "interpreting"),
    "response.image_generation_call.in_progress": ("image_generation_call", "in_progress"),
    "response.image_generation_call.generating": ("image_generation_call", "generating"),
    "response.mcp_call.in_progress": ("mcp_call", "in_progress"),
}
"""Provider event -> item type, and the status that is said at once."""

OUTCOMES: Final[Mapping[str, tuple[str, str]]] = {
    "response.web_search_call.completed": ("web_search_call", "completed"),
    "response.file_search_call.completed": ("file_search_call", "completed"),
    "response.code_interpreter_call.completed": ("code_interpreter_call", "completed"),
    "response.image_generation_call.completed": ("image_generation_call", "completed"),
    "response.mcp_call.completed": ("mcp_call", "completed"),
    "response.mcp_call.failed": ("mcp_call", "failed"),
}
"""Provider event -> item type, and the status that is said after the outputs (D15)."""

FIRST_STATUS: Final[Mapping[str, str]] = {"mcp_approval_request": "awaiting_approval"}
"""What a call begins with, where that is not `in_progress` (D18)."""


def on_progress(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say a status of a hosted tool or MCP call."""
    item_type, status = PROGRESS[read.text(event, "type")]
    item, call, said = call_of(state, event, item_type)
    return said + say_status(item, call, status)


def on_outcome(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Keep how a call ended until its outputs have been said."""
    item_type, status = OUTCOMES[read.text(event, "type")]
    _, call, said = call_of(state, event, item_type)
    call.outcome = status
    return said


def call_of(state: StreamState, event: CanonicalEvent, item_type: str) -> tuple[Item, ToolCall, list[Frame]]:
    """Give the open call that an event belongs to, announced where the provider has not.

    Raises:
        Unreadable: the item is closed, or is no tool call.
    """
    item, said = state.item_of(event, item_type)
    said += begin(state, item, {})
    if item.call is None:
        raise read.UnreadableEvent(f"`{event.get('type')}`: its item is no tool call")
    return item, item.call, said


def begin(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Make an item of a tool type a call, and say its first status."""
    tool_type = TOOL_TYPES.get(item.type)
    if tool_type is None or item.call is not None:
        return []
    provider_id = read.text_or_none(raw, "call_id")
    name = state.redactor.label(read.text_or_none(raw, "name") or "unknown").value
    inputs = CallArguments(state.redactor, is_plain=item.type == "custom_tool_call")
    call = item.call = ToolCall(tool_type, state.places.call_id(provider_id, item.item_id, item.slot), name, inputs)
    register(state, item, call, raw)
    fields.begin(state, item, call, raw)
    return say_status(item, call, FIRST_STATUS.get(item.type, "in_progress"))


def register(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> None:
    """Let outputs find the call under every id that it has; the id said first stays the one that is said (D8)."""
    names = (read.text_or_none(raw, "call_id"), read.text_or_none(raw, "id"), call.call_id, item.item_id)
    for name in filter(None, names):
        state.calls[name] = item


def say_status(item: Item, call: ToolCall, status: str | None) -> list[Frame]:
    """Say `tool.status` if the call moves forward or a field has changed (D15)."""
    if not call.advance(status):
        return []
    return [frames.tool_status(item.slot, item.item_id, call.payload, call.lossy)]
