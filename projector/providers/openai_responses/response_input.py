"""The `input` of a Responses request as a conversation, for an upstream with another API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from projector.contracts import codec
from projector.conversation.entries import (
    Conversation,
    Entry,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
    user_text,
)
from projector.conversation.given_members import Given, content_of
from projector.providers.openai_responses.client_tools import CLIENT, SEARCH, flat_name, found_tools

ROLES: Final = frozenset({"user", "assistant", "system", "developer"})


def read_input(body: Given) -> Conversation:
    """Return the conversation of `input`; raise `UnsupportedRequestError` for an item that no other API has."""
    if isinstance(body.members.get("input"), str):
        return [user_text(body.text("input"))]
    return [_entry(item) for item in body.objects("input")]


def _entry(item: Given) -> Entry:
    item_type = item.text_or_none("type") or "message"
    read = READERS.get(item_type)
    return item.unsupported("type") if read is None else read(item)


def _message(item: Given) -> Message:
    role = item.text("role")
    if role not in ROLES:
        item.unsupported("role")
    return Message(cast("Role", role), content_of(item, "content", PARTS), item.text_or_none("phase"))


def _image(part: Given) -> Image:
    if "file_id" in part.members:
        part.refuse("file_id", "is a file of another provider; send its content.")
    return Image(part.text("image_url"), part.text_or_none("detail"))


def _file(part: Given) -> File:
    if "file_id" in part.members:
        part.refuse("file_id", "is a file of another provider; send its content.")
    return File(part.text_or_none("file_data") or part.text("file_url"), part.text_or_none("filename"))


def _reasoning(item: Given) -> Reasoning:
    summary = tuple(part.text("text") for part in item.objects("summary"))
    return Reasoning(item.text_or_none("id") or "", summary, item.text_or_none("encrypted_content"))


def _server_call(item: Given) -> ServerCall:
    names = [item.text(name) for name in ("id", "server_label", "name", "arguments")]
    return ServerCall(names[0], names[1], names[2], names[3], item.text_or_none("output") or "")


def _name(item: Given) -> str:
    return flat_name(item.text("name"), item.text_or_none("namespace"))


def _search(item: Given) -> ToolCall:
    """Return the search for tools that the client ran, as the call of a function."""
    if item.members.get("execution") != CLIENT:
        item.unsupported("execution")
    return ToolCall(item.text("call_id"), SEARCH, codec.dumps(item.child("arguments").members).decode())


def _found(item: Given) -> ToolOutput:
    if item.members.get("execution") != CLIENT:
        item.unsupported("execution")
    return ToolOutput(item.text("call_id"), found_tools(item))


PARTS: Final[Mapping[str, Callable[[Given], Part]]] = {
    **dict.fromkeys(("input_text", "output_text", "text"), lambda part: Text(part.text("text"))),
    "refusal": lambda part: Refusal(part.text("refusal")),
    "input_image": _image,
    "input_file": _file,
}
"""Type of a part -> what reads it."""

READERS: Final[Mapping[str, Callable[[Given], Entry]]] = {
    "message": _message,
    "function_call": lambda item: ToolCall(item.text("call_id"), _name(item), item.text("arguments")),
    "function_call_output": lambda item: ToolOutput(item.text("call_id"), content_of(item, "output", PARTS)),
    "custom_tool_call": lambda item: ToolCall(item.text("call_id"), _name(item), item.text("input"), "custom"),
    "custom_tool_call_output": lambda item: ToolOutput(
        item.text("call_id"), content_of(item, "output", PARTS), "custom"
    ),
    "mcp_call": _server_call,
    "tool_search_call": _search,
    "tool_search_output": _found,
    "reasoning": _reasoning,
}
"""Type of an item -> what reads it. The others are a provider's own: hosted tools, references to stored items."""
