"""Translate the conversation of a `RunAgentInput` into input items of the Responses API.

    run_input = read_run_input(body)
    sent = conversation(run_input)
    request = ModelRequest(model=..., input=sent.items, client_tools=sent.tools)
    body = PROVIDERS[provider].request_writer(request, profile_of(provider, {}))
    pipeline = build_pipeline(provider=provider, dialect="ag_ui", options=dialect_options(run_input))

Clients send the whole conversation with each request. It is not trusted: messages that a client presents as the
model's are history and nothing more. Providers reject a call without its result, a result without its call, and
reasoning without what followed it; all of these are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts.kinds import REDACTED, VENDOR
from projector.core.call_pairs import Step, pair_calls
from projector.dialects.ag_ui import run_input as ag_ui
from projector.dialects.ag_ui.tool_writer import INTERRUPT_PREFIX

Item: TypeAlias = dict[str, Any]
"""An input item of the Responses API."""

FUNCTION_CALL: Final = "function_call"
CUSTOM_CALL: Final = "custom_tool_call"
MCP_CALL: Final = "mcp_call"
APPROVAL_REQUEST: Final = "mcp_approval_request"
APPROVAL_RESPONSE: Final = "mcp_approval_response"
REASONING: Final = "reasoning"
ASSISTANT: Final = "assistant"

AFTER_REASONING: Final = frozenset({REASONING, FUNCTION_CALL, CUSTOM_CALL, MCP_CALL, APPROVAL_REQUEST})
"""Types of the items that may follow reasoning, beside messages of the model."""

DROPPED_CALLS: Final[Item] = {"type": "dropped_calls"}
"""Placeholder for dropped calls: reasoning before them is dropped as well."""

OUTPUTS: Final = frozenset({f"{FUNCTION_CALL}_output", f"{CUSTOM_CALL}_output"})

NOT_APPROVED: Final = ag_ui.Approval(approved=False)

NO_PARAMETERS: Final = {"type": "object", "properties": {}}
"""JSON Schema of the parameters of a tool that has none."""

WITHHELD: Final = re.compile(rf"{REDACTED}|\[REDACTED:")
"""Placeholders of redacted values. Arguments that contain one are not those of the original call."""


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


class Conversation(NamedTuple):
    """The client's part of a request to a model, in the shape of the Responses API."""

    items: list[Item]
    tools: list[Item]


def conversation(
    run_input: ag_ui.RunAgentInput,
    *,
    client_tools: Collection[str] = (),
    settings: ConversationSettings = DEFAULTS,
    previous_response_id: str | None = None,
) -> Conversation:
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
    items = _Items(run_input, settings).translate()
    sent = _without_lost_reasoning(items) if previous_response_id is None else _after_approval_request(items)
    if not sent:
        raise ag_ui.InputRefusedError("`messages` contains nothing to answer.")
    return Conversation(sent, [_tool(tool) for tool in run_input.tools or () if tool.name in client_tools])


def approvals(run_input: ag_ui.RunAgentInput) -> dict[str, ag_ui.Approval]:
    """Return the answer to each approval request, by the provider's ID. An abandoned request is not approved."""
    answers: dict[str, ag_ui.Approval] = {}
    for at, entry in enumerate(run_input.resume or ()):
        if not entry.interrupt_id.startswith(INTERRUPT_PREFIX):
            raise ag_ui.InputRefusedError(f"`resume[{at}].interruptId` is not an interrupt of this server.")
        answer = entry.payload if isinstance(entry, ag_ui.Resolved) else NOT_APPROVED
        answers[entry.interrupt_id.removeprefix(INTERRUPT_PREFIX)] = answer
    return answers


def has_images(run_input: ag_ui.RunAgentInput) -> bool:
    """Return whether a message contains an image."""
    contents = [message.content for message in run_input.messages if isinstance(message, ag_ui.UserMessage)]
    lists = [content for content in contents if isinstance(content, list)]
    return any(isinstance(part, ag_ui.ImagePart) for parts in lists for part in parts)


class _Items:
    def __init__(self, run_input: ag_ui.RunAgentInput, settings: ConversationSettings) -> None:
        self._settings = settings
        self._answers = approvals(run_input)
        self._messages = run_input.messages
        self._answered = _answered_calls(run_input.messages)
        self._settled = {id(call) for call in self._answered.values()}
        """Calls with a result, by identity: a client may use one ID for several."""
        self._items: list[Item] = []
        self._added: set[str] = set()
        """IDs of the approval requests whose answers are in the items: a client may send one call twice."""

    def translate(self) -> list[Item]:
        """Return all items, with the answers to approvals that no message asks for at the end."""
        for message, calls in self._with_calls():
            write = WRITERS.get(type(message))
            if write is not None:
                write(self, message, calls)
            if isinstance(message, ag_ui.AssistantMessage) and message.tool_calls and not calls:
                self._items.append(DROPPED_CALLS)
        return self._items + [self._answer(one) for one in self._answers if one not in self._added]

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
        content = message.content if isinstance(message.content, str) else [_part(part) for part in message.content]
        self._items.append({"type": "message", "role": "user", "content": content})

    def assistant(self, message: ag_ui.AssistantMessage, calls: list[ag_ui.ToolCall]) -> None:
        """Add a message of the model and its calls. A call of an MCP tool is added with its result."""
        if message.content:
            self._items.append({"type": "message", "role": ASSISTANT, "content": message.content})
        for call in calls:
            if self._is_approval(call):
                self._items += [] if call.id in self._added else self._approval(call)
                self._added.add(call.id)
            elif (call_type := _call_type(call)) != MCP_CALL:
                member = "input" if call_type == CUSTOM_CALL else "arguments"
                self._items.append({"type": call_type, "call_id": call.id, **_called(call, member)})

    def result(self, message: ag_ui.ToolMessage, calls: list[ag_ui.ToolCall]) -> None:
        call, content = calls[0], message.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        output = text or message.error or ""
        call_type = _call_type(call)
        if call_type == MCP_CALL:
            item = {"type": MCP_CALL, "id": call.id, "server_label": _metadata(call, "server_label")}
            self._items.append({**item, **_called(call, "arguments"), "output": output})
        else:
            self._items.append({"type": f"{call_type}_output", "call_id": call.id, "output": output})

    def reasoning(self, message: ag_ui.ReasoningMessage, _calls: list[ag_ui.ToolCall]) -> None:
        """Add encrypted reasoning with the summaries of the same item. Providers accept no other reasoning."""
        if not self._settings.encrypted_reasoning:
            return
        items, encrypted = self._items, message.encrypted_value
        item_id = _metadata(message, "item_id") or message.id.partition(":")[0]
        if encrypted:
            items.append({"type": REASONING, "id": item_id, "summary": [], "encrypted_content": encrypted})
        is_of_last = bool(items) and items[-1]["type"] == REASONING and items[-1]["id"] == item_id
        if is_of_last and message.content and _metadata(message, "kind") != "full":
            items[-1]["summary"].append({"type": "summary_text", "text": message.content})

    def _approval(self, call: ag_ui.ToolCall) -> list[Item]:
        """Return the answer, after its request if that is trusted and nothing in it was redacted."""
        label, answer = _metadata(call, "server_label"), self._answer(call.id)
        if not (self._settings.trust_client_approvals and label) or WITHHELD.search(call.function.arguments):
            return [answer]
        return [{"type": APPROVAL_REQUEST, "id": call.id, "server_label": label, **_called(call, "arguments")}, answer]

    def _answer(self, request_id: str) -> Item:
        answer = self._answers[request_id]
        item = {"type": APPROVAL_RESPONSE, "approval_request_id": request_id, "approve": answer.approved}
        return {**item, "reason": answer.reason} if answer.reason else item


WRITERS: Final[Mapping[type, Callable[[_Items, Any, list[ag_ui.ToolCall]], None]]] = {
    ag_ui.UserMessage: _Items.user,
    ag_ui.AssistantMessage: _Items.assistant,
    ag_ui.ToolMessage: _Items.result,
    ag_ui.ReasoningMessage: _Items.reasoning,
}
"""Message -> what adds its items. Activities are dropped: they are the provider's own."""


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


def _without_lost_reasoning(items: list[Item]) -> list[Item]:
    """Drop reasoning without an item that may follow it, and the placeholders."""
    kept: list[Item] = []
    for item in reversed(items):
        after = kept[-1] if kept else {}
        if item["type"] != REASONING or after.get("type") in AFTER_REASONING or after.get("role") == ASSISTANT:
            kept.append(item)
    return [item for item in reversed(kept) if item is not DROPPED_CALLS]


def _after_approval_request(items: list[Item]) -> list[Item]:
    """Return the items that the client added since the response that asked for the first answered approval.

    An answer stands at the position of its request. Outputs for calls of later responses, if any, are dropped.
    """
    first = next(at for at, item in enumerate(items) if item["type"] == APPROVAL_RESPONSE)
    begin = next((at + 1 for at in range(first, -1, -1) if _is_of_client(items[at])), 0)
    end = next((at for at in range(first, len(items)) if _is_of_client(items[at])), len(items))
    calls = {None, *(item.get("call_id") for item in items[begin:end])}
    sent = [item for item in items[begin:] if _is_of_client(item) or item["type"] == APPROVAL_RESPONSE]
    return [item for item in sent if item.get("call_id") in calls]


def _is_of_client(item: Item) -> bool:
    return item["type"] in OUTPUTS or item.get("role") == "user"


def _metadata(part: ag_ui.ToolCall | ag_ui.ReasoningMessage, name: str) -> str | None:
    """Return a text from the metadata that this dialect wrote."""
    value = (part.metadata or {}).get(f"{VENDOR}.{name}")
    return value if isinstance(value, str) and value else None


def _call_type(call: ag_ui.ToolCall) -> str:
    """Return the item type of a call. A call of another type, or of an MCP tool without a server, is a function's."""
    item_type = _metadata(call, "item_type")
    if item_type == CUSTOM_CALL or (item_type == MCP_CALL and _metadata(call, "server_label")):
        return item_type
    return FUNCTION_CALL


def _called(call: ag_ui.ToolCall, member: str) -> Item:
    return {"name": call.function.name, member: call.function.arguments}


def _part(part: ag_ui.TextPart | ag_ui.ImagePart) -> Item:
    if isinstance(part, ag_ui.TextPart):
        return {"type": "input_text", "text": part.text}
    source = part.source
    url = source.value if isinstance(source, ag_ui.UrlSource) else f"data:{source.mime_type};base64,{source.value}"
    return {"type": "input_image", "image_url": url}


def _tool(tool: ag_ui.Tool) -> Item:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters or NO_PARAMETERS}
    return {"type": "function", **function, "strict": False}
