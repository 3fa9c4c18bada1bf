"""Requests of chats of the AI SDK (`ai` 5, 6 and 7): what we read of them, and the neutral conversation made of it.

    chat = read_chat_input(body)
    sent = conversation(chat)
    request = ModelRequest(model=..., input=sent.entries, client_tools=sent.tools)
    pipeline = build_pipeline(provider=provider, dialect="ai_sdk", options=dialect_options(chat))

Unknown parts are ignored, too, as applications add their own.

assistant-ui's data stream runtime reads the same stream as `useChat`, but sends what the AI SDK gives to a model: model
messages (`content`) instead of UI messages (`parts`). Results of tools are messages of their own, messages have no IDs,
and the chat is `threadId`. They are translated before they are validated, so any member may have any type then; what is
no such message stays as it is, and `ChatInput` rejects it.

An approval is answered by a part of the last step of the last message; earlier answers are history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from projector.contracts.kinds import VENDOR
from projector.contracts.limits import NAME_MAX_CHARS, REQUEST_ITEMS_MAX
from projector.conversation import client_history as client
from projector.conversation import entries as neutral
from projector.conversation.client_history import pair_calls, step_of
from projector.conversation.opaque import is_sealed
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import json_text

TOOL_PREFIX: Final = "tool-"
DYNAMIC_TOOL: Final = "dynamic-tool"


class FilePart(client.InputModel):
    """An image or another file: an https URL or a data URL."""

    type: Literal["file"]
    media_type: client.Name
    url: Annotated[str, Field(pattern=r"^(https://|data:[a-z0-9.+-]+/[a-z0-9.+-]+;base64,)")]
    filename: client.Name | None = None


class ReasoningPart(client.InputModel):
    """A part of the model's reasoning, as the client received it, perhaps with encrypted reasoning."""

    type: Literal["reasoning"]
    text: client.Text
    provider_metadata: client.Metadata = None


class ApprovalAnswer(client.InputModel):
    """An approval of a call: a request, until it has an answer."""

    id: client.Id
    approved: bool | None = None
    reason: client.Text | None = None


class ToolPart(client.InputModel):
    """A call of a tool, in its last state."""

    type: Annotated[str, Field(max_length=NAME_MAX_CHARS + len(TOOL_PREFIX))]
    tool_call_id: client.Id
    state: client.Id
    tool_name: client.Name | None = None
    input: Any = None
    output: Any = None
    error_text: client.Text | None = None
    provider_executed: bool | None = None
    approval: ApprovalAnswer | None = None
    call_provider_metadata: client.Metadata = None

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.tool_name or "" if self.type == DYNAMIC_TOOL else self.type.removeprefix(TOOL_PREFIX)


class StepStart(client.InputModel):
    """The start of the parts of another response."""

    type: Literal["step-start"]


class UnreadPart(client.InputModel):
    """A part that is not sent to the provider: sources, data, files of the model."""

    type: client.Name


def _type_of(part: object) -> str:
    given = part.get("type") if isinstance(part, dict) else getattr(part, "type", None)
    return given if isinstance(given, str) else ""


def _part_tag(part: object) -> str:
    kind = _type_of(part)
    return "tool" if kind == DYNAMIC_TOOL or kind.startswith(TOOL_PREFIX) else kind if kind in _READ else "unread"


_READ: Final = frozenset({"text", "reasoning", "step-start"})
_READ_OF_USER: Final = frozenset({"text", "file"})


def _user_part_tag(part: object) -> str:
    kind = _type_of(part)
    return kind if kind in _READ_OF_USER else "unread"


UserPart: TypeAlias = Annotated[
    Annotated[client.TextPart, Tag("text")] | Annotated[FilePart, Tag("file")] | Annotated[UnreadPart, Tag("unread")],
    Discriminator(_user_part_tag),
]
AssistantPart: TypeAlias = Annotated[
    Annotated[client.TextPart, Tag("text")]
    | Annotated[ReasoningPart, Tag("reasoning")]
    | Annotated[StepStart, Tag("step-start")]
    | Annotated[ToolPart, Tag("tool")]
    | Annotated[UnreadPart, Tag("unread")],
    Discriminator(_part_tag),
]


class UserMessage(client.InputModel):
    """A message of the user."""

    role: Literal["user"]
    id: client.Id
    parts: Annotated[list[UserPart], Field(max_length=REQUEST_ITEMS_MAX, fail_fast=True)]


class AssistantMessage(client.InputModel):
    """A message of the model with its calls, as the client presents it."""

    role: Literal["assistant"]
    id: client.Id
    parts: Annotated[list[AssistantPart], Field(max_length=REQUEST_ITEMS_MAX, fail_fast=True)]


Message: TypeAlias = Annotated[UserMessage | AssistantMessage, Field(discriminator="role")]


class Tool(client.InputModel):
    """A tool that the client runs."""

    description: client.Text = ""
    parameters: dict[str, Any] | None = None


class ChatInput(client.InputModel):
    """A request for the next message of a chat."""

    id: client.Id
    messages: Annotated[list[Message], Field(min_length=1, max_length=REQUEST_ITEMS_MAX, fail_fast=True)]
    trigger: Literal["submit-message", "regenerate-message"] | None = None
    message_id: client.Id | None = None
    tools: Annotated[dict[client.Name, Tool], Field(max_length=client.TOOLS_MAX)] | None = None
    """Tools that the client runs, by name, as assistant-ui sends them."""


def read_chat_input(body: Mapping[str, Any]) -> ChatInput:
    """Parse the JSON object of a request, or raise a `InputRefusedError` that names the first invalid member."""
    return client.parsed(with_ui_messages(body), ChatInput)


def dialect_options(chat: ChatInput) -> DialectOptions:
    """Return the options of the stream that answers a request.

    A client that sends a result or an approval continues its last message, which must keep its ID.
    """
    last = chat.messages[-1]
    answers = [message for message in chat.messages if isinstance(message, AssistantMessage)]
    calls = [part.tool_call_id for message in answers for part in message.parts if isinstance(part, ToolPart)]
    return DialectOptions(
        message_id=last.id if isinstance(last, AssistantMessage) else None, taken_ids=frozenset(calls)
    )


FAILURES: Final = frozenset({"error-json", "error-text"})
"""Types of a tool's output that mean that it failed."""


def with_ui_messages(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request with UI messages and the ID of its chat; one that has them as it is."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not any(map(_is_model_message, messages)):
        return body
    chat = {"id": body["threadId"]} if "threadId" in body else {}
    return {**chat, **body, "messages": list(_ui_messages(messages))}


def _is_model_message(message: object) -> bool:
    return isinstance(message, dict) and "content" in message and "parts" not in message


def _ui_messages(messages: list[Any]) -> Iterator[object]:
    """Yield the messages, with the results of tools in the parts of their calls."""
    calls: dict[str, dict[str, Any]] = {}
    for at, message in enumerate(messages):
        if not _is_model_message(message):
            yield message
        elif message.get("role") == "tool":
            for result in _objects(message["content"]):
                calls.pop(str(result.get("toolCallId")), {}).update(_result(result.get("output")))
        else:
            parts = [_ui_part(part) for part in _objects(message["content"])]
            calls |= {str(part["toolCallId"]): part for part in parts if "toolCallId" in part}
            yield {"id": f"message_{at}", "role": message.get("role"), "parts": parts}


def _objects(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _ui_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "file":
        return {**part, "url": part.get("data")}
    if part.get("type") == "tool-call":
        return {**part, "type": "dynamic-tool", "state": "input-available"}
    return part


def _result(output: object) -> dict[str, Any]:
    """Return the members of a call with a result."""
    given = output if isinstance(output, dict) else {}
    value = given.get("value")
    if _type_of(given) == "execution-denied":
        return {"state": "output-error", "errorText": given.get("reason") or DENIED}
    if _type_of(given) in FAILURES:
        return {"state": "output-error", "errorText": json_text(value)}
    return {"state": "output-available", "output": value}


ANSWERED: Final = frozenset({"output-available", "output-error", "output-denied"})
"""States of a call with a result."""
APPROVAL_ANSWERED: Final = "approval-responded"

DENIED: Final = "The user did not approve the call."


def conversation(
    chat: ChatInput,
    *,
    client_tools: Collection[str] = (),
    settings: client.ConversationSettings = client.DEFAULTS,
    previous_response_id: str | None = None,
) -> client.ClientPart:
    """Return the client's part of a request to a model. The agent's part is not in it.

    Args:
        chat: the request.
        client_tools: names of the tools that a client may bring; others are dropped.
        settings: the agent's settings for conversations that clients hold.
        previous_response_id: see `sent_entries`.

    Raises:
        client.InputRefusedError: there is nothing to answer.
    """
    answers = {id(part) for part in _answers(chat)}
    entries = _paired([entry for message in chat.messages for entry in _entries(message, answers, settings)])
    sent = client.sent_entries(entries, previous_response_id)
    last = sent[-1] if sent else None
    if last is None or (isinstance(last, neutral.Message) and last.role == neutral.ASSISTANT):
        raise client.InputRefusedError("`messages` must end with a message of the user, or with results or approvals.")
    tools = (chat.tools or {}).items()
    return client.ClientPart(
        sent,
        [client.client_tool(name, tool.description, tool.parameters) for name, tool in tools if name in client_tools],
    )


def approvals(chat: ChatInput) -> list[str]:
    """Return the IDs of the approval requests that are answered now."""
    return [part.approval.id for part in _answers(chat) if part.approval is not None]


def _answers(chat: ChatInput) -> list[ToolPart]:
    """Return the parts that answer an approval request now: those of the last step."""
    last = chat.messages[-1]
    step = _steps(last)[-1] if isinstance(last, AssistantMessage) else []
    parts = [part for part in step if isinstance(part, ToolPart)]
    return [part for part in parts if part.state == APPROVAL_ANSWERED and part.approval is not None]


def _steps(message: AssistantMessage) -> list[list[AssistantPart]]:
    """Return the parts of each response of the model."""
    steps: list[list[AssistantPart]] = [[]]
    for part in message.parts:
        if isinstance(part, StepStart):
            steps.append([])
        else:
            steps[-1].append(part)
    return steps


def _entries(message: Message, answers: set[int], settings: client.ConversationSettings) -> Iterator[neutral.Entry]:
    if isinstance(message, UserMessage):
        parts = [part for part in message.parts if not isinstance(part, UnreadPart)]
        if parts:
            yield neutral.Message(neutral.USER, _content(parts))
        return
    for step in _steps(message):
        yield from _step(step, answers, settings)


def _step(
    parts: list[AssistantPart], answers: set[int], settings: client.ConversationSettings
) -> Iterator[neutral.Entry]:
    """Yield the entries of one response of the model, then the results and answers that the client added."""
    added: list[neutral.Entry] = []
    summaries: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, client.TextPart) and part.text:
            yield neutral.Message(neutral.ASSISTANT, part.text)
        elif isinstance(part, ReasoningPart):
            yield from _reasoning(part, summaries, settings)
        elif isinstance(part, ToolPart):
            if id(part) in answers:
                *requests, answer = client.approval_entries(_approval_request(part), _approval(part), settings)
                yield from requests
                added.append(answer)
            else:
                said, result = _call(part)
                yield said
                added += [result] if result is not None else []
    yield from added


def _call(part: ToolPart) -> tuple[neutral.Entry, neutral.Entry | None]:
    """Return a call and its result; a placeholder for a call that has none, or of a tool of the provider."""
    if part.state not in ANSWERED or not part.name:
        return neutral.DroppedCalls(), None
    output = _text(part.output if part.error_text is None else part.error_text)
    if part.state == "output-denied":
        output = (part.approval and part.approval.reason) or DENIED
    if part.provider_executed:
        server = _metadata(part.call_provider_metadata, "server_label")
        if server is None:
            return neutral.DroppedCalls(), None
        return neutral.ServerCall(part.tool_call_id, server, part.name, _text(part.input), output), None
    kind: neutral.CallKind = "custom" if isinstance(part.input, str) else "function"
    sealed = _metadata(part.call_provider_metadata, "encrypted_content")
    return (
        neutral.ToolCall(part.tool_call_id, part.name, _text(part.input), kind, encrypted=sealed),
        neutral.ToolOutput(part.tool_call_id, output, kind, has_failed=part.state == "output-error"),
    )


def _approval_request(part: ToolPart) -> neutral.ApprovalRequest:
    server, approval = _metadata(part.call_provider_metadata, "server_label") or "", part.approval
    return neutral.ApprovalRequest(approval.id if approval else "", server, part.name, _text(part.input))


def _approval(part: ToolPart) -> neutral.Approval:
    answer = part.approval or ApprovalAnswer(id=part.tool_call_id)
    return neutral.Approval(answer.id, answer.approved is True, answer.reason)


def _reasoning(
    part: ReasoningPart, summaries: dict[str, list[str]], settings: client.ConversationSettings
) -> Iterator[neutral.Entry]:
    """Yield encrypted reasoning with the summaries of the same item: the last part of an item has it."""
    item_id = _metadata(part.provider_metadata, "item_id")
    if item_id is None:
        return
    texts = summaries.setdefault(item_id, [])
    if part.text and _metadata(part.provider_metadata, "kind") != "full":
        texts.append(part.text)
    encrypted = _metadata(part.provider_metadata, "encrypted_content")
    if encrypted is not None and (settings.encrypted_reasoning or is_sealed(encrypted)):
        yield neutral.Reasoning(item_id, tuple(summaries.pop(item_id)), encrypted)


def _paired(entries: list[neutral.Entry]) -> list[neutral.Entry]:
    """Return the entries without calls and outputs that have no partner: a client may use one ID for several."""
    pairs = pair_calls(map(step_of, entries)).calls
    kept = {*pairs, *pairs.values()}
    return [
        neutral.DroppedCalls() if isinstance(entry, neutral.ToolCall | neutral.ToolOutput) and at not in kept else entry
        for at, entry in enumerate(entries)
    ]


def _content(parts: list[client.TextPart | FilePart]) -> str | tuple[neutral.Part, ...]:
    """Return the content of a message: one text, if it has no files."""
    if all(isinstance(part, client.TextPart) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, client.TextPart))
    return tuple(map(_part, parts))


def _part(part: client.TextPart | FilePart) -> neutral.Part:
    if isinstance(part, client.TextPart):
        return neutral.Text(part.text)
    return neutral.Image(part.url) if part.media_type.startswith("image/") else neutral.File(part.url, part.filename)


def _metadata(members: client.Metadata, name: str) -> str | None:
    """Return a text from the metadata that this dialect wrote."""
    own = (members or {}).get(VENDOR)
    return client.text_in(own if isinstance(own, dict) else None, name)


def _text(value: object) -> str:
    """Return an input or output as text: a text as it is, anything else as JSON."""
    return "" if value is None else json_text(value)
