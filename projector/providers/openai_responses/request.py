"""Requests of the Responses API: the body that is written, and those of callers.

A caller's own body is forwarded to an upstream of this API, or read in neutral terms for one with another API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.conversation import entries as neutral
from projector.conversation.client_history import OUTPUT_TYPES
from projector.conversation.model_request import Body, ModelRequest, UnsupportedRequestError
from projector.conversation.opaque import Carried, KeptCalls, SealedIn, carried_of, is_sealed, of_last_calls
from projector.conversation.request_members import (
    NOT_SUPPORTED,
    Given,
    Member,
    Members,
    PartWriters,
    content_of,
    read_parameters,
    same_names,
    write_parameters,
    written_parts,
)
from projector.providers.openai_responses.client_tools import CLIENT, SEARCH, flat_name, found_tools, read_tools
from projector.providers.stage_parts import CALL_SHAPES

# parameters


LOGPROBS: Final = "message.output_text.logprobs"

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"

FORMATS: Final = frozenset({"text", "json_object", "json_schema"})


def _logprobs(body: Given, name: str) -> object:
    """Return whether `include` asks for probabilities. The rest of what it can ask for is of this API only.

    Encrypted reasoning is how a client offers to carry what the provider wants back. Other providers have that kept or
    sealed without being asked, so nothing is missing in their answers.
    """
    for at, one in enumerate(body.values(name)):
        if one not in (LOGPROBS, ENCRYPTED_REASONING):
            body.refuse(f"{name}[{at}]", f"has a value that {NOT_SUPPORTED}")
    return True if LOGPROBS in body.values(name) else None


def _format(text: Given, name: str) -> object:
    given = text.child(name)
    if given.text("type") not in FORMATS:
        given.unsupported("type")
    return given.only("type", "name", "description", "schema", "strict")


MEMBERS: Final[Members] = {
    **same_names("temperature", "top_p", "max_output_tokens", "tool_choice", "parallel_tool_calls", "max_tool_calls"),
    **same_names("metadata", "store", "truncation", "service_tier", "user", "safety_identifier"),
    **same_names("prompt_cache_key", "prompt_cache_retention", "top_logprobs"),
    "reasoning_effort": Member("reasoning.effort"),
    "reasoning_summary": Member("reasoning.summary"),
    "verbosity": Member("text.verbosity"),
    "format": Member("text.format", read=_format),
    "logprobs": Member("include", read=_logprobs, write=lambda _: [LOGPROBS]),
}

DEFAULTS: Final[Mapping[str, object]] = {
    "background": False,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "truncation": "disabled",
    "store": False,
    "text.format": {"type": "text"},
}
"""Path of a member -> value that changes nothing."""

READ_ELSEWHERE: Final = frozenset({"client_metadata", "input", "instructions", "tools"})
"""Members that are no parameters. `client_metadata` is for the logs of the provider, and changes no answer."""


# a conversation as input items


def items_of(entries: Iterable[neutral.Entry]) -> list[Body]:
    """Return the input items of a conversation."""
    return [WRITERS[type(entry)](entry) for entry in entries if type(entry) in WRITERS]


def _message(message: neutral.Message) -> Body:
    content: Any = message.content
    if not isinstance(content, str):
        content = _content(content, is_output=message.role == neutral.ASSISTANT)
    item = {"type": "message", "role": message.role, "content": content}
    return {**item, "phase": message.phase} if message.phase else item


def _content(parts: tuple[neutral.Part, ...], *, is_output: bool) -> str | list[Body]:
    """Return the content of a message. Texts of the model are one text: all upstreams accept that."""
    if is_output and all(isinstance(part, neutral.Text) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, neutral.Text))
    return [*map(_output_part, parts)] if is_output else written_parts(parts, INPUT_PARTS)


def _image(image: neutral.Image) -> Body:
    return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}  # a required member


def _output_part(part: neutral.Part) -> Body:
    if isinstance(part, neutral.Refusal):
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text if isinstance(part, neutral.Text) else ""}


def _file(file: neutral.File) -> Body:
    member = "file_id" if file.file_id else "file_data" if (file.url or "").startswith("data:") else "file_url"
    about = {"filename": file.name} if file.name else {}
    return {"type": "input_file", member: file.file_id or file.url, **about}


INPUT_PARTS: Final = PartWriters(lambda text: {"type": "input_text", "text": text}, _image, _file)


def _call(call: neutral.ToolCall) -> Body:
    shape = CALL_SHAPES[call.kind]
    return {"type": shape.item_type, "call_id": call.id, "name": call.name, shape.member: call.input}


def _output(output: neutral.ToolOutput) -> Body:
    content = output.output
    value = content if isinstance(content, str) else written_parts(content, INPUT_PARTS)
    return {"type": OUTPUT_TYPES[CALL_SHAPES[output.kind].item_type], "call_id": output.call_id, "output": value}


def _of_server(item_type: str, call: neutral.ServerCall | neutral.ApprovalRequest) -> Body:
    named = {"server_label": call.server, "name": call.name, "arguments": call.input}
    return {"type": item_type, "id": call.id, **named}


def _approval(answer: neutral.Approval) -> Body:
    item = {
        "type": "mcp_approval_response",
        "approval_request_id": answer.request_id,
        "approve": answer.is_approved,
    }
    return {**item, "reason": answer.reason} if answer.reason else item


def _reasoning(reasoning: neutral.Reasoning) -> Body:
    """Return reasoning: as it came, if it is kept."""
    if reasoning.opaque is not None and isinstance(reasoning.opaque.value, dict):
        return dict(reasoning.opaque.value)
    summary = [{"type": "summary_text", "text": text} for text in reasoning.summary]
    item: Body = {"type": "reasoning", **({"id": reasoning.id} if reasoning.id else {}), "summary": summary}
    return {**item, "encrypted_content": reasoning.encrypted} if reasoning.encrypted else item


WRITERS: Final[Mapping[type, Callable[[Any], Body]]] = {
    neutral.Message: _message,
    neutral.ToolCall: _call,
    neutral.ToolOutput: _output,
    neutral.ServerCall: lambda call: {**_of_server("mcp_call", call), "output": call.output},
    neutral.ApprovalRequest: lambda request: _of_server("mcp_approval_request", request),
    neutral.Approval: _approval,
    neutral.Reasoning: _reasoning,
}
"""Entry -> its item. `DroppedCalls` have none."""


# input items as a conversation


def read_input(body: Given) -> neutral.Conversation:
    """Return the conversation of `input`; raise `UnsupportedRequestError` for an item that no other API has."""
    if isinstance(body.members.get("input"), str):
        return [neutral.Message(neutral.USER, body.text("input"))]
    return [read_item(item) for item in body.objects("input") if item.text_or_none("type") not in ANSWERED]


def read_item(item: Given) -> neutral.Entry:
    """Return an item of a conversation; raise `UnsupportedRequestError` if no other API has it."""
    item_type = item.text_or_none("type") or "message"
    read = READERS.get(item_type)
    return item.unsupported("type") if read is None else read(item)


def _read_message(item: Given) -> neutral.Message:
    role = item.row("role", neutral.ROLES)
    return neutral.Message(role, content_of(item, "content", PARTS), item.text_or_none("phase"))


def _read_image(part: Given) -> neutral.Image:
    part.refuse_stored_file()
    return neutral.Image(part.text("image_url"), part.text_or_none("detail"))


def _read_file(part: Given) -> neutral.File:
    part.refuse_stored_file()
    url = part.data_url("file_data") if part.text_or_none("file_data") else part.text("file_url")
    return neutral.File(url, part.text_or_none("filename"))


def _read_reasoning(item: Given) -> neutral.Reasoning:
    summary = tuple(part.text("text") for part in item.objects("summary"))
    return neutral.Reasoning(item.text_or_none("id") or "", summary, item.text_or_none("encrypted_content"))


def _read_server_call(item: Given) -> neutral.ServerCall:
    names = [item.text(name) for name in ("id", "server_label", "name", "arguments")]
    error = item.members.get("error", "")
    failure = error if isinstance(error, str) else codec.dumps(error).decode()
    return neutral.ServerCall(names[0], names[1], names[2], names[3], item.text_or_none("output") or failure)


def _read_name(item: Given) -> str:
    return flat_name(item.text("name"), item.text_or_none("namespace"))


def _search_of(item: Given) -> str:
    """Return the ID of a search for tools that the client runs."""
    if item.members.get("execution") != CLIENT:
        item.unsupported("execution")
    return item.text("call_id")


PARTS: Final[Mapping[str, Callable[[Given], neutral.Part]]] = {
    **dict.fromkeys(("input_text", "output_text", "text"), lambda part: neutral.Text(part.text("text"))),
    "refusal": lambda part: neutral.Refusal(part.text("refusal")),
    "input_image": _read_image,
    "input_file": _read_file,
}
"""Type of a part -> what reads it."""

READERS: Final[Mapping[str, Callable[[Given], neutral.Entry]]] = {
    "message": _read_message,
    "function_call": lambda item: neutral.ToolCall(item.text("call_id"), _read_name(item), item.text("arguments")),
    "function_call_output": lambda item: neutral.ToolOutput(item.text("call_id"), content_of(item, "output", PARTS)),
    "custom_tool_call": lambda item: neutral.ToolCall(
        item.text("call_id"), _read_name(item), item.text("input"), "custom"
    ),
    "custom_tool_call_output": lambda item: neutral.ToolOutput(
        item.text("call_id"), content_of(item, "output", PARTS), "custom"
    ),
    "mcp_call": _read_server_call,
    "tool_search_call": lambda item: neutral.ToolCall(
        _search_of(item), SEARCH, codec.dumps(item.child("arguments").members).decode()
    ),
    "tool_search_output": lambda item: neutral.ToolOutput(_search_of(item), found_tools(item)),
    "reasoning": _read_reasoning,
}
"""Type of an item -> what reads it. The others are a provider's own: hosted tools, references to stored items."""

ANSWERED: Final = frozenset({"web_search_call", "file_search_call", "code_interpreter_call"})
"""Types of a provider's own items that are left out: clients repeat them, and the answer after them has what they
found."""


# requests


def write_request(request: ModelRequest, _profile: object = None) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    body = request.start(request.client_tools)
    write_parameters(body, request.parameters, MEMBERS, request.parameter_paths)
    body["input"] = request.input if isinstance(request.input, str) else items_of(request.input)
    optional = {
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "metadata": request.metadata,
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    if request.encrypted_reasoning:
        body["include"] = [*body.get("include", ()), ENCRYPTED_REASONING]
    return body


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Return a caller's request in neutral terms; raise `UnsupportedRequestError` for what only this API has."""
    given = Given(body)
    parameters, paths = read_parameters(given, MEMBERS, READ_ELSEWHERE, DEFAULTS)
    tools = read_tools(given)
    if not tools:
        parameters.pop("parallel_tool_calls", None)  # this API alone accepts it there: Codex sends it with a summary
    return ModelRequest(
        model=given.text("model"),
        instructions=given.text_or_none("instructions"),
        input=read_input(given),
        client_tools=tools,
        parameters=parameters,
        parameter_paths=paths,
    )


# reasoning in a caller's own request


_REASONING: Final = "reasoning"


def carried_state(body: Mapping[str, Any]) -> list[Carried]:
    """Return the sealed values in a caller's body."""
    return carried_of(body.get("input"), _begins_turn, _sealed_in)


def forwarded_body(body: Mapping[str, Any], _profile: object, kept: KeptCalls) -> Body:
    """Return the caller's body with the reasoning that the provider has encrypted, without what it could not read.

    What was kept with a call is added, unless the caller sent some, in place of the reasoning that the caller was
    shown. It is at the start of what precedes the call, as it was in the response. Not readable is reasoning that
    another provider has made, or of which the client got neither text nor encrypted content, in a conversation that the
    upstream does not store: it is a 404 of OpenAI, and the answer needs no such item.

    Raises:
        UnsupportedRequestError: the response would go on after its connection, uncounted by budgets (CONTRACT D49).
    """
    if body.get("background") is not None and body["background"] is not False:
        raise UnsupportedRequestError(
            "`background` must be false: a response in the background is not supported.", "background"
        )
    given = body.get("input")
    if not isinstance(given, list):
        return dict(body)
    is_stored = body.get("store") is not False
    items: list[object] = []
    start, is_carried = 0, False
    for one, call in zip(given, of_last_calls(kept, [*map(_call_id, given)]), strict=True):
        carried = kept.get(_sealed(one) or "")
        if carried is None and not _is_readable(one, is_stored=is_stored):
            continue
        item = one if carried is None else carried.own
        if call is not None and call.before and not is_carried:
            items[start:] = [*call.before, *(other for other in items[start:] if _type(other) != _REASONING)]
        items.append(item)
        if _type(item) == _REASONING:
            is_carried = is_carried or "encrypted_content" in item
        elif _type(item) != "message" or item.get("role") != neutral.ASSISTANT:
            start, is_carried = len(items), False
    return {**body, "input": items}


def _is_readable(item: Any, *, is_stored: bool) -> bool:
    if _type(item) != _REASONING:
        return True
    return _sealed(item) is None and (is_stored or bool(item.get("encrypted_content") or item.get("content")))


def _type(item: Any) -> object:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else None


def _call_id(item: Any) -> str | None:
    return str(item["call_id"]) if _type(item) in OUTPUT_TYPES and "call_id" in item else None


def _begins_turn(item: Any) -> bool:
    return _type(item) == "message" and item.get("role") == neutral.USER


def _sealed(item: Any) -> str | None:
    """Return the sealed value in an item of reasoning."""
    value = item.get("encrypted_content") if _type(item) == _REASONING else None
    return value if is_sealed(value) else None


def _sealed_in(at: int, item: Any) -> SealedIn:
    if (sealed := _sealed(item)) is not None:
        yield f"input[{at}].encrypted_content", sealed, None
