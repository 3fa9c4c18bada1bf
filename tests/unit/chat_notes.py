"""A short notation for Chat chunks and their events: index, sign, content; events are separated by bars."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from projector.core.faults import Fault
from projector.core.sse import SseMessage
from projector.providers.openai_chat.chunk_fields import ChatProfile
from projector.providers.openai_chat.stage import OpenAIChatStage

Cases: TypeAlias = dict[str, tuple[list[Any], str]]
"""Case -> chunks, and their events."""

DONE = "[DONE]"
ID = "chatcmpl-1"

NOTES = {
    "response.output_text.delta": ("text", "delta"),
    "response.refusal.delta": ("refusal", "delta"),
    "response.refusal.done": ("refusal=", "refusal"),
    "response.reasoning_text.delta": ("thought", "delta"),
    "response.reasoning_text.done": ("thought=", "text"),
    "response.reasoning_summary_text.delta": ("summary", "delta"),
    "response.reasoning_summary_text.done": ("summary=", "text"),
    "response.function_call_arguments.delta": ("args", "delta"),
    "response.function_call_arguments.done": ("args=", "arguments"),
    "response.custom_tool_call_input.delta": ("input", "delta"),
    "response.custom_tool_call_input.done": ("input=", "input"),
}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, /, **members: Any) -> dict[str, Any]:
    """Return a chunk of choice 0."""
    return {"id": ID, "model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **members}


def usage_chunk(prompt: int = 3, completion: int = 4) -> dict[str, Any]:
    return {"id": ID, "choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def call(name: str | None = None, args: object = "", **members: Any) -> dict[str, Any]:
    """Return a delta with one fragment of a call."""
    function = {"arguments": args} | ({"name": name} if name is not None else {})
    return {"tool_calls": [{"function": function, **members}]}


def feed(stage: OpenAIChatStage, sent: list[Any]) -> list[Any]:
    """Return the output of a stage for objects and texts, and for the end of input."""
    said: list[Any] = []
    for payload in sent:
        said += stage.feed(SseMessage(payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()))
    return said + stage.close()


def note(event: Any) -> str:
    """Return one event in the notation."""
    if isinstance(event, Fault):
        return f"fault {event.code}"
    kind: str = event["type"]
    if kind in NOTES:
        word, member = NOTES[kind]
        return f"{event['output_index']} {word} {event[member]}"
    if kind == "error":
        error = event["error"]
        return f"error {error['code'] or error['type']}: {error['message']}"
    return _note_response(kind, event["response"]) if "response" in event else _note_item(event)


def _note_item(event: Any) -> str:
    place, item = event["output_index"], event.get("item", {})
    if event["type"] == "response.output_item.added":
        return f"{place} + {item['type']}" + (f" {item['name']}" if "name" in item else "")
    if event["type"] == "response.output_item.done":
        return f"{place} - {item['type']} {item['status']}"
    return f"{place} cites {event['annotation'].get('url') or event['annotation'].get('file_id')}"


def _note_response(kind: str, response: Any) -> str:
    reason = response.get("incomplete_details", {}).get("reason") or response.get("error", {}).get("code")
    return kind.removeprefix("response.") + (f" {reason}" if reason else "")


def says(*sent: Any, profile: ChatProfile | None = None) -> str:
    """Return all events in the notation, without a first `created`."""
    stage = OpenAIChatStage(profile) if profile else OpenAIChatStage()
    notes = [note(event) for event in feed(stage, list(sent))]
    return " | ".join(notes[1:] if notes[:1] == ["created"] else notes)
