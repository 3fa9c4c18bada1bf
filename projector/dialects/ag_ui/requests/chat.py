"""The conversation as `messages` of Chat Completions, which know neither encrypted reasoning nor approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from projector.dialects.ag_ui.requests.history import NO_PARAMETERS, History, image_url, result_text
from projector.dialects.ag_ui.requests.reading import InputRefusedError
from projector.dialects.ag_ui.run_input import AssistantMessage, TextPart, Tool, ToolCall, ToolMessage, UserMessage

Member: TypeAlias = dict[str, Any]


def request(history: History, tools: Sequence[Tool], _previous_response_id: str | None = None) -> dict[str, Any]:
    """Give `messages` and the tools of the client.

    Raises:
        InputRefusedError: there is nothing to answer, or an answer to an approval.
    """
    if history.answers:
        raise InputRefusedError("`resume` answers what this agent cannot have asked.")
    messages: list[Member] = []
    for message, calls in history:
        if isinstance(message, UserMessage):
            messages.append({"role": "user", "content": _content(message)})
        elif isinstance(message, AssistantMessage):
            messages += _assistant(message, calls)
        elif isinstance(message, ToolMessage):
            messages.append({"role": "tool", "tool_call_id": calls[0].id, "content": result_text(message)})
    if not messages:
        raise InputRefusedError("`messages` holds nothing to answer.")
    return {"messages": messages, "tools": [_tool(tool) for tool in tools]} if tools else {"messages": messages}


def _content(message: UserMessage) -> str | list[Member]:
    if isinstance(message.content, str):
        return message.content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": {"url": image_url(part)}}
        for part in message.content
    ]


def _assistant(message: AssistantMessage, calls: list[ToolCall]) -> list[Member]:
    """Give the message with its calls; nothing where neither is left."""
    said: Member = {"content": message.content} if message.content else {}
    if calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in calls
        ]
    return [{"role": "assistant", **said}] if said else []


def _tool(tool: Tool) -> Member:
    parameters = tool.parameters or NO_PARAMETERS
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }
