"""What the request writers of all providers need: a conversation as turns, parts by their type, tools of the client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Self, TypeAlias, assert_never

from projector.conversation.client_history import NO_PARAMETERS
from projector.conversation.entries import (
    Approval,
    ApprovalRequest,
    Content,
    DroppedCalls,
    Entry,
    Message,
    Part,
    Reasoning,
    Refusal,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.conversation.given_members import Given
from projector.conversation.model_request import Body, UnsupportedRequestError

TEXT_INPUT: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""Parameters of a custom tool, which has one text as its input, as those of a function."""


class Turns(ABC):
    """The turns of a conversation in one API, to which entries are added in their order."""

    def add(self, entries: Iterable[Entry]) -> Self:
        """Add entries; raise `UnsupportedRequestError` for one that no API but Responses can express."""
        for entry in entries:
            match entry:
                case Message():
                    self.message(entry)
                case ToolCall():
                    self.call(entry)
                case ToolOutput():
                    self.output(entry)
                case ServerCall():
                    self.call(ToolCall(entry.id, entry.name, entry.input))
                    self.output(ToolOutput(entry.id, entry.output))
                case Reasoning():
                    self.reasoning(entry)
                case Approval():
                    raise UnsupportedRequestError(_NO_ITEMS.format("mcp_approval_response"))
                case ApprovalRequest():
                    raise UnsupportedRequestError(_NO_ITEMS.format("mcp_approval_request"))
                case DroppedCalls():
                    pass
                case _:
                    assert_never(entry)
        return self

    @abstractmethod
    def message(self, entry: Message) -> None:
        """Add a message."""

    @abstractmethod
    def call(self, entry: ToolCall) -> None:
        """Add a call."""

    @abstractmethod
    def output(self, entry: ToolOutput) -> None:
        """Add the output of a call."""

    def reasoning(self, entry: Reasoning) -> None:  # noqa: B027 - only the provider that encrypted it can read it
        """Add reasoning, if it is of this provider."""


_NO_ITEMS: Final = "This agent does not support items of type `{}`."

PartWriters: TypeAlias = Mapping[type, Callable[[Any], Body | None]]
"""Type of a part of a message -> what writes it; None for an empty one, which many APIs refuse."""


def written_parts(content: Content, writers: PartWriters) -> list[Body]:
    """Return the parts of content; a text is one part."""
    parts = (Text(content),) if isinstance(content, str) else content
    return [written for part in parts if (written := writers[type(part)](part)) is not None]


def typed_text(part: Part) -> Body | None:
    """Return a text or refusal as an object of the type `text`; None for an empty one."""
    text = part.text if isinstance(part, Text | Refusal) else ""
    return {"type": "text", "text": text} if text else None


def data_of(url: str) -> tuple[str, str] | None:
    """Return media type and base64 of a data URL; None for another URL."""
    if not url.startswith("data:"):
        return None
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, _, coding = head.partition(";")
    if coding.rpartition(";")[2] != "base64":
        raise UnsupportedRequestError("A data URL must be in base64.")
    return media_type, data


class ClientFunction(NamedTuple):
    """A tool of the client as a function."""

    name: str
    about: Body
    """The description, if there is one."""
    schema: Any
    """JSON Schema of the arguments."""


CLIENT_TOOLS: Final = frozenset({"function", "custom"})
"""Types of the tools that a client runs; `tools_of` refuses others."""

WEB_SEARCHES: Final = frozenset({"web_search", "web_search_2025_08_26", "web_search_preview"})
"""Types of the tool with which a provider searches the web."""


def function_of(tool: Given) -> ClientFunction:
    """Return a tool of the client, whose type is one of `CLIENT_TOOLS`, as a function."""
    description = tool.text_or_none("description")
    about: Body = {"description": description} if description else {}
    schema = TEXT_INPUT if tool.text("type") == "custom" else tool.members.get("parameters") or NO_PARAMETERS
    return ClientFunction(tool.text("name"), about, schema)


def listed(value: object) -> object:
    """Return a text as a list of one."""
    return [value] if isinstance(value, str) else value
