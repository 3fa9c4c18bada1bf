"""Tools that the client runs, as functions with one name: other APIs have neither namespaces nor a search for tools.

Each function is called by a name that contains its namespace. `OriginalCalls` gives the calls of an answer their names
and types back, before anything else reads them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.conversation.entries import object_of
from projector.conversation.model_request import Item, UnsupportedRequestError
from projector.conversation.request_members import Given
from projector.core.canonical import CanonicalEvent, is_mapping
from projector.core.faults import Fault
from projector.core.lane import TEXT_DELTA, Slots, shaped
from projector.core.sse import SseMessage
from projector.providers.descriptor import ProviderStage
from projector.providers.stage_parts import CALL_SHAPES

SEARCH: Final = "tool_search"
"""Type of the tool with which the model searches for tools, and its name as a function."""
CLIENT: Final = "client"
"""Value of `execution` of a search that the client runs."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of functions that all providers accept."""
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_-]")
_HEAD_CHARS: Final = 55
_DIGEST_CHARS: Final = 8


class Original(NamedTuple):
    """What a function is in the client's request."""

    item_type: str
    """Type of its calls."""
    name: str
    namespace: str | None = None


def flat_name(name: str, namespace: str | None) -> str:
    """Return the name of a function for an API without namespaces; the same one for the same two names."""
    if namespace is None:
        return name
    whole = f"{namespace}__{name}"
    if _NAME.fullmatch(whole):
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{_OTHERS.sub('_', whole)[:_HEAD_CHARS]}_{digest}"


def read_tools(body: Given) -> list[Item]:
    """Return the tools of a body, and those that the client has found since, without namespaces.

    Each has the position that it has in `tools`, for errors; the others of a namespace follow.
    """
    first: list[Item] = []
    further: list[Item] = []
    names: dict[str, Original] = {}
    for tool, is_given in _all_tools(body):
        flat = [*_flattened(tool)]
        for one, original in flat:
            name = str(one.get("name"))
            if original is not None and names.setdefault(name, original) != original:
                message = f"`{tool.path}` has the name of another tool: each function needs its own."
                raise UnsupportedRequestError(message, tool.path)
        written = [one for one, _ in flat]
        first += written[:1] if is_given else []
        further += written[1:] if is_given else written
    return _once([*first, *further])


def originals_of(body: Mapping[str, Any]) -> Mapping[str, Original]:
    """Return name of a function -> what it is in a request that `read_tools` has read."""
    pairs = [pair for tool, _ in _all_tools(Given(body)) for pair in _flattened(tool)]
    return {str(one["name"]): original for one, original in pairs if original is not None}


def found_tools(item: Given) -> str:
    """Return what a search has found as the output of a function: names and descriptions."""
    found = [one for tool in item.objects("tools") for one, _ in _flattened(tool)]
    about = [{name: one[name] for name in ("name", "description") if name in one} for one in found]
    return codec.dumps({"tools": about}).decode()


def _all_tools(body: Given) -> Iterator[tuple[Given, bool]]:
    """Yield each tool, and whether it is one of `tools`; the others are in outputs of searches.

    A request without tools, such as one for a summary, has none of the others either.
    """
    given = body.objects("tools")
    yield from ((tool, True) for tool in given)
    if given and isinstance(body.members.get("input"), list):
        for item in body.objects("input"):
            if item.members.get("type") == "tool_search_output":
                for tool in item.objects("tools"):
                    yield tool, False


def _flattened(tool: Given) -> Iterator[tuple[Item, Original | None]]:
    """Yield a tool, or each of a namespace, with what it was; None for one whose calls are as in other APIs."""
    kind = tool.text("type")
    if kind == "namespace" and tool.members.get("tools"):
        namespace = tool.text("name")
        for one in tool.objects("tools"):
            yield from _named(one, namespace)
    elif kind == SEARCH and tool.members.get("execution") == CLIENT:
        about: dict[str, Any] = {
            name: tool.members[name] for name in ("description", "parameters") if name in tool.members
        }
        function = {"type": "function", "name": SEARCH, "strict": False, **about}
        yield function, Original("tool_search_call", SEARCH)
    else:
        yield from _named(tool, None)


def _named(tool: Given, namespace: str | None) -> Iterator[tuple[Item, Original | None]]:
    members = {name: value for name, value in tool.members.items() if name != "defer_loading"}
    shape = CALL_SHAPES.get(tool.text_or_none("type") or "")
    if shape is None:
        yield members, None
        return
    original = Original(shape.item_type, tool.text("name"), namespace)
    yield members | {"name": flat_name(original.name, namespace)}, original


def _once(tools: Sequence[Item]) -> list[Item]:
    """Return tools without functions that were found and are there already."""
    found: dict[object, Item] = {}
    for at, tool in enumerate(tools):
        found.setdefault(tool["name"] if tool.get("type") in CALL_SHAPES else at, tool)
    return [*found.values()]


# the answer


def restored_calls(body: Mapping[str, Any]) -> Callable[[ProviderStage], ProviderStage] | None:
    """Return what makes the stage of an upstream with another API restore the calls of a request's tools.

    None if their calls are the same in every API.
    """
    originals = originals_of(body)
    if all(one == Original("function_call", name) for name, one in originals.items()):
        return None
    return lambda stage: OriginalCalls(stage, originals)


class OriginalCalls:
    """A stage of another API with the calls as the client's API has them.

    A call of a custom tool or a search is complete when its item is: the deltas of its arguments are JSON of which the
    client wants a part only.
    """

    def __init__(self, stage: ProviderStage, originals: Mapping[str, Original]) -> None:
        self._stage = stage
        self._originals = originals
        self._whole: set[object] = set()
        """IDs of items that are complete at once."""
        self.dropped = stage.dropped

    def feed(self, message: SseMessage, /) -> list[CanonicalEvent | Fault]:
        """Return the events of a message."""
        return self._restored(self._stage.feed(message))

    def close(self) -> list[CanonicalEvent | Fault]:
        """Return the events that the end of input causes."""
        return self._restored(self._stage.close())

    def slots(self, message: Mapping[str, Any], name: str, /) -> Slots | None:
        """Return what the stage does for texts, which are the same; not every delta of arguments passes."""
        stage = shaped(self._stage)
        slots = stage.slots(message, name) if stage is not None else None
        return slots if slots is not None and slots.event == TEXT_DELTA else None

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas that were read without the stage."""
        if (stage := shaped(self._stage)) is not None:
            stage.skip(texts, numbers)

    def _restored(self, events: Sequence[CanonicalEvent | Fault]) -> list[CanonicalEvent | Fault]:
        restored: list[CanonicalEvent | Fault] = []
        for event in events:
            if isinstance(event, Fault):
                restored.append(event)
            elif is_mapping(item := event.get("item")):
                restored.append({**event, "item": self._item(item)})
            elif event.get("type") not in _ARGUMENTS or event.get("item_id") not in self._whole:
                restored.append(self._response(event))
        return restored

    def _response(self, event: CanonicalEvent) -> CanonicalEvent:
        """Return an event with the calls of the whole response, if it has one."""
        response = event.get("response")
        output = response.get("output") if is_mapping(response) else None
        if not isinstance(output, list) or not output or not is_mapping(response):
            return event
        items = [self._item(item) if is_mapping(item) else item for item in output]
        return {**event, "response": {**response, "output": items}}

    def _item(self, item: Mapping[str, object]) -> Mapping[str, object]:
        original = self._originals.get(str(item.get("name"))) if item.get("type") == "function_call" else None
        if original is None:
            return item
        space = {} if original.namespace is None else {"namespace": original.namespace}
        if original.item_type == "function_call":
            return {**item, "name": original.name, **space}
        self._whole.add(item.get("id"))
        text = item.get("arguments")
        given = object_of(text) if isinstance(text, str) else {}
        rest = {name: value for name, value in item.items() if name not in {"arguments", "name"}}
        if original.item_type == "tool_search_call":
            return {**rest, "type": original.item_type, "execution": CLIENT, "arguments": given}
        value = given.get("input", "")
        called = {"name": original.name, "input": value if isinstance(value, str) else text}
        return {**rest, "type": original.item_type, **called, **space}


_ARGUMENTS: Final = frozenset({"response.function_call_arguments.delta", "response.function_call_arguments.done"})
