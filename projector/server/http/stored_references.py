"""What a body of a passthrough route refers to by its ID at a provider, and the check that it is the caller's.

The provider would find it for any caller of the upstream's key: items of responses, conversations, containers, audio.
Files, vector stores and prompts are shared by all callers of an upstream, so they are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from projector.server.http.problems import problem
from projector.server.ownership import Ownership, is_id

_CONTENT: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("reasoning", "compaction", "compaction_summary"), frozenset({"content", "encrypted_content"})),
    **dict.fromkeys(("function_call", "custom_tool_call"), frozenset({"call_id"})),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), frozenset({"call_id", "output"})),
}
"""Type of an item -> members of which one is enough to have the item whole: the provider looks up nothing."""
_LOOKED_UP_NEVER: Final = frozenset({"message", *_CONTENT})
"""Types of items that are used as they are sent, if they are whole; their IDs need not be unique."""
_IMAGE: Final = "image_generation_call"
_NO_CONTENT: Final = frozenset({"id", "status", "type"})
_REFERENCE: Final = "item_reference"
_NAMES: Final = frozenset(
    {"approval_request_id", "container", "container_id", "content", "environment", "id", "tools", "type"}
)
"""Members of items that are checked. Servers in Go ignore the case of names."""
APPROVAL: Final = "mcp_approval_response"


class Reference(NamedTuple):
    """An ID in a body."""

    id: object
    param: str
    """The member of the body that contains it."""
    is_whole: bool = False
    """Whether the content is there, too, so that the server need not know the ID. The provider may still look it up."""


def check_references(body: Mapping[str, Any], ownership: Ownership, caller: str, *, is_forwarded: bool) -> None:
    """Raise `Problem` if a body refers to something that the caller was not given.

    `is_forwarded` is whether an upstream has the API of the route; the others get no ID that is theirs.
    """
    if conversation_id_of(body) is not None:
        raise problem("unknown_conversation")  # it was not created here, so its owner is unknown
    if not is_forwarded:
        return
    sent = body.get("input")
    if isinstance(sent, list) and any(isinstance(item, list) for item in sent):
        raise problem("invalid_request", "`input` must not have lists among its items.", param="input")
    items = [*objects_in(body.get("input"))]
    parts = (part for item in items for part in objects_in(item.get("content")))
    holders = {"input": [*with_tools(items), *parts], "tools": [*with_tools(body.get("tools"))]}
    for param, objects in holders.items():
        for name in (name for one in objects for name in one if name not in _NAMES and name.casefold() in _NAMES):
            raise problem("invalid_request", f"Expected `{name.casefold()}` in lower case.", param=param)
    for one in _references(body):
        ownership.check_item(one.id, caller, param=one.param, is_whole=one.is_whole)
    requests = (item.get("id") for item in items if item.get("type") == "mcp_approval_request")
    asked = {one for one in requests if isinstance(one, str)}  # checked above
    continues = body.get("previous_response_id") is not None  # the provider looks there, and it is the caller's
    for item in () if continues else items:
        if kind_of(item) == APPROVAL:
            request_id = item.get("approval_request_id")
            if not isinstance(request_id, str) or request_id not in asked:
                ownership.approval_response(request_id, caller, "input")


def conversation_of(body: Mapping[str, Any]) -> object:
    """Return the `conversation` of a request of the Responses API: an ID, or an object with one."""
    value = body.get("conversation")
    return value.get("id") if isinstance(value, dict) else value


def conversation_id_of(body: Mapping[str, Any]) -> str | None:
    """Return the ID of the `conversation` of a request; raise `Problem` if there is one without a valid ID."""
    conversation_id = conversation_of(body)
    # a provider might still accept another value as an ID
    if is_id(conversation_id):
        return conversation_id
    if body.get("conversation") is None:
        return None
    raise problem("invalid_request", "`conversation` must be an ID, or an object with an `id`.", param="conversation")


def item_references(body: Mapping[str, Any]) -> Iterator[object]:
    """Yield the IDs of `item_reference`s, in which the type is optional, except within a message."""
    for item in objects_in(body.get("input")):
        if _is_reference(item):
            yield item.get("id")
        yield from (part.get("id") for part in objects_in(item.get("content")) if kind_of(part) == _REFERENCE)


def is_only_an_id(item: Mapping[str, Any]) -> bool:
    """Return whether the provider has to look up the content of an item with an ID."""
    kind = kind_of(item)
    if kind == "message":
        return not _is_message(item)
    if kind == _IMAGE:
        return not item.get("result")
    content = _CONTENT.get(kind, item.keys() - _NO_CONTENT)
    return not any(item.get(name) for name in content)


def objects_in(value: object) -> Iterator[dict[str, Any]]:
    """Yield a value, or the members of a list and of lists in it, if they are objects.

    A call for each level of lists would make every member pass all of them.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
        elif isinstance(one, list):
            waiting += reversed(one)


def with_tools(value: object) -> Iterator[dict[str, Any]]:
    """Yield the objects in a value, and the tools in them, as a namespace has them, at any depth."""
    waiting = [value]
    while waiting:
        found = [*objects_in(waiting.pop())]
        yield from found
        waiting += [value for one in found for name, value in one.items() if name.casefold() == "tools"]


def _references(body: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield all IDs of items, containers and audio that a body of any API refers to."""
    items = [*objects_in(body.get("input"))]
    for item_id in item_references(body):
        yield Reference(item_id, "input")
    for item in items:
        if item.get("id") and not _is_reference(item) and not _is_left_out(item, body):
            is_whole = not is_only_an_id(item)
            is_empty = kind_of(item) == "message" and not (item.get("role") and item.get("content"))
            if not is_whole or is_empty or kind_of(item) not in _LOOKED_UP_NEVER:
                yield Reference(item["id"], "input", is_whole)
        for container in _containers(with_tools(item)):
            yield Reference(container, "input")
    for container in _containers(with_tools(body.get("tools"))):
        yield Reference(container, "tools")
    for container in _containers([{"container": body.get("container")}]):
        yield Reference(container, "container")
    for message in objects_in(body.get("messages")):
        for audio in objects_in(message.get("audio")):
            yield Reference(audio.get("id"), "messages")


def _containers(parts: Iterable[Mapping[str, Any]]) -> Iterator[object]:
    """Yield the containers of items and tools: where code has run, or is to run."""
    for part in parts:
        container = part.get("container")
        named = container.get("id") if isinstance(container, dict) else container
        found = [named, part.get("container_id")]
        found += [environment.get("container_id") for environment in objects_in(part.get("environment"))]
        yield from (one for one in found if one)


def kind_of(item: Mapping[str, Any]) -> str:
    """Return the type of an item without regard to case, as some providers read it."""
    kind = item.get("type")
    return kind.casefold() if isinstance(kind, str) else ""


def _is_reference(item: Mapping[str, Any]) -> bool:
    """Return whether an item is a reference. Without a type, it is one unless it is a message."""
    return kind_of(item) == _REFERENCE or (item.get("type") is None and not _is_message(item))


def _is_left_out(item: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Return whether an item that is only an ID is not sent to the upstream: it stores no reasoning of the caller."""
    return item.get("type") == "reasoning" and body.get("store") is False


def _is_message(item: Mapping[str, Any]) -> bool:
    """Return whether an item is a message. With an ID it also has to have values: otherwise it may be looked up."""
    has_members = "role" in item and "content" in item
    return has_members and (not item.get("id") or (item["role"] is not None and item["content"] is not None))
