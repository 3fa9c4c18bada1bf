"""Encode frames as events of AG-UI: tables of frame kinds and item types, and the events of the run and its steps.

`ag_ui_run.py` writes messages and reasoning, `tool_writer.py` calls and activities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts.kinds import RUNNING, VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames
from projector.dialects import page_run as page
from projector.dialects.ag_ui import ag_ui_run, tool_writer
from projector.dialects.ag_ui.ag_ui_run import PROTOCOL_VERSION, SAFE_INTEGER_MAX, AgUiRun, metadata
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import NUMBER_PLACE, TEXT_PLACE, failure, pattern_of

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_output_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
}
"""Member of `final.usage` -> member of `TokenUsage`."""


def on_lifecycle(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write the status of a response."""
    if frame["status"] not in RUNNING:
        run.end_response(frame)
        run.parent_id = None
    return [_custom(run, frame, ("status", "reason", "response_id"))]


def on_chunk(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write a chunk of an image or its end. A patch of the activity would repeat the image each time."""
    message_id = run.activities[frame["item_id"]].id
    return [_custom(run, frame, ("target", "encoding", "chunk_index", "data"), message_id=message_id)]


def on_final(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write the end of the run, by its status."""
    final, status = frame["final"], frame["final"]["status"]
    end = ENDS[status](run, final)
    lists = {"attachments": final.get("attachments"), "notices": frame.get("notices")}
    may_retry = failure(run.reason)["is_retryable"] if status == "failed" else None
    if about := metadata(status=page.unless_completed(status), reason=run.reason, is_retryable=may_retry, **lists):
        end["metadata"] = about
    if usage := _usage(run, final.get("usage", {})):
        end["usage"] = [usage]
    return [end]


def on_error(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write the failure of the run. It ends everything that is open."""
    error = frame["error"]
    about = metadata(source=error["source"], is_retryable=error["is_retryable"], notices=frame.get("notices"))
    return [run.event("RUN_ERROR", message=error["message"], code=error["code"], metadata=about)]


def _finished(run: AgUiRun, outcome: dict[str, object], result: object = None) -> page.Event:
    return run.event("RUN_FINISHED", threadId=run.thread_id, runId=run.run_id, outcome=outcome, result=result)


def _stopped(run: AgUiRun, final: dict[str, Any]) -> page.Event:
    outcome: dict[str, object] = {"type": "success"}
    if interrupts := tool_writer.interrupts(run):
        outcome = {"type": "interrupt", "interrupts": interrupts}
    elif (pending := tool_writer.pending_calls(run)) and not run.options.is_before_1_0:
        outcome["pendingToolCallIds"] = pending  # clients before 1.0 reject a success with members
    return _finished(run, outcome, final.get("structured_output"))


def _cancelled(run: AgUiRun, _final: dict[str, Any]) -> page.Event:
    """Return the end of a cancelled run. Clients before 1.0 do not know that outcome."""
    if run.options.is_before_1_0:
        return run.event("RUN_ERROR", message="The run was cancelled.", code="cancelled")
    return _finished(run, {"type": "cancelled"})


def _failed(run: AgUiRun, _final: dict[str, Any]) -> page.Event:
    """Return the end of a failed run, with the code of the failure but not the provider's message."""
    return run.event("RUN_ERROR", message="The response failed.", code=run.reason or "failed")


ENDS: Final[Mapping[str, Callable[[AgUiRun, dict[str, Any]], page.Event]]] = {
    **dict.fromkeys(("completed", "incomplete", "refused"), _stopped),
    "failed": _failed,
    "cancelled": _cancelled,
}
"""Status of `final` -> the end of the run. Clients read an unknown outcome as a success, so the metadata repeats a
status other than `completed`."""


def _usage(run: AgUiRun, usage: Mapping[str, int]) -> dict[str, object]:
    reported = {name: count for name, count in usage.items() if count <= SAFE_INTEGER_MAX}
    tokens: dict[str, object] = {member: reported[name] for name, member in TOKENS.items() if name in reported}
    return {"model": next(iter(run.models)), **tokens} if tokens and len(run.models) == 1 else tokens


def _custom(run: AgUiRun, frame: Frame, names: Iterable[str], **value: object) -> page.Event:
    """Return an event of our own, for a frame that AG-UI has no event for."""
    value.update((name, frame[name]) for name in names if name in frame)
    about = metadata(notices=frame.get("notices"))
    return run.event("CUSTOM", name=f"{VENDOR}.{frame['kind']}", value=value, metadata=about)


Writer: TypeAlias = Callable[[AgUiRun, Frame], list[page.Event]]


CALL: Final = (tool_writer.on_call_added, tool_writer.on_call_done)
ACTIVITY: Final = (tool_writer.on_activity_added, tool_writer.on_activity_done)
ITEMS: Final[Mapping[str, tuple[Writer, Writer]]] = {
    "message": (ag_ui_run.on_message_added, ag_ui_run.on_message_done),
    "reasoning": (ag_ui_run.on_reasoning_added, ag_ui_run.on_reasoning_done),
    **dict.fromkeys(page.CALL_ITEMS, CALL),
    **page.OUTPUT_ITEMS,
}
"""Item type -> writers of its start and end. Other items are activities."""


HANDLED: Final[Mapping[str, Writer]] = {
    **page.HANDLED,
    Kind.OUTPUT_ITEM_ADDED: lambda run, frame: ITEMS.get(frame["item_type"], ACTIVITY)[0](run, frame),
    Kind.OUTPUT_ITEM_DONE: lambda run, frame: ITEMS.get(frame["item_type"], ACTIVITY)[1](run, frame),
    Kind.LIFECYCLE: on_lifecycle,
    Kind.MESSAGE_DELTA: partial(ag_ui_run.on_message_delta, page.TEXT),
    Kind.MESSAGE_CITATION: ag_ui_run.on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(ag_ui_run.on_reasoning_delta, page.SUMMARY),
    Kind.REFUSAL_DELTA: partial(ag_ui_run.on_message_delta, page.REFUSAL),
    Kind.TOOL_STATUS: tool_writer.on_status,
    Kind.TOOL_ARGUMENTS_DELTA: tool_writer.on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: tool_writer.on_arguments_done,
    Kind.TOOL_CODE_DELTA: tool_writer.on_code_delta,
    Kind.TOOL_CODE_DONE: tool_writer.on_code_done,
    Kind.TOOL_OUTPUT: tool_writer.on_output,
    Kind.CHUNK_DELTA: on_chunk,
    Kind.CHUNK_DONE: on_chunk,
    Kind.ERROR: on_error,
    Kind.FINAL: on_final,
    PrivateKind.REASONING_DELTA: partial(ag_ui_run.on_reasoning_delta, page.FULL),
    PrivateKind.REASONING_ENCRYPTED: ag_ui_run.on_encrypted,
    PrivateKind.CALL_SEALED: tool_writer.on_sealed,
}

DROPPED: Final[Mapping[str, str]] = {
    **page.DROPPED,
    Kind.REFUSAL_DONE: "the deltas contained the text, and the message ends with its item",
}


class AgUi(page.PageWriter[AgUiRun]):
    """The writer of one stream."""

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(HANDLED, AgUiRun(options))
        self._timestamp = ""

    def _write(self, writer: Writer, frame: Frame) -> list[page.Event]:
        self._set_time(frame["server_timestamp"])
        return super()._write(writer, frame)

    def _repeat(self, frame: Frame) -> RepeatWriter:
        run = self._run
        event = ag_ui_run.content_event(run, run.messages[frame["item_id"]], frame["delta"])
        pattern = pattern_of(event, {"timestamp": NUMBER_PLACE, "delta": TEXT_PLACE})

        def write(deltas: DeltaFrames) -> list[bytes]:
            self._set_time(deltas.timestamp)
            return [pattern % (run.at, text) for text in deltas.encoded]

        return RepeatWriter(None, write)

    def _set_time(self, timestamp: str) -> None:
        if timestamp != self._timestamp:
            self._timestamp = timestamp
            self._run.at = round(datetime.fromisoformat(timestamp).timestamp() * 1000)

    def _start(self, frame: Frame) -> list[page.Event]:
        """Start the run, with the IDs of the options or else of the stream."""
        run = self._run
        run.thread_id = run.options.thread_id or frame.get("conversation_id") or frame["stream_id"]
        run.run_id = run.options.run_id or frame["stream_id"]
        ids = {"threadId": run.thread_id, "runId": run.run_id, "protocolVersion": PROTOCOL_VERSION}
        return [run.event("RUN_STARTED", **ids, metadata=metadata(stream_id=frame["stream_id"]))]

    def _changed(self, changes: Iterable[page.StepChange]) -> list[page.Event]:
        run = self._run
        return [
            run.event("STEP_STARTED", stepName=name, metadata=metadata(workflow=workflow))
            if is_start
            else run.event("STEP_FINISHED", stepName=name)
            for name, workflow, is_start in changes
        ]

    def _finish(self, frame: Frame) -> list[page.Event]:
        """Return what must come before the end of a run; an error ends everything that is open."""
        if frame["kind"] == Kind.ERROR:
            return []
        run = self._run
        texts = ag_ui_run.write_missing_texts(run, frame["final"])
        return [*texts, *tool_writer.write_missing_results(run), *self._changed(self._steps.close())]
