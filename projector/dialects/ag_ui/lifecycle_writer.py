"""Write the lifecycle: start, steps and end of a run, the end of a response, and frames without an AG-UI event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame
from projector.dialects.ag_ui import tool_writer
from projector.dialects.ag_ui.ag_ui_run import (
    PROTOCOL_VERSION,
    SAFE_INTEGER_MAX,
    AgUiRun,
    Event,
    metadata,
    unless_completed,
)
from projector.dialects.frame_writer import StepChange

OPEN_STATUSES: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""

LIFECYCLE_MEMBERS: Final = ("status", "reason", "response_id")
CHUNK_MEMBERS: Final = ("target", "encoding", "chunk_index", "data")
"""Members of a frame that its `CUSTOM` event contains."""

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_output_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
}
"""Member of `final.usage` -> member of `TokenUsage`."""


def start_run(run: AgUiRun, frame: Frame) -> list[Event]:
    """Start the run, with the IDs of the options or else of the stream."""
    run.thread_id = run.options.thread_id or frame.get("conversation_id") or frame["stream_id"]
    run.run_id = run.options.run_id or frame["stream_id"]
    ids = {"threadId": run.thread_id, "runId": run.run_id, "protocolVersion": PROTOCOL_VERSION}
    return [run.event("RUN_STARTED", **ids, metadata=metadata(stream_id=frame["stream_id"]))]


def write_steps(run: AgUiRun, changes: Iterable[StepChange]) -> list[Event]:
    """Write the start or end of steps of a workflow."""
    return [
        run.event("STEP_STARTED", stepName=name, metadata=metadata(workflow=workflow))
        if is_start
        else run.event("STEP_FINISHED", stepName=name)
        for name, workflow, is_start in changes
    ]


def on_lifecycle(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the status of a response."""
    if frame["status"] not in OPEN_STATUSES:
        run.branch_state.end_response()
        run.reason = frame.get("reason", run.reason)
        run.parent_id = None
    return [_custom(run, frame, LIFECYCLE_MEMBERS)]


def on_meta(run: AgUiRun, frame: Frame) -> list[Event]:
    """Keep the model for the usage."""
    if "model" in frame:
        run.models.add(frame["model"])
    return []


def on_chunk(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write a chunk of an image or its end. A patch of the activity would repeat the image each time."""
    return [_custom(run, frame, CHUNK_MEMBERS, message_id=run.activities[frame["item_id"]].id)]


def on_final(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the end of the run, by its status."""
    final, status = frame["final"], frame["final"]["status"]
    end = ENDS[status](run, final)
    status, lists = unless_completed(status), {"attachments": final.get("attachments"), "notices": frame.get("notices")}
    if about := metadata(status=status, reason=run.reason, **lists):
        end["metadata"] = about
    if usage := _usage(run, final.get("usage", {})):
        end["usage"] = [usage]
    return [end]


def on_error(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the failure of the run. It ends everything that is open."""
    error = frame["error"]
    about = metadata(source=error["source"], is_retryable=error["is_retryable"], notices=frame.get("notices"))
    return [run.event("RUN_ERROR", message=error["message"], code=error["code"], metadata=about)]


def _finished(run: AgUiRun, outcome: dict[str, object], result: object = None) -> Event:
    return run.event("RUN_FINISHED", threadId=run.thread_id, runId=run.run_id, outcome=outcome, result=result)


def _stopped(run: AgUiRun, final: dict[str, Any]) -> Event:
    outcome: dict[str, object] = {"type": "success"}
    if interrupts := tool_writer.interrupts(run):
        outcome = {"type": "interrupt", "interrupts": interrupts}
    elif (pending := tool_writer.pending_calls(run)) and not run.options.is_before_1_0:
        outcome["pendingToolCallIds"] = pending  # clients before 1.0 reject a success with members
    return _finished(run, outcome, final.get("structured_output"))


def _cancelled(run: AgUiRun, _final: dict[str, Any]) -> Event:
    """Return the end of a cancelled run. Clients before 1.0 do not know that outcome."""
    if run.options.is_before_1_0:
        return run.event("RUN_ERROR", message="The run was cancelled.", code="cancelled")
    return _finished(run, {"type": "cancelled"})


def _failed(run: AgUiRun, _final: dict[str, Any]) -> Event:
    """Return the end of a failed run, with the code of the failure but not the provider's message."""
    return run.event("RUN_ERROR", message="The response failed.", code=run.reason or "failed")


ENDS: Final[Mapping[str, Callable[[AgUiRun, dict[str, Any]], Event]]] = {
    "completed": _stopped,
    "incomplete": _stopped,
    "refused": _stopped,
    "failed": _failed,
    "cancelled": _cancelled,
}
"""Status of `final` -> the end of the run. Clients read an unknown outcome as a success, so the metadata repeats a
status other than `completed`."""


def _usage(run: AgUiRun, usage: Mapping[str, int]) -> dict[str, object]:
    reported = {name: count for name, count in usage.items() if count <= SAFE_INTEGER_MAX}
    tokens: dict[str, object] = {member: reported[name] for name, member in TOKENS.items() if name in reported}
    return {"model": next(iter(run.models)), **tokens} if tokens and len(run.models) == 1 else tokens


def _custom(run: AgUiRun, frame: Frame, names: Iterable[str], **value: object) -> Event:
    """Return an event of our own, for a frame that AG-UI has no event for."""
    value.update((name, frame[name]) for name in names if name in frame)
    about = metadata(notices=frame.get("notices"))
    return run.event("CUSTOM", name=f"{VENDOR}.{frame['kind']}", value=value, metadata=about)
