"""The `messages` of a Chat Completions request as a conversation, for an upstream with another API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from projector.conversation.entries import (
    ASSISTANT,
    CallKind,
    Content,
    Conversation,
    Entry,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.conversation.given_members import Given, content_of
from projector.providers.openai_chat.chat_messages import CALLS

IGNORED: Final[Mapping[str, str]] = {
    "reasoning_content": "no provider reads reasoning of another one",
    "reasoning": "the same",
    "annotations": "the text is sent, its sources are not part of the conversation",
    "parsed": "a member of the helpers of the `openai` package",
}
"""Member of a message of the model that is not sent, and why."""

KINDS: Final[Mapping[str, CallKind]] = {"function": "function", "custom": "custom"}
"""Type of a call -> its kind."""


def read_messages(body: Given) -> Conversation:
    """Return the conversation of `messages`; raise `UnsupportedRequestError` for what no other API has."""
    entries: list[Entry] = []
    kinds: dict[str, CallKind] = {}
    for message in body.objects("messages"):
        read = READERS.get(message.text("role"))
        if read is None:
            message.unsupported("role")
        for entry in read(message, kinds):
            if isinstance(entry, ToolCall):
                kinds[entry.id] = entry.kind
            entries.append(entry)
    return entries


def _message(message: Given, _kinds: Mapping[str, CallKind]) -> Iterator[Entry]:
    message.only("role", "content")
    yield Message(cast("Role", message.text("role")), _content(message, "content"))


def _answer(message: Given, _kinds: Mapping[str, CallKind]) -> Iterator[Entry]:
    """Yield a message of the model and its calls."""
    message.only("role", "content", "refusal", "tool_calls", *IGNORED)
    content = _content(message, "content") if "content" in message.members else ""
    refusal = message.text_or_none("refusal")
    if refusal:
        said = content if not isinstance(content, str) else (Text(content),) if content else ()
        content = (*said, Refusal(refusal))
    calls = message.objects("tool_calls")
    if content or not calls:
        yield Message(ASSISTANT, content)
    for call in calls:
        kind = KINDS.get(call.text("type"))
        if kind is None:
            call.unsupported("type")
        member, text = CALLS[kind]
        given = call.child(member)
        yield ToolCall(call.text("id"), given.text("name"), given.text(text), kind)


def _output(message: Given, kinds: Mapping[str, CallKind]) -> Iterator[Entry]:
    message.only("role", "content", "tool_call_id")
    call_id = message.text("tool_call_id")
    yield ToolOutput(call_id, _content(message, "content"), kinds.get(call_id, "function"))


READERS: Final[Mapping[str, Callable[[Given, Mapping[str, CallKind]], Iterator[Entry]]]] = {
    "system": _message,
    "developer": _message,
    "user": _message,
    "assistant": _answer,
    "tool": _output,
}
"""Role of a message -> what reads it."""


def _content(message: Given, name: str) -> Content:
    if name not in message.members:
        message.text(name)  # which is missing
    return content_of(message, name, PARTS)


def _image(part: Given) -> Image:
    image = part.child("image_url")
    return Image(image.text("url"), image.text_or_none("detail"))


def _file(part: Given) -> File:
    file = part.child("file")
    if "file_id" in file.members:
        file.refuse("file_id", "is a file of another provider; send its content.")
    return File(file.text("file_data"), file.text_or_none("filename"))


PARTS: Final[Mapping[str, Callable[[Given], Part]]] = {
    "text": lambda part: Text(part.text("text")),
    "refusal": lambda part: Refusal(part.text("refusal")),
    "image_url": _image,
    "file": _file,
}
"""Type of a part -> what reads it."""
