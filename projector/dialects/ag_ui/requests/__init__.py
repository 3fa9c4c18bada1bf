"""A `RunAgentInput` of AG-UI as a conversation for any provider, and what the dialect has to know of the request.

    asked = read_run_input(body)
    said = conversation(asked)
    request = ModelRequest(model=..., input=said.items, client_tools=said.tools)
    body = PROVIDERS[provider].request_writer(request, profile_of(provider, {}))
    pipeline = build_pipeline(provider=provider, dialect="ag_ui", options=dialect_options(asked))

Clients send the whole conversation with each request, so it is translated anew each time. It is not trusted: messages
that a client presents as the model's are history and nothing more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from projector.dialects.ag_ui.requests import responses
from projector.dialects.ag_ui.requests.history import History, Switches
from projector.dialects.ag_ui.requests.items_sent import Item
from projector.dialects.ag_ui.requests.reading import InputRefusedError, dialect_options, read_run_input
from projector.dialects.ag_ui.run_input import ImagePart, RunAgentInput, UserMessage

__all__ = [
    "Conversation",
    "InputRefusedError",
    "Switches",
    "approvals",
    "conversation",
    "dialect_options",
    "has_images",
    "read_run_input",
]

DEFAULTS: Final = Switches()


class Conversation(NamedTuple):
    """The client's part of a request to a model, in the shape of the Responses API."""

    items: list[Item]
    tools: list[Item]


def conversation(
    asked: RunAgentInput,
    *,
    client_tools: Collection[str] = (),
    switches: Switches = DEFAULTS,
    previous_response_id: str | None = None,
) -> Conversation:
    """Return the client's part of a request to a model. The agent's part is not in it.

    Args:
        asked: the request.
        client_tools: names of the tools that a client may bring; others are left out.
        switches: the agent's settings for conversations that clients hold.
        previous_response_id: the response that asked for the approvals that are answered. The provider stores it and
            everything before it, so only later items are returned.

    Raises:
        InputRefusedError: there is nothing to answer, or `resume` names an unknown interrupt.
    """
    tools = [responses.tool_item(tool) for tool in asked.tools or () if tool.name in client_tools]
    items = responses.input_items(History(asked, switches), is_continued=previous_response_id is not None)
    return Conversation(items, tools)


def approvals(asked: RunAgentInput) -> list[str]:
    """Give the approval requests that are answered, by the provider's ids.

    Raises:
        InputRefusedError: one is no interrupt of ours.
    """
    return list(History(asked, DEFAULTS).answers)


def has_images(asked: RunAgentInput) -> bool:
    """Tell whether there is an image in it."""
    contents = [message.content for message in asked.messages if isinstance(message, UserMessage)]
    return any(isinstance(part, ImagePart) for content in contents if isinstance(content, list) for part in content)
