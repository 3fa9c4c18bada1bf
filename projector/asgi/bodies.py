"""What a provider is asked: the request of a client in the words of an agent's upstream, one writer per API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from projector.asgi.catalog import Offer
from projector.asgi.problems import problem
from projector.asgi.requests import ChatRequest
from projector.providers.openai_chat import ChatProfile

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


def agent_body(asked: ChatRequest, offer: Offer) -> Body:
    """Give the body for the agent's upstream.

    Raises:
        Problem: the request says what the agent does not let it say, or what its upstream has no words for.
    """
    _refuse_what_is_not_offered(asked, offer)
    return _WRITERS[offer.provider.api](asked, offer)


def drop_in_body(body: Mapping[str, Any], offer: Offer, *, required: str) -> Body:
    """Give the caller's own body as a stream's.

    Raises:
        Problem: it asks for an answer in one piece, or lacks the `required` member.
    """
    if body.get("stream") is False:
        raise problem("invalid_request", "`stream`: this server answers with streams only; leave it out or say true.")
    if required not in body:
        raise problem("invalid_request", f"`{required}` is missing.")
    return {"model": offer.agent.model, **body}


def _refuse_what_is_not_offered(asked: ChatRequest, offer: Offer) -> None:
    for name in sorted(asked.says() - offer.agent.may_set):
        raise problem("invalid_request", f"`{name}` cannot be set here.")


def _responses(asked: ChatRequest, offer: Offer) -> Body:
    body = _common(asked, offer, _RESPONSES_PLACES)
    said = asked.model_dump(exclude_none=True, include={"previous_response_id", "metadata"})
    if offer.agent.instructions is not None:
        body["instructions"] = offer.agent.instructions
    return body | said | {"input": asked.message if asked.input is None else asked.items()}


def _chat(asked: ChatRequest, offer: Offer) -> Body:
    if asked.previous_response_id is not None:
        raise problem("invalid_request", "`previous_response_id` cannot be set here.")
    body = _common(asked, offer, _CHAT_PLACES)
    messages = [] if offer.agent.instructions is None else [{"role": "system", "content": offer.agent.instructions}]
    if asked.message is not None:
        messages.append({"role": "user", "content": asked.message})
    body["messages"] = messages + [_CHAT_MESSAGES[item["type"]](item) for item in asked.items()]
    if ChatProfile.model_validate(offer.provider.profile).takes_stream_options:
        body["stream_options"] = {"include_usage": True}
    return body


_WRITERS: Final[Mapping[str, Callable[[ChatRequest, Offer], Body]]] = {
    "openai_responses": _responses,
    "openai_chat": _chat,
}


def _common(asked: ChatRequest, offer: Offer, places: Mapping[str, tuple[str, ...]]) -> Body:
    """Say the model, the agent's own parameters and tools, and the parameters of the request over them."""
    body: Body = {"model": offer.agent.model, **offer.agent.parameters}
    for name, value in asked.parameters.model_dump(exclude_none=True).items():
        *outer, last = places[name]
        node = body
        for key in outer:
            node[key] = dict(node.get(key) or {})  # the agent's own table is not ours to change
            node = node[key]
        node[last] = value
    if offer.agent.tools:
        body["tools"] = list(offer.agent.tools)
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
