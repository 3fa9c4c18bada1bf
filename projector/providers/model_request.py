"""A request to a model in neutral terms. Each provider's `request_writer` turns it into the body that its API expects.

The caller's tools have the shape of the Responses API, as canonical events do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from projector.core.conversation import Conversation

Body: TypeAlias = dict[str, Any]
Item: TypeAlias = Mapping[str, Any]
ParameterPaths: TypeAlias = Mapping[str, tuple[str, ...]]
"""Name of a caller's parameter -> where it is in the body, if not at the top level under its own name."""


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
    """`temperature`, `top_p`, `max_output_tokens`, `reasoning_effort`, `verbosity`."""
    previous_response_id: str | None = None
    metadata: Mapping[str, str] | None = None
    encrypted_reasoning: bool = False
    """Whether the response should contain encrypted reasoning."""

    def start(self, paths: ParameterPaths, client_tools: Sequence[Item]) -> Body:
        """Return a body with model, parameters (the caller's replace the agent's) and tools as the API expects them."""
        body: Body = {"model": self.model, **self.body}
        for name, value in self.parameters.items():
            *outer, last = paths.get(name, (name,))
            node = body
            for key in outer:
                node[key] = dict(node.get(key) or {})  # the configuration must not change
                node = node[key]
            node[last] = value
        if self.tools or client_tools:
            body["tools"] = [*self.tools, *client_tools]
        return body
