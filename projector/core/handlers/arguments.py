"""Arguments of function and MCP calls, live and whole (seed section 9.8, CONTRACT D22 to D24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core import canonical as read
from projector.core import frames
from projector.core.calls import CALL_TYPES, ToolCall
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import status
from projector.core.state import StreamState
from projector.core.transcript import Item

DELTAS: Final[Mapping[str, str]] = {
    "response.function_call_arguments.delta": "function_call",
    "response.mcp_call_arguments.delta": "mcp_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
"""Provider event -> item type."""

DONES: Final[Mapping[str, tuple[str, str]]] = {
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.mcp_call_arguments.done": ("mcp_call", "arguments"),
    "response.custom_tool_call_input.done": ("custom_tool_call", "input"),
}
"""Provider event -> item type, and the member that holds the whole."""


def on_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what may be said of the delta now."""
    delta = read.text(event, "delta")
    item, call, said = status.call_of(state, event, DELTAS[read.text(event, "type")])
    tool_type = CALL_TYPES.get(call.tool_type)
    if tool_type is None or call.arguments.done or call.output_said:
        raise read.UnreadableEvent("arguments of a call that takes no more")
    clean = call.arguments.feed(delta)
    if clean.value or clean.notices:
        said.append(frames.tool_arguments_delta(item.slot, item.item_id, call.call_id, tool_type, call.name, clean))
    return said


def on_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what the deltas did not, then the authoritative arguments."""
    item_type, member = DONES[read.text(event, "type")]
    text = read.text(event, member)
    item, call, said = status.call_of(state, event, item_type)
    if (name := read.text_or_none(event, "name")) is not None:
        call.name = state.redactor.label(name).value
    return said + _complete(state, item, call, text)


def finish(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Say the arguments of a finished item, unless that was done before, or the call was cut off (D23)."""
    if raw.get("status") == "incomplete":
        return []
    text = raw.get("arguments", raw.get("input"))
    if type(text) is not str and not call.arguments.began:
        return []
    return _complete(state, item, call, text if type(text) is str else None)


def _complete(state: StreamState, item: Item, call: ToolCall, text: str | None) -> list[Frame]:
    tool_type = CALL_TYPES.get(call.tool_type)
    if tool_type is None or call.arguments.done:
        return []
    if call.output_said:
        state.count("arguments behind their output")  # D15: the page has seen the call end
        return []
    call.arguments.done = True
    last, whole = call.arguments.complete(text)
    if not call.arguments.agrees:
        state.count("done differs from its deltas")
    place = (item.slot, item.item_id, call.call_id, tool_type, call.name)
    said = [frames.tool_arguments_delta(*place, last)] if last.value else []
    return [*said, frames.tool_arguments_done(*place, whole.text, whole.json)]
