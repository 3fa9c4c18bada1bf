"""The item types of the Responses API that we write, and the reasons for those that we do not.

The members of an item are those that the SDKs' models require; optional ones are written if a frame has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.core.handlers.item_members import MEMBERS
from projector.dialects.response_writer.output_items import CallText, Field, ItemShape


def one_of(*values: str) -> Callable[[str], str | None]:
    """Return a converter that passes the values that the API defines, and returns None for any other."""
    return {value: value for value in values}.get


def text_of(value: object) -> str:
    """Return a value as text. Anything but text is JSON text."""
    return value if isinstance(value, str) else codec.dumps(value).decode()


def results_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of a file search with all members, because some clients require each of them."""
    return [
        {
            "attributes": {
                name: value for name, value in result.get("attributes", {}).items() if isinstance(value, SCALARS)
            },
            "file_id": result.get("file_id", ""),
            "filename": result.get("filename", ""),
            "score": result.get("score", 0.0),
            "text": result.get("text", ""),
        }
        for result in results
    ]


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
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text_of(error)}]}


CALL: Final[Mapping[str, Field]] = {
    "tool_call_id": Field("call_id"),
    "name": Field("name"),
    "arguments_text": Field("arguments"),
    **{name: Field(name) for name in ("namespace", "caller", "async")},
}
"""Members of a call that the client runs."""

MCP: Final[Mapping[str, Field]] = {
    "name": Field("name"),
    "tool_name": Field("name"),
    "server_label": Field("server_label"),
    "arguments_text": Field("arguments"),
}
"""Members of an MCP call and of its approval request."""

NO_COMMANDS: Final[Mapping[str, object]] = {"commands": (), "max_output_length": None, "timeout_ms": None}
NO_COMMAND: Final[Mapping[str, object]] = {"type": "exec", "command": (), "env": {}}
NO_OPERATION: Final[Mapping[str, object]] = {"type": "delete_file", "path": ""}


def as_sent(item_type: str, *, has_status: bool = True, **required: object) -> ItemShape:
    """Return the shape of an item whose members are written as the provider sent them, without what is withheld."""
    return ItemShape(
        required, {name: Field(name) for name in MEMBERS[item_type]}, has_status=has_status, adds_fields=True
    )


HOSTED_STATUSES: Final[Mapping[str, str]] = {}
"""Hosted tools have the status `failed` of their own."""

ITEMS: Final[Mapping[str, ItemShape]] = {
    "message": ItemShape({"content": ()}, {"phase": Field("phase")}, adds_fields=True),
    "reasoning": ItemShape({"summary": ()}),
    "function_call": ItemShape(
        {"call_id": "", "name": "unknown", "arguments": ""},
        CALL,
        CallText("response.function_call_arguments", repeats_as_delta=True),
        adds_fields=True,
    ),
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
            "output": Field("output", text_of),
            "error": Field("error", mcp_error_of),
            "approval_request_id": Field("approval_request_id"),
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
        {
            "container_id": Field("container_id"),
            "code": Field("code"),
            "output": Field("outputs", interpreter_outputs_of),
        },
        CallText("response.code_interpreter_call_code", "code", repeats_as_delta=True),
        statuses=HOSTED_STATUSES,
    ),
    "image_generation_call": ItemShape(
        {"result": None},
        {
            "result": Field("result"),
            "format": Field("output_format", one_of("png", "webp", "jpeg", "gif", "svg")),
            "size": Field("size"),
            "quality": Field("quality", one_of("low", "medium", "high", "xhigh", "max", "auto")),
            "background": Field("background", one_of("transparent", "opaque", "auto")),
            "revised_prompt": Field("revised_prompt"),
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
