"""What servers with the Chat Completions API want back with calls: an object for each call that has any.

reasoning_content   reasoning before the calls, back in the message that has them (DeepSeek, and others); None: nothing
                    goes back, whatever the client has kept of what it was shown
extra_content       the member of the call, with a thought signature (Gemini's compatible endpoint)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import ASSISTANT
from projector.conversation.opaque import KeptCalls
from projector.providers.openai_chat.chat_profile import ChatProfile

EXTRA: Final = "extra_content"
"""Member of a call that goes back as it came. All others of the object are members of the message."""
_RETURNED: Final = "returned"
SHOWN: Final = "reasoning_content"
"""Member of a message in which clients of this API see reasoning of every provider; many send it back."""


def returned_reasoning(members: Mapping[str, str]) -> object:
    """Return the opaque value of reasoning that goes back in members of the message with the calls after it."""
    return {_RETURNED: dict(members)}


def state_of(before: Iterable[object], own: object) -> dict[str, Any] | None:
    """Return what belongs to a call and to the reasoning before it; None if that is nothing."""
    members = [value.get(_RETURNED) for value in before if isinstance(value, Mapping)]
    given = [one for one in members if isinstance(one, Mapping)]
    names = dict.fromkeys(name for one in given for name in one)
    state = {name: "".join(str(one.get(name, "")) for one in given) for name in names}
    return {**state, **own} if isinstance(own, dict) else state or None


def add_state(message: dict[str, Any], call: dict[str, Any], state: object) -> None:
    """Add what belongs to a call, and to the message that has it."""
    for name, value in state.items() if isinstance(state, dict) else ():
        if name == EXTRA:
            call[name] = value
        elif value is not None:
            message.setdefault(name, value)


def with_state(body: Mapping[str, Any], kept: KeptCalls) -> Mapping[str, Any]:
    """Return a caller's body with what belongs to its calls, by their IDs, in place of the caller's own."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    states = {call_id: state_of(call.before, call.own) for call_id, call in kept.items()}
    return {**body, "messages": [_restored(message, states) for message in messages]}


def without_shown_reasoning(messages: Iterable[object], profile: ChatProfile) -> list[object]:
    """Return messages without reasoning that the client was shown, and that the upstream does not want back."""
    shown = {SHOWN, *profile.reasoning_fields}
    unwanted = shown - {*profile.returned_reasoning}
    return [
        {name: value for name, value in one.items() if name not in (unwanted if one.get("tool_calls") else shown)}
        if isinstance(one, dict) and one.get("role") == ASSISTANT
        else one
        for one in messages
    ]


def _restored(message: object, states: Mapping[str, Any]) -> object:
    """Return a message with what belongs to its calls; members that the server keeps are not the client's to change."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(calls, list):
        return message
    given = [call if isinstance(call, dict) else {} for call in calls]
    known = [state for call in given if isinstance(state := states.get(str(call.get("id"))), dict)]
    if not known:
        return message
    kept = {SHOWN, *(name for state in known for name in state)}
    restored = {name: value for name, value in message.items() if name not in kept}
    restored["tool_calls"] = [
        {name: value for name, value in call.items() if name not in kept} if call else one
        for call, one in zip(given, calls, strict=True)
    ]
    for call in restored["tool_calls"]:
        if isinstance(call, dict):
            add_state(restored, call, states.get(str(call.get("id"))))
    return restored
