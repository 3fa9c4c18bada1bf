"""Encode frames as chunks of a UI message: the tables of frame kinds and item types, and the writer of one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from projector.contracts.kinds import TOOL_TYPES, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import DeltaFrames
from projector.dialects.ai_sdk import message_ends, text_parts, tool_parts
from projector.dialects.ai_sdk.ui_message import Chunk, UiMessage
from projector.dialects.delta_pattern import TEXT_PLACE, pattern_of
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import LARGE, FrameWriter, within_limit
from projector.dialects.sent_texts import REFUSAL, TEXT
from projector.dialects.workflow import WorkflowSteps

Writer: TypeAlias = Callable[[UiMessage, Frame], list[Chunk]]


def _nothing(_ui: UiMessage, _frame: Frame) -> list[Chunk]:
    return []


CALL: Final = (tool_parts.on_call_added, tool_parts.on_call_done)
PROVIDER_TOOL: Final = (tool_parts.on_call_added, tool_parts.on_provider_tool_done)
OTHER: Final = (message_ends.on_other_item, message_ends.on_other_item)
ITEMS: Final[Mapping[str, tuple[Writer, Writer]]] = {
    **dict.fromkeys(TOOL_TYPES, PROVIDER_TOOL),
    "message": (text_parts.on_item_added, text_parts.on_message_done),
    "reasoning": (text_parts.on_item_added, text_parts.on_reasoning_done),
    "function_call": CALL,
    "custom_tool_call": CALL,
    "mcp_call": CALL,
    "mcp_approval_request": CALL,
    "function_call_output": (_nothing, _nothing),
    "custom_tool_call_output": (_nothing, _nothing),
}
"""Item type -> writers of its start and end; other items are data. An output becomes the output of its call."""


def on_added(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the start of an item, in a step."""
    return message_ends.begin_step(ui) + ITEMS.get(frame["item_type"], OTHER)[0](ui, frame)


def on_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the end of an item."""
    return ITEMS.get(frame["item_type"], OTHER)[1](ui, frame)


HANDLED: Final[Mapping[str, Writer]] = {
    Kind.LIFECYCLE: message_ends.on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_added,
    Kind.OUTPUT_ITEM_DONE: on_done,
    Kind.MESSAGE_DELTA: partial(text_parts.on_message_delta, TEXT),
    Kind.MESSAGE_CITATION: text_parts.on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(text_parts.on_reasoning_delta, text_parts.SUMMARY),
    Kind.REFUSAL_DELTA: partial(text_parts.on_message_delta, REFUSAL),
    Kind.REFUSAL_DONE: text_parts.on_refusal_done,
    Kind.TOOL_STATUS: tool_parts.on_status,
    Kind.TOOL_ARGUMENTS_DELTA: tool_parts.on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: tool_parts.on_arguments_done,
    Kind.TOOL_CODE_DELTA: tool_parts.on_code_delta,
    Kind.TOOL_CODE_DONE: tool_parts.on_code_done,
    Kind.TOOL_OUTPUT: tool_parts.on_output,
    Kind.CHUNK_DELTA: message_ends.on_chunk,
    Kind.CHUNK_DONE: message_ends.on_chunk_done,
    Kind.ERROR: message_ends.on_error,
    Kind.FINAL: message_ends.on_final,
    PrivateKind.BRANCH: _nothing,  # its steps are written
    PrivateKind.RESPONSE_META: message_ends.on_meta,
    PrivateKind.REASONING_DELTA: partial(text_parts.on_reasoning_delta, text_parts.FULL),
    PrivateKind.REASONING_ENCRYPTED: text_parts.on_encrypted,
}

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.RESPONSE_USAGE: "the end of the message has the sum over all responses",
    PrivateKind.ITEM_DETAILS: "the parts have the public members",
    PrivateKind.ITEM_MEMBERS: "the parts have the public members",
    PrivateKind.FILE_PATH: "citations are the public ones",
    PrivateKind.RESPONSE_ERROR: "`error` or `lifecycle` reports the failure",
    PrivateKind.REASONING_DONE: "the deltas contained the text, and the part ends with the next one or the item",
}

TERMINALS: Final = frozenset({Kind.FINAL, Kind.ERROR})
BRANCH: Final = PrivateKind.BRANCH  # looked up once here, not once per token in its class


class AiSdk(FrameWriter[Writer]):
    """The writer of one stream, as one message. The projector closes every item that it announces (CONTRACT D7)."""

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(HANDLED)
        self._ui = UiMessage(options)
        self._steps = WorkflowSteps()
        self._has_started = False

    def _write(self, writer: Writer, frame: Frame) -> list[Chunk]:
        kind, ui = frame["kind"], self._ui
        chunks = [] if self._has_started else message_ends.start(ui, frame)
        self._has_started = True
        if kind == BRANCH:
            return chunks + self._enter(frame)
        if kind in TERMINALS:
            chunks += self._finish(frame)
        elif frame.get("workflow") is not self._steps.workflow:  # seldom: the context of a stream is one object
            chunks += self._follow(frame)
        if "notices" in frame:
            chunks += message_ends.write_notices(frame)
        return chunks + writer(ui, within_limit(frame) if kind in LARGE else frame)

    def _repeat(self, frame: Frame) -> RepeatWriter:
        ui = self._ui
        pattern = pattern_of(ui.text_delta, {"delta": TEXT_PLACE})

        def write(deltas: DeltaFrames) -> list[WireEvent]:
            ui.branch_state.add(TEXT, frame["output_index"], frame["content_index"], "".join(deltas.texts))
            return [(None, pattern % text) for text in deltas.encoded]

        return write

    def _enter(self, frame: Frame) -> list[Chunk]:
        """Switch to a branch and follow it, or write the end of its step if the branch is over."""
        if frame["is_over"]:
            self._ui.responding.discard(frame["branch"])
            return message_ends.write_steps(self._steps.end_branch(frame["branch"]))
        self._ui.enter(frame["branch"])
        return self._follow(frame)

    def _follow(self, frame: Frame) -> list[Chunk]:
        changes = self._steps.follow(self._ui.branch, frame.get("workflow"))
        return message_ends.write_steps(changes) if changes else []

    def _finish(self, frame: Frame) -> list[Chunk]:
        """Write what must come before the end: missing texts and results, the ends of steps."""
        ui = self._ui
        texts = text_parts.write_missing_texts(ui, frame.get("final", {}))
        results = tool_parts.write_missing_results(ui) if frame["kind"] == Kind.FINAL else []
        return [*texts, *results, *message_ends.end_step(ui), *message_ends.write_steps(self._steps.close())]
