"""Calls and outputs in a conversation that a client holds: which output answers which call.

Providers reject a call without its output, and an output without its call. Every route that accepts a conversation
uses `pair_calls`; `check_calls` rejects the input items of a request, and the AG-UI dialect drops what has no partner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Item: TypeAlias = Mapping[str, Any]
"""An input item of the Responses API."""

OUTPUT_TYPES: Final[Mapping[str, str]] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
"""Type of a call -> type of its output."""

StepKind: TypeAlias = Literal["call", "output", "turn", "other"]
"""`turn` is a message of the user, which calls cannot wait across."""

STEP_KINDS: Final[Mapping[str, StepKind]] = {
    **dict.fromkeys(OUTPUT_TYPES, "call"),
    **dict.fromkeys(OUTPUT_TYPES.values(), "output"),
}
"""Type of an item -> kind of its step; all others are `other`, except messages of the user."""

Reason: TypeAlias = Literal["repeated call", "no output", "no call", "second output"]

REASONS: Final[Mapping[Reason, str]] = {
    "repeated call": "`input[{at}].call_id` is the ID of an earlier call: `input[{other}]`.",
    "no output": "`input[{at}]` has no output. Each call needs one before the next message of the user.",
    "no call": "`input[{at}].call_id` is not the ID of an earlier call. Each output must follow its call in `input`.",
    "second output": "`input[{at}].call_id` is the ID of a call that has an output already: `input[{other}]`.",
}
"""Why a step has no partner -> message; it names positions, and never a value."""

WRONG_TYPE: Final = "`input[{at}].type` must be '{expected}', because `input[{other}]` is a '{call}'."
ENDS_WITH_ANSWER: Final = "`input` must not end with a message of the assistant: `input[{at}]`."


class Step(NamedTuple):
    """What an entry of a conversation means to its calls."""

    kind: StepKind
    call_id: str = ""


class Unpaired(NamedTuple):
    """A call or output without a partner."""

    at: int
    reason: Reason
    other: int | None = None
    """The step that it collides with."""


class Pairs(NamedTuple):
    """Calls and outputs by the positions of their steps."""

    calls: Mapping[int, int]
    """Position of an output -> position of its call."""
    unpaired: Sequence[Unpaired]
    """In the order in which they are noticed."""


def pair_calls(steps: Iterable[Step], *, is_continued: bool = False) -> Pairs:
    """Return which output answers which call.

    An output answers the last call with its ID that has none. If the conversation continues a stored response,
    an output may answer a call of that response.
    """
    waiting: dict[str, int] = {}
    begun: dict[str, int] = {}
    answered: dict[str, int] = {}
    calls: dict[int, int] = {}
    unpaired: list[Unpaired] = []
    for at, (kind, call_id) in enumerate(steps):
        if kind == "call":
            if call_id in begun:
                unpaired.append(Unpaired(at, "repeated call", begun[call_id]))
            waiting[call_id] = begun[call_id] = at
        elif kind == "output":
            call = waiting.pop(call_id, None)
            if call is not None:
                calls[at] = call
            elif call_id in answered:
                unpaired.append(Unpaired(at, "second output", answered[call_id]))
            elif not is_continued:
                unpaired.append(Unpaired(at, "no call"))
            answered[call_id] = at
        elif kind == "turn":
            unpaired += [Unpaired(call, "no output") for call in waiting.values()]
            waiting.clear()
    return Pairs(calls, [*unpaired, *(Unpaired(call, "no output") for call in waiting.values())])


def check_calls(items: Sequence[Item], *, is_continued: bool = False) -> str | None:
    """Return what is wrong with the calls of `input`, None if nothing is.

    Args:
        items: the whole conversation, or what follows a stored response.
        is_continued: whether the provider has the response before these items.
    """
    pairs = pair_calls(map(_step, items), is_continued=is_continued)
    for at, reason, other in pairs.unpaired:
        return REASONS[reason].format(at=at, other=other)
    for at, other in pairs.calls.items():
        call = items[other]["type"]
        if items[at]["type"] != OUTPUT_TYPES[call]:
            return WRONG_TYPE.format(at=at, other=other, call=call, expected=OUTPUT_TYPES[call])
    if items and items[-1].get("role") == "assistant":
        return ENDS_WITH_ANSWER.format(at=len(items) - 1)
    return None


def _step(item: Item) -> Step:
    if item.get("role") == "user":
        return Step("turn")
    return Step(STEP_KINDS.get(item["type"], "other"), item.get("call_id", ""))
