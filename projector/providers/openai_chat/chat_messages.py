"""A conversation as messages of Chat Completions.

The API has neither encrypted reasoning nor approvals. Each call must be in the message before its output, and all
calls of one turn in one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    Content,
    Entry,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Text,
    ToolCall,
    ToolOutput,
    text_of,
)
from projector.conversation.model_request import Body, UnsupportedRequestError
from projector.conversation.written import Turns
from projector.providers.openai_chat.returned_state import add_state

PROVIDER: Final = "openai_chat"
"""Row of `PROVIDERS`."""

CALLS: Final[Mapping[str, tuple[str, str]]] = {"function": ("function", "arguments"), "custom": ("custom", "input")}
"""Kind of a call -> type of the message's call, which is also the member that describes it, and that of its input."""


def messages_of(entries: Iterable[Entry]) -> list[Body]:
    """Return the messages of a conversation; raise `UnsupportedRequestError` for an entry that is none."""
    messages = _Messages().add(entries)
    messages.end_calls()
    return messages.all


class _Messages(Turns):
    """The messages of a conversation. Calls belong to one message as long as one of them waits for its output."""

    def __init__(self) -> None:
        self.all: list[Body] = []
        self._caller: Body | None = None
        """The message that further calls belong to."""
        self._texts: list[str] = []
        """Texts of the model that stand between these calls and their outputs."""
        self._waiting = 0

    def message(self, entry: Message) -> None:
        is_assistant = entry.role == ASSISTANT
        message = {"role": entry.role, **(_answer(entry.content) if is_assistant else _question(entry.content))}
        if self._waiting and is_assistant:
            self._texts += [message["content"]] if message["content"] else []
            return
        self.end_calls()
        self.all.append(message)
        self._caller = message if is_assistant else None

    def end_calls(self) -> None:
        """Complete the message with the last calls."""
        if self._caller is not None and self._texts:
            own = self._caller.get("content")
            self._caller["content"] = "\n\n".join([own, *self._texts] if own else self._texts)
        self._caller, self._texts, self._waiting = None, [], 0

    def call(self, entry: ToolCall) -> None:
        """Add a call, in a message of its own if no other call belongs with it."""
        if self._caller is None:
            self._caller = {"role": ASSISTANT}
            self.all.append(self._caller)
        member, text = CALLS[entry.kind]
        call = {"id": entry.id, "type": member, member: {"name": entry.name, text: entry.input}}
        self._caller.setdefault("tool_calls", []).append(call)
        if entry.opaque is not None and entry.opaque.provider == PROVIDER:
            add_state(self._caller, call, entry.opaque.value)
        self._waiting += 1

    def output(self, entry: ToolOutput) -> None:
        content = _question(entry.output)
        self.all.append({"role": "tool", "tool_call_id": entry.call_id, **content})
        self._waiting -= 1
        if self._waiting <= 0:
            self.end_calls()


def _question(content: Content) -> Body:
    """Return the content of a message that is not the model's."""
    return {"content": content if isinstance(content, str) else [PARTS[type(part)](part) for part in content]}


def _answer(content: Content) -> Body:
    """Return the content of a message of the model. Its parts are one text."""
    if isinstance(content, str):
        return {"content": content}
    refusal = "".join(part.text for part in content if isinstance(part, Refusal))
    return {"content": text_of(content) or None, **({"refusal": refusal} if refusal else {})}


def _text(part: Part) -> Body:
    return {"type": "text", "text": part.text if isinstance(part, Text | Refusal) else ""}


def _image(image: Image) -> Body:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def _file(file: File) -> Body:
    """Return a file; raise `UnsupportedRequestError` for an address, which the API does not load."""
    if file.file_id:
        return {"type": "file", "file": {"file_id": file.file_id}}
    if not (file.url or "").startswith("data:"):
        raise UnsupportedRequestError("This agent does not support the URL of a file; send its content.")
    return {"type": "file", "file": {"filename": file.name or "file", "file_data": file.url}}


PARTS: Final[Mapping[type, Callable[[Any], Body]]] = {Text: _text, Refusal: _text, Image: _image, File: _file}
"""Part of a message -> its part in Chat Completions."""
