"""Write the start and end of the message, its steps, and frames that are data of our own: status, notices, images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.core.canonical import Frame
from projector.dialects.ai_sdk import tool_parts
from projector.dialects.ai_sdk.text_parts import UNKNOWN_MEDIA_TYPE
from projector.dialects.ai_sdk.ui_message import Chunk, Image, UiMessage, data_part, members_of, with_metadata
from projector.dialects.frame_writer import StepChange

RUNNING: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""

FINISHES: Final[Mapping[str, str]] = {"completed": "stop", "incomplete": "other", "refused": "content-filter"}
"""Status of `final` -> finish reason."""
INCOMPLETE_FINISHES: Final[Mapping[str, str]] = {"content_filter": "content-filter", "max_output_tokens": "length"}
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


def start(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Start the message, or continue the client's. Its ID is that of the stream, so that a replay replaces it."""
    about = members_of(frame, "stream_id", "conversation_id")
    return [{"type": "start", "messageId": ui.message_id or frame["stream_id"], "messageMetadata": about}]


# steps


def begin_step(ui: UiMessage) -> list[Chunk]:
    """Start a step unless one is open. Responses that overlap are one step."""
    ui.responding.add(ui.branch)
    if ui.is_in_step:
        return []
    ui.is_in_step = True
    return [{"type": "start-step"}]


def end_step(ui: UiMessage) -> list[Chunk]:
    """End the step if one is open."""
    if not ui.is_in_step:
        return []
    ui.is_in_step = False
    return [{"type": "finish-step"}]


def on_lifecycle(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the status of a response, and the end of the step with the last response in it."""
    status = data_part("lifecycle", members_of(frame, "status", "reason", "response_id"), is_transient=True)
    if frame["status"] in RUNNING:
        return [*begin_step(ui), status]
    ui.branch_state.end_response()
    ui.reason = frame.get("reason", ui.reason)
    ui.responding.discard(ui.branch)
    return [status, *(end_step(ui) if not ui.responding else [])]


def on_meta(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Keep the model for the metadata of the message."""
    if "model" in frame:
        ui.models.add(frame["model"])
    return []


def write_steps(changes: Iterable[StepChange]) -> list[Chunk]:
    """Write the start or end of steps of a workflow; the end replaces the start."""
    return [
        data_part("workflow", {"name": name, "status": "started" if is_start else "finished", **workflow}, name)
        for name, workflow, is_start in changes
    ]


# data of our own


def on_other_item(_ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write an item that is neither a message nor a tool: that it exists, and its status."""
    return [data_part("item", members_of(frame, "item_id", "item_type", "status"), frame["item_id"])]


def write_notices(frame: Frame) -> list[Chunk]:
    """Write the notices of a frame: what was withheld or truncated in it."""
    data = members_of(frame, "kind", "item_id", "notices")
    return [data_part("notice", data, f"notice:{frame['stream_id']}:{frame['event_id']}")]


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
        return tool_parts.preliminary_image(call, target.get("part_index", 0), address)
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
        chunks.append(data_part("structured-output", {"value": final["structured_output"]}, "structured-output"))
    return chunks + ENDS[final["status"]](ui, about)


def on_error(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the failure of the stream, or that it was interrupted."""
    error = frame["error"]
    about = {"status": "failed", "error": members_of(error, "code", "source", "is_retryable")}
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


def _failed(_ui: UiMessage, about: dict[str, Any]) -> list[Chunk]:
    return [_metadata(about), {"type": "error", "errorText": FAILED}]


def _cancelled(ui: UiMessage, about: dict[str, Any]) -> list[Chunk]:
    reason = {"reason": "cancelled"} if ui.level >= REASONS_LEVEL else {}
    return [_metadata(about), {"type": "abort", **reason}]


ENDS: Final[Mapping[str, Callable[[UiMessage, dict[str, Any]], list[Chunk]]]] = {
    "completed": _finished,
    "incomplete": _finished,
    "refused": _finished,
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
