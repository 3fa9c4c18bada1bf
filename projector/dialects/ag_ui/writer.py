"""`AgUi`: frames in, events of AG-UI out. Run, steps, time and size; what a frame says stands in the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import TERMINAL_KINDS, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.truncation import fit
from projector.dialects.ag_ui import activities, calls, endings, messages, reasoning
from projector.dialects.ag_ui.event_parts import PROTOCOL_VERSION
from projector.dialects.ag_ui.run import Event, Run, metadata
from projector.dialects.ag_ui.steps import Steps
from projector.dialects.options import DialectOptions

Writer: TypeAlias = Callable[[Run, Frame], list[Event]]

FRAME_MAX_BYTES: Final = 1_048_576
"""Of a frame that may hold trees. Its event is at most some times larger, because a result is JSON within JSON; clients
give up at 10 MiB (CONTRACT D37)."""

LARGE: Final = frozenset({Kind.TOOL_STATUS, Kind.TOOL_OUTPUT, Kind.FINAL})
"""Kinds whose frames may hold trees."""


def _say_nothing(_run: Run, _frame: Frame) -> list[Event]:
    return []


ADDED: Final[Mapping[str, Writer]] = {
    "message": messages.on_added,
    "reasoning": reasoning.on_added,
    "function_call": calls.on_added,
    "custom_tool_call": calls.on_added,
    "mcp_call": calls.on_added,
    "mcp_approval_request": calls.on_added,
    "function_call_output": _say_nothing,
    "custom_tool_call_output": _say_nothing,
}
"""Item type -> what its beginning says; any other is an activity. An output is the result of its call."""

DONE: Final[Mapping[Writer, Writer]] = {
    messages.on_added: messages.on_done,
    reasoning.on_added: reasoning.on_done,
    calls.on_added: calls.on_done,
    activities.on_added: activities.on_done,
    _say_nothing: _say_nothing,
}
"""What says the beginning of an item -> what says its end."""

CALLED: Final = frozenset({"function", "mcp"})
"""Tool types that are calls; the others are activities."""


def on_added(run: Run, frame: Frame) -> list[Event]:
    """Say that an item begins."""
    return ADDED.get(frame["item_type"], activities.on_added)(run, frame)


def on_done(run: Run, frame: Frame) -> list[Event]:
    """Say that an item has ended."""
    return DONE[ADDED.get(frame["item_type"], activities.on_added)](run, frame)


def on_status(run: Run, frame: Frame) -> list[Event]:
    """Say how a tool is doing."""
    is_call = frame["tool"]["tool_type"] in CALLED
    return calls.on_status(run, frame) if is_call else activities.on_status(run, frame)


def on_output(run: Run, frame: Frame) -> list[Event]:
    """Say what a tool gave."""
    is_call = frame["tool_type"] in CALLED
    return calls.on_output(run, frame) if is_call else activities.on_output(run, frame)


HANDLED: Final[Mapping[str, Writer]] = {
    Kind.LIFECYCLE: endings.on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_added,
    Kind.OUTPUT_ITEM_DONE: on_done,
    Kind.MESSAGE_DELTA: messages.on_text_delta,
    Kind.MESSAGE_CITATION: messages.on_citation,
    Kind.REASONING_SUMMARY_DELTA: reasoning.on_summary_delta,
    Kind.REFUSAL_DELTA: messages.on_refusal_delta,
    Kind.TOOL_STATUS: on_status,
    Kind.TOOL_ARGUMENTS_DELTA: calls.on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: calls.on_arguments_done,
    Kind.TOOL_CODE_DELTA: activities.on_code_delta,
    Kind.TOOL_CODE_DONE: activities.on_code_done,
    Kind.TOOL_OUTPUT: on_output,
    Kind.CHUNK_DELTA: endings.on_chunk,
    Kind.CHUNK_DONE: endings.on_chunk,
    Kind.ERROR: endings.on_error,
    Kind.FINAL: endings.on_final,
    PrivateKind.BRANCH: _say_nothing,  # its steps are said
    PrivateKind.RESPONSE_META: endings.on_meta,
    PrivateKind.REASONING_DELTA: reasoning.on_text_delta,
    PrivateKind.REASONING_ENCRYPTED: reasoning.on_encrypted,
}
"""Frame kind -> its writer."""

DROPPED: Final[Mapping[str, str]] = {
    Kind.REFUSAL_DONE: "its deltas have said it, and the message ends with its item",
    PrivateKind.RESPONSE_USAGE: "the end of the run says the sum over all responses",
    PrivateKind.REASONING_DONE: "its deltas have said it, and the message ends with the next part or the item",
}
"""Frame kind -> why nothing is said."""


class AgUi:
    """Write the frames of one stream as one run.

    Everything that is opened is closed before `RUN_FINISHED`, because every item that the projector announces it also
    closes (CONTRACT D7). `RUN_ERROR` ends whatever is open.
    """

    def __init__(self, options: DialectOptions) -> None:
        self._run = Run(options)
        self._steps = Steps()
        self._has_started = False
        self._has_failed = False
        self._timestamp = ""

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Give the events of a frame.

        A frame that cannot be written takes what was written with it along, so nobody knows what is open any more:
        after it only `RUN_ERROR` is said, which ends all of it.
        """
        writer = HANDLED.get(frame["kind"])
        if writer is None or (self._has_failed and frame["kind"] != Kind.ERROR):
            return []
        try:
            return [(None, codec.dumps(event)) for event in self._say(writer, frame)]
        except Exception:
            self._has_failed = True
            raise

    def _say(self, writer: Writer, frame: Frame) -> list[Event]:
        kind = frame["kind"]
        if frame["server_timestamp"] != self._timestamp:
            self._tick(frame["server_timestamp"])
        said = [] if self._has_started else self._start(frame)
        if kind in TERMINAL_KINDS:
            said += self._finish(frame)
        elif kind == PrivateKind.BRANCH:
            said += self._steps.enter(self._run, frame)
        else:
            said += self._steps.follow(self._run, frame.get("workflow"))
        return said + writer(self._run, _fitted(frame) if kind in LARGE else frame)

    def _tick(self, timestamp: str) -> None:
        self._timestamp = timestamp
        self._run.at = round(datetime.fromisoformat(timestamp).timestamp() * 1000)

    def _start(self, frame: Frame) -> list[Event]:
        """Say that the run begins, under the ids of the options, else of the stream."""
        run, options = self._run, self._run.options
        self._has_started = True
        run.thread_id = options.thread_id or frame.get("conversation_id") or frame["stream_id"]
        run.run_id = options.run_id or frame["stream_id"]
        place = {"threadId": run.thread_id, "runId": run.run_id, "protocolVersion": PROTOCOL_VERSION}
        return [run.event("RUN_STARTED", **place, metadata=metadata(stream_id=frame["stream_id"]))]

    def _finish(self, frame: Frame) -> list[Event]:
        """Close what no item closes, before a run that has not failed."""
        if frame["kind"] == Kind.ERROR:
            return []
        run = self._run
        return [*messages.say_unsaid(run, frame["final"]), *calls.say_unanswered(run), *self._steps.close(run)]


def _fitted(frame: Frame) -> Frame:
    """Give a frame within its budget, without the texts of `final` that messages have said."""
    if frame["kind"] == Kind.FINAL:
        final = {name: value for name, value in frame["final"].items() if not name.endswith("_text")}
        frame = {**frame, "final": final}
    return frame if len(codec.dumps(frame)) <= FRAME_MAX_BYTES else fit(frame, FRAME_MAX_BYTES)
