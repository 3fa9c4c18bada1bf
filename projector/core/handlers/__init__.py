"""The tables of provider and host events; the handlers are in one module per group of contract sections.

Every event type of the provider is in `HANDLERS`, or in `DROPPED` with a reason; a test checks this against the SDK's
union. `SIGNALS` lists the handlers that affect the lifecycle. `docs/mapping.md` is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import host_events, items, messages, responses, tool_calls, tool_outputs
from projector.core.handlers.text_channels import OpenText
from projector.core.lane import TEXT_DELTA
from projector.core.lifecycle import Signal
from projector.core.state import StreamState

Handler: TypeAlias = Callable[[StreamState, CanonicalEvent], list[Frame]]

HANDLERS: Final[Mapping[str, Handler]] = {
    # 9.1 lifecycle, 9.12, 9.13 terminals
    "response.created": responses.on_status,
    "response.queued": responses.on_status,
    "response.in_progress": responses.on_status,
    "response.completed": responses.on_end,
    "response.incomplete": responses.on_end,
    "response.failed": responses.on_end,
    "response.cancelled": responses.on_end,
    "error": responses.on_error,
    # 9.2 items
    "response.output_item.added": items.on_added,
    "response.output_item.done": items.on_done,
    # 9.3, 9.4 messages and citations
    "response.output_text.delta": messages.TEXT.on_delta,
    "response.output_text.done": messages.TEXT.on_done,
    "response.output_text.annotation.added": messages.on_annotation,
    # 9.5 reasoning
    "response.reasoning_summary_text.delta": messages.SUMMARY.on_delta,
    "response.reasoning_summary_text.done": messages.SUMMARY.on_done,
    "response.reasoning_text.delta": messages.REASONING.on_delta,
    "response.reasoning_text.done": messages.REASONING.on_done,
    # 9.6 refusals
    "response.refusal.delta": messages.REFUSAL.on_delta,
    "response.refusal.done": messages.REFUSAL.on_done,
    # 9.7 tool status
    **dict.fromkeys(tool_calls.STATUSES, tool_calls.on_status),
    # 9.8 arguments
    **dict.fromkeys(tool_calls.ARGUMENTS_DELTAS, tool_calls.on_arguments_delta),
    **dict.fromkeys(tool_calls.ARGUMENTS_DONES, tool_calls.on_arguments_done),
    # 9.9 code
    "response.code_interpreter_call_code.delta": tool_calls.CODE.on_delta,
    "response.code_interpreter_call_code.done": tool_calls.CODE.on_done,
    # 9.11 chunks
    "response.image_generation_call.partial_image": tool_outputs.on_partial_image,
}

DROPPED: Final[Mapping[str, str]] = {
    "response.content_part.added": "clients key on item_id and content_index; the part opens with its first delta",
    "response.content_part.done": "text, refusal and citations are read from the finished item",
    "response.reasoning_summary_part.added": "clients key on item_id and summary_index",
    "response.reasoning_summary_part.done": "the text is in response.reasoning_summary_text.done",
    "response.mcp_list_tools.in_progress": "the tool list of a server is configuration",
    "response.mcp_list_tools.completed": "the tool list of a server is configuration",
    "response.mcp_list_tools.failed": "the tool list of a server is configuration",
    "response.audio.delta": "the contract has no audio",
    "response.audio.done": "the contract has no audio",
    "response.audio.transcript.delta": "the contract has no audio",
    "response.audio.transcript.done": "the contract has no audio",
    "response.shell_call_command.added": "shell calls have no public tool type (D22)",
    "response.shell_call_command.delta": "shell calls have no public tool type (D22)",
    "response.shell_call_command.done": "shell calls have no public tool type (D22)",
    "response.shell_call_output_content.delta": "shell calls have no public tool type (D22)",
    "response.shell_call_output_content.done": "shell calls have no public tool type (D22)",
    "response.compaction.compacting": "internal progress of the provider",
    # seen on the wire, not in the SDK's union
    "keepalive": "only keeps the connection open",
    "response.apply_patch_call_operation_diff.delta": "patch calls have no public tool type (D22)",
    "response.apply_patch_call_operation_diff.done": "patch calls have no public tool type (D22)",
    "response.reasoning_part.added": "full reasoning never enters the public stream (D29)",
    "response.reasoning_part.done": "full reasoning never enters the public stream (D29)",
}

SIGNALS: Final[Mapping[Handler, Signal]] = {
    responses.on_status: Signal.BEGINNING,
    responses.on_end: Signal.RESPONSE_END,
    responses.on_error: Signal.FAULT,
}
"""The lifecycle signal of the events of a handler; every other event is progress."""

HOST_HANDLERS: Final[Mapping[str, Handler]] = {
    "projector.tool_output": host_events.on_tool_output,
    "projector.attachment": host_events.on_attachment,
    "projector.context": host_events.on_context,
}
"""Host events (D35)."""

OPENERS: Final[Mapping[object, Callable[[StreamState, CanonicalEvent, list[Frame]], OpenText | None]]] = {
    TEXT_DELTA: messages.open_text,
    **dict.fromkeys(tool_calls.ARGUMENTS_DELTAS, tool_calls.open_arguments),
}
"""Deltas -> what returns their text, if its next delta may be handled by repeating a frame."""

EMITS: Final[Mapping[Handler, tuple[str, ...]]] = {
    responses.on_status: ("lifecycle",),
    responses.on_end: ("lifecycle", "final"),
    responses.on_error: ("error",),
    items.on_added: ("output_item.added", "tool.status"),
    items.on_done: (
        *("message.delta", "message.citation", "reasoning_summary.delta", "refusal.delta", "refusal.done"),
        *("tool.arguments.delta", "tool.arguments.done", "tool.code.delta", "tool.code.done", "tool.output"),
        *("chunk.delta", "chunk.done", "tool.status", "output_item.done"),
    ),
    messages.TEXT.on_delta: ("message.delta",),
    messages.TEXT.on_done: ("message.delta",),
    messages.on_annotation: ("message.citation",),
    messages.SUMMARY.on_delta: ("reasoning_summary.delta",),
    messages.SUMMARY.on_done: ("reasoning_summary.delta",),
    messages.REASONING.on_delta: ("reasoning.delta",),
    messages.REASONING.on_done: ("reasoning.delta", "reasoning.done"),
    messages.REFUSAL.on_delta: ("refusal.delta",),
    messages.REFUSAL.on_done: ("refusal.delta", "refusal.done"),
    tool_calls.on_status: ("tool.status",),
    tool_calls.on_arguments_delta: ("tool.arguments.delta",),
    tool_calls.on_arguments_done: ("tool.arguments.delta", "tool.arguments.done"),
    tool_calls.CODE.on_delta: ("tool.code.delta",),
    tool_calls.CODE.on_done: ("tool.code.delta", "tool.code.done"),
    tool_outputs.on_partial_image: ("tool.status", "chunk.delta", "chunk.done"),
    host_events.on_tool_output: ("tool.output", "tool.status"),
    host_events.on_attachment: ("final",),
    host_events.on_context: (),
}
"""The public kinds that each handler may emit, else the private ones, for documentation; the goldens check it."""


def unexpected_drops(dropped: Mapping[str, int], expected: Collection[str] = ()) -> dict[str, int]:
    """Return names and counts of dropped input that is not in `DROPPED` or `expected`, sorted by name."""
    return {name: dropped[name] for name in sorted(dropped) if name not in DROPPED and name not in expected}


def listed(drops: Mapping[str, int]) -> str:
    """Return names and counts as text; empty without one."""
    return ", ".join(f"{name} ({times})" for name, times in drops.items())
