"""The body of a Chat Completions request: the items of a conversation become `messages`.

The API has neither encrypted reasoning nor approvals, and knows no earlier response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from projector.providers.model_request import Body, Item, ModelRequest, ParameterPaths, UnsupportedRequestError
from projector.providers.openai_chat.chat_profile import ChatProfile

ASSISTANT: Final = "assistant"

PARAMETERS: Final[ParameterPaths] = {"max_output_tokens": ("max_completion_tokens",)}


def write_request(request: ModelRequest, profile: ChatProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    if request.previous_response_id is not None:
        raise UnsupportedRequestError("`previous_response_id` cannot be set here.")
    items = [{"role": "user", "content": request.input}] if isinstance(request.input, str) else request.input
    messages = messages_of(items)
    if request.instructions is not None:
        messages.insert(0, {"role": "system", "content": request.instructions})
    body = request.start(PARAMETERS, [_tool(tool) for tool in request.client_tools])
    body["messages"] = messages
    if profile.takes_stream_options:
        body["stream_options"] = {"include_usage": True}  # without it a stream reports no usage
    return body


def messages_of(items: Iterable[Item]) -> list[Body]:
    """Return the messages of a conversation, or raise `UnsupportedRequestError` for an item that is none."""
    messages = _Messages()
    for item in items:
        item_type = item.get("type", "message")
        if item_type not in WRITERS:
            raise UnsupportedRequestError(f"This agent does not support items of type `{item_type}`.")
        WRITERS[item_type](messages, item)
    messages.end_calls()
    return messages.all


class _Messages:
    """The messages of a conversation. Calls belong to one message as long as one of them waits for its output."""

    def __init__(self) -> None:
        self.all: list[Body] = []
        self._caller: Body | None = None
        """The message that further calls belong to."""
        self._texts: list[str] = []
        """Texts of the model that stand between these calls and their outputs."""
        self._waiting = 0

    def message(self, item: Item) -> None:
        message = {"role": item["role"], **_content(item)}
        if self._waiting and item["role"] == ASSISTANT:
            self._texts += [message["content"]] if message["content"] else []
            return
        self.end_calls()
        self.all.append(message)
        self._caller = message if item["role"] == ASSISTANT else None

    def end_calls(self) -> None:
        """Complete the message with the last calls."""
        if self._caller is not None and self._texts:
            own = self._caller.get("content")
            self._caller["content"] = "\n\n".join([own, *self._texts] if own else self._texts)
        self._caller, self._texts, self._waiting = None, [], 0

    def call(self, item: Item) -> None:
        """Add a call, in a message of its own if no other call belongs with it."""
        if self._caller is None:
            self._caller = {"role": ASSISTANT}
            self.all.append(self._caller)
        member, text = CALLS[item["type"]]
        call = {"id": item.get("call_id") or item["id"], "type": member}
        call[member] = {"name": item["name"], text: item[text]}
        self._caller.setdefault("tool_calls", []).append(call)
        self._waiting += 1

    def output(self, item: Item) -> None:
        self.all.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        self._waiting -= 1
        if self._waiting <= 0:
            self.end_calls()

    def mcp_call(self, item: Item) -> None:
        """Add a call of an MCP tool and its output, which are one item, as those of a function."""
        self.call(item)
        self.output({"call_id": item["id"], "output": item["output"]})

    def reasoning(self, item: Item) -> None:
        """Omit reasoning."""


CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("function", "arguments"),
    "custom_tool_call": ("custom", "input"),
    "mcp_call": ("function", "arguments"),
}
"""Type of a call -> the member of the message's call that describes it, and the member of both with its input."""

WRITERS: Final[Mapping[str, Callable[[_Messages, Item], None]]] = {
    "message": _Messages.message,
    "function_call": _Messages.call,
    "custom_tool_call": _Messages.call,
    "mcp_call": _Messages.mcp_call,
    "function_call_output": _Messages.output,
    "custom_tool_call_output": _Messages.output,
    "reasoning": _Messages.reasoning,
}
"""Type of an input item -> what adds it to the messages."""

PARTS: Final[Mapping[str, Callable[[Item], Body]]] = {
    "input_text": lambda part: {"type": "text", "text": part["text"]},
    "input_image": lambda part: {
        "type": "image_url",
        "image_url": {"url": part["image_url"], **({"detail": part["detail"]} if "detail" in part else {})},
    },
}


def _content(item: Item) -> Body:
    """Return the members of a message that its content becomes: parts of text of the model are one text."""
    content = item["content"]
    if isinstance(content, str):
        return {"content": content}
    if item["role"] != ASSISTANT:
        return {"content": [PARTS[part["type"]](part) for part in content]}
    refusal = "".join(part["refusal"] for part in content if part["type"] == "refusal")
    text = "".join(part["text"] for part in content if part["type"] == "output_text")
    return {"content": text or None, **({"refusal": refusal} if refusal else {})}


def _tool(tool: Item) -> Body:
    function = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": function}
