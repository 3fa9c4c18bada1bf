"""What the test provider refuses, as the OpenAI API does: outputs without calls, unknown members, foreign IDs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Body: TypeAlias = Mapping[str, Any]


class Refusal(NamedTuple):
    """Members of the error object of a 400."""

    message: str
    param: str | None = None
    code: str | None = None


ITEM_MEMBERS: Final[Mapping[str, str]] = {
    "message": "content phase role",
    "function_call": "arguments call_id caller name namespace",
    "function_call_output": "call_id caller name namespace output",
    "custom_tool_call": "call_id caller input name namespace",
    "custom_tool_call_output": "call_id caller output",
    "reasoning": "content encrypted_content summary",
    "file_search_call": "queries results",
    "web_search_call": "action",
    "code_interpreter_call": "code container_id outputs",
    "image_generation_call": "action background output_format quality result revised_prompt size",
    "mcp_call": "approval_request_id arguments error name output server_label",
    "mcp_list_tools": "error server_label tools",
    "mcp_approval_request": "arguments name server_label",
    "mcp_approval_response": "approval_request_id approve reason",
    "item_reference": "",
}
"""Type of an item -> its members, in addition to `type`, `id` and `status`."""

PART_MEMBERS: Final[Mapping[str, str]] = {
    "input_text": "text",
    "input_image": "detail file_id image_url",
    "input_file": "file_data file_id file_url filename",
    "output_text": "annotations logprobs text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "summary_text": "text",
}
ANNOTATION_MEMBERS: Final[Mapping[str, str]] = {
    "url_citation": "end_index start_index title url",
    "file_citation": "file_id filename index",
    "container_file_citation": "container_id end_index file_id filename start_index",
    "file_path": "file_id index",
}
ID_PREFIXES: Final[Mapping[str, str]] = {
    "function_call": "fc_",
    "reasoning": "rs_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    "image_generation_call": "ig_",
    "mcp_call": "mcp_",
}
CALLS: Final[Mapping[str, str]] = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
}
"""Type of an output -> type of its call."""


def refuse_responses(body: Body, calls_of: Mapping[str, frozenset[str]]) -> Refusal | None:
    """Check a request of the Responses API.

    Args:
        body: the request.
        calls_of: ID of an earlier response -> IDs of its calls.
    """
    previous = body.get("previous_response_id")
    if previous is not None and previous not in calls_of:
        return Refusal(f"Previous response with id '{previous}' not found.", "previous_response_id")
    items = body["input"] if isinstance(body["input"], list) else []
    for index, item in enumerate(items):
        refusal = _refuse_item(item, f"input[{index}]")
        if refusal is not None:
            return refusal
    return _refuse_calls(items, calls_of.get(previous or "", frozenset())) or _refuse_reasoning(items)


def _refuse_item(item: Body, path: str) -> Refusal | None:
    type_ = item.get("type", "message")
    if type_ not in ITEM_MEMBERS:
        return Refusal(f"Invalid value: '{type_}'.", f"{path}.type", "invalid_value")
    prefix = ID_PREFIXES.get(type_, "")
    if not str(item.get("id") or prefix).startswith(prefix):
        return Refusal(
            f"Invalid '{path}.id': '{item['id']}'. Expected an ID that begins with '{prefix}'.", f"{path}.id"
        )
    unknown = _unknown_member(item, f"type id status {ITEM_MEMBERS[type_]}", path)
    if unknown is not None:
        return unknown
    for name in ("content", "summary"):
        parts = item.get(name)
        for index, part in enumerate(parts if isinstance(parts, list) else []):
            refusal = _refuse_part(part, f"{path}.{name}[{index}]")
            if refusal is not None:
                return refusal
    return None


def _refuse_part(part: Body, path: str) -> Refusal | None:
    if part["type"] not in PART_MEMBERS:
        return Refusal(f"Invalid value: '{part['type']}'.", f"{path}.type", "invalid_value")
    for index, annotation in enumerate(part.get("annotations") or []):
        members = ANNOTATION_MEMBERS.get(annotation["type"], "")
        unknown = _unknown_member(annotation, f"type {members}", f"{path}.annotations[{index}]")
        if unknown is not None:
            return unknown
    return _unknown_member(part, f"type {PART_MEMBERS[part['type']]}", path)


def _unknown_member(value: Body, members: str, path: str) -> Refusal | None:
    unknown = next((name for name in value if name not in members.split()), None)
    return unknown and Refusal(f"Unknown parameter: '{path}.{unknown}'.", f"{path}.{unknown}", "unknown_parameter")


def _refuse_calls(items: Iterable[Body], earlier: frozenset[str]) -> Refusal | None:
    """Check that each output has a call before it, and each call an output."""
    open_calls, ended = set(earlier), set[str]()
    for item in items:
        type_, call_id = item.get("type"), str(item.get("call_id"))
        if type_ in CALLS.values():
            open_calls.add(call_id)
        elif type_ in CALLS:
            if call_id not in open_calls:
                return Refusal(f"No tool call found for function call output with call_id {call_id}.", "input")
            ended.add(call_id)
    missing = sorted(open_calls - ended)
    return Refusal(f"No tool output found for function call {missing[0]}.", "input") if missing else None


def _refuse_reasoning(items: list[Body]) -> Refusal | None:
    for item, after in zip(items, [*items[1:], {"role": "user"}], strict=False):
        if item.get("type") == "reasoning" and after.get("role") == "user":
            return Refusal(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
                "input",
            )
    return None


MESSAGE_MEMBERS: Final[Mapping[str, str]] = {
    "system": "content name",
    "developer": "content name",
    "user": "content name",
    "assistant": "audio content function_call name refusal tool_calls reasoning_content annotations parsed",
    "tool": "content tool_call_id name",
}
"""Role of a message -> its members; `reasoning_content` is of other providers, `parsed` of the helpers of `openai`."""


def refuse_chat(body: Body) -> Refusal | None:
    """Check a request of the Chat Completions API."""
    if not (body.get("stream_options") or {}).get("include_usage"):
        return Refusal("This provider is used by tests of usage.", "stream_options")
    waiting: list[str] = []
    for index, message in enumerate(body["messages"]):
        path = f"messages[{index}]"
        if waiting and message["role"] != "tool":
            return Refusal(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}",
                path,
            )
        unknown = _unknown_member(message, f"role {MESSAGE_MEMBERS[message['role']]}", path)
        if unknown is not None:
            return unknown
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return Refusal(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                    "'tool_calls'.",
                    path,
                )
            waiting.remove(message["tool_call_id"])
        elif message.get("content") is None and not message.get("tool_calls") and not message.get("refusal"):
            return Refusal("Invalid value for 'content': expected a string, got null.", f"{path}.content")
        waiting += [call["id"] for call in message.get("tool_calls") or []]
    return Refusal("The last tool calls have no tool messages.", "messages") if waiting else None
