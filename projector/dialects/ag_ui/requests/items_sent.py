"""Which items of a conversation a provider is sent: what it refuses is left out, and what it has kept."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from projector.dialects.ag_ui.requests.history import APPROVAL_REQUEST

Item: TypeAlias = dict[str, Any]
"""An input item of the Responses API."""

MCP_CALL: Final = "mcp_call"
CUSTOM_CALL: Final = "custom_tool_call"
APPROVAL_ANSWER: Final = "mcp_approval_response"
REASONING: Final = "reasoning"
ASSISTANT: Final = "assistant"

LED_TO: Final = frozenset({REASONING, "function_call", CUSTOM_CALL, MCP_CALL, APPROVAL_REQUEST})
"""Items, beside messages of the model, that reasoning leads to."""

LEFT_OUT: Final[Item] = {"type": "left_out"}
"""Stands where calls were, until it is known which reasoning has led to them."""

OUTPUTS: Final = frozenset({"function_call_output", f"{CUSTOM_CALL}_output"})
"""What a client says beside messages and answers."""


def without_lost_reasoning(items: list[Item]) -> list[Item]:
    """Leave out reasoning behind which what it led to is missing: providers refuse it."""
    kept: list[Item] = []
    for item in reversed(items):
        after = kept[-1] if kept else {}
        if item["type"] != REASONING or after.get("type") in LED_TO or after.get("role") == ASSISTANT:
            kept.append(item)
    return [item for item in reversed(kept) if item is not LEFT_OUT]


def after_asking(items: list[Item]) -> list[Item]:
    """Give what the client has said since the response that asked; an answer stands where the response asked for it.

    What later responses have called for is no part of it, should there be any.
    """
    first = next(at for at, item in enumerate(items) if item["type"] == APPROVAL_ANSWER)
    begin = next((at + 1 for at in range(first, -1, -1) if _is_of_client(items[at])), 0)
    end = next((at for at in range(first, len(items)) if _is_of_client(items[at])), len(items))
    asked = {None, *(item.get("call_id") for item in items[begin:end])}
    said = [item for item in items[begin:] if _is_of_client(item) or item["type"] == APPROVAL_ANSWER]
    return [item for item in said if item.get("call_id") in asked]


def _is_of_client(item: Item) -> bool:
    return item["type"] in OUTPUTS or item.get("role") == "user"
