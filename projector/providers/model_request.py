"""A request to a model in neutral terms. Each provider's `request_writer` turns it into the body that its API expects.

Conversation items and the caller's tools have the shape of the Responses API, as canonical events do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
Item: TypeAlias = Mapping[str, Any]
ParameterPaths: TypeAlias = Mapping[str, tuple[str, ...]]
"""Name of a caller's parameter -> where it is in the body."""


class UnsupportedRequestError(ValueError):
    """The provider's API has no way to express the request. The message names the member and contains no value."""


class UnsupportedItemError(UnsupportedRequestError):
    """The provider's API has no input item of this type."""

    def __init__(self, item_type: str) -> None:
        super().__init__(f"`input` has an item that this agent does not support: `{item_type}`.")
        self.item_type = item_type


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """What an agent's configuration and a caller ask of a model.

    Args:
        model: the provider's name of the model.
        input: the caller's message, or the items of the conversation.
        instructions: the agent's.
        tools: the agent's, as the provider's API writes them.
        body: the agent's further members of the body, as the provider's API writes them.
        client_tools: function tools that the caller runs.
        parameters: the caller's: `temperature`, `top_p`, `max_output_tokens`, `reasoning_effort`, `verbosity`.
        previous_response_id: the response that this request continues.
        metadata: the caller's, for the provider.
        encrypted_reasoning: whether the answer should contain encrypted reasoning.
    """

    model: str
    input: str | Sequence[Item]
    instructions: str | None = None
    tools: Sequence[Mapping[str, object]] = ()
    body: Mapping[str, object] = field(default_factory=dict)
    client_tools: Sequence[Item] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    previous_response_id: str | None = None
    metadata: Mapping[str, str] | None = None
    encrypted_reasoning: bool = False

    def start(self, paths: ParameterPaths, client_tools: Sequence[Item]) -> Body:
        """Return a body with what all providers write alike: model, parameters, tools.

        Args:
            paths: where the caller's parameters are in the body; they take precedence over the agent's.
            client_tools: the caller's tools, as the provider's API writes them.
        """
        body: Body = {"model": self.model, **self.body}
        for name, value in self.parameters.items():
            *outer, last = paths[name]
            node = body
            for key in outer:
                node[key] = dict(node.get(key) or {})  # the configuration must not change
                node = node[key]
            node[last] = value
        if self.tools or client_tools:
            body["tools"] = [*self.tools, *client_tools]
        return body
