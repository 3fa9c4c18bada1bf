"""`OpenWop`: frames in, events of a run out. Run, time and size; what a frame says stands in the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import TERMINAL_KINDS, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.truncation import fit
from projector.dialects.options import DialectOptions
from projector.openwop.contract.parts import Verbosity
from projector.openwop.dialect import calls, endings, messages, nodes, reasoning
from projector.openwop.dialect.run import Run

Writer: TypeAlias = Callable[[Run, Frame], None]

FRAME_MAX_BYTES: Final = 1_048_576
"""Of a frame that may hold trees; its event is not much larger (CONTRACT D37)."""

LARGE: Final = frozenset({Kind.TOOL_STATUS, Kind.TOOL_OUTPUT, Kind.FINAL})
"""Kinds whose frames may hold trees."""

PLACELESS: Final = TERMINAL_KINDS | {PrivateKind.BRANCH}
"""Kinds that belong to no step: what ends the run, and what tells who speaks."""


def _say_nothing(_run: Run, _frame: Frame) -> None:
    """Say nothing."""


ADDED: Final[Mapping[str, Writer]] = {
    "reasoning": reasoning.on_added,
    **dict.fromkeys(calls.ITEM_TOOLS, calls.on_added),
    "computer_call": calls.on_added,
    "local_shell_call": calls.on_added,
    "shell_call": calls.on_added,
    "apply_patch_call": calls.on_added,
    "tool_search_call": calls.on_added,
}
"""Item type -> what its beginning says. A message is said by its text, an output by its call; what is not here is the
provider's own housekeeping."""

DONE: Final[Mapping[Writer, Writer]] = {
    reasoning.on_added: reasoning.on_done,
    calls.on_added: calls.on_done,
    _say_nothing: _say_nothing,
}
"""What says the beginning of an item -> what says its end."""


def on_added(run: Run, frame: Frame) -> None:
    """Say that an item begins."""
    ADDED.get(frame["item_type"], _say_nothing)(run, frame)


def on_done(run: Run, frame: Frame) -> None:
    """Say that an item has ended."""
    DONE[ADDED.get(frame["item_type"], _say_nothing)](run, frame)


HANDLED: Final[Mapping[str, Writer]] = {
    Kind.LIFECYCLE: endings.on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_added,
    Kind.OUTPUT_ITEM_DONE: on_done,
    Kind.MESSAGE_DELTA: messages.on_text_delta,
    Kind.MESSAGE_CITATION: messages.on_citation,
    Kind.REASONING_SUMMARY_DELTA: reasoning.on_summary_delta,
    Kind.REFUSAL_DELTA: messages.on_refusal_delta,
    Kind.TOOL_STATUS: calls.on_status,
    Kind.TOOL_ARGUMENTS_DONE: calls.on_arguments_done,
    Kind.TOOL_CODE_DONE: calls.on_code_done,
    Kind.TOOL_OUTPUT: calls.on_output,
    Kind.CHUNK_DELTA: messages.on_image,
    Kind.CHUNK_DONE: messages.on_image,
    Kind.ERROR: endings.on_error,
    Kind.FINAL: endings.on_final,
    PrivateKind.BRANCH: endings.on_branch,
    PrivateKind.RESPONSE_META: endings.on_meta,
    PrivateKind.RESPONSE_USAGE: endings.on_usage,
    PrivateKind.REASONING_DELTA: reasoning.on_text_delta,
}
"""Frame kind -> its writer."""

DROPPED: Final[Mapping[str, str]] = {
    Kind.REFUSAL_DONE: "its deltas have said it",
    Kind.TOOL_ARGUMENTS_DELTA: "a call is said when its arguments are whole",
    Kind.TOOL_CODE_DELTA: "a call is said when its code is whole",
    PrivateKind.REASONING_DONE: "its deltas have said it, and the block is closed with the item",
    PrivateKind.REASONING_ENCRYPTED: "a log has no place for what only the provider can read",
}
"""Frame kind -> why nothing is said."""


class OpenWop:
    """Write the frames of one stream as the log of one run.

    Args:
        verbosity: how much reasoning the policy lets out (CONTRACT D36).
        options: names of run, workflow, node and provider, and whether reasoning is said while it grows.
    """

    def __init__(self, verbosity: Verbosity, options: DialectOptions) -> None:
        self._run = Run(verbosity, options)
        self._has_begun = False
        self._has_failed = False

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Give the events of a frame, each under its type.

        A frame that cannot be written takes what was written with it along, and nobody knows what is open any more:
        after it only `run.failed` is said. The numbers that are missing before it tell a reader so.
        """
        writer = HANDLED.get(frame["kind"])
        if writer is None or (self._has_failed and frame["kind"] != Kind.ERROR):
            return []
        run = self._run
        run.said = []
        run.at = frame["server_timestamp"]
        if self._has_failed:
            endings.on_error(run, frame)
            return self._written()
        try:
            self._say(writer, frame)
            return self._written()
        except Exception:
            self._has_failed = True
            run.nodes.clear()
            raise

    def _say(self, writer: Writer, frame: Frame) -> None:
        run, kind = self._run, frame["kind"]
        if not self._has_begun:
            self._has_begun = True
            run.begin(frame)
        if run.voice.response.has_ended and endings.is_beginning(frame):
            endings.begin_response(run)
        if kind not in PLACELESS or (kind in TERMINAL_KINDS and not run.starts):
            nodes.follow(run, frame)
        writer(run, _fitted(frame) if kind in LARGE else frame)

    def _written(self) -> list[WireEvent]:
        return [(event["type"], codec.dumps(event)) for event in self._run.said]


def _fitted(frame: Frame) -> Frame:
    """Give a frame within its budget; the reasoning in `final` was said in its own events."""
    if frame["kind"] == Kind.FINAL:
        final = {name: value for name, value in frame["final"].items() if name != "reasoning_summary_text"}
        frame = {**frame, "final": final}
    return frame if len(codec.dumps(frame)) <= FRAME_MAX_BYTES else fit(frame, FRAME_MAX_BYTES)
