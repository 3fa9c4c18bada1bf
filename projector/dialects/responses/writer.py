"""Encode frames as events of the Responses API: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame
from projector.dialects.response_writer import frame_writers
from projector.dialects.response_writer.event_truncation import EVENT_MAX_BYTES
from projector.dialects.response_writer.frame_writers import ResponseWriter, Writer
from projector.dialects.response_writer.response_stream import ResponseStream
from projector.dialects.responses.protocol import PROTOCOL

STATUS_EVENTS: Final[Mapping[str, frozenset[str]]] = {
    "web_search_call": frozenset({"in_progress", "searching", "completed"}),
    "file_search_call": frozenset({"in_progress", "searching", "completed"}),
    "code_interpreter_call": frozenset({"in_progress", "interpreting", "completed"}),
    "image_generation_call": frozenset({"in_progress", "generating", "completed"}),
    "mcp_call": frozenset({"in_progress", "completed", "failed"}),
}
"""Item type -> the statuses that the API has an event for. `partial_image` is written with the image."""

FINAL_IMAGE: Final = "image_b64"
"""Field of the chunks of the final image; the other field is a partial image."""


def on_tool_status(stream: ResponseStream, frame: Frame) -> None:
    """Announce a call with its name and ID. Write its status if it is new and the API has an event for it."""
    item, tool = stream.items[frame["item_id"]], frame["tool"]
    item.update(tool)
    if item.index is None:
        stream.announce(item)
    status = tool["status"]
    if status != item.status and not item.is_done and status in STATUS_EVENTS.get(item.type, ()):
        stream.emit(f"response.{item.type}.{status}", item.position)
        stream.emit_notices(frame)
    elif item.type not in STATUS_EVENTS or item.is_done:
        stream.emit_extension(frame, item)
    item.status = status


def on_output(stream: ResponseStream, frame: Frame) -> None:
    """Keep the output of a hosted tool or MCP call for the end of its item."""
    call, output = frame_writers.announced(stream, frame), frame["output"]
    if frame["tool_type"] == "function":
        stream.emit_extension(frame, call)
        return
    is_error = frame["tool_type"] == "mcp" and isinstance(output, dict) and output.keys() == {"error"}
    call.update(output if is_error else {"output": output})
    stream.emit_notices(frame)


def on_chunk(stream: ResponseStream, frame: Frame) -> None:
    """Collect the chunks of an image. Those of two images may interleave."""
    target = frame["target"]
    item = frame_writers.announced(stream, frame)
    item.chunks.setdefault((target["field"], target["part_index"]), []).append(frame["data"])


def on_chunk_done(stream: ResponseStream, frame: Frame) -> None:
    """Write a partial image, or keep the final one for the end of its item."""
    item, target = frame_writers.announced(stream, frame), frame["target"]
    data = "".join(item.chunks.pop((target["field"], target["part_index"]), ()))
    if not data:  # it was not base64
        stream.emit_notices(frame)
    elif target["field"] == FINAL_IMAGE:
        item.update({"result": data})
    else:
        members = {"partial_image_index": target["part_index"], "partial_image_b64": data}
        stream.emit("response.image_generation_call.partial_image", item.position | members | _settings(item.members))


def _settings(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: members[name] for name in IMAGE_SETTINGS if name in members}


IMAGE_SETTINGS: Final = ("background", "output_format", "quality", "size")
"""Members of an image's item that its partial images repeat."""

HANDLED: Final[Mapping[str, Writer]] = {
    **frame_writers.COMMON,
    PrivateKind.ITEM_DETAILS: frame_writers.on_item_details,
    PrivateKind.ITEM_MEMBERS: frame_writers.on_item_details,
    PrivateKind.FILE_PATH: frame_writers.on_citation,
    Kind.TOOL_STATUS: on_tool_status,
    Kind.TOOL_OUTPUT: on_output,
    Kind.CHUNK_DELTA: on_chunk,
    Kind.CHUNK_DONE: on_chunk_done,
}

DROPPED: Final[Mapping[str, str]] = frame_writers.DROPPED
"""Frame kind -> why nothing is written."""


class Responses(ResponseWriter):
    """The writer of one stream.

    Args:
        max_bytes: limit of one event.
        has_extensions: whether the client accepts events of our own.
    """

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES, *, has_extensions: bool = False) -> None:
        super().__init__(ResponseStream(PROTOCOL, max_bytes, has_extensions=has_extensions), HANDLED)
