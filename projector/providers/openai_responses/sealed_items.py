"""Reasoning in a caller's own Responses request.

The caller has it sealed in `encrypted_content`, or the server has kept it with the call that followed. An upstream of
this API gets what it has encrypted itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from projector.conversation.entries import ASSISTANT, USER
from projector.conversation.model_request import Body
from projector.conversation.opaque import Carried, KeptCalls, carried_of, is_sealed

_REASONING: Final = "reasoning"
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})


def carried_state(body: Mapping[str, Any]) -> list[Carried]:
    """Return the sealed values in a caller's body."""
    items = body.get("input")
    return carried_of(items if isinstance(items, list) else [], _begins_turn, _sealed_in)


def with_state(body: Mapping[str, Any], kept: KeptCalls) -> Mapping[str, Any]:
    """Return a caller's body with the reasoning that the provider has encrypted.

    What was kept with a call is added, unless the caller sent some, in place of the reasoning that the caller was
    shown. It is at the start of what precedes the call, as it was in the response.
    """
    given = body.get("input")
    if not isinstance(given, list):
        return body
    items: list[object] = []
    start, is_carried = 0, False
    for one in given:
        carried = kept.get(_sealed(one) or "")
        item = one if carried is None else carried.own
        call = kept.get(str(item["call_id"])) if _type(item) in _CALLS and "call_id" in item else None
        if call is not None and call.before and not is_carried:
            items[start:] = [*call.before, *(other for other in items[start:] if _type(other) != _REASONING)]
        items.append(item)
        if _type(item) == _REASONING:
            is_carried = is_carried or "encrypted_content" in item
        elif _type(item) != "message" or item.get("role") != ASSISTANT:
            start, is_carried = len(items), False
    return {**body, "input": items}


def forwarded_body(body: Mapping[str, Any], _profile: object) -> Body:
    """Return the caller's body without reasoning that the upstream could not read.

    Another provider has made it, or the client got neither its text nor its encrypted content, in a conversation that
    the upstream does not store: it is a 404 of OpenAI, and the answer needs no such item.
    """
    items = body.get("input")
    if not isinstance(items, list):
        return dict(body)
    is_stored = body.get("store") is not False
    return {**body, "input": [item for item in items if _is_readable(item, is_stored=is_stored)]}


def _is_readable(item: Any, *, is_stored: bool) -> bool:
    if _type(item) != _REASONING:
        return True
    return _sealed(item) is None and (is_stored or bool(item.get("encrypted_content") or item.get("content")))


def _type(item: Any) -> object:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else None


def _begins_turn(item: Any) -> bool:
    return _type(item) == "message" and item.get("role") == USER


def _sealed(item: Any) -> str | None:
    """Return the sealed value in an item of reasoning."""
    value = item.get("encrypted_content") if _type(item) == _REASONING else None
    return value if is_sealed(value) else None


def _sealed_in(at: int, item: Any) -> Iterator[tuple[str, str]]:
    if (sealed := _sealed(item)) is not None:
        yield f"input[{at}].encrypted_content", sealed
