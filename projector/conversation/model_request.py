"""A request to a model in neutral terms. Each provider's `request_writer` turns it into the body that its API expects.

The caller's tools have the shape of the Responses API, as canonical events do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from projector.conversation.entries import USER, Conversation, Message

Body: TypeAlias = dict[str, Any]
Item: TypeAlias = Mapping[str, Any]


class UnsupportedRequestError(ValueError):
    """The provider's API cannot express the request. The message names a member or item type, and contains no value."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        """Path of the member of the caller's request, if there is one."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A request to a model: the agent's part, in the format of the provider's API, and the caller's part."""

    model: str
    instructions: str | None = None
    tools: Sequence[Mapping[str, object]] = ()
    body: Mapping[str, object] = field(default_factory=dict)
    """Further members of the body."""

    input: str | Conversation
    """A message of the user, or a conversation."""
    client_tools: Sequence[Item] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Values by neutral names; they replace those of `body`. Each API has a table of them."""
    parameter_paths: Mapping[str, str] = field(default_factory=dict)
    """Name of a parameter -> its path in the caller's request, for errors."""
    previous_response_id: str | None = None
    metadata: Mapping[str, str] | None = None
    encrypted_reasoning: bool = False
    """Whether the response should contain encrypted reasoning."""

    @property
    def entries(self) -> Conversation:
        """The input as a conversation."""
        return [Message(USER, self.input)] if isinstance(self.input, str) else self.input

    @property
    def whole(self) -> Conversation:
        """The conversation after the instructions, for an API in which they are its first message or prompt."""
        instructions = [] if self.instructions is None else [Message("system", self.instructions)]
        return [*instructions, *self.entries]

    def refuse_previous_response(self) -> None:
        """Raise `UnsupportedRequestError` if the request continues a response, for an API that stores none."""
        if self.previous_response_id is not None:
            raise UnsupportedRequestError("`previous_response_id` cannot be set here.", "previous_response_id")

    def start(self, client_tools: Sequence[Item]) -> Body:
        """Return a body with model and tools as the API expects them. The parameters follow in `request_members`."""
        body: Body = {"model": self.model, **self.body}
        if self.tools or client_tools:
            body["tools"] = [*self.tools, *client_tools]
        return body
