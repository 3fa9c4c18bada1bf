"""Tool calls while they run: statuses, arguments, code (seed sections 9.7 to 9.9; CONTRACT D8, D15 to D18, D20 to D24).

A call is emitted in one order: its item, its first status, arguments or code, outputs, its last status, the item's end.
The final status of a provider (`...completed`) is therefore held until the finished item has brought the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from projector.contracts.kinds import CLIENT_CALLS, ENDED_STATUSES, TOOL_TYPES
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.growing_text import CallArguments, TextPart
from projector.core.handlers import tool_fields
from projector.core.handlers.text_channels import OpenText, TextChannel, is_plain_delta
from projector.core.state import StreamState
from projector.core.transcript import CALL_TYPES, Item, ToolCall
from projector.redaction.clean import Cleaned, CleanText

STATUSES: Final[Mapping[str, tuple[str, str]]] = {
    "response.web_search_call.in_progress": ("web_search_call", "in_progress"),
    "response.web_search_call.searching": ("web_search_call", "searching"),
    "response.file_search_call.in_progress": ("file_search_call", "in_progress"),
    "response.file_search_call.searching": ("file_search_call", "searching"),
    "response.code_interpreter_call.in_progress": ("code_interpreter_call", "in_progress"),
    "response.code_interpreter_call.interpreting": ("code_interpreter_call", "interpreting"),
    "response.image_generation_call.in_progress": ("image_generation_call", "in_progress"),
    "response.image_generation_call.generating": ("image_generation_call", "generating"),
    "response.mcp_call.in_progress": ("mcp_call", "in_progress"),
    "response.web_search_call.completed": ("web_search_call", "completed"),
    "response.file_search_call.completed": ("file_search_call", "completed"),
    "response.code_interpreter_call.completed": ("code_interpreter_call", "completed"),
    "response.image_generation_call.completed": ("image_generation_call", "completed"),
    "response.mcp_call.completed": ("mcp_call", "completed"),
    "response.mcp_call.failed": ("mcp_call", "failed"),
}
"""Provider event -> item type, and its status."""

FIRST_STATUS: Final[Mapping[str, str]] = {"mcp_approval_request": "awaiting_approval"}
"""The first status of a call if it is not `in_progress` (D18)."""

ARGUMENTS_DELTAS: Final[Mapping[str, str]] = {
    "response.function_call_arguments.delta": "function_call",
    "response.mcp_call_arguments.delta": "mcp_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
"""Provider event -> item type."""

ARGUMENTS_DONES: Final[Mapping[str, tuple[str, str]]] = {
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.mcp_call_arguments.done": ("mcp_call", "arguments"),
    "response.custom_tool_call_input.done": ("custom_tool_call", "input"),
}
"""Provider event -> item type, and the member with the complete text."""


def on_status(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit a status of a hosted tool or MCP call; hold its final one until its outputs are emitted."""
    item_type, status = STATUSES[read.text(event, "type")]
    item, call, output = call_of(state, event, item_type)
    if status not in ENDED_STATUSES:
        return output + emit_status(item, call, status)
    call.outcome = status
    return output


def on_arguments_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit the part of the delta that can be shown now."""
    delta, item_type = read.text(event, "delta"), ARGUMENTS_DELTAS[read.text(event, "type")]
    item, call, output = call_of(state, event, item_type)
    tool_type = CALL_TYPES.get(call.tool_type)
    if tool_type is None or call.arguments.done or call.has_output:
        raise read.UnreadableEvent("arguments of a call that accepts none any more")
    return output + _arguments_delta(item, call, call.arguments.feed(delta))


def open_arguments(state: StreamState, event: CanonicalEvent, output: list[Frame]) -> OpenText | None:
    """Return the arguments of a delta that was handled, if the next one can be handled by repeating its frame."""
    item = state.known_item(event, ARGUMENTS_DELTAS[read.text(event, "type")])
    if item is None or (call := item.call) is None or not is_plain_delta(output):
        return None
    return OpenText(event, call.arguments, output[0], partial(_arguments_delta, item, call))


def flush_arguments(item: Item) -> list[Frame]:
    """Emit arguments that were held back, as the item of their call closes."""
    call = item.call
    return [] if call is None or call.arguments.done else _arguments_delta(item, call, call.arguments.flush())


def _arguments_delta(item: Item, call: ToolCall, clean: Cleaned[CleanText]) -> list[Frame]:
    tool_type = CALL_TYPES.get(call.tool_type)
    if tool_type is None or not (clean.value or clean.notices):
        return []
    return [frames.tool_arguments_delta(item.place, call.call_id, tool_type, call.name, clean)]


def on_arguments_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit arguments that the deltas did not contain, then the complete arguments."""
    item_type, member = ARGUMENTS_DONES[read.text(event, "type")]
    given = read.input_text(event, member)
    text = read.text(event, member) if given is None else given
    item, call, output = call_of(state, event, item_type)
    if (name := read.text_or_none(event, "name")) is not None:
        call.name = state.redactor.name(name)
    return output + _complete_arguments(state, item, call, text)


def finish_arguments(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the arguments of a finished item, unless they were already, or the call was cut off (D23)."""
    if raw.get("status") == "incomplete":
        return []
    member = "arguments" if "arguments" in raw else "input"
    text = read.input_text(raw, member)
    if text is None and raw.get(member) is not None:
        state.count(f"item.{member}")
    if text is None and not call.arguments.began:
        return []
    return _complete_arguments(state, item, call, text)


def finish_code(state: StreamState, item: Item, _call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the code of a finished item, unless it was already; without code in the item, the deltas are complete."""
    text = raw.get("code")
    if type(text) is str and text:
        return CODE.complete(state, item, 0, text)
    output = CODE.flush(item)
    if not item.code or raw.get("status") == "incomplete":
        return output
    return output + CODE.emit_done(item, 0, item.code[0])


def call_of(state: StreamState, event: CanonicalEvent, item_type: str) -> tuple[Item, ToolCall, list[Frame]]:
    """Return the open call of an event, announced first if the provider has not done so.

    Raises:
        UnreadableEvent: the item is closed, or is no tool call.
    """
    item, output = state.item_of(event, item_type)
    output += begin(state, item, {})
    if item.call is None:
        raise read.UnreadableEvent(f"`{event.get('type')}`: its item is no tool call")
    return item, item.call, output


def begin(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Create the call of an item of a tool type, and emit its first status."""
    tool_type = TOOL_TYPES.get(item.type)
    if tool_type is None or item.call is not None:
        return []
    provider_id = read.text_or_none(raw, "call_id")
    given = read.text_or_none(raw, "name") or "unknown"
    name = state.redactor.name(given)
    tool = given if item.type in CLIENT_CALLS else None
    arguments = CallArguments(state.redactor, is_plain=item.type == "custom_tool_call", tool=tool)
    call_id = state.slots.call_id(provider_id, item.item_id, item.place[0])
    call = item.call = ToolCall(tool_type, call_id, name, arguments)
    register(state, item, call, raw)
    tool_fields.begin(state, item, call, raw)
    return emit_status(item, call, FIRST_STATUS.get(item.type, "in_progress"))


def register(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> None:
    """Make the call available to outputs under each of its ids; the id emitted first stays the public one (D8)."""
    names = (read.text_or_none(raw, "call_id"), read.text_or_none(raw, "id"), call.call_id, item.item_id)
    for name in filter(None, names):
        state.calls[name] = item


def emit_status(item: Item, call: ToolCall, status: str | None) -> list[Frame]:
    """Emit `tool.status` if the status advances or a field has changed (D15)."""
    if not call.advance(status):
        return []
    return [frames.tool_status(item.place, call.payload, call.lossy)]


def _complete_arguments(state: StreamState, item: Item, call: ToolCall, text: str | None) -> list[Frame]:
    tool_type = CALL_TYPES.get(call.tool_type)
    if tool_type is None or call.arguments.done:
        return []
    if call.has_output:
        state.count("arguments after their output")  # D15: the client has seen the call end
        return []
    call.arguments.done = True
    last, whole = call.arguments.complete(text)
    if not call.arguments.agrees:
        state.count("done differs from its deltas")
    key = (item.place, call.call_id, tool_type, call.name)
    output = [frames.tool_arguments_delta(*key, last)] if last.value else []
    return [*output, frames.tool_arguments_done(*key, whole.text, whole.json)]


def _code_item(state: StreamState, event: CanonicalEvent, item_type: str) -> tuple[Item, list[Frame]]:
    item, _, output = call_of(state, event, item_type)
    return item, output


CODE: Final = TextChannel(
    item_type="code_interpreter_call",
    parts=attrgetter("code"),
    delta=frames.tool_code_delta,
    done=frames.tool_code_done,
    index=None,
    member="code",
    find=_code_item,
    new_part=lambda state, _item: TextPart(state.redactor.code_stream, is_costly=True),
    key=lambda item, _position: item.call.call_id if item.call is not None else item.item_id,
    is_brief=True,
)
"""Code of the code interpreter (seed section 9.9, CONTRACT D20, D27)."""
