"""Encode frames as events of the Responses API: what it defines, its errors, and the tables of frame kinds.

One `error` event serves all SDKs. The `openai` SDKs raise on the nested object only and their models have the flat
members only; the AI SDK reads both. A failed response has one of the SDK's codes; its `error` event has the real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame
from projector.dialects.openai_errors import error_object, status_of, type_of
from projector.dialects.response_writer import frame_writers
from projector.dialects.response_writer.frame_writers import ResponseWriter, Writer
from projector.dialects.response_writer.output_items import PartKind, WireProtocol
from projector.dialects.response_writer.response_stream import EVENT_MAX_BYTES, ResponseStream
from projector.dialects.responses.item_shapes import CITATIONS, DROPPED_ITEMS, ITEMS

CODES: Final = frozenset(
    {
        *("server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch", "bio_policy"),
        *("misalignment_policy_violation", "vector_store_timeout", "invalid_image", "invalid_image_format"),
        *("invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small", "image_parse_error"),
        *("image_content_policy_violation", "invalid_image_mode", "image_file_too_large", "empty_image_file"),
        *("unsupported_image_media_type", "failed_to_download_image", "image_file_not_found"),
    }
)
"""Codes of a failed response that the API defines."""

STATUS_CODES: Final[Mapping[int, str]] = {429: "rate_limit_exceeded", 400: "invalid_prompt", 422: "invalid_prompt"}
"""HTTP status of any other code -> code of the failed response; else it is `server_error`."""

INCOMPLETE_REASONS: Final[Mapping[str | None, str]] = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "max_messages": "max_messages",
    "content_filter": "content_filter",
    "steered": "steered",
}
"""Reason of an incomplete response -> that of the API. A response with any other reason has none."""


def error_members(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an `error` event: flat and nested."""
    nested = error_object(error.get("code"), error["message"], error.get("param"), error.get("type"))
    return {"code": nested["code"], "message": nested["message"], "param": nested["param"], "error": nested}


def response_error(code: str, message: str) -> dict[str, Any]:
    """Return the `error` of a failed response."""
    status = status_of(code)
    known = code if code in CODES else STATUS_CODES.get(status, "server_error")
    return {"code": known, "message": message, "type": type_of(status), "param": None}


def incomplete_details(reason: str | None) -> dict[str, str] | None:
    """Return why a response is incomplete, if the API has a word for it."""
    known = INCOMPLETE_REASONS.get(reason)
    return None if known is None else {"reason": known}


def status_of_error(error: Mapping[str, Any]) -> int:
    """Return the HTTP status of the nested object of an `error` event."""
    return status_of(error["code"], error["type"])


REQUEST_MEMBERS: Final[Mapping[str, object]] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": (),
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Members that repeat the request: some SDKs require them."""

ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("response.completed", "completed"),
    "refused": ("response.completed", "completed"),
    "incomplete": ("response.incomplete", "incomplete"),
    "cancelled": ("response.incomplete", "cancelled"),  # the API has the status, but no event of that name
    "failed": ("response.failed", "failed"),
}
"""Status of `final` -> the last event and the status of its response."""


def text_members(text_format: Mapping[str, str]) -> dict[str, object]:
    """Return `text` for a structured format: clients parse the text only if it is there. Its schema is their own."""
    if text_format["type"] != "json_schema":
        return {"text": {"format": {"type": text_format["type"]}}}
    return {"text": {"format": {"type": "json_schema", "name": "response", "schema": {}}}}


PROTOCOL: Final = WireProtocol(
    items=ITEMS,
    dropped_items=DROPPED_ITEMS,
    has_own_items=False,
    roles=frozenset({"assistant"}),
    citations=CITATIONS,
    reasoning=PartKind("reasoning_text", "response.reasoning_text"),
    request_members=REQUEST_MEMBERS,
    service_tiers=frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
    text_members=text_members,
    usage_members={"input_tokens_details": {"cache_write_tokens": 0}},
    ends=ENDS,
    incomplete_details=incomplete_details,
    error_members=error_members,
    response_error=response_error,
    announces_failure=True,
    whole_members=frozenset({"result", "encrypted_content", "partial_image_b64", "url"}),
    has_extensions=False,
)


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
