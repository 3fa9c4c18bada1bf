"""A `RunAgentInput` of AG-UI becomes a provider's request, and what the dialect has to know of its options.

    asked = read_run_input(body)
    request = {"model": ..., **provider_request(asked, "openai_responses")}
    pipeline = build_pipeline(provider=..., dialect="ag_ui", options=dialect_options(asked))

Clients send the whole conversation with each request, so it is put together anew each time. Nothing of it is trusted:
what a client says that the model said is only history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from projector._errors import known_name
from projector.dialects.ag_ui.requests import chat, responses
from projector.dialects.ag_ui.requests.history import History, Switches
from projector.dialects.ag_ui.requests.reading import InputRefusedError, dialect_options, read_run_input
from projector.dialects.ag_ui.run_input import ImagePart, RunAgentInput, Tool, UserMessage

__all__ = [
    "TRANSLATORS",
    "InputRefusedError",
    "Switches",
    "approvals",
    "dialect_options",
    "has_images",
    "provider_request",
    "read_run_input",
]

Translator: TypeAlias = Callable[[History, Sequence[Tool], str | None], dict[str, Any]]

TRANSLATORS: Final[Mapping[str, Translator]] = {
    "openai_responses": responses.request,
    "openai_chat": chat.request,
}
"""Provider -> what writes the members of its request that come from the client."""

DEFAULTS: Final = Switches()


def provider_request(
    asked: RunAgentInput,
    provider: str,
    *,
    client_tools: Collection[str] = (),
    switches: Switches = DEFAULTS,
    previous_response_id: str | None = None,
) -> dict[str, Any]:
    """Give the members of the provider's request that come from the client; the others are the agent's.

    Args:
        asked: the request.
        provider: a name of `TRANSLATORS`.
        client_tools: names of the tools that a client may bring with it; others are left out.
        switches: what the agent decides about conversations that clients hold.
        previous_response_id: the response that asked for the approvals that are answered. The provider has kept it and
            all before it, so only what came after it is sent.

    Raises:
        UsageError: a provider that is not known.
        InputRefusedError: there is nothing to answer, or an answer to what was not asked.
    """
    known_name("provider", provider, TRANSLATORS)
    tools = [tool for tool in asked.tools or () if tool.name in client_tools]
    return TRANSLATORS[provider](History(asked, switches), tools, previous_response_id)


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
