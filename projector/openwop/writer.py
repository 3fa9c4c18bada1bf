"""`OpenWopWriter`: the tables of frame kinds and item types, and the encoding of one stream as the log of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import TERMINAL_KINDS, TOOL_TYPES, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.truncation import fit
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import FRAME_MAX_BYTES, LARGE
from projector.openwop import content, run_progress
from projector.openwop.event_log import Verbosity
from projector.openwop.log_state import LogState

FrameHandler: TypeAlias = Callable[[LogState, Frame], None]

NODELESS_KINDS: Final = TERMINAL_KINDS | {PrivateKind.BRANCH}
"""Kinds that belong to no step: the end of the run, and the switch between branches."""


def _skip(_state: LogState, _frame: Frame) -> None:
    """Emit nothing."""


HIDDEN_TOOLS: Final = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call")
"""Item types of calls without a public tool type."""
ADDED: Final[Mapping[str, FrameHandler]] = {
    "reasoning": content.on_reasoning_added,
    **dict.fromkeys((*TOOL_TYPES, *HIDDEN_TOOLS), content.on_call_added),
}
"""Item type -> handler of its start. Messages are emitted by their text, outputs by their call; other item types are
internal to the provider."""

DONE: Final[Mapping[FrameHandler, FrameHandler]] = {
    content.on_reasoning_added: content.on_reasoning_done,
    content.on_call_added: content.on_call_done,
    _skip: _skip,
}
"""Handler of the start of an item -> handler of its end."""


def on_added(state: LogState, frame: Frame) -> None:
    """Handle the start of an item."""
    ADDED.get(frame["item_type"], _skip)(state, frame)


def on_done(state: LogState, frame: Frame) -> None:
    """Handle the end of an item."""
    DONE[ADDED.get(frame["item_type"], _skip)](state, frame)


HANDLED: Final[Mapping[str, FrameHandler]] = {
    Kind.LIFECYCLE: run_progress.on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_added,
    Kind.OUTPUT_ITEM_DONE: on_done,
    Kind.MESSAGE_DELTA: content.on_text_delta,
    Kind.MESSAGE_CITATION: content.on_citation,
    Kind.REASONING_SUMMARY_DELTA: content.on_summary_delta,
    Kind.REFUSAL_DELTA: content.on_refusal_delta,
    Kind.TOOL_STATUS: content.on_status,
    Kind.TOOL_ARGUMENTS_DONE: content.on_arguments_done,
    Kind.TOOL_CODE_DONE: content.on_code_done,
    Kind.TOOL_OUTPUT: content.on_output,
    Kind.CHUNK_DELTA: content.on_image,
    Kind.CHUNK_DONE: content.on_image,
    Kind.ERROR: run_progress.on_error,
    Kind.FINAL: run_progress.on_final,
    PrivateKind.BRANCH: run_progress.on_branch,
    PrivateKind.RESPONSE_META: run_progress.on_meta,
    PrivateKind.RESPONSE_USAGE: run_progress.on_usage,
    PrivateKind.REASONING_DELTA: content.on_reasoning_delta,
}
"""Frame kind -> handler."""

DROPPED: Final[Mapping[str, str]] = {
    Kind.REFUSAL_DONE: "the deltas carry the text",
    Kind.TOOL_ARGUMENTS_DELTA: "a call is emitted when its arguments are complete",
    Kind.TOOL_CODE_DELTA: "a call is emitted when its code is complete",
    PrivateKind.ITEM_DETAILS: "a log of a run has the public members",
    PrivateKind.ITEM_MEMBERS: "a log of a run has the public members",
    PrivateKind.FILE_PATH: "citations are the public ones",
    PrivateKind.RESPONSE_ERROR: "`error` or `lifecycle` reports the failure",
    PrivateKind.REASONING_DONE: "the deltas carry the text, and the end of the item closes the block",
    PrivateKind.REASONING_ENCRYPTED: "only the provider can read it",
}
"""Frame kind -> why nothing is emitted."""


class OpenWopWriter:
    """Writer of the log of one run from the frames of one stream; `verbosity` is that of the policy (CONTRACT D36)."""

    def __init__(self, verbosity: Verbosity, options: DialectOptions) -> None:
        self._state = LogState(verbosity, options)
        self._has_begun = False
        self._has_failed = False

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame.

        If a frame cannot be written, its partial events are discarded and the set of open nodes is unknown: after it
        only `run.failed` is emitted. Readers detect the gap in the sequence numbers.
        """
        handler = HANDLED.get(frame["kind"])
        if handler is None or (self._has_failed and frame["kind"] != Kind.ERROR):
            return []
        state = self._state
        state.events = []
        state.timestamp = frame["server_timestamp"]
        try:
            if self._has_failed:
                run_progress.on_error(state, frame)
            else:
                self._handle(handler, frame)
            return [(event["type"], codec.dumps_to_keep(event)) for event in state.events]
        except Exception:
            self._has_failed = True
            state.nodes.clear()
            raise

    def repeat(self, _frame: Frame, /) -> RepeatWriter | None:
        """Return None: each delta is fed as a frame."""
        return None

    def _handle(self, handler: FrameHandler, frame: Frame) -> None:
        state, kind = self._state, frame["kind"]
        if not self._has_begun:
            self._has_begun = True
            state.begin(frame)
        if state.branch.response.has_ended and run_progress.starts_response(frame):
            run_progress.start_response(state)
        if kind not in NODELESS_KINDS or (kind in TERMINAL_KINDS and not state.starts):
            run_progress.follow_context(state, frame)
        handler(state, _truncated(frame) if kind in LARGE else frame)


def _truncated(frame: Frame) -> Frame:
    """Return a frame within its byte limit, without the reasoning in `final`, which has events of its own."""
    if frame["kind"] == Kind.FINAL:
        final = {name: value for name, value in frame["final"].items() if name != "reasoning_summary_text"}
        frame = {**frame, "final": final}
    return frame if codec.size(frame) <= FRAME_MAX_BYTES else fit(frame, FRAME_MAX_BYTES)
