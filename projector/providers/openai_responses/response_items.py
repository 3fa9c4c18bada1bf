"""A conversation as input items of the Responses API, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    Approval,
    ApprovalRequest,
    Entry,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.conversation.model_request import Body

CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "function": ("function_call", "arguments"),
    "custom": ("custom_tool_call", "input"),
}
"""Kind of a call -> type of its item, and the member with its input."""


def items_of(entries: Iterable[Entry]) -> list[Body]:
    """Return the input items of a conversation."""
    return [WRITERS[type(entry)](entry) for entry in entries if type(entry) in WRITERS]


def _message(message: Message) -> Body:
    content: Any = message.content
    if not isinstance(content, str):
        content = _content(content, is_output=message.role == ASSISTANT)
    item = {"type": "message", "role": message.role, "content": content}
    return {**item, "phase": message.phase} if message.phase else item


def _content(parts: tuple[Part, ...], *, is_output: bool) -> str | list[Body]:
    """Return the content of a message. Texts of the model are one text: all upstreams accept that."""
    if is_output and all(isinstance(part, Text) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    return [_output_part(part) if is_output else _input_part(part) for part in parts]


def _input_part(part: Part) -> Body:
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}  # a required member
    if isinstance(part, File):
        return _file(part)
    return {"type": "input_text", "text": part.text}


def _output_part(part: Part) -> Body:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text if isinstance(part, Text) else ""}


def _file(file: File) -> Body:
    member = "file_id" if file.file_id else "file_data" if (file.url or "").startswith("data:") else "file_url"
    about = {"filename": file.name} if file.name else {}
    return {"type": "input_file", member: file.file_id or file.url, **about}


def _call(call: ToolCall) -> Body:
    item_type, member = CALLS[call.kind]
    return {"type": item_type, "call_id": call.id, "name": call.name, member: call.input}


def _output(output: ToolOutput) -> Body:
    content = output.output
    value = content if isinstance(content, str) else [_input_part(part) for part in content]
    return {"type": f"{CALLS[output.kind][0]}_output", "call_id": output.call_id, "output": value}


def _server_call(call: ServerCall) -> Body:
    about = {"id": call.id, "server_label": call.server, "name": call.name, "arguments": call.input}
    return {"type": "mcp_call", **about, "output": call.output}


def _approval_request(request: ApprovalRequest) -> Body:
    about = {"id": request.id, "server_label": request.server, "name": request.name, "arguments": request.input}
    return {"type": "mcp_approval_request", **about}


def _approval(answer: Approval) -> Body:
    item = {
        "type": "mcp_approval_response",
        "approval_request_id": answer.request_id,
        "approve": answer.is_approved,
    }
    return {**item, "reason": answer.reason} if answer.reason else item


def _reasoning(reasoning: Reasoning) -> Body:
    """Return reasoning: as it came, if it is kept."""
    if reasoning.opaque is not None and isinstance(reasoning.opaque.value, dict):
        return dict(reasoning.opaque.value)
    summary = [{"type": "summary_text", "text": text} for text in reasoning.summary]
    item: Body = {"type": "reasoning", **({"id": reasoning.id} if reasoning.id else {}), "summary": summary}
    return {**item, "encrypted_content": reasoning.encrypted} if reasoning.encrypted else item


WRITERS: Final[Mapping[type, Callable[[Any], Body]]] = {
    Message: _message,
    ToolCall: _call,
    ToolOutput: _output,
    ServerCall: _server_call,
    ApprovalRequest: _approval_request,
    Approval: _approval,
    Reasoning: _reasoning,
}
"""Entry -> its item. `DroppedCalls` have none."""
