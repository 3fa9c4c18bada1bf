"""Encode frames as events of Open Responses: what the protocol defines, its errors, and the tables of frame kinds.

What the protocol does not define is written under our own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame
from projector.dialects import openai_errors
from projector.dialects.frame_writer import UNKNOWN, json_text
from projector.dialects.response_writer import frame_writers
from projector.dialects.response_writer.frame_writers import NOT_MEMBERS
from projector.dialects.response_writer.output_items import FUNCTION_CALL, CallText, Field, ItemShape, PartKind
from projector.dialects.response_writer.response_stream import EVENT_MAX_BYTES, ResponseStream, Writer

ITEMS: Final[Mapping[str, ItemShape]] = {
    "message": ItemShape({"content": ()}),
    "reasoning": ItemShape({"summary": ()}),
    "function_call": FUNCTION_CALL._replace(text=CallText("response.function_call_arguments", has_name=True)),
    "function_call_output": ItemShape(
        {"call_id": "", "output": ""}, {"tool_call_id": Field("call_id"), "output": Field("output", json_text)}
    ),
}
"""Item types of Open Responses that we write."""

DROPPED_ITEMS: Final[Mapping[str, str]] = {
    "function_call_output": "`tool.output` of the call writes this item, also for an output of the host",
    "custom_tool_call_output": "`tool.output` of the call writes this item, also for an output of the host",
}
"""Item types that are not written, and why. All others are written, under our own name if the protocol lacks it."""

CITATIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "url_citation": {"url": "", "title": "", "start_index": 0, "end_index": 0},
}
"""Citation of Open Responses -> its required members, with defaults."""

REQUEST_MEMBERS: Final[Mapping[str, object]] = {
    "previous_response_id": None,
    "instructions": None,
    "tools": (),
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": False,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""Required members that repeat the request."""

INCOMPLETE_REASONS: Final[Mapping[str, str]] = {"length": "max_output_tokens"}
"""Reason of Chat Completions -> that of Open Responses. Every other reason is unchanged."""

ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    404: "not_found",
    422: "invalid_request",
    429: "too_many_requests",
}
"""HTTP status of an error code -> error type. The type of any other error depends on its source."""

SOURCE_TYPES: Final[Mapping[str, str]] = {"provider": "model_error", "server": "server_error"}

HTTP_STATUSES: Final[Mapping[str, int]] = {
    "server_error": 500,
    "invalid_request": 400,
    "not_found": 404,
    "model_error": 500,
    "too_many_requests": 429,
}
"""Error type of Open Responses -> HTTP status of an answer that does not stream."""


def status_of(error: Mapping[str, Any]) -> int:
    """Return the HTTP status of an error."""
    return HTTP_STATUSES[error["type"]]


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


class OpenResponses(ResponseStream):
    """The writer of one stream."""

    writers = HANDLED
    shapes = ITEMS
    dropped_items = DROPPED_ITEMS
    roles = frozenset({"user", "assistant", "system", "developer"})
    citations = CITATIONS
    reasoning = PartKind("reasoning_text", "response.reasoning")
    request_members = REQUEST_MEMBERS

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES) -> None:
        super().__init__(max_bytes, has_extensions=True)

    def error_members(self, error: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of an `error` event. `param` is always null: no frame has one."""
        code = error.get("code")
        kind = ERROR_TYPES.get(openai_errors.status_of(code), SOURCE_TYPES[error["source"]])
        return {"error": {"type": kind, "code": code, "message": error["message"], "param": None}}

    def incomplete_details(self, reason: str | None) -> dict[str, str]:
        """Return why a response is incomplete."""
        reason = reason or UNKNOWN
        return {"reason": INCOMPLETE_REASONS.get(reason, reason)}
