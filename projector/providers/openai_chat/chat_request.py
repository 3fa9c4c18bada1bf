"""The body of a Chat Completions request. The API knows no earlier response."""

from __future__ import annotations

from typing import Final

from projector.core.conversation import Message, user_text
from projector.providers.model_request import Body, Item, ModelRequest, ParameterPaths, UnsupportedRequestError
from projector.providers.openai_chat.chat_messages import messages_of
from projector.providers.openai_chat.chat_profile import ChatProfile

PARAMETERS: Final[ParameterPaths] = {"max_output_tokens": ("max_completion_tokens",)}


def write_request(request: ModelRequest, profile: ChatProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    if request.previous_response_id is not None:
        raise UnsupportedRequestError("`previous_response_id` cannot be set here.")
    entries = [user_text(request.input)] if isinstance(request.input, str) else request.input
    instructions = [] if request.instructions is None else [Message("system", request.instructions)]
    body = request.start(PARAMETERS, [_tool(tool) for tool in request.client_tools])
    body["messages"] = messages_of([*instructions, *entries])
    if profile.takes_stream_options:
        body["stream_options"] = {"include_usage": True}  # without it a stream reports no usage
    return body


def _tool(tool: Item) -> Body:
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": function}
