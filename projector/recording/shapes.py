"""What of an event is configuration, encrypted, a position or an id: members that have a rule of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

STAND_IN: Final = "redacted_"
"""How a placeholder begins."""

IDS: Final = frozenset(
    {
        "id", "item_id", "call_id", "response_id", "previous_response_id", "conversation_id", "approval_request_id",
        "tool_call_id", "container_id", "file_id", "object_id",
    }
)  # fmt: skip
"""What correlates events. It is never a piece; one that looks like a credential gets a placeholder."""

POSITIONS: Final = frozenset(
    {
        "sequence_number", "output_index", "content_index", "summary_index", "annotation_index", "command_index",
        "partial_image_index", "index", "start_index", "end_index", "created", "created_at", "completed_at",
    }
)  # fmt: skip
"""Numbers that are never secret, though a registered value may be equal to one."""

COUNTS: Final = frozenset(
    {("usage",), ("choices", "usage"), ("x_groq", "usage"), ("response", "usage"), ("response", "tool_usage")}
)
"""Where keys with `token` in them count: only texts are withheld under them there."""

EMPTIED: Final = frozenset({"logprobs", "prompt_text", "prompt_token_ids", "prompt_logprobs"})
"""Texts once more, token by token; and prompts, which a server echoes."""

SEALED: Final[Mapping[str, str | None]] = {
    "encrypted_content": None,
    "signature": None,
    "thought_signature": None,
    "data": "reasoning.encrypted",
}
"""What only the provider can read -> the type of the object that it stands in, where the name does not tell."""

RESPONSE_KEPT: Final = frozenset(
    {
        "id", "object", "status", "model", "output", "usage", "tool_usage", "error", "incomplete_details",
        "service_tier", "previous_response_id", "conversation",
    }
)  # fmt: skip
"""Members of the response object that say something of the answer. Of the others numbers and truth values stay."""


def is_sealed(owner: Mapping[str, Any], key: str) -> bool:
    """Say whether a member is something that only the provider can read."""
    return key in SEALED and (SEALED[key] is None or SEALED[key] == owner.get("type"))


def emptied(value: Any) -> Any:
    """Give a value of the same type without content."""
    return type(value)() if isinstance(value, str | list | dict) else None


def reduced(event: Mapping[str, Any]) -> dict[str, Any]:
    """Give an event without configuration: of the response it answers, and lists of tools."""
    members = dict(event)
    for name, reduce in (("response", _response), ("item", _item)):
        if isinstance(event.get(name), dict):
            members[name] = reduce(event[name])
    return members


def _response(response: Mapping[str, Any]) -> dict[str, Any]:
    members = {name: value if name in RESPONSE_KEPT else _without_content(value) for name, value in response.items()}
    if isinstance(output := response.get("output"), list):
        members["output"] = [_item(item) if isinstance(item, dict) else item for item in output]
    if isinstance(tools := response.get("tools"), list):
        members["tools"] = [_container(tool) for tool in tools if _is_interpreter(tool)]
    if isinstance(text := response.get("text"), dict) and isinstance(form := text.get("format"), dict):
        members["text"] = {"format": {"type": form.get("type")}}
    return members


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "tools": []} if item.get("tools") else dict(item)


def _is_interpreter(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "code_interpreter"


def _container(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Give a code interpreter with what is public of it: whether its container is one that the host made."""
    return {"type": tool["type"], "container": emptied(tool.get("container"))}


def _without_content(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else emptied(value)
