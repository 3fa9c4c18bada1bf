"""Turns of a tool loop: what the model is asked, what it answered, and the calls of the host's functions."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, wraps
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError, validate_call

from projector._errors import UsageError, check_argument
from projector.contracts import codec
from projector.contracts.kinds import TOOL_TYPES
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.conversation.client_history import OUTPUT_TYPES
from projector.conversation.entries import Entry, Message, Opaque, Reasoning, ToolCall
from projector.conversation.model_request import ModelRequest, UnsupportedRequestError
from projector.conversation.request_members import Given, content_of
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import Fault
from projector.core.input_formats import decoder_for
from projector.core.intake import HOST_PREFIX
from projector.core.sse import SseMessage, has_unread
from projector.providers import DEFAULT_PROVIDER, PROVIDERS, profile_of
from projector.providers.descriptor import Provider
from projector.providers.openai_responses.request import PARTS, READERS, read_input
from projector.server.streaming.clock import is_cancelled, times_cancelled
from projector.server.telemetry.logs import log_crash

Tool: TypeAlias = Callable[..., Any]
"""A function, or a coroutine function. A plain function runs in a thread, because it may block."""

FAILURES: Final[Mapping[str, str]] = {
    "unknown": "There is no tool of this name.",
    "arguments": "The arguments are not a JSON object that fits the parameters of the tool.",
    "timeout": "The tool did not finish in time.",
    "failed": "The tool failed.",
    "stopped": "The tool was not run, or its result is unknown.",
}
"""How a call fails -> what model and client are told. The text of an exception is never sent."""


class Call(NamedTuple):
    """A call of the model."""

    call_id: str
    name: str
    item_type: str
    input: str
    """The arguments of a function as JSON text, or the input of a custom tool."""


class Result(NamedTuple):
    """The result of a call."""

    call: Call
    output: Any
    """A JSON value."""
    is_failed: bool = False

    @property
    def item(self) -> dict[str, Any]:
        """The result as an input item: a text, what is content of a message as it is, another value as JSON."""
        is_said = isinstance(self.output, str) or _is_content(self.output)
        output = self.output if is_said else codec.dumps(self.output).decode()
        return {"type": OUTPUT_TYPES[self.call.item_type], "call_id": self.call.call_id, "output": output}

    @property
    def event(self) -> dict[str, Any]:
        """The result as an event of the host."""
        status = "failed" if self.is_failed else "completed"
        return {"type": "projector.tool_output", "call_id": self.call.call_id, "output": self.output, "status": status}


class ToolRunner:
    """Runs calls, a limited number at a time; each has a time limit, which begins when it runs."""

    def __init__(self, tools: Mapping[str, Tool], *, timeout_s: float, max_parallel: int) -> None:
        self._tools = dict(tools)
        self._timeout_s = timeout_s
        self._turns = CapacityLimiter(max_parallel)
        self._threads = CapacityLimiter(max_parallel)

    async def run(self, call: Call) -> Result:
        """Run a call. Any failure of it is a result."""
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(call, "unknown")
        try:
            bound = _bind(tool, call)
        except (TypeError, codec.CodecError, ValidationError):
            return failed(call, "arguments")
        async with self._turns:
            cancelled_before = times_cancelled()
            try:
                with anyio.move_on_after(self._timeout_s):
                    return Result(call, _json_value(await self._result(bound)))
            except (Exception, asyncio.CancelledError) as error:
                if is_cancelled(error, cancelled_before):
                    raise
                log_crash("tool_failed", error, tool=call.name)
                return failed(call, "failed")
        return failed(call, "timeout")

    async def _result(self, bound: Callable[[], Any]) -> Any:
        if inspect.iscoroutinefunction(bound.func if isinstance(bound, partial) else bound):
            return await bound()
        result = await to_thread.run_sync(bound, abandon_on_cancel=True, limiter=self._threads)
        return await result if inspect.isawaitable(result) else result


def failed(call: Call, reason: str) -> Result:
    """Return the result of a call that failed, for a reason of `FAILURES`."""
    return Result(call, {"error": FAILURES[reason]}, is_failed=True)


_CONTENT: Final = {kind: PARTS[kind] for kind in ("input_text", "input_image", "input_file")}
"""Type of a part of an output -> what reads it."""
_CONTENT_MEMBERS: Final = frozenset({"type", "text", "image_url", "detail", "file_data", "file_url", "filename"})
"""Members that are read; a list with others is data, which would lose them."""


def _is_content(output: Any) -> bool:
    """Return whether an output is a list of parts that a model reads as texts, images and files."""
    if not isinstance(output, list) or not output:
        return False
    try:
        content_of(Given({"output": output}), "output", _CONTENT)
    except UnsupportedRequestError:
        return False
    return all(Given(part).members.keys() <= _CONTENT_MEMBERS for part in output)


def _bind(tool: Tool, call: Call) -> Callable[[], Any]:
    """Return the call of the function, with arguments of the types that its parameters have.

    Raises:
        TypeError, CodecError, ValidationError: the arguments do not fit.
    """
    if call.item_type == "custom_tool_call":
        return partial(tool, call.input)
    arguments = codec.loads(call.input.encode("utf-8", "surrogatepass")) if call.input.strip() else {}
    if not isinstance(arguments, dict):
        raise TypeError("expected a JSON object")

    def bind(*positional: Any, **named: Any) -> Callable[[], Any]:
        return partial(tool, *positional, **named)

    try:
        read_arguments = validate_call(wraps(tool)(bind))
    except Exception:  # noqa: BLE001 - types that pydantic does not know or find, or a function in C
        with contextlib.suppress(ValueError):  # some functions in C have no signature
            inspect.signature(tool).bind(**arguments)
        return bind(**arguments)
    return read_arguments(**arguments)


def _json_value(value: Any) -> Any:
    """Return a result as a JSON value; raise `UsageError` if it cannot be one."""
    try:
        return codec.loads(codec.dumps(_plain(value)))
    except (ValueError, RecursionError):
        expected = "expected a result of JSON types, a pydantic model or a dataclass"
        raise UsageError(f"{expected}; the tool returned `{type(value).__name__}`") from None


_SCALARS: Final = (str, int, float, NoneType)


def _plain(value: Any) -> Any:
    """Return a result with its models, dataclasses and decimals, at any depth, as values that `codec` can encode."""
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", warnings=False)  # a warning would contain the value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value) if isinstance(value, Decimal) else value


Item: TypeAlias = Mapping[str, Any]


ENDS: Final[Mapping[str, Literal["completed", "unfinished"]]] = {
    "response.completed": "completed",
    "response.incomplete": "unfinished",
    "response.failed": "unfinished",
    "response.cancelled": "unfinished",
    "error": "unfinished",
}
"""Event that ends a response -> whether its calls are run: they may be cut off if it is unfinished."""

INPUT_MEMBERS: Final[Mapping[str, str]] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Type of a call -> the member with its input."""

APPROVAL_REQUEST: Final = "mcp_approval_request"

RETURNED: Final = frozenset({"message", "reasoning", *INPUT_MEMBERS})
"""Types of items that go back as what they are."""
HOSTED: Final = TOOL_TYPES.keys() - RETURNED - {"mcp_call", APPROVAL_REQUEST}
"""Types of items of which other APIs than Responses have nothing but an opaque value."""


_EXAMPLE: Final = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}


def _is_definition(tool: object) -> bool:
    """Return whether a tool has the form of the Responses API, in which functions have their name beside the type."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("type"), str):
        return False
    return tool["type"] not in {"function", "custom"} or isinstance(tool.get("name"), str)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model is asked."""

    number: int
    """1 for the first request."""
    items: list[Any]
    """The whole conversation, as `input` of the Responses API: of `Any`, which fits the types of its SDK."""
    new_items: list[Any]
    """What follows `previous_response_id`: the outputs of the last calls; all items in the first turn."""
    previous_response_id: str | None
    """ID of the last response of this loop, if the provider sent one."""
    provider: str = DEFAULT_PROVIDER
    """API of the loop."""
    profile: Any = None

    def request(self, model: str, *, client_tools: Sequence[Item] = (), **members: Any) -> dict[str, Any]:
        """Return a body of the API of the loop with the whole conversation.

        Args:
            model: name of the model.
            client_tools: definitions of the tools that server or client run, as in the Responses API, for any API.
            members: further members of `projector.conversation.model_request.ModelRequest`, such as `instructions`.

        Raises:
            UnsupportedRequestError: the API cannot express the conversation.
            UsageError: `client_tools` has something else than such definitions.
        """
        expected = f"tools as the Responses API defines them, such as {codec.dumps(_EXAMPLE).decode()}"
        check_argument("client_tools", expected, holds=all(map(_is_definition, client_tools)))
        request = ModelRequest(model=model, input=[*self._entries()], client_tools=client_tools, **members)
        return PROVIDERS[self.provider].request_writer(request, self.profile or profile_of(self.provider, {}))

    def _entries(self) -> Iterator[Entry]:
        """Yield the conversation with what the provider wants back, which is all that it reads of its own tools.

        The Responses API reads its own items as they are.
        """
        is_own = self.provider == DEFAULT_PROVIDER
        read_items = [item for item in self.items if not self._is_hosted(item)]
        entries = iter(read_input(Given({"input": read_items})))
        for item in self.items:
            opaque = Opaque(self.provider, item["opaque"]) if "opaque" in item else None
            if not self._is_hosted(item):
                entry = next(entries)
                yield replace(entry, opaque=opaque) if isinstance(entry, Message | Reasoning | ToolCall) else entry
            elif is_own or opaque is not None:
                yield Reasoning("", opaque=Opaque(self.provider, dict(item)) if is_own else opaque)

    def _is_hosted(self, item: Item) -> bool:
        """Return whether an item is a call of a tool of the provider, or another part that only it reads."""
        kind = item.get("type") or "message"
        if self.provider == DEFAULT_PROVIDER:
            return kind not in READERS
        return kind in HOSTED or ("opaque" in item and kind not in RETURNED)

    @property
    def messages(self) -> list[Any]:
        """The whole conversation, as `messages` of the API of the loop; raise `UsageError` if it has none."""
        messages: list[Any] | None = self.request("").get("messages")
        if messages is None:
            raise UsageError(f"the API `{self.provider}` has no `messages`; use `items`")
        return messages


class TurnReader:
    """Reads the stream of one response: its canonical events, and the items for the next request."""

    def __init__(self, provider: Provider, profile: Any) -> None:
        self.dropped: Counter[str] = Counter()
        self.fault: Fault | None = None
        """Why the stream cannot be read further."""
        self.end: Literal["completed", "unfinished"] | None = None
        self.is_empty = True
        self.response_id: str | None = None
        fields, is_bare = provider.message_fields, provider.has_bare_json
        self._decoder = decoder_for("sse", EVENT_MAX_BYTES, fields, has_bare_json=is_bare)
        self._stage = provider.stage(profile)
        self._items: dict[tuple[str, str], Item] = {}
        """Type, and ID of the call or item -> the item."""
        self._inputs: dict[tuple[int | None, str | None], list[str]] = {}
        """`output_index` and item ID of events, either may be missing -> parts of the input of a call, until it ends.
        Several calls may have one index or one ID."""
        self._own_ids: dict[tuple[str, int | str], str] = {}
        """ID that the provider sent, and `output_index` or item ID -> ID of the call: several can have one, or none."""
        self._placed_ids: set[str] = set()
        """IDs of calls with an `output_index`, without which two events with one ID are of the same call."""

    def feed(self, data: bytes) -> list[CanonicalEvent]:
        """Return the events of bytes, cut anywhere."""
        return self._read(self._decoder.feed(data))

    def close(self) -> list[CanonicalEvent]:
        """Return the last events."""
        return self._read(self._decoder.close()) + self._accepted(self._stage.close())

    @property
    def is_unread(self) -> bool:
        """Whether there were events, but none of the API of the loop."""
        return self.is_empty and has_unread(self._stage.dropped)

    @property
    def items(self) -> list[Item]:
        """The items of the response as the provider sent them, in order."""
        return list(self._items.values())

    @property
    def calls(self) -> list[Call]:
        """The calls of the response that need an output."""
        return [
            Call(item["call_id"], item["name"], kind, item[member])
            for item in self._items.values()
            if (member := INPUT_MEMBERS.get(kind := item["type"])) is not None
        ]

    @property
    def asks_for_approval(self) -> bool:
        """Whether the response contains an approval request, which only the user can answer."""
        return any(item["type"] == APPROVAL_REQUEST for item in self._items.values())

    def _read(self, messages: Sequence[SseMessage | Fault]) -> list[CanonicalEvent]:
        events: list[CanonicalEvent] = []
        for message in messages:
            if isinstance(message, Fault):
                events += self._accepted(self._stage.close())
                self._fail(message)
            else:
                events += self._accepted(self._stage.feed(message))
        return events

    def _accepted(self, events: Sequence[CanonicalEvent | Fault]) -> list[CanonicalEvent]:
        """Return the provider's events. It cannot send events of the host (CONTRACT D35)."""
        accepted: list[CanonicalEvent] = []
        for event in events:
            if isinstance(event, Fault):
                self._fail(event)
                continue
            name = str(event.get("type"))
            if name.startswith(HOST_PREFIX):
                self.dropped[name] += 1
                continue
            self.is_empty = False
            accepted.append(identified := self._with_own_id(event))
            if (note := NOTES.get(name)) is not None:
                note(self, identified)
            if self.end is None:
                self.end = ENDS.get(name)
        return accepted

    def _with_own_id(self, event: CanonicalEvent) -> CanonicalEvent:
        """Return an event; each call in it has an ID by which page and model tell it from others of the response."""
        response, item = read.mapping_or_empty(event, "response"), read.mapping_or_empty(event, "item")
        output = response.get("output")
        if event.get("type") in ENDS and isinstance(output, list):
            return {**event, "response": {**response, "output": self._with_own_ids(output)}}
        if (given := _given_id(item)) is None:
            return event
        place, item_id = read.index_or_none(event, "output_index"), read.text_or_none(item, "id")
        keys = [(given, one) for one in (place, item_id) if one is not None]
        known = next((self._own_ids[key] for key in keys if key in self._own_ids), None)
        call_id = known or self._free_id(given, place)
        self._own_ids.update(dict.fromkeys(keys, call_id))
        return {**event, "item": {**item, "call_id": call_id}}

    def _with_own_ids(self, output: Sequence[Any]) -> list[Any]:
        """Return the items of a finished response. Its calls are those of the events before it with the same IDs.

        If only the IDs of calls are the same, it has them in the same order; others follow them.
        """
        left: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for (name, _), call_id in self._own_ids.items():
            left[name][call_id] = None
        named: list[Any] = []
        for place, item in enumerate(output):
            if (given := _given_id(item)) is None:
                named.append(item)
                continue
            key = (given, read.text_or_none(item, "id") or place)
            call_id = self._own_ids.get(key) or next(iter(left[given]), None) or self._free_id(given, place)
            left[given].pop(call_id, None)
            self._own_ids[key] = call_id
            named.append({**item, "call_id": call_id})
        return named

    def _free_id(self, call_id: str, place: int | None) -> str:
        """Return an ID that no call at another place has."""
        while place is not None and call_id in self._placed_ids:
            call_id = f"{call_id}_{place}"
        if place is not None:
            self._placed_ids.add(call_id)
        return call_id

    def _fail(self, fault: Fault) -> None:
        if self.end is None and self.fault is None:
            self.fault = fault

    def on_response(self, event: CanonicalEvent) -> None:
        """Note the ID, and items that only the finished response contains."""
        response = read.mapping_or_empty(event, "response")
        self.response_id = read.text_or_none(response, "id") or self.response_id
        if event.get("type") in ENDS:
            for item in read.mappings(response, "output"):
                self._add(item)

    def on_item(self, event: CanonicalEvent) -> None:
        """Note a finished item."""
        self._add(read.mapping_or_empty(event, "item"), read.index_or_none(event, "output_index"))

    def on_delta(self, event: CanonicalEvent) -> None:
        """Note a part of the input of a call."""
        self._parts(event).append(read.text_or_none(event, "delta") or "")

    def on_input(self, event: CanonicalEvent) -> None:
        """Note the whole input of a call."""
        text = read.text_or_none(event, "arguments") or read.text_or_none(event, "input")
        if text is not None:
            self._parts(event)[:] = [text]

    def _parts(self, event: CanonicalEvent) -> list[str]:
        """Return the parts of the input that an event belongs to."""
        key = (read.index_or_none(event, "output_index"), read.text_or_none(event, "item_id") or None)
        return self._inputs.setdefault(key, [])

    def _streamed(self, place: int | None, item_id: str | None) -> str:
        """Return the input that was streamed for a call, and forget it; nothing if it may be that of another call.

        Servers may send an item and its input with different indexes or IDs.
        """
        found = [key for key in self._inputs if key == (place, item_id)]
        if not found and item_id is not None:
            found = [key for key in self._inputs if key[1] == item_id]
        if not found and place is not None:
            found = [key for key in self._inputs if key[0] == place and None in {key[1], item_id}]
        return "".join(self._inputs.pop(found[0])) if len(found) == 1 else ""

    def _add(self, item: Item, place: int | None = None) -> None:
        kind, item_id = read.text_or_none(item, "type"), read.text_or_none(item, "id")
        key = (kind or "", read.text_or_none(item, "call_id") or item_id or f"item {len(self._items)}")
        if kind is None or key in self._items:
            return
        if kind in OUTPUT_TYPES:
            if read.text_or_none(item, "call_id") is None or read.text_or_none(item, "name") is None:
                self.dropped[f"{kind} without ID or name"] += 1
                return
            member = INPUT_MEMBERS[kind]
            streamed = self._streamed(place, item_id or None)
            item = {**item, member: read.text_or_none(item, member) or streamed}
        self._items[key] = item


def _given_id(item: object) -> str | None:
    """Return the ID that the provider gave a call, which several can have; None for what is no call."""
    if not read.is_mapping(item) or read.text_or_none(item, "type") not in INPUT_MEMBERS:
        return None
    return read.text_or_none(item, "call_id") or read.text_or_none(item, "id") or "call"


NOTES: Final[Mapping[str, Callable[[TurnReader, CanonicalEvent], None]]] = {
    **dict.fromkeys(("response.created", "response.in_progress"), TurnReader.on_response),
    **dict.fromkeys((name for name in ENDS if name != "error"), TurnReader.on_response),
    "response.output_item.done": TurnReader.on_item,
    "response.function_call_arguments.delta": TurnReader.on_delta,
    "response.function_call_arguments.done": TurnReader.on_input,
    "response.custom_tool_call_input.delta": TurnReader.on_delta,
    "response.custom_tool_call_input.done": TurnReader.on_input,
}
"""Event -> what is noted of it for the next request."""
