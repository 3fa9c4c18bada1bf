"""Thinking in a caller's own Messages request: its blocks are replaced by those that the provider sent.

The caller has them sealed in the `signature` of its blocks, or the server has kept them with the call that followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from projector.conversation.entries import ASSISTANT, USER
from projector.conversation.opaque import SEALED, Carried, KeptCalls
from projector.providers.anthropic_messages.message_turns import thinking_of
from projector.providers.anthropic_messages.messages_body import SIGNATURE, is_ours

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def carried_state(body: Mapping[str, Any]) -> Iterator[Carried]:
    """Yield the sealed values in a caller's body.

    The API needs thinking of the turn that waits for the results of its calls, and goes on without that of others.
    """
    messages = body.get("messages")
    given = messages if isinstance(messages, list) else []
    last = max((at for at, message in enumerate(given) if _begins_turn(message)), default=-1)
    for at, message in enumerate(given):
        for position, block in enumerate(_blocks(message, ASSISTANT)):
            if (sealed := _sealed(block)) is not None:
                yield Carried(f"messages[{at}].content[{position}].signature", sealed, at > last)


def with_state(body: Mapping[str, Any], kept: KeptCalls) -> Mapping[str, Any]:
    """Return a caller's body with the thinking that the provider wants back.

    Thinking that was kept with a call is added, unless the caller sent some. It is at the start of what precedes the
    call, as it was in the response.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    return {**body, "messages": [_restored(message, kept) for message in messages]}


def _restored(message: object, kept: KeptCalls) -> object:
    if not isinstance(message, dict) or not (given := _blocks(message, ASSISTANT)):
        return message
    blocks: list[object] = []
    start, is_carried = 0, False
    for block in given:
        kind = block.get("type") if isinstance(block, dict) else None
        carried = kept.get(_sealed(block) or "")
        restored = [block] if carried is None else thinking_of(carried.own)
        call = kept.get(str(block["id"])) if kind == "tool_use" and "id" in block else None
        if call is not None and not is_carried:
            blocks[start:start] = [one for value in call.before for one in thinking_of(value)]
        blocks += restored
        if kind in _THINKING:
            is_carried = is_carried or not all(map(is_ours, restored))
        elif kind == "tool_use":
            start, is_carried = len(blocks), False
    return {**message, "content": blocks}


def _begins_turn(message: object) -> bool:
    """Return whether a message begins a turn: it is the user's, and has no results of calls."""
    if not isinstance(message, dict) or message.get("role") != USER:
        return False
    blocks = _blocks(message, USER)
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def _blocks(message: object, role: str) -> list[Any]:
    """Return the blocks of a message of a role; none, if it is another's or a text."""
    blocks = message.get("content") if isinstance(message, dict) and message.get("role") == role else None
    return blocks if isinstance(blocks, list) else []


def _sealed(block: object) -> str | None:
    """Return the sealed value in a block of thinking."""
    signature = block.get("signature") if isinstance(block, dict) and block.get("type") == "thinking" else None
    if not isinstance(signature, str) or not signature.startswith(SIGNATURE + SEALED):
        return None
    return signature.removeprefix(SIGNATURE)
