"""Requests of AG-UI clients: the parts of a `RunAgentInput` that we read, and the neutral conversation made of it.

    run_input = read_run_input(body)
    sent = conversation(run_input)
    request = ModelRequest(model=..., input=sent.entries, client_tools=sent.tools)
    body = PROVIDERS[provider].request_writer(request, profile_of(provider, {}))
    pipeline = build_pipeline(provider=provider, dialect="ag_ui", options=dialect_options(run_input))

The models are those of protocol 1.0, and of clients before it, which send null for absent members.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from projector.contracts.kinds import VENDOR
from projector.contracts.limits import REQUEST_ITEMS_MAX
from projector.conversation import client_history as client
from projector.conversation import entries as neutral
from projector.conversation.client_history import Step, pair_calls
from projector.conversation.opaque import is_sealed
from projector.dialects.ag_ui.tool_writer import INTERRUPT_PREFIX
from projector.dialects.descriptor import DialectOptions


class DataSource(client.InputModel):
    """An image in the request, as base64."""

    type: Literal["data"]
    value: str
    mime_type: Annotated[str, Field(pattern=r"^image/[a-z+.-]+$")]


class UrlSource(client.InputModel):
    """An image over HTTPS."""

    type: Literal["url"]
    value: Annotated[str, Field(pattern=r"^https://")]


class ImagePart(client.InputModel):
    """An image."""

    type: Literal["image"]
    source: Annotated[DataSource | UrlSource, Field(discriminator="type")]


def _content_tag(content: object) -> str:
    return "parts" if isinstance(content, list) else "text"


TextParts: TypeAlias = Annotated[list[client.TextPart], Field(max_length=REQUEST_ITEMS_MAX)]
AnyParts: TypeAlias = Annotated[
    list[Annotated[client.TextPart | ImagePart, Field(discriminator="type")]], Field(max_length=REQUEST_ITEMS_MAX)
]
TextContent: TypeAlias = Annotated[
    Annotated[client.Text, Tag("text")] | Annotated[TextParts, Tag("parts")], Discriminator(_content_tag)
]
AnyContent: TypeAlias = Annotated[
    Annotated[client.Text, Tag("text")] | Annotated[AnyParts, Tag("parts")], Discriminator(_content_tag)
]


class UserMessage(client.InputModel):
    """A message of the user."""

    role: Literal["user"]
    id: client.Id
    content: AnyContent


class FunctionCall(client.InputModel):
    """Function and arguments of a call."""

    name: client.Name
    arguments: client.Text


class ToolCall(client.InputModel):
    """A tool call of the model."""

    id: client.Id
    function: FunctionCall
    encrypted_value: str | None = None
    metadata: client.Metadata = None


class AssistantMessage(client.InputModel):
    """An assistant message with its tool calls."""

    role: Literal["assistant"]
    id: client.Id
    content: client.Text | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=REQUEST_ITEMS_MAX)] | None = None


class ToolMessage(client.InputModel):
    """The result of a call."""

    role: Literal["tool"]
    id: client.Id
    tool_call_id: client.Id
    content: TextContent
    error: client.Text | None = None


class ReasoningMessage(client.InputModel):
    """A part of the model's reasoning, as the client received it, perhaps with encrypted reasoning."""

    role: Literal["reasoning"]
    id: client.Id
    content: client.Text
    encrypted_value: str | None = None
    metadata: client.Metadata = None


class ActivityMessage(client.InputModel):
    """An activity of a provider tool. It is not sent back to the provider."""

    role: Literal["activity"]
    id: client.Id


Message: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolMessage | ReasoningMessage | ActivityMessage, Field(discriminator="role")
]


class Tool(client.InputModel):
    """A tool that the client runs."""

    name: client.Name
    description: client.Text = ""
    parameters: dict[str, Any] | None = None


class Approval(client.InputModel):
    """The answer to an interrupt, as its `responseSchema` defines it."""

    approved: bool
    reason: client.Text | None = None


class Resolved(client.InputModel):
    """An interrupt that was answered."""

    status: Literal["resolved"]
    interrupt_id: client.Id
    payload: Approval


class Abandoned(client.InputModel):
    """An abandoned interrupt, which counts as not approved."""

    status: Literal["cancelled"]
    interrupt_id: client.Id


ResumeEntry: TypeAlias = Annotated[Resolved | Abandoned, Field(discriminator="status")]


class RunAgentInput(client.InputModel):
    """A request to run an agent."""

    thread_id: client.Id
    run_id: client.Id
    protocol_version: client.Id | None = None
    messages: Annotated[list[Message], Field(max_length=REQUEST_ITEMS_MAX)]
    tools: Annotated[list[Tool], Field(max_length=client.TOOLS_MAX)] | None = None
    resume: Annotated[list[ResumeEntry], Field(max_length=REQUEST_ITEMS_MAX)] | None = None


_BEFORE_1_0: Final = re.compile(r"0\.\d+")
"""Versions before 1.0. Any other text counts as a newer version, as the protocol demands."""


def read_run_input(body: Mapping[str, Any]) -> RunAgentInput:
    """Parse the JSON object of a request, or raise an `InputRefusedError` that names the first invalid member."""
    return client.parsed(body, RunAgentInput)


def dialect_options(run_input: RunAgentInput) -> DialectOptions:
    """Return the options of the stream that answers a request."""
    messages = [message for message in run_input.messages if isinstance(message, AssistantMessage)]
    call_ids = [call.id for message in messages for call in message.tool_calls or ()]
    version = run_input.protocol_version
    return DialectOptions(
        thread_id=run_input.thread_id,
        run_id=run_input.run_id,
        is_before_1_0=version is None or _BEFORE_1_0.fullmatch(version) is not None,
        taken_ids=frozenset([*call_ids, *(message.id for message in run_input.messages)]),
    )


CUSTOM_CALL: Final = "custom_tool_call"
MCP_CALL: Final = "mcp_call"
APPROVAL_REQUEST: Final = "mcp_approval_request"


def conversation(
    run_input: RunAgentInput,
    *,
    client_tools: Collection[str] = (),
    settings: client.ConversationSettings = client.DEFAULTS,
    previous_response_id: str | None = None,
) -> client.ClientPart:
    """Return the client's part of a request to a model. The agent's part is not in it.

    Args:
        run_input: the request.
        client_tools: names of the tools that a client may bring; others are dropped.
        settings: the agent's settings for conversations that clients hold.
        previous_response_id: see `sent_entries`.

    Raises:
        client.InputRefusedError: there is nothing to answer, or `resume` names an unknown interrupt.
    """
    sent = client.sent_entries(_Reader(run_input, settings).read(), previous_response_id)
    if not sent:
        raise client.InputRefusedError("`messages` contains nothing to answer.")
    tools = [tool for tool in run_input.tools or () if tool.name in client_tools]
    return client.ClientPart(sent, [client.client_tool(tool.name, tool.description, tool.parameters) for tool in tools])


def approvals(run_input: RunAgentInput) -> dict[str, neutral.Approval]:
    """Return the answer to each approval request, by the provider's ID. An abandoned request is not approved."""
    answers: dict[str, neutral.Approval] = {}
    for at, entry in enumerate(run_input.resume or ()):
        if not entry.interrupt_id.startswith(INTERRUPT_PREFIX):
            raise client.InputRefusedError(f"`resume[{at}].interruptId` is not an interrupt of this server.")
        request_id = entry.interrupt_id.removeprefix(INTERRUPT_PREFIX)
        given = entry.payload if isinstance(entry, Resolved) else Approval(approved=False)
        answers[request_id] = neutral.Approval(request_id, given.approved, given.reason)
    return answers


class _Reader:
    def __init__(self, run_input: RunAgentInput, settings: client.ConversationSettings) -> None:
        self._settings = settings
        self._answers = approvals(run_input)
        self._messages = run_input.messages
        self._answered = _answered_calls(run_input.messages)
        self._settled = {id(call) for call in self._answered.values()}
        """Calls with a result, by identity: a client may use one ID for several."""
        self._entries: list[neutral.Entry] = []
        self._added: set[str] = set()
        """IDs of the approval requests whose answers are in the entries: a client may send one call twice."""

    def read(self) -> list[neutral.Entry]:
        """Return all entries, with the answers to approvals that no message asks for at the end."""
        for message in self._messages:
            match message:
                case UserMessage():
                    self._user(message)
                case AssistantMessage():
                    self._assistant(message)
                case ToolMessage():
                    self._result(message)
                case ReasoningMessage():
                    self._reasoning(message)
                case ActivityMessage():
                    pass  # the provider's own
        return self._entries + [answer for one, answer in self._answers.items() if one not in self._added]

    def _is_approval(self, call: ToolCall) -> bool:
        return call.id in self._answers or _metadata(call, "item_type") == APPROVAL_REQUEST

    def _is_kept(self, call: ToolCall) -> bool:
        """Return whether a call has a result, or an approval request is answered now. Earlier answers are history."""
        return call.id in self._answers if self._is_approval(call) else id(call) in self._settled

    def _user(self, message: UserMessage) -> None:
        content = message.content if isinstance(message.content, str) else tuple(map(_part, message.content))
        self._entries.append(neutral.Message(neutral.USER, content))

    def _assistant(self, message: AssistantMessage) -> None:
        """Add a message of the model and those of its calls that are kept; one of an MCP tool comes with its result."""
        calls = [call for call in message.tool_calls or () if self._is_kept(call)]
        if message.content:
            self._entries.append(neutral.Message(neutral.ASSISTANT, message.content))
        for call in calls:
            if self._is_approval(call):
                self._entries += [] if call.id in self._added else self._approval(call)
                self._added.add(call.id)
            elif _server(call) is None:
                name, text, sealed = call.function.name, call.function.arguments, call.encrypted_value
                self._entries.append(neutral.ToolCall(call.id, name, text, _kind(call), encrypted=sealed))
        if message.tool_calls and not calls:
            self._entries.append(neutral.DroppedCalls())

    def _result(self, message: ToolMessage) -> None:
        call, content = self._answered.get(id(message)), message.content
        if call is None or self._is_approval(call):
            return
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        output = text or message.error or ""
        server = _server(call)
        if server is not None:
            self._entries.append(
                neutral.ServerCall(call.id, server, call.function.name, call.function.arguments, output)
            )
        else:
            has_failed = message.error is not None
            self._entries.append(neutral.ToolOutput(call.id, output, _kind(call), has_failed=has_failed))

    def _reasoning(self, message: ReasoningMessage) -> None:
        """Add encrypted reasoning with the summaries of the same item. Providers accept no other reasoning."""
        entries, encrypted = self._entries, message.encrypted_value
        if not (self._settings.encrypted_reasoning or is_sealed(encrypted)):
            return
        item_id = _metadata(message, "item_id") or message.id.partition(":")[0]
        if encrypted:
            entries.append(neutral.Reasoning(item_id, (), encrypted))
        last = entries[-1] if entries else None
        is_summary = bool(message.content) and _metadata(message, "kind") != "full"
        if is_summary and isinstance(last, neutral.Reasoning) and last.id == item_id:
            entries[-1] = replace(last, summary=(*last.summary, message.content))

    def _approval(self, call: ToolCall) -> list[neutral.Entry]:
        label, function = _metadata(call, "server_label") or "", call.function
        request = neutral.ApprovalRequest(call.id, label, function.name, function.arguments)
        return client.approval_entries(request, self._answers[call.id], self._settings)


def _answered_calls(messages: list[Message]) -> dict[int, ToolCall]:
    """Return the call that each result answers, by the identity of the result."""
    parts: list[ToolCall | ToolMessage] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            parts += message.tool_calls or ()
        elif isinstance(message, ToolMessage):
            parts.append(message)
    pairs = pair_calls(
        Step("call", part.id) if isinstance(part, ToolCall) else Step("output", part.tool_call_id) for part in parts
    )
    return {id(parts[at]): call for at, of in pairs.calls.items() if isinstance(call := parts[of], ToolCall)}


def _metadata(part: ToolCall | ReasoningMessage, name: str) -> str | None:
    """Return a text from the metadata that this dialect wrote."""
    return client.text_in(part.metadata, f"{VENDOR}.{name}")


def _server(call: ToolCall) -> str | None:
    """Return the MCP server of a finished call, None for the call of a function or custom tool."""
    return _metadata(call, "server_label") if _metadata(call, "item_type") == MCP_CALL else None


def _kind(call: ToolCall) -> neutral.CallKind:
    """Return the kind of a call. A call of another type, or of an MCP tool without a server, is a function's."""
    return "custom" if _metadata(call, "item_type") == CUSTOM_CALL else "function"


def _part(part: client.TextPart | ImagePart) -> neutral.Part:
    if isinstance(part, client.TextPart):
        return neutral.Text(part.text)
    source = part.source
    return neutral.Image(
        source.value if isinstance(source, UrlSource) else f"data:{source.mime_type};base64,{source.value}"
    )
