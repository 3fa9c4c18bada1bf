"""The conversation of a request: which calls have results, and which of them ask for an approval.

Providers refuse a call without its result and a result without its call; both are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from projector.contracts.kinds import VENDOR
from projector.dialects.ag_ui.requests.reading import InputRefusedError
from projector.dialects.ag_ui.run_input import (
    Approval,
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningMessage,
    Resolved,
    RunAgentInput,
    ToolCall,
    ToolMessage,
    UrlSource,
)
from projector.dialects.ag_ui.tool_writer import INTERRUPT_PREFIX

Said: TypeAlias = tuple[Message, list[ToolCall]]
"""A message, and what is kept of its calls; of a result, the call that it answers."""

APPROVAL_REQUEST: Final = "mcp_approval_request"
NOT_APPROVED: Final = Approval(approved=False)


NO_PARAMETERS: Final = {"type": "object", "properties": {}}
"""The parameters of a tool that takes none, as JSON Schema."""


class Switches(NamedTuple):
    """What an agent may decide about conversations that clients hold."""

    encrypted_reasoning: bool = False
    """Whether encrypted reasoning goes out to clients and is taken back from them."""
    replays_approvals: bool = False
    """Whether the request for an approval is sent to the provider again, with its answer.

    A provider that has not kept the request needs it. But then the client's word stands for what was asked: it may
    approve a call that no model has made.
    """


class History:
    """The conversation, the answers to its approvals, and the agent's switches."""

    def __init__(self, asked: RunAgentInput, switches: Switches) -> None:
        """Take a request.

        Raises:
            InputRefusedError: it resumes what no dialect of ours has interrupted.
        """
        self.switches = switches
        self.answers: dict[str, Approval] = {}
        """Approval request -> its answer; an abandoned one is not approved."""
        for at, entry in enumerate(asked.resume or ()):
            if not entry.interrupt_id.startswith(INTERRUPT_PREFIX):
                raise InputRefusedError(f"`resume[{at}].interruptId` names no interrupt of this server.")
            answer = entry.payload if isinstance(entry, Resolved) else NOT_APPROVED
            self.answers[entry.interrupt_id.removeprefix(INTERRUPT_PREFIX)] = answer
        self._messages = asked.messages
        self._settled = _settled(asked.messages)

    def __iter__(self) -> Iterator[Said]:
        """Give each message with the calls that belong to it, in order."""
        waiting: dict[str, ToolCall] = {}
        for message in self._messages:
            if isinstance(message, AssistantMessage):
                kept = [call for call in message.tool_calls or () if self._is_kept(call)]
                waiting.update((call.id, call) for call in kept if not self.asks_approval(call))
                yield message, kept
            elif isinstance(message, ToolMessage):
                call = waiting.pop(message.tool_call_id, None)
                if call is not None:
                    yield message, [call]
            else:
                yield message, []

    def asks_approval(self, call: ToolCall) -> bool:
        """Tell whether a call is the request for an approval."""
        return call.id in self.answers or about(call, "item_type") == APPROVAL_REQUEST

    def _is_kept(self, call: ToolCall) -> bool:
        """Tell whether a call is settled: an approval by an answer of now, because earlier ones are history."""
        return call.id in self.answers if self.asks_approval(call) else id(call) in self._settled


def about(said: ToolCall | ReasoningMessage, name: str) -> str | None:
    """Give a text of the metadata that the dialect has put on a call or a message."""
    value = (said.metadata or {}).get(f"{VENDOR}.{name}")
    return value if isinstance(value, str) and value else None


def result_text(message: ToolMessage) -> str:
    """Give what a tool gave as text; where it gave nothing but an error, that."""
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    return text or message.error or ""


def image_url(part: ImagePart) -> str:
    """Give the address of an image; one in the request itself is a data URL."""
    source = part.source
    return source.value if isinstance(source, UrlSource) else f"data:{source.mime_type};base64,{source.value}"


def _settled(messages: list[Message]) -> set[int]:
    """Give the calls that a later message answers, each by its identity: a client may use one id for several."""
    waiting: dict[str, ToolCall] = {}
    settled: set[int] = set()
    for message in messages:
        if isinstance(message, AssistantMessage):
            waiting.update((call.id, call) for call in message.tool_calls or ())
        elif isinstance(message, ToolMessage) and message.tool_call_id in waiting:
            settled.add(id(waiting.pop(message.tool_call_id)))
    return settled
