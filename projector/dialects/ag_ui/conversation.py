"""Translate the conversation of a `RunAgentInput` into the neutral one (`projector.core.conversation`).

    run_input = read_run_input(body)
    sent = conversation(run_input)
    request = ModelRequest(model=..., input=sent.entries, client_tools=sent.tools)
    body = PROVIDERS[provider].request_writer(request, profile_of(provider, {}))
    pipeline = build_pipeline(provider=provider, dialect="ag_ui", options=dialect_options(run_input))

Clients send the whole conversation with each request. It is not trusted: messages that a client presents as the
model's are history and nothing more. Providers reject a call without its result, a result without its call, and
reasoning without what followed it; all of these are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from projector.contracts.kinds import VENDOR
from projector.core.call_pairs import Step, pair_calls
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
    Image,
    Message,
    Part,
    Reasoning,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.dialects.ag_ui import run_input as ag_ui
from projector.dialects.ag_ui.tool_writer import INTERRUPT_PREFIX

CUSTOM_CALL: Final = "custom_tool_call"
MCP_CALL: Final = "mcp_call"
APPROVAL_REQUEST: Final = "mcp_approval_request"

NOT_APPROVED: Final = ag_ui.Approval(approved=False)


def conversation(
    run_input: ag_ui.RunAgentInput,
    *,
    client_tools: Collection[str] = (),
    settings: ConversationSettings = DEFAULTS,
    previous_response_id: str | None = None,
) -> ClientPart:
    """Return the client's part of a request to a model. The agent's part is not in it.

    Args:
        run_input: the request.
        client_tools: names of the tools that a client may bring; others are dropped.
        settings: the agent's settings for conversations that clients hold.
        previous_response_id: the response that asked for the approvals that are answered. The provider stores it and
            everything before it, so only later items are returned.

    Raises:
        InputRefusedError: there is nothing to answer, or `resume` names an unknown interrupt.
    """
    entries = _Reader(run_input, settings).read()
    sent = without_lost_reasoning(entries) if previous_response_id is None else after_approval_request(entries)
    if not sent:
        raise InputRefusedError("`messages` contains nothing to answer.")
    return ClientPart(sent, _tools(run_input, client_tools))


def approvals(run_input: ag_ui.RunAgentInput) -> dict[str, ag_ui.Approval]:
    """Return the answer to each approval request, by the provider's ID. An abandoned request is not approved."""
    answers: dict[str, ag_ui.Approval] = {}
    for at, entry in enumerate(run_input.resume or ()):
        if not entry.interrupt_id.startswith(INTERRUPT_PREFIX):
            raise InputRefusedError(f"`resume[{at}].interruptId` is not an interrupt of this server.")
        answer = entry.payload if isinstance(entry, ag_ui.Resolved) else NOT_APPROVED
        answers[entry.interrupt_id.removeprefix(INTERRUPT_PREFIX)] = answer
    return answers


class _Reader:
    def __init__(self, run_input: ag_ui.RunAgentInput, settings: ConversationSettings) -> None:
        self._settings = settings
        self._answers = approvals(run_input)
        self._messages = run_input.messages
        self._answered = _answered_calls(run_input.messages)
        self._settled = {id(call) for call in self._answered.values()}
        """Calls with a result, by identity: a client may use one ID for several."""
        self._entries: list[Entry] = []
        self._added: set[str] = set()
        """IDs of the approval requests whose answers are in the entries: a client may send one call twice."""

    def read(self) -> list[Entry]:
        """Return all entries, with the answers to approvals that no message asks for at the end."""
        for message, calls in self._with_calls():
            read = READERS.get(type(message))
            if read is not None:
                read(self, message, calls)
            if isinstance(message, ag_ui.AssistantMessage) and message.tool_calls and not calls:
                self._entries.append(DroppedCalls())
        return self._entries + [self._answer(one) for one in self._answers if one not in self._added]

    def _with_calls(self) -> Iterator[tuple[ag_ui.Message, list[ag_ui.ToolCall]]]:
        """Yield each message with those of its calls that are kept; a result with the call that it answers."""
        for message in self._messages:
            if isinstance(message, ag_ui.AssistantMessage):
                yield message, [call for call in message.tool_calls or () if self._is_kept(call)]
            elif not isinstance(message, ag_ui.ToolMessage):
                yield message, []
            elif (call := self._answered.get(id(message))) is not None and not self._is_approval(call):
                yield message, [call]

    def _is_approval(self, call: ag_ui.ToolCall) -> bool:
        return call.id in self._answers or _metadata(call, "item_type") == APPROVAL_REQUEST

    def _is_kept(self, call: ag_ui.ToolCall) -> bool:
        """Return whether a call has a result, or an approval request is answered now. Earlier answers are history."""
        return call.id in self._answers if self._is_approval(call) else id(call) in self._settled

    def user(self, message: ag_ui.UserMessage, _calls: list[ag_ui.ToolCall]) -> None:
        content = message.content
        self._entries.append(Message(USER, content if isinstance(content, str) else tuple(map(_part, content))))

    def assistant(self, message: ag_ui.AssistantMessage, calls: list[ag_ui.ToolCall]) -> None:
        """Add a message of the model and its calls. A call of an MCP tool is added with its result."""
        if message.content:
            self._entries.append(Message(ASSISTANT, message.content))
        for call in calls:
            if self._is_approval(call):
                self._entries += [] if call.id in self._added else self._approval(call)
                self._added.add(call.id)
            elif _server(call) is None:
                self._entries.append(ToolCall(call.id, call.function.name, call.function.arguments, _kind(call)))

    def result(self, message: ag_ui.ToolMessage, calls: list[ag_ui.ToolCall]) -> None:
        call, content = calls[0], message.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        output = text or message.error or ""
        server = _server(call)
        if server is not None:
            self._entries.append(ServerCall(call.id, server, call.function.name, call.function.arguments, output))
        else:
            self._entries.append(ToolOutput(call.id, output, _kind(call)))

    def reasoning(self, message: ag_ui.ReasoningMessage, _calls: list[ag_ui.ToolCall]) -> None:
        """Add encrypted reasoning with the summaries of the same item. Providers accept no other reasoning."""
        if not self._settings.encrypted_reasoning:
            return
        entries, encrypted = self._entries, message.encrypted_value
        item_id = _metadata(message, "item_id") or message.id.partition(":")[0]
        if encrypted:
            entries.append(Reasoning(item_id, (), encrypted))
        last = entries[-1] if entries else None
        is_summary = bool(message.content) and _metadata(message, "kind") != "full"
        if is_summary and isinstance(last, Reasoning) and last.id == item_id:
            entries[-1] = replace(last, summary=(*last.summary, message.content))

    def _approval(self, call: ag_ui.ToolCall) -> list[Entry]:
        """Return the answer, after its request if that is trusted and nothing in it was redacted."""
        label, answer, function = _metadata(call, "server_label"), self._answer(call.id), call.function
        if not (self._settings.trust_client_approvals and label) or is_withheld(function.arguments):
            return [answer]
        return [ApprovalRequest(call.id, label, function.name, function.arguments), answer]

    def _answer(self, request_id: str) -> Approval:
        answer = self._answers[request_id]
        return Approval(request_id, answer.approved, answer.reason)


READERS: Final[Mapping[type, Callable[[_Reader, Any, list[ag_ui.ToolCall]], None]]] = {
    ag_ui.UserMessage: _Reader.user,
    ag_ui.AssistantMessage: _Reader.assistant,
    ag_ui.ToolMessage: _Reader.result,
    ag_ui.ReasoningMessage: _Reader.reasoning,
}
"""Message -> what adds its entries. Activities are dropped: they are the provider's own."""


def _answered_calls(messages: list[ag_ui.Message]) -> dict[int, ag_ui.ToolCall]:
    """Return the call that each result answers, by the identity of the result."""
    parts: list[ag_ui.ToolCall | ag_ui.ToolMessage] = []
    for message in messages:
        if isinstance(message, ag_ui.AssistantMessage):
            parts += message.tool_calls or ()
        elif isinstance(message, ag_ui.ToolMessage):
            parts.append(message)
    pairs = pair_calls(
        Step("call", part.id) if isinstance(part, ag_ui.ToolCall) else Step("output", part.tool_call_id)
        for part in parts
    )
    return {id(parts[at]): call for at, of in pairs.calls.items() if isinstance(call := parts[of], ag_ui.ToolCall)}


def _metadata(part: ag_ui.ToolCall | ag_ui.ReasoningMessage, name: str) -> str | None:
    """Return a text from the metadata that this dialect wrote."""
    value = (part.metadata or {}).get(f"{VENDOR}.{name}")
    return value if isinstance(value, str) and value else None


def _server(call: ag_ui.ToolCall) -> str | None:
    """Return the MCP server of a finished call, None for the call of a function or custom tool."""
    return _metadata(call, "server_label") if _metadata(call, "item_type") == MCP_CALL else None


def _kind(call: ag_ui.ToolCall) -> CallKind:
    """Return the kind of a call. A call of another type, or of an MCP tool without a server, is a function's."""
    return "custom" if _metadata(call, "item_type") == CUSTOM_CALL else "function"


def _part(part: ag_ui.TextPart | ag_ui.ImagePart) -> Part:
    if isinstance(part, ag_ui.TextPart):
        return Text(part.text)
    source = part.source
    return Image(
        source.value if isinstance(source, ag_ui.UrlSource) else f"data:{source.mime_type};base64,{source.value}"
    )


def _tools(run_input: ag_ui.RunAgentInput, names: Collection[str]) -> list[dict[str, Any]]:
    tools = [tool for tool in run_input.tools or () if tool.name in names]
    return [client_tool(tool.name, tool.description, tool.parameters) for tool in tools]
