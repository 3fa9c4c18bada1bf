"""Requests of assistant-ui's data stream runtime: model messages (`content`) instead of UI messages (`parts`).

The runtime reads the same stream as `useChat`, but sends what the AI SDK gives to a model: results of tools are
messages of their own, messages have no IDs, and the chat is `threadId`. It is translated before it is validated, so
any member may have any type here; what is no such message stays as it is, and `ChatInput` rejects it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from projector.contracts import codec

FAILURES: Final = frozenset({"error-json", "error-text"})
"""Types of a tool's output that mean that it failed."""


def with_ui_messages(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request with UI messages and the ID of its chat; one that has them as it is."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not any(map(_is_model_message, messages)):
        return body
    chat = {"id": body["threadId"]} if "threadId" in body else {}
    return {**chat, **body, "messages": list(_ui_messages(messages))}


def _is_model_message(message: object) -> bool:
    return isinstance(message, dict) and "content" in message and "parts" not in message


def _ui_messages(messages: list[Any]) -> Iterator[object]:
    """Yield the messages, with the results of tools in the parts of their calls."""
    calls: dict[str, dict[str, Any]] = {}
    for at, message in enumerate(messages):
        if not _is_model_message(message):
            yield message
        elif message.get("role") == "tool":
            for result in _objects(message["content"]):
                calls.pop(str(result.get("toolCallId")), {}).update(_result(result.get("output")))
        else:
            parts = [_part(part) for part in _objects(message["content"])]
            calls |= {str(part["toolCallId"]): part for part in parts if "toolCallId" in part}
            yield {"id": f"message_{at}", "role": message.get("role"), "parts": parts}


def _objects(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "file":
        return {**part, "url": part.get("data")}
    if part.get("type") == "tool-call":
        return {**part, "type": "dynamic-tool", "state": "input-available"}
    return part


def _result(output: object) -> dict[str, Any]:
    """Return the members of a call with a result."""
    given = output if isinstance(output, dict) else {}
    value = given.get("value")
    if given.get("type") in FAILURES:
        return {"state": "output-error", "errorText": value if isinstance(value, str) else codec.dumps(value).decode()}
    return {"state": "output-available", "output": value}
