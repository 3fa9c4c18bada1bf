"""Which kinds of events an item of each type may have (seed sections 9.2 to 9.11, CONTRACT D22)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.kinds import TOOL_TYPES
from projector.contracts.public_sse_v1 import (
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

TEXT_TYPES: Final[Mapping[str, tuple[type[ItemEvent], ...]]] = {
    "message": (MessageDelta, MessageCitation, RefusalDelta, RefusalDone),
    "reasoning": (ReasoningSummaryDelta,),
}
"""Item types that are no tool calls, and what is said of them; every type in neither table has no events beside."""


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
