"""Encode frames as events of AG-UI: the tables of frame kinds and item types, and the writer of one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import DeltaFrames
from projector.dialects.ag_ui import lifecycle_writer, message_writer, tool_writer
from projector.dialects.ag_ui.ag_ui_run import AgUiRun, Event
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import LARGE, FrameWriter, within_limit
from projector.dialects.sent_texts import REFUSAL, TEXT
from projector.dialects.workflow import WorkflowSteps

Writer: TypeAlias = Callable[[AgUiRun, Frame], list[Event]]


def _nothing(_run: AgUiRun, _frame: Frame) -> list[Event]:
    return []


CALL: Final = (tool_writer.on_call_added, tool_writer.on_call_done)
ACTIVITY: Final = (tool_writer.on_activity_added, tool_writer.on_activity_done)
ITEMS: Final[Mapping[str, tuple[Writer, Writer]]] = {
    "message": (message_writer.on_message_added, message_writer.on_message_done),
    "reasoning": (message_writer.on_reasoning_added, message_writer.on_reasoning_done),
    "function_call": CALL,
    "custom_tool_call": CALL,
    "mcp_call": CALL,
    "mcp_approval_request": CALL,
    "function_call_output": (_nothing, _nothing),
    "custom_tool_call_output": (_nothing, _nothing),
}
"""Item type -> writers of its start and end. Other items are activities. An output becomes the result of its call."""


def on_added(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the start of an item."""
    return ITEMS.get(frame["item_type"], ACTIVITY)[0](run, frame)


def on_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the end of an item."""
    return ITEMS.get(frame["item_type"], ACTIVITY)[1](run, frame)


HANDLED: Final[Mapping[str, Writer]] = {
    Kind.LIFECYCLE: lifecycle_writer.on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_added,
    Kind.OUTPUT_ITEM_DONE: on_done,
    Kind.MESSAGE_DELTA: partial(message_writer.on_message_delta, TEXT),
    Kind.MESSAGE_CITATION: message_writer.on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(message_writer.on_reasoning_delta, message_writer.SUMMARY),
    Kind.REFUSAL_DELTA: partial(message_writer.on_message_delta, REFUSAL),
    Kind.TOOL_STATUS: tool_writer.on_status,
    Kind.TOOL_ARGUMENTS_DELTA: tool_writer.on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: tool_writer.on_arguments_done,
    Kind.TOOL_CODE_DELTA: tool_writer.on_code_delta,
    Kind.TOOL_CODE_DONE: tool_writer.on_code_done,
    Kind.TOOL_OUTPUT: tool_writer.on_output,
    Kind.CHUNK_DELTA: lifecycle_writer.on_chunk,
    Kind.CHUNK_DONE: lifecycle_writer.on_chunk,
    Kind.ERROR: lifecycle_writer.on_error,
    Kind.FINAL: lifecycle_writer.on_final,
    PrivateKind.BRANCH: _nothing,  # its steps are written
    PrivateKind.RESPONSE_META: lifecycle_writer.on_meta,
    PrivateKind.REASONING_DELTA: partial(message_writer.on_reasoning_delta, message_writer.FULL),
    PrivateKind.REASONING_ENCRYPTED: message_writer.on_encrypted,
}

DROPPED: Final[Mapping[str, str]] = {
    Kind.REFUSAL_DONE: "the deltas contained the text, and the message ends with its item",
    PrivateKind.RESPONSE_USAGE: "the end of the run has the sum over all responses",
    PrivateKind.ITEM_DETAILS: "the metadata of messages and activities have the public members",
    PrivateKind.ITEM_MEMBERS: "the metadata of messages and activities have the public members",
    PrivateKind.FILE_PATH: "citations are the public ones",
    PrivateKind.RESPONSE_ERROR: "`error` or `lifecycle` reports the failure",
    PrivateKind.REASONING_DONE: "the deltas contained the text, and the message ends with the next part or the item",
}

SPECIAL: Final = frozenset({Kind.FINAL, Kind.ERROR, PrivateKind.BRANCH})
"""Kinds that end steps, or enter a branch with its steps; `ERROR` ends everything that is open."""


class AgUi(FrameWriter[Writer]):
    """The writer of one stream, as one run. The projector closes every item that it announces (CONTRACT D7)."""

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(HANDLED)
        self._run = AgUiRun(options)
        self._steps = WorkflowSteps()
        self._has_started = False
        self._timestamp = ""

    def _write(self, writer: Writer, frame: Frame) -> list[Event]:
        kind, run = frame["kind"], self._run
        self._set_time(frame["server_timestamp"])
        events = [] if self._has_started else lifecycle_writer.start_run(run, frame)
        self._has_started = True
        if kind not in SPECIAL:
            if frame.get("workflow") is not self._steps.workflow:  # seldom: the context of a stream is one object
                events += self._follow(frame)
        elif kind == Kind.FINAL:
            events += self._finish(frame)
        elif kind == PrivateKind.BRANCH:
            events += self._enter(frame)
        return events + writer(run, within_limit(frame) if kind in LARGE else frame)

    def _repeat(self, frame: Frame) -> RepeatWriter:
        run = self._run
        pattern = message_writer.text_pattern(run, frame)

        def write(deltas: DeltaFrames) -> list[WireEvent]:
            self._set_time(deltas.timestamp)
            run.branch_state.add(TEXT, frame["output_index"], frame["content_index"], "".join(deltas.texts))
            return [(None, pattern % (run.at, text)) for text in deltas.encoded]

        return write

    def _set_time(self, timestamp: str) -> None:
        if timestamp != self._timestamp:
            self._timestamp = timestamp
            self._run.at = round(datetime.fromisoformat(timestamp).timestamp() * 1000)

    def _enter(self, frame: Frame) -> list[Event]:
        """Switch to a branch and follow it, or write the end of its step if the branch is over."""
        if frame["is_over"]:
            return lifecycle_writer.write_steps(self._run, self._steps.end_branch(frame["branch"]))
        self._run.enter(frame["branch"])
        return self._follow(frame)

    def _follow(self, frame: Frame) -> list[Event]:
        changes = self._steps.follow(self._run.branch, frame.get("workflow"))
        return lifecycle_writer.write_steps(self._run, changes) if changes else []

    def _finish(self, frame: Frame) -> list[Event]:
        run = self._run
        texts = message_writer.write_missing_texts(run, frame["final"])
        steps = lifecycle_writer.write_steps(run, self._steps.close())
        return [*texts, *tool_writer.write_missing_results(run), *steps]
