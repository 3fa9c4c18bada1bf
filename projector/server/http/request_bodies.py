"""What a provider is asked: the request of a client in the words of an agent's upstream, one writer per API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from projector.dialects.ag_ui.requests import InputRefusedError, Switches, has_images, provider_request
from projector.dialects.ag_ui.run_input import RunAgentInput
from projector.providers.openai_chat import ChatProfile
from projector.server.catalog import AgentBinding
from projector.server.http.problems import problem
from projector.server.http.requests import ChatRequest

Body: TypeAlias = dict[str, Any]

_RESPONSES_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_output_tokens": ("max_output_tokens",),
    "reasoning_effort": ("reasoning", "effort"),
    "verbosity": ("text", "verbosity"),
}
_CHAT_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    **_RESPONSES_PLACES,
    "max_output_tokens": ("max_completion_tokens",),
    "reasoning_effort": ("reasoning_effort",),
    "verbosity": ("verbosity",),
}
"""Where a request's parameters stand in each API."""


def agent_body(asked: ChatRequest, offer: AgentBinding) -> Body:
    """Give the body for the agent's upstream.

    Raises:
        Problem: the request says what the agent does not let it say, or what its upstream has no words for.
    """
    _refuse_what_is_not_offered(asked, offer)
    return _WRITERS[offer.provider.api](asked, offer)


def run_body(asked: RunAgentInput, offer: AgentBinding, previous_response_id: str | None = None) -> Body:
    """Give the body for a run of AG-UI; of the client there is the conversation, and the tools that it may bring.

    Args:
        asked: the request.
        offer: the agent.
        previous_response_id: the response that asked for the approvals that are answered, where it goes on from it.

    Raises:
        Problem: the request says what the agent does not let it say, or what its upstream has no words for.
    """
    agent = offer.settings
    if has_images(asked) and "images" not in agent.allowed_params:
        raise problem("invalid_request", "`images` cannot be set here.")
    try:
        said = provider_request(
            asked,
            offer.provider.api,
            client_tools=agent.client_tools,
            switches=Switches(agent.policy.encrypted_reasoning, agent.trust_client_approvals),
            previous_response_id=previous_response_id,
        )
    except InputRefusedError as refused:
        raise problem("invalid_request", str(refused)) from None
    body = _of_agent(offer)
    joined = {name: [*body[name], *said[name]] for name in _JOINED & said.keys() & body.keys()}
    return body | said | joined


def passthrough_body(body: Mapping[str, Any], offer: AgentBinding, *, required: str) -> Body:
    """Give the caller's own body.

    Raises:
        Problem: it lacks the `required` member, or a model that nobody configured.
    """
    defaults = {} if offer.default_model is None else {"model": offer.default_model}
    asked = {**defaults, **body}
    for name in ("model", required):
        if name not in asked:
            raise problem("invalid_request", f"`{name}` is missing.")
    return asked


def _refuse_what_is_not_offered(asked: ChatRequest, offer: AgentBinding) -> None:
    for name in sorted(asked.says() - offer.settings.allowed_params):
        raise problem("invalid_request", f"`{name}` cannot be set here.")


def _responses(asked: ChatRequest, offer: AgentBinding) -> Body:
    body = _with_parameters(_of_agent(offer), asked, _RESPONSES_PLACES)
    said = asked.model_dump(exclude_none=True, include={"previous_response_id", "metadata"})
    return body | said | {"input": asked.message if asked.input is None else asked.items()}


def _chat(asked: ChatRequest, offer: AgentBinding) -> Body:
    if asked.previous_response_id is not None:
        raise problem("invalid_request", "`previous_response_id` cannot be set here.")
    body = _with_parameters(_of_agent(offer), asked, _CHAT_PLACES)
    if asked.message is not None:
        body["messages"].append({"role": "user", "content": asked.message})
    body["messages"] += [_CHAT_MESSAGES[item["type"]](item) for item in asked.items()]
    return body


_WRITERS: Final[Mapping[str, Callable[[ChatRequest, AgentBinding], Body]]] = {
    "openai_responses": _responses,
    "openai_chat": _chat,
}


def _of_agent(offer: AgentBinding) -> Body:
    """Give what is the agent's in every request: model, parameters, tools, instructions."""
    body: Body = {"model": offer.settings.model, **offer.settings.parameters}
    if offer.settings.tools:
        body["tools"] = list(offer.settings.tools)
    return body | _INSTRUCTIONS[offer.provider.api](offer)


def _responses_instructions(offer: AgentBinding) -> Body:
    return {} if offer.settings.instructions is None else {"instructions": offer.settings.instructions}


def _chat_instructions(offer: AgentBinding) -> Body:
    """Give the instructions as the first message, and the wish for usage, which a stream else has none of."""
    instructions = offer.settings.instructions
    body: Body = {"messages": [] if instructions is None else [{"role": "system", "content": instructions}]}
    if ChatProfile.model_validate(offer.provider.profile).takes_stream_options:
        body["stream_options"] = {"include_usage": True}
    return body


_INSTRUCTIONS: Final[Mapping[str, Callable[[AgentBinding], Body]]] = {
    "openai_responses": _responses_instructions,
    "openai_chat": _chat_instructions,
}
_JOINED: Final = frozenset({"messages", "tools", "include"})
"""Lists to which a run of AG-UI adds; whatever else it says is its own to say."""


def _with_parameters(body: Body, asked: ChatRequest, places: Mapping[str, tuple[str, ...]]) -> Body:
    """Say the parameters of the request over those of the agent."""
    for name, value in asked.parameters.model_dump(exclude_none=True).items():
        *outer, last = places[name]
        node = body
        for key in outer:
            node[key] = dict(node.get(key) or {})  # the agent's own table is not ours to change
            node = node[key]
        node[last] = value
    return body


def _chat_user(item: Mapping[str, Any]) -> Body:
    content = item["content"]
    return {
        "role": "user",
        "content": content if isinstance(content, str) else [_CHAT_PARTS[p["type"]](p) for p in content],
    }


def _chat_approval(_item: Mapping[str, Any]) -> Body:
    raise problem("invalid_request", "`input` has an item that this agent cannot take: `mcp_approval_response`.")


_CHAT_MESSAGES: Final[Mapping[str, Callable[[Mapping[str, Any]], Body]]] = {
    "message": _chat_user,
    "function_call_output": lambda item: {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]},
    "mcp_approval_response": _chat_approval,
}
_CHAT_PARTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Body]]] = {
    "input_text": lambda part: {"type": "text", "text": part["text"]},
    "input_image": lambda part: {
        "type": "image_url",
        "image_url": {"url": part["image_url"], "detail": part["detail"]},
    },
}
"""Input items, and parts of a message, as Chat Completions says them."""
