"""Encode frames as events of the Responses API: its item types, what it defines, its errors, the tables of frame kinds.

The members of an item are those that the SDKs' models require; optional ones are written if a frame has them. One
`error` event serves all SDKs: the `openai` SDKs raise on the nested object only and their models have the flat members
only; the AI SDK reads both. A failed response has one of the SDK's codes; its `error` event has the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame
from projector.core.handlers.items import MEMBERS
from projector.core.handlers.tool_calls import STATUSES
from projector.dialects.frame_writer import json_text
from projector.dialects.openai_errors import error_object, status_of, type_of
from projector.dialects.response_writer import frame_writers
from projector.dialects.response_writer.output_items import CALL, FUNCTION_CALL, CallText, Field, ItemShape, PartKind
from projector.dialects.response_writer.response_stream import ENDS, ResponseStream, Writer


def one_of(*values: str) -> Callable[[str], str | None]:
    """Return a converter that passes the values that the API defines, and returns None for any other."""
    return {value: value for value in values}.get


def results_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of a file search with all members, because some clients require each of them."""
    found = [{name: result.get(name, default) for name, default in RESULT.items()} for result in results]
    for result in found:
        attributes = result["attributes"].items()
        result["attributes"] = {name: value for name, value in attributes if isinstance(value, SCALARS)}
    return found


RESULT: Final[Mapping[str, Any]] = {"attributes": {}, "file_id": "", "filename": "", "score": 0.0, "text": ""}


ACTION_MEMBERS: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]]] = {
    "search": (("query", "queries", "sources"), {}),
    "open_page": (("url",), {}),
    "find_in_page": (("url", "pattern"), {"url": "", "pattern": ""}),
}
"""Type of an action -> its members, and those that the API requires, with defaults."""


def action_of(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the action of a web search with the members of its type."""
    members, required = ACTION_MEMBERS[action["type"]]
    return {"type": action["type"], **required, **{name: action[name] for name in members if name in action}}


SCALARS: Final = (str, int, float)
"""Types of the values of a file's attributes; `bool` is an `int`."""

IMAGE_URLS: Final = ("https://", "http://", "data:image/")
"""Start of the URL of an image. One that was withheld is no URL, and clients reject it."""


def interpreter_outputs_of(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs of a code interpreter: logs and images. The API has no other ones."""
    found = []
    for output in outputs:
        if output.get("type") == "logs":
            found.append({"type": "logs", "logs": output.get("logs", "")})
        elif output.get("type") == "image" and output.get("url", "").startswith(IMAGE_URLS):
            found.append({"type": "image", "url": output["url"]})
    return found


ERROR_TYPES: Final = frozenset({"mcp_protocol_error", "mcp_tool_execution_error", "http_error"})
"""Types of the error of an MCP call."""


def mcp_error_of(error: object) -> dict[str, Any]:
    """Return the error of an MCP call. One that has no type of the API becomes the content of such an error."""
    if isinstance(error, dict) and error.get("type") == "mcp_tool_execution_error":
        return {"type": "mcp_tool_execution_error", "content": error.get("content")}
    if isinstance(error, dict) and error.get("type") in ERROR_TYPES:
        code, message = error.get("code"), error.get("message")
        return {
            "type": error["type"],
            "code": code if isinstance(code, int) else 0,
            "message": message if isinstance(message, str) else "",
        }
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": json_text(error)}]}


MCP: Final[Mapping[str, Field]] = {
    **Field.same("name", "server_label"),
    "tool_name": Field("name"),
    "arguments_text": Field("arguments"),
}
"""Members of an MCP call and of its approval request."""

NO_COMMANDS: Final[Mapping[str, object]] = {"commands": (), "max_output_length": None, "timeout_ms": None}
NO_COMMAND: Final[Mapping[str, object]] = {"type": "exec", "command": (), "env": {}}
NO_OPERATION: Final[Mapping[str, object]] = {"type": "delete_file", "path": ""}


def as_sent(item_type: str, *, has_status: bool = True, **required: object) -> ItemShape:
    """Return the shape of an item whose members are written as the provider sent them, without what is withheld."""
    return ItemShape(required, Field.same(*MEMBERS[item_type]), has_status=has_status, adds_fields=True)


HOSTED_STATUSES: Final[Mapping[str, str]] = {}
"""Hosted tools have the status `failed` of their own."""

ITEMS: Final[Mapping[str, ItemShape]] = {
    "message": ItemShape({"content": ()}, Field.same("phase"), adds_fields=True),
    "reasoning": ItemShape({"summary": ()}),
    "function_call": FUNCTION_CALL._replace(text=CallText("response.function_call_arguments", repeats_as_delta=True)),
    "custom_tool_call": ItemShape(
        {"call_id": "", "name": "unknown", "input": ""},
        {**CALL, "arguments_text": Field("input")},
        CallText("response.custom_tool_call_input", "input", repeats_as_delta=True),
        adds_fields=True,
    ),
    "mcp_call": ItemShape(
        {"server_label": "", "name": "unknown", "arguments": "", "output": None, "error": None},
        {
            **MCP,
            **Field.same("approval_request_id"),
            "output": Field("output", json_text),
            "error": Field("error", mcp_error_of),
        },
        CallText("response.mcp_call_arguments", repeats_as_delta=True),
        statuses=HOSTED_STATUSES,
        adds_fields=True,
    ),
    "mcp_approval_request": ItemShape({"server_label": "", "name": "unknown", "arguments": ""}, MCP, has_status=False),
    "web_search_call": ItemShape(
        {"action": {"type": "search"}}, {"action": Field("action", action_of)}, statuses=HOSTED_STATUSES
    ),
    "file_search_call": ItemShape(
        {"queries": (), "results": None},
        {"queries": Field("queries"), "results": Field("results", results_of)},
        statuses=HOSTED_STATUSES,
    ),
    "code_interpreter_call": ItemShape(
        {"code": "", "container_id": "", "outputs": None},
        {**Field.same("container_id", "code"), "output": Field("outputs", interpreter_outputs_of)},
        CallText("response.code_interpreter_call_code", "code", repeats_as_delta=True),
        statuses=HOSTED_STATUSES,
    ),
    "image_generation_call": ItemShape(
        {"result": None},
        {
            **Field.same("result", "size", "revised_prompt"),
            "format": Field("output_format", one_of("png", "webp", "jpeg", "gif", "svg")),
            "quality": Field("quality", one_of("low", "medium", "high", "xhigh", "max", "auto")),
            "background": Field("background", one_of("transparent", "opaque", "auto")),
        },
        statuses={"incomplete": "failed"},
        at_end={"result": ""},  # the AI SDK requires a text
        adds_fields=True,
    ),
    "shell_call": as_sent("shell_call", call_id="", action=NO_COMMANDS, environment=None),
    "shell_call_output": as_sent("shell_call_output", call_id="", output=(), max_output_length=None),
    "local_shell_call": as_sent("local_shell_call", call_id="", action=NO_COMMAND),
    # the API has no other status for a patch that is cut off, which a client must not apply
    "apply_patch_call": as_sent("apply_patch_call", call_id="", operation=NO_OPERATION)._replace(
        statuses=dict.fromkeys(("incomplete", "failed"), "in_progress")
    ),
    "computer_call": as_sent("computer_call", call_id="", pending_safety_checks=()),
    "tool_search_call": as_sent("tool_search_call", call_id=None, arguments={}, execution="server"),
    "tool_search_output": as_sent("tool_search_output", call_id=None, tools=(), execution="server"),
    "program": as_sent("program", has_status=False, call_id="", code="", fingerprint=""),
    "program_output": as_sent("program_output", call_id="", result="")._replace(
        statuses=dict.fromkeys(("in_progress", "failed"), "incomplete")
    ),
    "compaction": as_sent("compaction", has_status=False, encrypted_content=""),
}
"""Item types that we write."""

CLIENT: Final = "the client itself sends it"
CALLER: Final = "the AI SDK rejects a JSON answer with this type, and the caller of a function knows its output"
BETA: Final = "only requests with a beta header of OpenAI get it, and this header is not forwarded"

DROPPED_ITEMS: Final[Mapping[str, str]] = {
    "function_call_output": CALLER,
    "custom_tool_call_output": CALLER,
    "mcp_list_tools": "the tools of a server are configuration, and a client would send back the item without them: "
    "then the model has no tools in the next turn",
    "mcp_approval_response": CLIENT,
    "computer_call_output": CLIENT,
    "local_shell_call_output": CLIENT,
    "apply_patch_call_output": CLIENT,
    "additional_tools": "tools are configuration",
    **dict.fromkeys(("agent_message", "multi_agent_call", "multi_agent_call_output"), BETA),
    **dict.fromkeys(
        ("advisor_call", "container_upload", "fallback", "mcp_tool_listing", "server_tool_call"),
        "the API of OpenAI has no such items",
    ),
}
"""Item types that are not written, and why. Indexes have no gaps for them."""

CITATIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "url_citation": {"url": "", "title": "", "start_index": 0, "end_index": 0},
    "file_citation": {"file_id": "", "filename": "", "index": 0},
    "container_file_citation": {"container_id": "", "file_id": "", "filename": "", "start_index": 0, "end_index": 0},
    "file_path": {"file_id": "", "index": 0},
}
"""Citation -> its required members, with defaults: a citation with a missing member ends the answer of the AI SDK."""


# events


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

STATUS_EVENTS: Final = {row: name for name, row in STATUSES.items()}
"""Item type and status -> the event that the API has for it. `partial_image` is written with the image."""

WITH_STATUS_EVENTS: Final = frozenset(item_type for item_type, _ in STATUS_EVENTS)
"""Item types that have such events."""

FINAL_IMAGE: Final = "image_b64"
"""Field of the chunks of the final image; the other field is a partial image."""


def on_tool_status(stream: ResponseStream, frame: Frame) -> None:
    """Announce a call with its name and ID. Write its status if it is new and the API has an event for it."""
    item, tool = stream.items[frame["item_id"]], frame["tool"]
    item.update(tool)
    if item.index is None:
        stream.announce(item)
    status = tool["status"]
    name = STATUS_EVENTS.get((item.type, status))
    if name is not None and status != item.status and not item.is_done:
        stream.emit(name, item.position)
        stream.emit_notices(frame)
    elif item.type not in WITH_STATUS_EVENTS or item.is_done:
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
        settings = {name: item.members[name] for name in IMAGE_SETTINGS if name in item.members}
        stream.emit("response.image_generation_call.partial_image", item.position | members | settings)


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


class Responses(ResponseStream):
    """The writer of one stream."""

    writers = HANDLED
    shapes = ITEMS
    dropped_items = DROPPED_ITEMS
    roles = frozenset({"assistant"})
    citations = CITATIONS
    reasoning = PartKind("reasoning_text", "response.reasoning_text")
    request_members = REQUEST_MEMBERS
    service_tiers = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
    input_details: ClassVar = {"cache_write_tokens": 0}
    ends: ClassVar = {**ENDS, "cancelled": ("response.incomplete", "cancelled")}  # no event has the name of this status
    announces_failure = True
    whole_members = frozenset({"result", "encrypted_content", "partial_image_b64", "url"})

    def error_members(self, error: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of an `error` event: flat and nested."""
        nested = error_object(error.get("code"), error["message"], error.get("param"), error.get("type"))
        return {"code": nested["code"], "message": nested["message"], "param": nested["param"], "error": nested}

    def response_error(self, code: str, message: str) -> dict[str, Any]:
        """Return the `error` of a failed response."""
        status = status_of(code)
        known = code if code in CODES else STATUS_CODES.get(status, "server_error")
        return {"code": known, "message": message, "type": type_of(status), "param": None}

    def incomplete_details(self, reason: str | None) -> dict[str, str] | None:
        """Return why a response is incomplete, if the API has a word for it."""
        known = INCOMPLETE_REASONS.get(reason)
        return None if known is None else {"reason": known}

    def text_members(self, text_format: Mapping[str, str]) -> dict[str, object]:
        """Return `text` for a structured format: without it clients do not parse the text. Its schema is theirs."""
        if text_format["type"] != "json_schema":
            return {"text": {"format": {"type": text_format["type"]}}}
        return {"text": {"format": {"type": "json_schema", "name": "response", "schema": {}}}}
