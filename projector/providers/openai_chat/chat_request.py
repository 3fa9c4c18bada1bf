"""The body of a Chat Completions request: the items of a conversation become `messages`.

The API has neither encrypted reasoning nor approvals, and knows no earlier response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from projector.providers.model_request import Body, Item, ModelRequest, ParameterPaths, UnsupportedRequestError
from projector.providers.openai_chat.chat_profile import ChatProfile

PARAMETERS: Final[ParameterPaths] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_output_tokens": ("max_completion_tokens",),
    "reasoning_effort": ("reasoning_effort",),
    "verbosity": ("verbosity",),
}


def write_request(request: ModelRequest, profile: ChatProfile) -> Body:
    """Return the body of a request.

    Raises:
        UnsupportedRequestError: it continues an earlier response, or has an item that the API does not know.
    """
    messages = [] if request.instructions is None else [{"role": "system", "content": request.instructions}]
    if isinstance(request.input, str):
        messages.append({"role": "user", "content": request.input})
    else:
        messages += _messages(request.input)
    if request.previous_response_id is not None:
        raise UnsupportedRequestError("`previous_response_id` cannot be set here.")
    body = request.start(PARAMETERS, [_tool(tool) for tool in request.client_tools])
    body["messages"] = messages
    if profile.takes_stream_options:
        body["stream_options"] = {"include_usage": True}  # without it a stream reports no usage
    return body


def _messages(items: Iterable[Item]) -> list[Body]:
    """Return the messages of a conversation. Calls that follow each other belong to one message, after its text."""
    messages: list[Body] = []
    for item in items:
        item_type = item.get("type", "message")
        if item_type not in WRITERS:
            raise UnsupportedRequestError(f"This agent does not support items of type `{item_type}`.")
        WRITERS[item_type](messages, item)
    return messages


def _write_message(messages: list[Body], item: Item) -> None:
    content = item["content"]
    if not isinstance(content, str):
        content = [PARTS[part["type"]](part) for part in content]
    messages.append({"role": item["role"], "content": content})


def _write_call(messages: list[Body], item: Item) -> None:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant"})
    function = {"name": item["name"], "arguments": item.get("arguments", item.get("input", ""))}
    call = {"id": item.get("call_id") or item["id"], "type": "function", "function": function}
    messages[-1].setdefault("tool_calls", []).append(call)


def _write_output(messages: list[Body], item: Item) -> None:
    messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})


def _write_mcp_call(messages: list[Body], item: Item) -> None:
    """Write a call of an MCP tool and its output, which are one item, as those of a function."""
    _write_call(messages, item)
    _write_output(messages, {"call_id": item["id"], "output": item["output"]})


def _omit(_messages: list[Body], _item: Item) -> None:
    """Write nothing."""


WRITERS: Final[Mapping[str, Callable[[list[Body], Item], None]]] = {
    "message": _write_message,
    "function_call": _write_call,
    "custom_tool_call": _write_call,
    "mcp_call": _write_mcp_call,
    "function_call_output": _write_output,
    "custom_tool_call_output": _write_output,
    "reasoning": _omit,
}
"""Type of an input item -> what adds it to the messages."""

PARTS: Final[Mapping[str, Callable[[Item], Body]]] = {
    "input_text": lambda part: {"type": "text", "text": part["text"]},
    "input_image": lambda part: {
        "type": "image_url",
        "image_url": {"url": part["image_url"], **({"detail": part["detail"]} if "detail" in part else {})},
    },
}


def _tool(tool: Item) -> Body:
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": function}
