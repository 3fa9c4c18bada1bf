"""Encode frames as events of Open Responses: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.kinds import VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame
from projector.dialects.openresponses.protocol import PROTOCOL
from projector.dialects.response_writer import frame_writers
from projector.dialects.response_writer.event_truncation import EVENT_MAX_BYTES
from projector.dialects.response_writer.frame_writers import NOT_MEMBERS, ResponseWriter, Writer
from projector.dialects.response_writer.response_stream import ResponseStream


def on_tool_status(stream: ResponseStream, frame: Frame) -> None:
    """Announce a call with its name and ID. Write a status that no event of Open Responses shows."""
    item, tool = stream.items[frame["item_id"]], frame["tool"]
    item.update({name: value for name, value in tool.items() if name not in NOT_MEMBERS})
    is_new = item.index is None
    if is_new:
        stream.announce(item)
    if is_new and item.shape is not None:
        stream.emit_notices(frame)
    else:
        stream.emit_extension(frame, item)


def on_output(stream: ResponseStream, frame: Frame) -> None:
    """Write an output: that of a function as an item, that of another tool as our own event and in its item."""
    call = frame_writers.announced(stream, frame)
    if frame["tool_type"] == "function":
        frame_writers.write_output_item(stream, frame, call, f"{call.type.removeprefix(f'{VENDOR}:')}_output")
        return
    call.update({"output": frame["output"]})
    stream.emit_extension(frame, call)


def on_extension(stream: ResponseStream, frame: Frame) -> None:
    """Write an event that Open Responses does not define."""
    stream.emit_extension(frame, frame_writers.announced(stream, frame))


HANDLED: Final[Mapping[str, Writer]] = {
    **frame_writers.COMMON,
    PrivateKind.ITEM_MEMBERS: frame_writers.on_item_details,
    Kind.TOOL_STATUS: on_tool_status,
    Kind.TOOL_OUTPUT: on_output,
    Kind.CHUNK_DELTA: on_extension,
    Kind.CHUNK_DONE: on_extension,
}

DROPPED: Final[Mapping[str, str]] = {
    **frame_writers.DROPPED,
    PrivateKind.ITEM_DETAILS: "the public members of our own items are enough for the clients of this protocol",
    PrivateKind.FILE_PATH: "Open Responses has no such citation",
}
"""Frame kind -> why nothing is written. Every public kind is written, if need be as an event of our own."""


class OpenResponses(ResponseWriter):
    """The writer of one stream."""

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES) -> None:
        super().__init__(ResponseStream(PROTOCOL, max_bytes), HANDLED)
