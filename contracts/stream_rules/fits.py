"""Which kinds of events an item of each type may have (seed sections 9.2 to 9.11, CONTRACT D22)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts.kinds import ToolType
from contracts.public_sse_v1 import (
    ChunkDelta,
    ChunkDone,
    ItemEvent,
    MessageCitation,
    MessageDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    RefusalDone,
    ToolArgumentsDelta,
    ToolArgumentsDone,
    ToolCodeDelta,
    ToolCodeDone,
    ToolOutput,
    ToolStatus,
)

TOOL_TYPES: Final[Mapping[str, ToolType]] = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "function_call": "function",
    "custom_tool_call": "function",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcp",
}
"""Item types that are tool calls; every type that is in neither table is said as `output_item.*` only."""

TEXT_TYPES: Final[Mapping[str, tuple[type[ItemEvent], ...]]] = {
    "message": (MessageDelta, MessageCitation, RefusalDelta, RefusalDone),
    "reasoning": (ReasoningSummaryDelta,),
}


def fits(event: ItemEvent, item_type: str) -> bool:
    """Tell whether an event beside `output_item.*` may be one of an item of this type."""
    tool_type = _tool_type(event)
    if tool_type is not None:
        return TOOL_TYPES.get(item_type) == tool_type
    return isinstance(event, TEXT_TYPES.get(item_type, ()))


def _tool_type(event: ItemEvent) -> str | None:
    match event:
        case ToolStatus():
            return event.tool.tool_type
        case ToolArgumentsDelta() | ToolArgumentsDone() | ToolOutput():
            return event.tool_type
        case ToolCodeDelta() | ToolCodeDone():
            return "code_interpreter"
        case ChunkDelta() | ChunkDone():
            return "image_generation"
        case _:
            return None
