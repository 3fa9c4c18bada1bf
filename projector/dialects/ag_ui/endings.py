"""How responses and the run end (CONTRACT D10 to D14), and what AG-UI has no event for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from projector.core.canonical import Frame
from projector.dialects.ag_ui import calls
from projector.dialects.ag_ui.event_parts import SAFE_INTEGER_MAX, VENDOR
from projector.dialects.ag_ui.run import Event, Run, metadata, unless_completed

End: TypeAlias = Callable[[Run, dict[str, Any]], Event]

UNDER_WAY: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""

LIFECYCLE_MEMBERS: Final = ("status", "reason", "response_id")
CHUNK_MEMBERS: Final = ("target", "encoding", "chunk_index", "data")
"""Members of a frame that an event of our own repeats."""

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_output_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
}
"""Member of `final.usage` -> member of `TokenUsage`."""


def on_lifecycle(run: Run, frame: Frame) -> list[Event]:
    """Say the status of a response, which AG-UI has no event for."""
    status = frame["status"]
    if status not in UNDER_WAY:
        run.voice.response += 1
        run.reason = frame.get("reason", run.reason)
        run.parent_id = None
        run.voice.transcript.settle()
    return [_custom(run, frame, LIFECYCLE_MEMBERS)]


def on_meta(run: Run, frame: Frame) -> list[Event]:
    """Remember the model for the usage."""
    if "model" in frame:
        run.models.add(frame["model"])
    return []


def on_chunk(run: Run, frame: Frame) -> list[Event]:
    """Say a piece of an image, or its end: a patch would repeat the image each time."""
    return [_custom(run, frame, CHUNK_MEMBERS, message_id=run.activities[frame["item_id"]].id)]


def on_final(run: Run, frame: Frame) -> list[Event]:
    """Say what is still unsaid, and the end by its status."""
    final, status = frame["final"], frame["final"]["status"]
    end = ENDS[status](run, final)
    about = metadata(
        status=unless_completed(status),
        reason=run.reason,
        attachments=final.get("attachments"),
        notices=frame.get("notices"),
    )
    if about is not None:
        end["metadata"] = about
    if usage := _usage(run, final.get("usage", {})):
        end["usage"] = [usage]
    return [end]


def on_error(run: Run, frame: Frame) -> list[Event]:
    """Say that the run failed; whatever is open ends with it."""
    error = frame["error"]
    about = metadata(source=error["source"], is_retryable=error["is_retryable"], notices=frame.get("notices"))
    return [run.event("RUN_ERROR", message=error["message"], code=error["code"], metadata=about)]


def _finished(run: Run, outcome: dict[str, object], result: object = None) -> Event:
    place = {"threadId": run.thread_id, "runId": run.run_id}
    return run.event("RUN_FINISHED", **place, outcome=outcome, result=result)


def _stopped(run: Run, final: dict[str, Any]) -> Event:
    """Say that the run came to its end, or to where it needs an answer."""
    result = final.get("structured_output")
    if interrupts := calls.interrupts(run):
        return _finished(run, {"type": "interrupt", "interrupts": interrupts}, result)
    pending = calls.pending(run)
    if not pending or run.options.is_before_1_0:
        return _finished(
            run, {"type": "success"}, result
        )  # before 1.0 a success has no members: it is refused with any
    return _finished(run, {"type": "success", "pendingToolCallIds": pending}, result)


def _cancelled(run: Run, _final: dict[str, Any]) -> Event:
    """Say that the run was stopped on purpose; clients before 1.0 do not know that outcome."""
    if run.options.is_before_1_0:
        return run.event("RUN_ERROR", message="The run was cancelled.", code="cancelled")
    return _finished(run, {"type": "cancelled"})


def _failed(run: Run, _final: dict[str, Any]) -> Event:
    """Say that the response failed, with its code; the provider's words about it stay behind."""
    return run.event("RUN_ERROR", message="The response failed.", code=run.reason or "failed")


ENDS: Final[Mapping[str, End]] = {
    "completed": _stopped,
    "incomplete": _stopped,
    "refused": _stopped,
    "failed": _failed,
    "cancelled": _cancelled,
}
"""Status of `final` -> how the run ends. What a client does not know of an outcome it reads as success, so what is less
than that is said in the metadata as well."""


def _usage(run: Run, usage: Mapping[str, int]) -> dict[str, object]:
    """Give the tokens that the provider reported, of the model if there was only one."""
    reported = {name: count for name, count in usage.items() if count <= SAFE_INTEGER_MAX}
    tokens: dict[str, object] = {said: reported[name] for name, said in TOKENS.items() if name in reported}
    return {"model": next(iter(run.models)), **tokens} if tokens and len(run.models) == 1 else tokens


def _custom(run: Run, frame: Frame, names: Iterable[str], **value: object) -> Event:
    value.update((name, frame[name]) for name in names if name in frame)
    about = metadata(notices=frame.get("notices"))
    return run.event("CUSTOM", name=f"{VENDOR}.{frame['kind']}", value=value, metadata=about)
