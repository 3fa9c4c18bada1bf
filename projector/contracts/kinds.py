"""The vocabulary of `public_sse_v1` (seed contract, sections 6 and 9): schema name, kinds, enumerations.

Public kinds are the normative list of section 9, which is closed. Private kinds exist only inside the pipeline, for
dialects that may emit more; `public_sse_v1` lists each of them as dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias

SCHEMA: Final = "public_sse_v1"

VENDOR: Final = "public-sse"
"""Prefix of names that this project adds to other protocols (CONTRACT D37)."""
SIGNATURE: Final = f"{VENDOR}."
SEARCH_ID: Final = "srvtoolu_public_sse_"
"""Starts of signatures and of IDs of searches in Messages streams of ours, by which their blocks are known again."""


class Kind(StrEnum):
    """The public kinds, in the order of section 9."""

    LIFECYCLE = "lifecycle"
    OUTPUT_ITEM_ADDED = "output_item.added"
    OUTPUT_ITEM_DONE = "output_item.done"
    MESSAGE_DELTA = "message.delta"
    MESSAGE_CITATION = "message.citation"
    REASONING_SUMMARY_DELTA = "reasoning_summary.delta"
    REFUSAL_DELTA = "refusal.delta"
    REFUSAL_DONE = "refusal.done"
    TOOL_STATUS = "tool.status"
    TOOL_ARGUMENTS_DELTA = "tool.arguments.delta"
    TOOL_ARGUMENTS_DONE = "tool.arguments.done"
    TOOL_CODE_DELTA = "tool.code.delta"
    TOOL_CODE_DONE = "tool.code.done"
    TOOL_OUTPUT = "tool.output"
    CHUNK_DELTA = "chunk.delta"
    CHUNK_DONE = "chunk.done"
    ERROR = "error"
    FINAL = "final"


class PrivateKind(StrEnum):
    """Kinds for dialects that emit or need more than the public one (CONTRACT D36, D37)."""

    BRANCH = "branch"
    RESPONSE_META = "response.meta"
    RESPONSE_USAGE = "response.usage"
    ITEM_DETAILS = "item.details"
    ITEM_MEMBERS = "item.members"
    FILE_PATH = "message.file_path"
    RESPONSE_ERROR = "response.error"
    REASONING_DELTA = "reasoning.delta"
    REASONING_DONE = "reasoning.done"
    REASONING_ENCRYPTED = "reasoning.encrypted"
    CALL_SEALED = "call.sealed"
    LATE_TEXTS = "final.late_texts"


TERMINAL_KINDS: Final = frozenset({Kind.ERROR, Kind.FINAL})

LifecycleStatus: TypeAlias = Literal["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]
ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed"]
FinalStatus: TypeAlias = Literal["completed", "failed", "incomplete", "refused", "cancelled"]
ErrorSource: TypeAlias = Literal["provider", "server"]
NoticeType: TypeAlias = Literal["redacted", "truncated"]
CallType: TypeAlias = Literal["function", "mcp"]
ToolType: TypeAlias = Literal["web_search", "file_search", "code_interpreter", "image_generation", "function", "mcp"]
EntityKind: TypeAlias = Literal["tool_call", "message"]
ChunkField: TypeAlias = Literal["partial_image_b64", "image_b64"]

SearchStatus: TypeAlias = Literal["in_progress", "searching", "completed"]
InterpreterStatus: TypeAlias = Literal["in_progress", "interpreting", "completed"]
ImageStatus: TypeAlias = Literal["in_progress", "generating", "partial_image", "completed"]
FunctionStatus: TypeAlias = Literal["in_progress", "completed", "failed"]
McpStatus: TypeAlias = Literal["awaiting_approval", "in_progress", "completed", "failed"]
ContainerMode: TypeAlias = Literal["auto", "explicit"]

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
"""Item types with a public tool type; other items are emitted as `output_item.*` only (CONTRACT D22)."""

CLIENT_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Item types of calls that the client runs, unless the host answers them."""

STATUS_RANKS: Final[Mapping[ToolType, Mapping[str, int]]] = {
    "web_search": {"in_progress": 0, "searching": 1, "completed": 2},
    "file_search": {"in_progress": 0, "searching": 1, "completed": 2},
    "code_interpreter": {"in_progress": 0, "interpreting": 1, "completed": 2},
    "image_generation": {"in_progress": 0, "generating": 1, "partial_image": 2, "completed": 3},
    "function": {"in_progress": 0, "completed": 1, "failed": 1},
    "mcp": {"awaiting_approval": 0, "in_progress": 1, "completed": 2, "failed": 2},
}
"""Rank of each status of section 9.7. It never decreases; of two statuses with the same rank the first stays (D15)."""

RUNNING: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""
ENDED_STATUSES: Final = frozenset({"completed", "failed"})
"""End statuses of a tool call."""

REDACTED: Final = "<redacted>"
"""Replacement for a withheld value (section 8.1)."""
