"""A conversation with a model, in neutral terms: every route reads requests into it, every provider writes from it.

    messages of the user, the model or the server, with parts: text, refusal, image, file
    calls of functions and custom tools, and their outputs
    finished calls of MCP servers, requests for approval and their answers
    reasoning, which only the provider can read

What a client sends is its own claim (docs/decisions/0008). Readers check sizes; the entries are not checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from projector.core.canonical import json_text, object_in

ASSISTANT: Final = "assistant"
USER: Final = "user"

Role: TypeAlias = Literal["user", "assistant", "system", "developer"]
ROLES: Final[Mapping[str, Role]] = {role: role for role in get_args(Role)}
CallKind: TypeAlias = Literal["function", "custom"]
"""A function has a JSON object as input, a custom tool has a text."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The text with which the model refused."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image: an https URL or a data URL."""

    url: str
    detail: str | None = None
    """How closely the model looks at it."""


@dataclass(frozen=True, slots=True)
class File:
    """A document: an https URL, a data URL, or the ID of a file that the provider stores."""

    url: str | None = None
    name: str | None = None
    file_id: str | None = None


Part: TypeAlias = Text | Refusal | Image | File
Content: TypeAlias = str | tuple[Part, ...]
"""A text, or parts. Providers treat one text part like the text; each is written as it was read."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """What a provider wants back unchanged with an entry, such as a signature; a client never sees it in clear.

    The stage of the provider gives it to a finished item as the member `opaque`; its request writer gets it back.
    """

    provider: str
    """Row of `PROVIDERS`; other providers ignore it."""
    value: object
    """JSON of that provider's own shape."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message. One of the role `assistant` may be the claim of a client."""

    role: Role
    content: Content
    phase: str | None = None
    """`commentary` or `final_answer`, of a message of the model."""
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of the model that somebody else than the provider runs."""

    id: str
    name: str
    input: str
    kind: CallKind = "function"
    opaque: Opaque | None = None
    encrypted: str | None = None
    """What the client carries with it."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a call."""

    call_id: str
    output: Content
    kind: CallKind = "function"
    has_failed: bool = False
    """Whether the tool failed. APIs without a member for it have the output only."""


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A finished call of an MCP tool, with its output."""

    id: str
    server: str
    name: str
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call of an MCP tool that waits for an approval."""

    id: str
    server: str
    name: str
    input: str


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to a request for approval."""

    request_id: str
    is_approved: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning of the model, encrypted by the provider."""

    id: str
    summary: tuple[str, ...] = ()
    encrypted: str | None = None
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class DroppedCalls:
    """Placeholder for calls without an output that a reader has dropped: reasoning before them is lost as well."""


Entry: TypeAlias = Message | ToolCall | ToolOutput | ServerCall | ApprovalRequest | Approval | Reasoning | DroppedCalls
Conversation: TypeAlias = Sequence[Entry]


def own_value(opaque: Opaque | None, provider: str) -> object:
    """Return the value that a provider wants back, None if there is none of this provider."""
    return opaque.value if opaque is not None and opaque.provider == provider else None


def text_of(content: Content) -> str:
    """Return the text of content, without refusals, images and files."""
    return content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, Text))


def parts_of(entries: Iterable[Entry]) -> list[Part]:
    """Return the parts of all messages and outputs."""
    contents = [
        entry.content if isinstance(entry, Message) else entry.output
        for entry in entries
        if isinstance(entry, Message | ToolOutput)
    ]
    return [part for content in contents if not isinstance(content, str) for part in content]


def object_of(text: str) -> dict[str, Any]:
    """Return the arguments of a call; text that is no object, or a too deep one, is kept in one."""
    found = object_in(text) if text.strip() else {}
    return {"input": text} if found is None or not json_text(found) else found
