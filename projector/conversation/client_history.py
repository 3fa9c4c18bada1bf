"""What routes of chat clients share: the base of their models, settings, and what is sent of a conversation.

The models are an allow-list: unknown members are ignored, and null means absent. Messages with instructions are
rejected, because only the server writes instructions. A conversation is the client's version of it: what is presented
as the model's is history and nothing more (docs/decisions/0008). Providers reject a call without its result, a result
without its call, and reasoning without what followed it; all of these are dropped.

Here is also which output answers which call: every route that accepts a conversation uses `pair_calls`; `check_calls`
rejects the input items of a request, and routes of chat clients drop what has no partner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from projector._validation import sentences
from projector.contracts.kinds import REDACTED
from projector.contracts.limits import ID_MAX_CHARS, NAME_MAX_CHARS, REQUEST_TEXT_MAX_CHARS
from projector.conversation.entries import (
    ASSISTANT,
    USER,
    Approval,
    ApprovalRequest,
    CallKind,
    Conversation,
    DroppedCalls,
    Entry,
    Message,
    Reasoning,
    ServerCall,
    ToolCall,
    ToolOutput,
)

NO_PARAMETERS: Final = {"type": "object", "properties": {}}
"""JSON Schema of the parameters of a tool that has none."""

_WITHHELD: Final = re.compile(rf"{REDACTED}|\[REDACTED:")
"""Placeholders of redacted values."""

_AFTER_REASONING: Final = (Reasoning, ToolCall, ServerCall, ApprovalRequest)
"""Entries that may follow reasoning, beside messages of the model."""


class InputRefusedError(ValueError):
    """The request is not supported. The message names the member, never a value."""


class ConversationSettings(NamedTuple):
    """Settings of an agent for conversations that clients hold."""

    encrypted_reasoning: bool = False
    """Whether clients receive encrypted reasoning and send it back."""
    trust_client_approvals: bool = False
    """Whether an approval request is sent to the provider again, with its answer.

    A provider that does not store responses needs it. But then the client's copy of the request counts: it may approve
    a call that no model has made.
    """


DEFAULTS: Final = ConversationSettings()


class ClientPart(NamedTuple):
    """The client's part of a request to a model."""

    entries: list[Entry]
    tools: list[dict[str, Any]]
    """In the shape of the Responses API."""


# models


TOOLS_MAX: Final = 128
"""Limit of the providers."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARS)]
Text: TypeAlias = Annotated[str, Field(max_length=REQUEST_TEXT_MAX_CHARS)]
Metadata: TypeAlias = dict[str, Any] | None


class InputModel(BaseModel):
    """Base of all models: camel case on the wire, exact types, unknown members ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )


class TextPart(InputModel):
    """A text."""

    type: Literal["text"]
    text: Text


_Model = TypeVar("_Model", bound=InputModel)


def parsed(body: Mapping[str, Any], model: type[_Model]) -> _Model:
    """Parse the JSON object of a request, or raise an `InputRefusedError` that names the first invalid member."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        message = sentences(error, body, model)[0]
    raise InputRefusedError(f"{message}.")


def text_in(members: Mapping[str, Any] | None, name: str) -> str | None:
    """Return a text from the metadata that a dialect wrote."""
    value = (members or {}).get(name)
    return value if isinstance(value, str) and value else None


# conversations


def client_tool(name: str, description: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a tool that the client runs."""
    function = {"name": name, "description": description, "parameters": parameters or NO_PARAMETERS}
    return {"type": "function", **function, "strict": False}


def is_withheld(arguments: str) -> bool:
    """Return whether something was redacted in arguments: they are not those of the original call."""
    return _WITHHELD.search(arguments) is not None


def is_history(entry: Entry) -> bool:
    """Return whether an entry is the model's, as only a client that holds the conversation sends it."""
    return isinstance(entry, ToolCall | ServerCall | Reasoning) or (
        isinstance(entry, Message) and entry.role == ASSISTANT
    )


def without_lost_reasoning(entries: Conversation) -> list[Entry]:
    """Return a conversation without placeholders, and without reasoning that nothing of the model follows.

    Providers reject reasoning without the call or message that it led to.
    """
    kept: list[Entry] = []
    for entry in reversed(entries):
        after = kept[-1] if kept else None
        is_lost = not (isinstance(after, _AFTER_REASONING) or (isinstance(after, Message) and after.role == ASSISTANT))
        if not (isinstance(entry, Reasoning) and is_lost):
            kept.append(entry)
    return [entry for entry in reversed(kept) if not isinstance(entry, DroppedCalls)]


def sent_entries(entries: Conversation, previous_response_id: str | None) -> list[Entry]:
    """Return what is sent of a conversation.

    Args:
        entries: the whole conversation.
        previous_response_id: the response that asked for the approvals that are answered. The provider stores it and
            everything before it, so only later entries are returned.
    """
    return without_lost_reasoning(entries) if previous_response_id is None else after_approval_request(entries)


def approval_entries(request: ApprovalRequest, answer: Approval, settings: ConversationSettings) -> list[Entry]:
    """Return the answer to a request, after the request if that is trusted and nothing in it was redacted."""
    is_sent = settings.trust_client_approvals and request.server and not is_withheld(request.input)
    return [request, answer] if is_sent else [answer]


def after_approval_request(entries: Conversation) -> list[Entry]:
    """Return what the client added since the response that asked for the first answered approval.

    An answer stands at the position of its request. Outputs for calls of later responses, if any, are dropped.
    """
    first = next(at for at, entry in enumerate(entries) if isinstance(entry, Approval))
    begin = next((at + 1 for at in range(first, -1, -1) if _is_of_client(entries[at])), 0)
    end = next((at for at in range(first, len(entries)) if _is_of_client(entries[at])), len(entries))
    calls = {entry.id for entry in entries[begin:end] if isinstance(entry, ToolCall)}
    return [
        entry
        for entry in entries[begin:]
        if isinstance(entry, Approval)
        or (isinstance(entry, Message) and entry.role == USER)
        or (isinstance(entry, ToolOutput) and entry.call_id in calls)
    ]


def _is_of_client(entry: Entry) -> bool:
    return isinstance(entry, ToolOutput) or (isinstance(entry, Message) and entry.role == USER)


# calls and outputs


ITEM_TYPES: Final[Mapping[CallKind, str]] = {"function": "function_call", "custom": "custom_tool_call"}
"""Kind of a call -> its type in the Responses API, which the messages name."""

OUTPUT_TYPES: Final[Mapping[str, str]] = {item_type: f"{item_type}_output" for item_type in ITEM_TYPES.values()}
"""Type of a call in the Responses API -> type of its output."""

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
