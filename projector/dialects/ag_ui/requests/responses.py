"""The conversation as input items of the Responses API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from projector.contracts.kinds import REDACTED
from projector.dialects.ag_ui.requests import items_sent
from projector.dialects.ag_ui.requests.history import (
    APPROVAL_REQUEST,
    NO_PARAMETERS,
    History,
    about,
    image_url,
    result_text,
)
from projector.dialects.ag_ui.requests.items_sent import (
    APPROVAL_ANSWER,
    ASSISTANT,
    CUSTOM_CALL,
    LEFT_OUT,
    MCP_CALL,
    REASONING,
    Item,
)
from projector.dialects.ag_ui.requests.reading import InputRefusedError
from projector.dialects.ag_ui.run_input import (
    AssistantMessage,
    ImagePart,
    ReasoningMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)

Writer: TypeAlias = Callable[[list[Item], History, Any, list[ToolCall]], None]

WITHHELD: Final = re.compile(rf"{REDACTED}|\[REDACTED:")
"""What stands in arguments in place of a value: a call with it is not the call that was asked for."""


def input_items(history: History, *, is_continued: bool = False) -> list[Item]:
    """Return the items of a conversation.

    Args:
        history: the conversation.
        is_continued: whether the provider stores the response that asked for the approvals, and all before it.

    Raises:
        InputRefusedError: there is nothing to answer.
    """
    items: list[Item] = []
    for message, calls in history:
        write = WRITERS.get(type(message))
        if write is not None:
            write(items, history, message, calls)
        if isinstance(message, AssistantMessage) and message.tool_calls and not calls:
            items.append(LEFT_OUT)
    given = {item["approval_request_id"] for item in items if item["type"] == APPROVAL_ANSWER}
    items += [_answer(history, request_id) for request_id in history.answers if request_id not in given]
    sent = items_sent.after_asking(items) if is_continued else items_sent.without_lost_reasoning(items)
    if not sent:
        raise InputRefusedError("`messages` holds nothing to answer.")
    return sent


def _say_user(items: list[Item], _history: History, message: UserMessage, _calls: list[ToolCall]) -> None:
    content = message.content if isinstance(message.content, str) else [_part(part) for part in message.content]
    items.append({"type": "message", "role": "user", "content": content})


def _say_assistant(items: list[Item], history: History, message: AssistantMessage, calls: list[ToolCall]) -> None:
    if message.content:
        items.append({"type": "message", "role": ASSISTANT, "content": message.content})
    for call in calls:
        if history.asks_approval(call):
            is_given = _answer(history, call.id) in items  # a client may say one call twice
            items += [] if is_given else _approval(history, call)
        elif _type_of(call) == CUSTOM_CALL:
            items.append({"type": CUSTOM_CALL, "call_id": call.id, **_named(call, "input")})
        elif _type_of(call) != MCP_CALL:
            items.append({"type": "function_call", "call_id": call.id, **_named(call, "arguments")})


def _say_result(items: list[Item], _history: History, message: ToolMessage, calls: list[ToolCall]) -> None:
    """Add a result; a call of an MCP tool is one item with its result."""
    call, output = calls[0], result_text(message)
    if _type_of(call) == MCP_CALL:
        label = about(call, "server_label")
        items.append(
            {"type": MCP_CALL, "id": call.id, "server_label": label, **_named(call, "arguments"), "output": output}
        )
    else:
        kind = CUSTOM_CALL if _type_of(call) == CUSTOM_CALL else "function_call"
        items.append({"type": f"{kind}_output", "call_id": call.id, "output": output})


def _say_reasoning(items: list[Item], history: History, message: ReasoningMessage, _calls: list[ToolCall]) -> None:
    """Add what only the provider can read, with the summaries of the same item; nothing else is of use to it."""
    if not history.switches.encrypted_reasoning:
        return
    item_id = about(message, "item_id") or message.id.partition(":")[0]
    if message.encrypted_value:
        encrypted = message.encrypted_value
        items.append({"type": REASONING, "id": item_id, "summary": [], "encrypted_content": encrypted})
    is_of_last = bool(items) and items[-1]["type"] == REASONING and items[-1]["id"] == item_id
    if is_of_last and message.content and about(message, "kind") != "full":
        items[-1]["summary"].append({"type": "summary_text", "text": message.content})


WRITERS: Final[Mapping[type, Writer]] = {
    UserMessage: _say_user,
    AssistantMessage: _say_assistant,
    ToolMessage: _say_result,
    ReasoningMessage: _say_reasoning,
}
"""Message -> what it adds; the provider is not told again what its own tools did."""


def _approval(history: History, call: ToolCall) -> list[Item]:
    """Give the answer, behind its request where the switch is on and nothing of the request was withheld."""
    label, is_whole = about(call, "server_label"), WITHHELD.search(call.function.arguments) is None
    if not (history.switches.replays_approvals and label and is_whole):
        return [_answer(history, call.id)]
    asked = {"type": APPROVAL_REQUEST, "id": call.id, "server_label": label, **_named(call, "arguments")}
    return [asked, _answer(history, call.id)]


def _answer(history: History, request_id: str) -> Item:
    answer = history.answers[request_id]
    item = {"type": APPROVAL_ANSWER, "approval_request_id": request_id, "approve": answer.approved}
    return {**item, "reason": answer.reason} if answer.reason else item


def _type_of(call: ToolCall) -> str | None:
    """Give the type of a call that is no function's; one of an MCP tool counts only with its server."""
    item_type = about(call, "item_type")
    return None if item_type == MCP_CALL and about(call, "server_label") is None else item_type


def _named(call: ToolCall, member: str) -> Item:
    return {"name": call.function.name, member: call.function.arguments}


def _part(part: TextPart | ImagePart) -> Item:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": image_url(part)}


def tool_item(tool: Tool) -> Item:
    """Return a function tool of the client."""
    parameters = tool.parameters or NO_PARAMETERS
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", **function, "strict": False}
