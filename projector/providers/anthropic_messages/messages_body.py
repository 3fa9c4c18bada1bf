"""A caller's own Messages request: as it is forwarded, and in neutral terms for an upstream with another API.

Thinking in a forwarded one is replaced by what the provider sent: the caller has it sealed in the `signature` of its
blocks, or the server has kept it with the call that followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.conversation.entries import (
    ASSISTANT,
    USER,
    Entry,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.conversation.given_members import Given, content_of, part_of
from projector.conversation.model_request import Body, Item, ModelRequest
from projector.conversation.opaque import Carried, KeptCalls, carried_of, is_sealed
from projector.providers.anthropic_messages.messages_request import thinking_of

SIGNATURE: Final = f"{VENDOR}."
"""Start of the signatures that our dialect writes."""

ROLES: Final[Mapping[str, Role]] = {"user": USER, "assistant": ASSISTANT, "system": "system"}
EFFORTS: Final[Mapping[str, str]] = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}
CHOICES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}
PARAMETERS: Final[Mapping[str, str]] = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop_sequences": "stop",
}
"""Member -> name of the parameter in neutral terms. Members without a row are hints, which other APIs do not have."""


def forwarded_body(body: Mapping[str, Any], _profile: object) -> Body:
    """Return the caller's body, without what our dialect wrote into earlier answers and the provider would refuse."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return dict(body)
    return {**body, "messages": [_forwarded(message) for message in messages]}


def _forwarded(message: object) -> object:
    if (
        not isinstance(message, dict)
        or message.get("role") != ASSISTANT
        or not isinstance(message.get("content"), list)
    ):
        return message
    return {**message, "content": [_without_citations(block) for block in message["content"] if not is_ours(block)]}


def is_ours(block: object) -> bool:
    """Return whether a block is thinking that only we have signed, or nobody has."""
    if not isinstance(block, dict) or block.get("type") != "thinking":
        return False
    signature = block.get("signature")
    return not signature or (isinstance(signature, str) and signature.startswith(SIGNATURE))


def _without_citations(block: object) -> object:
    """Return a text without citations whose index in the source was not shown."""
    if not isinstance(block, dict) or not isinstance(block.get("citations"), list):
        return block
    kept = [one for one in block["citations"] if not isinstance(one, dict) or one.get("encrypted_index") != ""]
    rest = {name: value for name, value in block.items() if name != "citations"}
    return {**rest, **({"citations": kept} if kept else {})}


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Return a caller's request in neutral terms; raise `UnsupportedRequestError` for what only this API has.

    Clients of this API send many members that are hints; what would change the answer is translated or refused.
    """
    given = Given(body)
    parameters = {name: given.members[member] for member, name in PARAMETERS.items() if member in given.members}
    paths = {name: member for member, name in PARAMETERS.items()}
    output = given.child("output_config")
    effort = output.text_or_none("effort")
    if effort is not None:
        parameters["reasoning_effort"] = EFFORTS[effort] if effort in EFFORTS else output.unsupported("effort")
        paths["reasoning_effort"] = "output_config.effort"
    if "format" in output.members:
        schema = output.child("format").members.get("schema")
        parameters["format"] = {"type": "json_schema", "name": "answer", "schema": schema}
        paths["format"] = "output_config.format"
    tools = [_tool(tool) for tool in given.objects("tools")]
    if tools and "tool_choice" in given.members:
        choice = given.child("tool_choice")
        parameters["tool_choice"] = _choice(choice)
        if choice.members.get("disable_parallel_tool_use") is True:
            parameters["parallel_tool_calls"] = False
    return ModelRequest(
        model=given.text("model"),
        input=[*_system(given), *(entry for message in given.objects("messages") for entry in _entries(message))],
        client_tools=tools,
        parameters={"store": False, **parameters},
        parameter_paths=paths,
    )


def _system(given: Given) -> Iterator[Entry]:
    content = content_of(given, "system", PARTS) if "system" in given.members else ""
    if content:
        yield Message("system", content)


def _tool(tool: Given) -> Item:
    if tool.members.get("type", "custom") != "custom":
        tool.unsupported("type")
    description = tool.text_or_none("description")
    about = {"description": description} if description else {}
    return {"type": "function", "name": tool.text("name"), **about, "parameters": tool.child("input_schema").members}


def _choice(choice: Given) -> object:
    kind = choice.text("type")
    if kind == "tool":
        return {"type": "function", "name": choice.text("name")}
    return CHOICES[kind] if kind in CHOICES else choice.unsupported("type")


def _entries(message: Given) -> Iterator[Entry]:
    """Yield the entries of a message: results of tools, calls and thinking are entries beside its text."""
    role = ROLES.get(message.text("role"))
    if role is None:
        message.unsupported("role")
    if isinstance(message.members.get("content"), str):
        yield Message(role, message.text("content"))
        return
    parts: list[Part] = []
    for block in message.objects("content"):
        read = ENTRIES.get(block.text("type"))
        if read is None:
            parts.append(part_of(block, PARTS))
            continue
        if parts:
            yield Message(role, tuple(parts))
            parts = []
        yield from read(block)
    if parts:
        yield Message(role, tuple(parts))


def _call(block: Given) -> Iterator[Entry]:
    arguments = codec.dumps(block.child("input").members).decode()
    yield ToolCall(block.text("id"), block.text("name"), arguments)


def _result(block: Given) -> Iterator[Entry]:
    content = content_of(block, "content", PARTS) if "content" in block.members else ""
    yield ToolOutput(block.text("tool_use_id"), content)


def _thinking(block: Given) -> Iterator[Entry]:
    """Yield reasoning that the upstream has encrypted; no provider reads that of another one."""
    signature = block.text_or_none("signature") or ""
    if signature.startswith(SIGNATURE):
        yield Reasoning("", (), signature.removeprefix(SIGNATURE))


def _nothing(_block: Given) -> Iterator[Entry]:
    return iter(())


ENTRIES: Final[Mapping[str, Callable[[Given], Iterator[Entry]]]] = {
    "tool_use": _call,
    "tool_result": _result,
    "thinking": _thinking,
    "redacted_thinking": _nothing,
}
"""Type of a block that is no part of a message -> what reads it."""


def _url(block: Given) -> str:
    """Return the source of an image or document as an address or a data URL."""
    source = block.child("source")
    kind = source.text("type")
    if kind == "url":
        return source.text("url")
    if kind != "base64":
        source.unsupported("type")
    return f"data:{source.text('media_type')};base64,{source.text('data')}"


PARTS: Final[Mapping[str, Callable[[Given], Part]]] = {
    "text": lambda block: Text(block.text("text")),
    "image": lambda block: Image(_url(block)),
    "document": lambda block: File(_url(block), block.text_or_none("title")),
}
"""Type of a block -> what reads it as a part of a message."""


# thinking that goes back

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def carried_state(body: Mapping[str, Any]) -> list[Carried]:
    """Return the sealed values in a caller's body."""
    messages = body.get("messages")
    return carried_of(messages if isinstance(messages, list) else [], _begins_turn, _sealed_in)


def with_state(body: Mapping[str, Any], kept: KeptCalls) -> Mapping[str, Any]:
    """Return a caller's body with the thinking that the provider wants back.

    Thinking that was kept with a call is added, unless the caller sent some. It is at the start of what precedes the
    call, as it was in the response.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    return {**body, "messages": [_restored(message, kept) for message in messages]}


def _restored(message: object, kept: KeptCalls) -> object:
    if not isinstance(message, dict) or not (given := _blocks_of(message, ASSISTANT)):
        return message
    blocks: list[object] = []
    start, is_carried = 0, False
    for block in given:
        kind = str(block.get("type")) if isinstance(block, dict) else None
        carried = kept.get(_sealed(block) or "")
        restored = [block] if carried is None else thinking_of(carried.own)
        call = kept.get(str(block["id"])) if kind == "tool_use" and "id" in block else None
        if call is not None and not is_carried:
            blocks[start:start] = [one for value in call.before for one in thinking_of(value)]
        blocks += restored
        if kind in _THINKING:
            is_carried = is_carried or not all(map(is_ours, restored))
        elif kind == "tool_use":
            start, is_carried = len(blocks), False
    return {**message, "content": blocks}


def _begins_turn(message: object) -> bool:
    """Return whether a message begins a turn: it is the user's, and has no results of calls."""
    if not isinstance(message, dict) or message.get("role") != USER:
        return False
    blocks = _blocks_of(message, USER)
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def _blocks_of(message: object, role: str) -> list[Any]:
    """Return the blocks of a message of a role; none, if it is another's or a text."""
    blocks = message.get("content") if isinstance(message, dict) and message.get("role") == role else None
    return blocks if isinstance(blocks, list) else []


def _sealed(block: object) -> str | None:
    """Return the sealed value in a block of thinking."""
    signature = block.get("signature") if isinstance(block, dict) and block.get("type") == "thinking" else None
    sealed = signature.removeprefix(SIGNATURE) if isinstance(signature, str) and signature.startswith(SIGNATURE) else ""
    return sealed if is_sealed(sealed) else None


def _sealed_in(at: int, message: object) -> Iterator[tuple[str, str]]:
    for position, block in enumerate(_blocks_of(message, ASSISTANT)):
        if (sealed := _sealed(block)) is not None:
            yield f"messages[{at}].content[{position}].signature", sealed
