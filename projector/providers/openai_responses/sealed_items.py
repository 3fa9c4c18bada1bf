"""Reasoning in a caller's own Responses request: sealed in `encrypted_content`, or without content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from projector.conversation.entries import USER
from projector.conversation.model_request import Body
from projector.conversation.opaque import SEALED, Carried


def carried_state(body: Mapping[str, Any]) -> Iterator[Carried]:
    """Yield the sealed values in a caller's body.

    Providers need reasoning of the turn that waits for the outputs of its calls, and go on without that of others.
    """
    given = body.get("input")
    items = given if isinstance(given, list) else []
    last = max((at for at, item in enumerate(items) if _begins_turn(item)), default=-1)
    for at, item in enumerate(items):
        if (sealed := _sealed(item)) is not None:
            yield Carried(f"input[{at}].encrypted_content", sealed, at > last)


def forwarded_body(body: Mapping[str, Any], _profile: object) -> Body:
    """Return the caller's body without reasoning that an upstream of this API did not make, and could not read.

    Where nothing is stored, an item of reasoning of which the client got no content cannot be found by its ID: it is a
    404 of OpenAI, and the answer needs no such item.
    """
    items = body.get("input")
    if not isinstance(items, list):
        return dict(body)
    is_stored = body.get("store") is not False
    kept = [item for item in items if _sealed(item) is None and (is_stored or not _is_empty(item))]
    return dict(body) if len(kept) == len(items) else {**body, "input": kept}


def _begins_turn(item: object) -> bool:
    return isinstance(item, dict) and item.get("type", "message") == "message" and item.get("role") == USER


def _is_empty(item: object) -> bool:
    """Return whether an item of reasoning has neither text nor encrypted content."""
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return False
    return not item.get("encrypted_content") and not item.get("content")


def _sealed(item: object) -> str | None:
    """Return the sealed value in an item of reasoning."""
    value = item.get("encrypted_content") if isinstance(item, dict) and item.get("type") == "reasoning" else None
    return value if isinstance(value, str) and value.startswith(SEALED) else None
