"""What each provider event becomes: the tables; the handlers stand in one module per section of the contract.

Every event type of the provider is in `HANDLERS`, or in `DROPPED` with its reason; a test proves it against the SDK's
own union. `SIGNALS` names the events that do more than progress. `docs/mapping.md` is printed from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import arguments, code, errors, host, images, items, messages, reasoning, responses, status
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
    "error": errors.on_error,
    # 9.2 items
    "response.output_item.added": items.on_added,
    "response.output_item.done": items.on_done,
    # 9.3, 9.4 messages and citations
    "response.output_text.delta": messages.on_text_delta,
    "response.output_text.done": messages.on_text_done,
    "response.output_text.annotation.added": messages.on_annotation,
    # 9.5 reasoning
    "response.reasoning_summary_text.delta": reasoning.on_summary_delta,
    "response.reasoning_summary_text.done": reasoning.on_summary_done,
    "response.reasoning_text.delta": reasoning.on_text_delta,
    "response.reasoning_text.done": reasoning.on_text_done,
    # 9.6 refusals
    "response.refusal.delta": messages.on_refusal_delta,
    "response.refusal.done": messages.on_refusal_done,
    # 9.7 tool status
    **dict.fromkeys(status.PROGRESS, status.on_progress),
    **dict.fromkeys(status.OUTCOMES, status.on_outcome),
    # 9.8 arguments
    **dict.fromkeys(arguments.DELTAS, arguments.on_delta),
    **dict.fromkeys(arguments.DONES, arguments.on_done),
    # 9.9 code
    "response.code_interpreter_call_code.delta": code.on_delta,
    "response.code_interpreter_call_code.done": code.on_done,
    # 9.11 chunks
    "response.image_generation_call.partial_image": images.on_partial_image,
}

DROPPED: Final[Mapping[str, str]] = {
    "response.content_part.added": "pages key on item_id and content_index; the part opens with its first delta",
    "response.content_part.done": "its text, refusal and citations come with the item's own end",
    "response.reasoning_summary_part.added": "pages key on item_id and summary_index",
    "response.reasoning_summary_part.done": "its text comes with response.reasoning_summary_text.done",
    "response.mcp_list_tools.in_progress": "the tool list of a server is configuration (section 7.2)",
    "response.mcp_list_tools.completed": "the tool list of a server is configuration (section 7.2)",
    "response.mcp_list_tools.failed": "the tool list of a server is configuration (section 7.2)",
    "response.audio.delta": "the contract has no audio",
    "response.audio.done": "the contract has no audio",
    "response.audio.transcript.delta": "the contract has no audio",
    "response.audio.transcript.done": "the contract has no audio",
    "response.shell_call_command.added": "shell calls have no public tool type (D22)",
    "response.shell_call_command.delta": "shell calls have no public tool type (D22)",
    "response.shell_call_command.done": "shell calls have no public tool type (D22)",
    "response.shell_call_output_content.delta": "shell calls have no public tool type (D22)",
    "response.shell_call_output_content.done": "shell calls have no public tool type (D22)",
    "response.compaction.compacting": "progress of the provider's own housekeeping",
    # seen on the wire, not in the SDK's union
    "keepalive": "says only that the connection lives",
    "response.apply_patch_call_operation_diff.delta": "patch calls have no public tool type (D22)",
    "response.apply_patch_call_operation_diff.done": "patch calls have no public tool type (D22)",
    "response.reasoning_part.added": "full reasoning never enters the public stream (D29)",
    "response.reasoning_part.done": "full reasoning never enters the public stream (D29)",
}

SIGNALS: Final[Mapping[str, Signal]] = {
    "response.created": Signal.BEGINNING,
    "response.queued": Signal.BEGINNING,
    "response.in_progress": Signal.BEGINNING,
    "response.completed": Signal.RESPONSE_END,
    "response.incomplete": Signal.RESPONSE_END,
    "response.failed": Signal.RESPONSE_END,
    "error": Signal.FAULT,
}
"""What an event is to the lifecycle; every other event is progress."""

HOST_HANDLERS: Final[Mapping[str, Handler]] = {
    "projector.tool_output": host.on_tool_output,
    "projector.attachment": host.on_attachment,
    "projector.context": host.on_context,
}
"""Events of the host's own door (D35)."""

SAYS: Final[Mapping[Handler, tuple[str, ...]]] = {
    responses.on_status: ("lifecycle",),
    responses.on_end: ("lifecycle", "final"),
    errors.on_error: ("error",),
    items.on_added: ("output_item.added", "tool.status"),
    items.on_done: (
        "message.delta",
        "message.citation",
        "reasoning_summary.delta",
        "refusal.delta",
        "refusal.done",
        "tool.arguments.delta",
        "tool.arguments.done",
        "tool.code.delta",
        "tool.code.done",
        "tool.output",
        "chunk.delta",
        "chunk.done",
        "tool.status",
        "output_item.done",
    ),
    messages.on_text_delta: ("message.delta",),
    messages.on_text_done: ("message.delta",),
    messages.on_annotation: ("message.citation",),
    reasoning.on_summary_delta: ("reasoning_summary.delta",),
    reasoning.on_summary_done: ("reasoning_summary.delta",),
    reasoning.on_text_delta: (),
    reasoning.on_text_done: (),
    messages.on_refusal_delta: ("refusal.delta",),
    messages.on_refusal_done: ("refusal.delta", "refusal.done"),
    status.on_progress: ("tool.status",),
    status.on_outcome: ("tool.status",),
    arguments.on_delta: ("tool.arguments.delta",),
    arguments.on_done: ("tool.arguments.delta", "tool.arguments.done"),
    code.on_delta: ("tool.code.delta",),
    code.on_done: ("tool.code.delta", "tool.code.done"),
    images.on_partial_image: ("tool.status", "chunk.delta", "chunk.done"),
    host.on_tool_output: ("tool.output", "tool.status"),
    host.on_attachment: ("final",),
    host.on_context: (),
}
"""The public kinds that each handler may cause, for readers; the goldens prove it."""
