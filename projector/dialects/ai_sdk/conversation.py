"""Translate the messages of a `ChatInput` into the neutral conversation (`projector.core.conversation`).

    chat = read_chat_input(body)
    sent = conversation(chat)
    request = ModelRequest(model=..., input=sent.entries, client_tools=sent.tools)
    pipeline = build_pipeline(provider=provider, dialect="ai_sdk", options=dialect_options(chat))

Clients send the whole chat with each request. It is not trusted: messages that a client presents as the model's are
history and nothing more. Calls without a result are dropped, and so is reasoning that nothing follows. An approval is
answered by a part of the last step of the last message; earlier answers are history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.core.call_pairs import pair_calls, step_of
from projector.core.client_history import (
    DEFAULTS,
    ClientPart,
    ConversationSettings,
    InputRefusedError,
    after_approval_request,
    client_tool,
    is_withheld,
    without_lost_reasoning,
)
from projector.core.conversation import (
    ASSISTANT,
    USER,
    Approval,
    ApprovalRequest,
    CallKind,
    DroppedCalls,
    Entry,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.dialects.ai_sdk import chat_input as ai_sdk

ANSWERED: Final = frozenset({"output-available", "output-error", "output-denied"})
"""States of a call with a result."""
APPROVAL_ANSWERED: Final = "approval-responded"

DENIED: Final = "The user did not approve the call."


def conversation(
    chat: ai_sdk.ChatInput,
    *,
    client_tools: Collection[str] = (),
    settings: ConversationSettings = DEFAULTS,
    previous_response_id: str | None = None,
) -> ClientPart:
    """Return the client's part of a request to a model. The agent's part is not in it.

    Args:
        chat: the request.
        client_tools: names of the tools that a client may bring; others are dropped.
        settings: the agent's settings for conversations that clients hold.
        previous_response_id: the response that asked for the approvals that are answered. The provider stores it and
            everything before it, so only later entries are returned.

    Raises:
        InputRefusedError: there is nothing to answer.
    """
    answers = {id(part) for part in _answers(chat)}
    entries = _paired([entry for message in chat.messages for entry in _entries(message, answers, settings)])
    sent = without_lost_reasoning(entries) if previous_response_id is None else after_approval_request(entries)
    last = sent[-1] if sent else None
    if last is None or (isinstance(last, Message) and last.role == ASSISTANT):
        raise InputRefusedError("`messages` must end with a message of the user, or with results or approvals.")
    tools = (chat.tools or {}).items()
    return ClientPart(
        sent, [client_tool(name, tool.description, tool.parameters) for name, tool in tools if name in client_tools]
    )


def approvals(chat: ai_sdk.ChatInput) -> list[str]:
    """Return the IDs of the approval requests that are answered now."""
    return [part.approval.id for part in _answers(chat) if part.approval is not None]


def _answers(chat: ai_sdk.ChatInput) -> list[ai_sdk.ToolPart]:
    """Return the parts that answer an approval request now: those of the last step."""
    last = chat.messages[-1]
    if not isinstance(last, ai_sdk.AssistantMessage):
        return []
    step: list[ai_sdk.ToolPart] = []
    for part in last.parts:
        if isinstance(part, ai_sdk.StepStart):
            step = []
        elif isinstance(part, ai_sdk.ToolPart) and part.state == APPROVAL_ANSWERED and part.approval is not None:
            step.append(part)
    return step


def _entries(message: ai_sdk.Message, answers: set[int], settings: ConversationSettings) -> Iterator[Entry]:
    if isinstance(message, ai_sdk.UserMessage):
        parts = [part for part in message.parts if not isinstance(part, ai_sdk.UnreadPart)]
        if parts:
            yield Message(USER, _content(parts))
        return
    steps: list[list[ai_sdk.AssistantPart]] = [[]]
    for part in message.parts:
        if isinstance(part, ai_sdk.StepStart):
            steps.append([])
        else:
            steps[-1].append(part)
    for step in steps:
        yield from _step(step, answers, settings)


def _step(parts: list[ai_sdk.AssistantPart], answers: set[int], settings: ConversationSettings) -> Iterator[Entry]:
    """Yield the entries of one response of the model, then the results and answers that the client added."""
    added: list[Entry] = []
    summaries: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, ai_sdk.TextPart) and part.text:
            yield Message(ASSISTANT, part.text)
        elif isinstance(part, ai_sdk.ReasoningPart) and settings.encrypted_reasoning:
            yield from _reasoning(part, summaries)
        elif isinstance(part, ai_sdk.ToolPart):
            if id(part) in answers:
                yield from _approval_request(part, settings)
                added.append(_approval(part))
            else:
                said, result = _call(part)
                yield said
                added += [result] if result is not None else []
    yield from added


def _call(part: ai_sdk.ToolPart) -> tuple[Entry, Entry | None]:
    """Return a call and its result; a placeholder for a call that has none, or of a tool of the provider."""
    if part.state not in ANSWERED or not part.name:
        return DroppedCalls(), None
    output = _text(part.output if part.error_text is None else part.error_text)
    if part.state == "output-denied":
        output = DENIED
    if part.provider_executed:
        server = _metadata(part.call_provider_metadata, "server_label")
        if server is None:
            return DroppedCalls(), None
        return ServerCall(part.tool_call_id, server, part.name, _text(part.input), output), None
    kind: CallKind = "custom" if isinstance(part.input, str) else "function"
    return (
        ToolCall(part.tool_call_id, part.name, _text(part.input), kind),
        ToolOutput(part.tool_call_id, output, kind),
    )


def _approval_request(part: ai_sdk.ToolPart, settings: ConversationSettings) -> Iterator[Entry]:
    """Yield the request if it is trusted and nothing in it was redacted."""
    server, arguments = _metadata(part.call_provider_metadata, "server_label"), _text(part.input)
    if settings.trust_client_approvals and server and part.approval is not None and not is_withheld(arguments):
        yield ApprovalRequest(part.approval.id, server, part.name, arguments)


def _approval(part: ai_sdk.ToolPart) -> Approval:
    answer = part.approval or ai_sdk.ApprovalAnswer(id=part.tool_call_id)
    return Approval(answer.id, answer.approved is True, answer.reason)


def _reasoning(part: ai_sdk.ReasoningPart, summaries: dict[str, list[str]]) -> Iterator[Entry]:
    """Yield encrypted reasoning with the summaries of the same item: the last part of an item has it."""
    item_id = _metadata(part.provider_metadata, "item_id")
    if item_id is None:
        return
    texts = summaries.setdefault(item_id, [])
    if part.text and _metadata(part.provider_metadata, "kind") != "full":
        texts.append(part.text)
    if encrypted := _metadata(part.provider_metadata, "encrypted_content"):
        yield Reasoning(item_id, tuple(texts), encrypted)


def _paired(entries: list[Entry]) -> list[Entry]:
    """Return the entries without calls and outputs that have no partner: a client may use one ID for several."""
    pairs = pair_calls(map(step_of, entries)).calls
    kept = {*pairs, *pairs.values()}
    return [
        DroppedCalls() if isinstance(entry, ToolCall | ToolOutput) and at not in kept else entry
        for at, entry in enumerate(entries)
    ]


def _content(parts: list[ai_sdk.TextPart | ai_sdk.FilePart]) -> str | tuple[Part, ...]:
    """Return the content of a message: one text, if it has no files."""
    if all(isinstance(part, ai_sdk.TextPart) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, ai_sdk.TextPart))
    return tuple(map(_part, parts))


def _part(part: ai_sdk.TextPart | ai_sdk.FilePart) -> Part:
    if isinstance(part, ai_sdk.TextPart):
        return Text(part.text)
    return Image(part.url) if part.media_type.startswith("image/") else File(part.url, part.filename)


def _metadata(members: ai_sdk.Metadata, name: str) -> str | None:
    """Return a text from the metadata that this dialect wrote."""
    own = (members or {}).get(VENDOR)
    value = own.get(name) if isinstance(own, dict) else None
    return value if isinstance(value, str) and value else None


def _text(value: object) -> str:
    """Return an input or output as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else codec.dumps(value).decode()
