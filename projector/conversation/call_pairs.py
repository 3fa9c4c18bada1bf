"""Calls and outputs in a conversation that a client holds: which output answers which call.

Providers reject a call without its output, and an output without its call. Every route that accepts a conversation
uses `pair_calls`; `check_calls` rejects the input items of a request, and routes of chat clients drop what has no
partner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from projector.conversation.entries import (
    ASSISTANT,
    USER,
    CallKind,
    Conversation,
    Entry,
    Message,
    ToolCall,
    ToolOutput,
)

OUTPUT_TYPES: Final[Mapping[str, str]] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
"""Type of a call in the Responses API -> type of its output."""

ITEM_TYPES: Final[Mapping[CallKind, str]] = {"function": "function_call", "custom": "custom_tool_call"}
"""Kind of a call -> its type in the Responses API, which the messages name."""

StepKind: TypeAlias = Literal["call", "output", "turn", "other"]
"""`turn` is a message of the user, which calls cannot wait across."""

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


def check_calls(entries: Conversation, *, is_continued: bool = False) -> str | None:
    """Return what is wrong with the calls of `input`, None if nothing is.

    Args:
        entries: the whole conversation, or what follows a stored response; one for each item of `input`.
        is_continued: whether the provider has the response before these items.
    """
    pairs = pair_calls(map(step_of, entries), is_continued=is_continued)
    for at, reason, other in pairs.unpaired:
        return REASONS[reason].format(at=at, other=other)
    for at, other in pairs.calls.items():
        output, call = entries[at], entries[other]
        if isinstance(output, ToolOutput) and isinstance(call, ToolCall) and output.kind != call.kind:
            item_type = ITEM_TYPES[call.kind]
            return WRONG_TYPE.format(at=at, other=other, call=item_type, expected=OUTPUT_TYPES[item_type])
    last = entries[-1] if entries else None
    if isinstance(last, Message) and last.role == ASSISTANT:
        return ENDS_WITH_ANSWER.format(at=len(entries) - 1)
    return None


def step_of(entry: Entry) -> Step:
    """Return what an entry means to the calls of its conversation."""
    if isinstance(entry, ToolCall):
        return Step("call", entry.id)
    if isinstance(entry, ToolOutput):
        return Step("output", entry.call_id)
    return Step("turn" if isinstance(entry, Message) and entry.role == USER else "other")
