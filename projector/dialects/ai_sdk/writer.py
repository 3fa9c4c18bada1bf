"""Encode frames as chunks of a UI message: tables of frame kinds and item types, and the writer of one stream.

Here are also the start and end of the message, its steps, and frames that are data of our own: status, notices, images.
`ui_message.py` writes texts and sources, `tool_parts.py` calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts.kinds import RUNNING, TOOL_TYPES, Kind, PrivateKind
from projector.core.canonical import Frame
from projector.dialects import page_run as page
from projector.dialects.ai_sdk import tool_parts, ui_message
from projector.dialects.ai_sdk.ui_message import (
    UNKNOWN_MEDIA_TYPE,
    Chunk,
    Image,
    UiMessage,
    data_part,
    members_of,
    with_metadata,
)
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import TEXT_PLACE, failure, pattern_of

FINISHES: Final[Mapping[str, str]] = {"completed": "stop", "incomplete": "other", "refused": "content-filter"}
"""Status of `final` -> finish reason."""
INCOMPLETE_FINISHES: Final[Mapping[str, str]] = {
    "content_filter": "content-filter",
    **dict.fromkeys(("length", "max_output_tokens", "model_context_window_exceeded"), "length"),
}
"""Reason of an incomplete response -> finish reason."""

INTERRUPTIONS: Final = frozenset({"upstream_truncated", "upstream_reset"})
"""Error codes of a stream whose provider vanished: the text so far is worth keeping."""
INTERRUPTED_LEVEL: Final = 7
"""First version whose clients know the finish reason `interrupted`."""
REASONS_LEVEL: Final = 6
"""First version whose `abort` has a reason."""

FAILED: Final = "The response failed."
"""Text of a failed response: the provider's own message is not for a page."""

IMAGE_MAX_CHARS: Final = 8 * 1024 * 1024
"""Longest image in base64 that is written as a data URL. A page receives it as one event."""
_WHOLE_IMAGE: Final = "image_b64"


# steps


def begin_step(ui: UiMessage) -> list[Chunk]:
    """Start a step unless one is open. Responses that overlap are one step."""
    ui.responding.add(ui.branch)
    if ui.is_in_step:
        return []
    ui.is_in_step, ui.has_answer = True, False
    return [{"type": "start-step"}]


def end_step(ui: UiMessage) -> list[Chunk]:
    """End the step if one is open and nothing in it is."""
    if not ui.is_in_step or ui.open_items:
        return []
    ui.is_in_step = False
    return [{"type": "finish-step"}]


def on_lifecycle(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the status of a response, and the end of the step with the last response in it."""
    status = data_part("lifecycle", members_of(frame, "status", "reason", "response_id"), is_transient=True)
    if frame["status"] in RUNNING:
        return [*begin_step(ui), status]
    ui.end_response(frame)
    ui.responding.discard(ui.branch)
    return [status, *(end_step(ui) if not ui.responding else [])]


# data of our own


def on_other_item(_ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write an item that is neither a message nor a tool: that it exists, and its status."""
    return [data_part("item", members_of(frame, "item_id", "item_type", "status"), frame["item_id"])]


def on_chunk(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Keep a chunk of an image."""
    image = ui.images.setdefault(_key(frame["target"]), Image())
    image.chars += len(frame["data"])
    if image.chars <= IMAGE_MAX_CHARS:
        image.parts.append(frame["data"])
    else:
        image.parts.clear()
    return []


def on_chunk_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write an image: a file, or the preliminary output of its call. One that was truncated is not shown."""
    target, call = frame["target"], ui.calls[frame["item_id"]]
    image = ui.images.pop(_key(target), Image())
    if not image.parts or "notices" in frame:
        data = {"item_id": frame["item_id"], "field": target["field"], "reason": "too_large"}
        return [data_part("image-omitted", data, f"{frame['item_id']}:{target['field']}")]
    media_type = f"image/{call.result.get('format', 'png')}"
    address = f"data:{media_type};base64,{''.join(image.parts)}"
    if target["field"] != _WHOLE_IMAGE:
        output = {"type": "partial_image", "index": target.get("part_index", 0), "url": address}
        return tool_parts.answer(call, output, is_preliminary=True)
    return [{"type": "file", "url": address, "mediaType": media_type}]


def _key(target: Mapping[str, object]) -> str:
    return f"{target['entity_id']}:{target['field']}:{target.get('part_index')}"


# the end


def on_final(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the end of the message, by its status."""
    final = frame["final"]
    about = {"status": final["status"], **members_of(final, "usage")}
    if ui.reason is not None:
        about["reason"] = ui.reason
    if len(ui.models) == 1:
        about["model"] = next(iter(ui.models))
    chunks = [chunk for one in final.get("attachments", ()) for chunk in _attachment(one)]
    if final.get("structured_output") is not None:
        value = tool_parts.accepted(final["structured_output"])
        chunks.append(data_part("structured-output", {"value": value}, "structured-output"))
    return chunks + ENDS[final["status"]](ui, about)


def on_error(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the failure of the stream, or that it was interrupted."""
    error = frame["error"]
    about = {"status": "failed", "error": members_of(error, "code", "message", "source", "is_retryable")}
    if ui.level >= INTERRUPTED_LEVEL and error.get("code") in INTERRUPTIONS:
        return [{"type": "finish", "finishReason": "interrupted", "messageMetadata": about}]
    return [_metadata(about), {"type": "error", "errorText": error["message"]}]


def _finished(ui: UiMessage, about: dict[str, Any]) -> list[Chunk]:
    reason = FINISHES[about["status"]]
    if about["status"] == "incomplete":
        reason = INCOMPLETE_FINISHES.get(ui.reason or "", reason)
    elif reason == "stop" and tool_parts.has_pending_calls(ui):
        reason = "tool-calls"
    return [{"type": "finish", "finishReason": reason, "messageMetadata": about}]


def _failed(ui: UiMessage, about: dict[str, Any]) -> list[Chunk]:
    about |= {"error": {"message": FAILED} | failure(ui.reason)}
    return [_metadata(about), {"type": "error", "errorText": FAILED}]


def _cancelled(ui: UiMessage, about: dict[str, Any]) -> list[Chunk]:
    reason = {"reason": "cancelled"} if ui.level >= REASONS_LEVEL else {}
    return [_metadata(about), {"type": "abort", **reason}]


ENDS: Final[Mapping[str, Callable[[UiMessage, dict[str, Any]], list[Chunk]]]] = {
    **dict.fromkeys(("completed", "incomplete", "refused"), _finished),
    "failed": _failed,
    "cancelled": _cancelled,
}
"""Status of `final` -> the end of the stream."""


def _metadata(about: dict[str, Any]) -> Chunk:
    return {"type": "message-metadata", "messageMetadata": about}


def _attachment(attachment: Mapping[str, str]) -> list[Chunk]:
    """Return a file that the host has stored; one without an address is data."""
    if not attachment.get("url", "").startswith(("http://", "https://")):
        return [data_part("attachment", dict(attachment), attachment["object_id"])]
    media_type = attachment.get("mime_type", UNKNOWN_MEDIA_TYPE)
    file: Chunk = {"type": "file", "url": attachment["url"], "mediaType": media_type}
    return [with_metadata(file, object_id=attachment["object_id"], filename=attachment.get("filename"))]


Writer: TypeAlias = Callable[[UiMessage, Frame], list[Chunk]]


CALL: Final = (tool_parts.on_call_added, tool_parts.on_call_done)
PROVIDER_TOOL: Final = (tool_parts.on_call_added, tool_parts.on_provider_tool_done)
OTHER: Final = (on_other_item, on_other_item)
ITEMS: Final[Mapping[str, tuple[Writer, Writer]]] = {
    **dict.fromkeys(TOOL_TYPES, PROVIDER_TOOL),
    "message": (ui_message.on_item_added, ui_message.on_message_done),
    "reasoning": (ui_message.on_item_added, ui_message.on_reasoning_done),
    **dict.fromkeys(page.CALL_ITEMS, CALL),
    **page.OUTPUT_ITEMS,
}
"""Item type -> writers of its start and end; other items are data."""


def on_added(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the start of an item, in a step: a new one behind an answer of the host, unless an item is open.

    A client that sends answers by itself would do so for a last step with answered functions. It drops an open text
    where a step ends, and makes a call of the next step out of what follows for an open one.
    """
    ended = end_step(ui) if ui.has_answer else []
    ui.open_items.add(frame["item_id"])
    return ended + begin_step(ui) + ITEMS.get(frame["item_type"], OTHER)[0](ui, frame)


def on_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the end of an item, which stays open if its input waits for the host's answer."""
    item_id = frame["item_id"]
    chunks = ITEMS.get(frame["item_type"], OTHER)[1](ui, frame)
    if item_id not in ui.calls or not ui.calls[item_id].is_held:
        ui.open_items.discard(item_id)
    return chunks


HANDLED: Final[Mapping[str, Writer]] = {
    **page.HANDLED,
    Kind.OUTPUT_ITEM_ADDED: on_added,
    Kind.OUTPUT_ITEM_DONE: on_done,
    Kind.LIFECYCLE: on_lifecycle,
    Kind.MESSAGE_DELTA: partial(ui_message.on_message_delta, page.TEXT),
    Kind.MESSAGE_CITATION: ui_message.on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(ui_message.on_reasoning_delta, page.SUMMARY),
    Kind.REFUSAL_DELTA: partial(ui_message.on_message_delta, page.REFUSAL),
    Kind.REFUSAL_DONE: ui_message.on_refusal_done,
    Kind.TOOL_STATUS: tool_parts.on_status,
    Kind.TOOL_ARGUMENTS_DELTA: tool_parts.on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: tool_parts.on_arguments_done,
    Kind.TOOL_CODE_DELTA: tool_parts.on_code_delta,
    Kind.TOOL_CODE_DONE: tool_parts.on_code_done,
    Kind.TOOL_OUTPUT: tool_parts.on_output,
    Kind.CHUNK_DELTA: on_chunk,
    Kind.CHUNK_DONE: on_chunk_done,
    Kind.ERROR: on_error,
    Kind.FINAL: on_final,
    PrivateKind.REASONING_DELTA: partial(ui_message.on_reasoning_delta, page.FULL),
    PrivateKind.REASONING_ENCRYPTED: ui_message.on_encrypted,
    PrivateKind.CALL_SEALED: tool_parts.on_sealed,
}

DROPPED: Final[Mapping[str, str]] = page.DROPPED


class AiSdk(page.PageWriter[UiMessage]):
    """The writer of one stream, as one message."""

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(HANDLED, UiMessage(options))

    def _repeat(self, _frame: Frame) -> RepeatWriter:
        pattern = pattern_of(self._run.text_delta, {"delta": TEXT_PLACE})
        return RepeatWriter(None, lambda deltas: [pattern % text for text in deltas.encoded])

    def _start(self, frame: Frame) -> list[Chunk]:
        """Start the message, or continue the client's. Its ID is that of the stream, so that a replay replaces it."""
        message_id = self._run.options.message_id or frame["stream_id"]
        about = members_of(frame, "stream_id", "conversation_id")
        return [{"type": "start", "messageId": message_id, "messageMetadata": about}]

    def _changed(self, changes: Iterable[page.StepChange]) -> list[Chunk]:
        """Return the start or end of steps of a workflow; the end replaces the start."""
        return [
            data_part("workflow", {"name": name, "status": "started" if is_start else "finished", **workflow}, name)
            for name, workflow, is_start in changes
        ]

    def _notices(self, frame: Frame) -> list[Chunk]:
        """Return what was withheld or truncated in a frame."""
        data = members_of(frame, "kind", "item_id", "notices")
        return [data_part("notice", data, f"notice:{frame['stream_id']}:{frame['event_id']}")]

    def _enter(self, frame: Frame) -> list[Chunk]:
        if frame["is_over"]:
            self._run.responding.discard(frame["branch"])
        return super()._enter(frame)

    def _finish(self, frame: Frame) -> list[Chunk]:
        ui = self._run
        texts = ui_message.write_missing_texts(ui, frame.get("final", {}))
        results = tool_parts.write_missing_results(ui, has_failed=frame["kind"] == Kind.ERROR)
        return [*texts, *results, *end_step(ui), *self._changed(self._steps.close())]
