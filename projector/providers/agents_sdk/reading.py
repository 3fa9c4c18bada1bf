"""Objects of the SDK, read by their attributes: nothing here knows their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projector.contracts import codec


def members(value: Any) -> dict[str, Any]:
    """Give the members of an object as its provider sent them; nothing where it has none."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        sent: dict[str, Any] = value.model_dump(exclude_unset=True, warnings=False)
        return sent
    return {}


def output_of(item: Any, raw: Mapping[str, object]) -> object:
    """Give what a tool returned where that is JSON, else the text that the model is shown."""
    output: Any = getattr(item, "output", None)
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json", warnings=False)
    if output is None:
        return raw.get("output")
    try:
        codec.dumps_exact(output)
    except codec.CodecError:
        return raw.get("output")
    return output


def is_unsaid(approval: Any) -> bool:
    """Say whether no event has said this request: those of the provider's own servers are items of a response."""
    return members(approval.raw_item).get("type") != "mcp_approval_request"


def request_of(approval: Any) -> dict[str, object]:
    """Give a call that waits for approval as the item that the contract has for it (D18)."""
    return {
        "type": "mcp_approval_request",
        "id": f"approval_{approval.call_id}",
        "name": approval.name,
        "arguments": approval.arguments or "",
    }
