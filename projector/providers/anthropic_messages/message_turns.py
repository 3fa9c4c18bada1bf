"""A conversation as `system` and `messages`.

The API demands: turns of both roles alternate; the results of all calls of a turn are the first blocks of one message
of the user; texts are not empty; the input of a call is an object; thinking has its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    USER,
    Approval,
    ApprovalRequest,
    Content,
    Entry,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
    object_of,
)
from projector.conversation.model_request import Body, UnsupportedRequestError

PROVIDER: Final = "anthropic_messages"


class Turns:
    """The turns of a conversation."""

    def __init__(self) -> None:
        self.system: list[Body] = []
        self.messages: list[Body] = []

    def add(self, entry: Entry) -> None:
        """Add an entry; raise `UnsupportedRequestError` if the API cannot express it."""
        if (reason := UNSUPPORTED.get(type(entry))) is not None:
            raise UnsupportedRequestError(reason)
        if (write := WRITERS.get(type(entry))) is not None:
            write(self, entry)

    def message(self, entry: Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the system prompt."""
        blocks = _blocks(entry.content)
        if entry.role in {ASSISTANT, USER}:
            self._extend(entry.role, blocks)
        elif self.messages:
            self._extend(USER, blocks)
        else:
            self.system += blocks

    def call(self, entry: ToolCall) -> None:
        """Add a call."""
        given = entry.input if entry.kind == "custom" else None
        value = {"input": given} if given is not None else object_of(entry.input)
        self._extend(ASSISTANT, [{"type": "tool_use", "id": entry.id, "name": entry.name, "input": value}])

    def output(self, entry: ToolOutput) -> None:
        """Add the result of a call, before anything else that the user says in this turn."""
        content: Any = entry.output if isinstance(entry.output, str) else _blocks(entry.output)
        block = {"type": "tool_result", "tool_use_id": entry.call_id, **({"content": content} if content else {})}
        self._extend(USER, [])
        blocks = self.messages[-1]["content"]
        at = sum(one["type"] == "tool_result" for one in blocks)
        blocks.insert(at, block)

    def server_call(self, entry: ServerCall) -> None:
        """Add a call of an MCP tool as one of a function, with its output."""
        self.call(ToolCall(entry.id, entry.name, entry.input))
        self.output(ToolOutput(entry.id, entry.output))

    def reasoning(self, entry: Reasoning) -> None:
        """Add thinking as it came; without its signature it cannot go back, and the API goes on without it."""
        opaque = entry.opaque
        if opaque is not None and opaque.provider == PROVIDER and (blocks := thinking_of(opaque.value)):
            self._extend(ASSISTANT, blocks)

    def done(self) -> list[Body]:
        """Return the messages; those without content are left out."""
        return [message for message in self.messages if message["content"]]

    def _extend(self, role: str, blocks: list[Body]) -> None:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": []})
        self.messages[-1]["content"] += blocks


WRITERS: Final[Mapping[type, Callable[[Turns, Any], None]]] = {
    Message: Turns.message,
    ToolCall: Turns.call,
    ToolOutput: Turns.output,
    ServerCall: Turns.server_call,
    Reasoning: Turns.reasoning,
}
"""Entry -> what adds it."""

UNSUPPORTED: Final[Mapping[type, str]] = {
    Approval: "This agent does not support items of type `mcp_approval_response`.",
    ApprovalRequest: "This agent does not support items of type `mcp_approval_request`.",
}
"""Entry that the API cannot express -> message."""


def thinking_of(value: object) -> list[Body]:
    """Return the block of thinking that the opaque value of reasoning is from; none, if it is from none."""
    if not isinstance(value, Mapping):
        return []
    if isinstance(value.get("data"), str):
        return [{"type": "redacted_thinking", "data": value["data"]}]
    if isinstance(value.get("signature"), str):
        return [{"type": "thinking", "thinking": value.get("thinking") or "", "signature": value["signature"]}]
    return []


def turns_of(entries: Iterable[Entry]) -> Turns:
    """Return the turns of a conversation; raise `UnsupportedRequestError` for an entry that is none."""
    turns = Turns()
    for entry in entries:
        turns.add(entry)
    return turns


def _blocks(content: Content) -> list[Body]:
    parts = (Text(content),) if isinstance(content, str) else content
    return [block for part in parts if (block := PARTS[type(part)](part)) is not None]


def _text(part: Part) -> Body | None:
    text = part.text if isinstance(part, Text | Refusal) else ""
    return {"type": "text", "text": text} if text.strip() else None


def _source(url: str) -> Body:
    """Return the source of an image or document: base64 or an address."""
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, _, coding = head.partition(";")
    if coding != "base64":
        raise UnsupportedRequestError("A data URL must be in base64.")
    return {"type": "base64", "media_type": media_type, "data": data}


def _image(image: Image) -> Body:
    return {"type": "image", "source": _source(image.url)}


def _file(file: File) -> Body:
    source = {"type": "file", "file_id": file.file_id} if file.file_id else _source(file.url or "")
    return {"type": "document", "source": source, **({"title": file.name} if file.name else {})}


PARTS: Final[Mapping[type, Callable[[Any], Body | None]]] = {Text: _text, Refusal: _text, Image: _image, File: _file}
"""Part of a message -> its block; None for one that is empty, which the API refuses."""
