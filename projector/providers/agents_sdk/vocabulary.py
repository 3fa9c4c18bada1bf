"""What the SDK calls things, and what becomes of each: the tables of its stream.

Every stream event, run item and exception of the SDK is in one of these tables, or in those of `stage` and `failures`
that name what is done; tests prove it against the SDK's own types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RUN_ITEM_EVENTS: Final[Mapping[str, str]] = {
    "message_output_created": "message_output_item",
    "handoff_requested": "handoff_call_item",
    "handoff_occured": "handoff_output_item",  # the SDK's own spelling
    "tool_called": "tool_call_item",
    "tool_search_called": "tool_search_call_item",
    "tool_search_output_created": "tool_search_output_item",
    "tool_output": "tool_call_output_item",
    "reasoning_item_created": "reasoning_item",
    "mcp_approval_requested": "mcp_approval_request_item",
    "mcp_approval_response": "mcp_approval_response_item",
    "mcp_list_tools": "mcp_list_tools_item",
}
"""The name of a `run_item_stream_event` -> the type of the run item that it carries."""

RAW_SAID_IT: Final = "the raw events of its response have said it"

DROPPED: Final[Mapping[str, str]] = {
    "handoff_call_item": RAW_SAID_IT,
    "tool_call_item": RAW_SAID_IT,
    "tool_search_call_item": RAW_SAID_IT,
    "tool_search_output_item": RAW_SAID_IT,
    "reasoning_item": RAW_SAID_IT,
    "mcp_list_tools_item": RAW_SAID_IT,
    "mcp_approval_request_item": RAW_SAID_IT,
    "mcp_approval_response_item": "the page itself gave the answer",
    "input_item": "what the user said; the SDK does not stream it",
    "compaction_item": "bookkeeping of the SDK's session; the SDK does not stream it",
}
"""Run items of which nothing is said, and why."""

ANSWERS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
"""Outputs of calls that have a public tool type; every other one is in `DROPPED_ANSWERS`."""

NO_TOOL_TYPE: Final = "its call has no public tool type (D22)"

DROPPED_ANSWERS: Final[Mapping[str, str]] = {
    "computer_call_output": "no public tool type (D22); screenshots may show anything",
    "local_shell_call_output": NO_TOOL_TYPE,
    "shell_call_output": NO_TOOL_TYPE,
    "apply_patch_call_output": NO_TOOL_TYPE,
    "program_output": NO_TOOL_TYPE,
}
"""Types of the raw items of tool outputs of which nothing is said, and why."""

PLACEHOLDER: Final = "__fake_id__"
"""The id of every response and item that the SDK makes of a model without such ids, as Chat Completions is."""

ITEM_OF_EVENT: Final[Mapping[str, str]] = {
    "response.content_part.added": "message",
    "response.content_part.done": "message",
    "response.output_text.delta": "message",
    "response.output_text.done": "message",
    "response.output_text.annotation.added": "message",
    "response.refusal.delta": "message",
    "response.refusal.done": "message",
    "response.reasoning_summary_part.added": "reasoning",
    "response.reasoning_summary_part.done": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_summary_text.done": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_text.done": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.function_call_arguments.done": "function_call",
}
"""The events that may carry a placeholder -> the type of the item that they belong to."""

STEMS: Final[Mapping[str, str]] = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
"""Item type -> how the ids begin that replace its placeholders."""
