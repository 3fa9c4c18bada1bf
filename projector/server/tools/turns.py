"""Turns of a tool loop: what the model is asked, and what it answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from projector._errors import UsageError
from projector.contracts.kinds import TOOL_TYPES
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.conversation.call_pairs import OUTPUT_TYPES
from projector.conversation.entries import Entry, Message, Opaque, Reasoning, ToolCall
from projector.conversation.given_members import Given
from projector.conversation.model_request import ModelRequest
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import Fault
from projector.core.input_formats import decoder_for
from projector.core.intake import HOST_PREFIX
from projector.core.sse import SseMessage
from projector.providers import DEFAULT_PROVIDER, PROVIDERS
from projector.providers.descriptor import Provider
from projector.providers.openai_responses.request import read_input
from projector.server.tools.running import Call

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


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model is asked."""

    number: int
    """1 for the first request."""
    items: Sequence[Item]
    """The whole conversation, as `input` of the Responses API."""
    new_items: Sequence[Item]
    """What follows `previous_response_id`: the outputs of the last calls; all items in the first turn."""
    previous_response_id: str | None
    """ID of the last response of this loop, if the provider sent one."""
    provider: str = DEFAULT_PROVIDER
    """API of the loop."""
    profile: Any = None

    def request(self, model: str, **members: Any) -> dict[str, Any]:
        """Return a body of the API of the loop with the whole conversation.

        Args:
            model: name of the model.
            members: further members of `projector.conversation.model_request.ModelRequest`, such as `instructions`.

        Raises:
            UnsupportedRequestError: the API cannot express the conversation.
        """
        request = ModelRequest(model=model, input=[*self._entries()], **members)
        return PROVIDERS[self.provider].request_writer(request, self.profile)

    def _entries(self) -> Iterator[Entry]:
        """Yield the conversation with what the provider wants back, which is all that it reads of its own tools."""
        read_items = [item for item in self.items if not self._is_hosted(item)]
        entries = iter(read_input(Given({"input": read_items})))
        for item in self.items:
            opaque = Opaque(self.provider, item["opaque"]) if "opaque" in item else None
            if not self._is_hosted(item):
                entry = next(entries)
                yield replace(entry, opaque=opaque) if isinstance(entry, Message | Reasoning | ToolCall) else entry
            elif opaque is not None:
                yield Reasoning("", opaque=opaque)

    def _is_hosted(self, item: Item) -> bool:
        """Return whether an item is a call of a tool of the provider, or another part that only it reads."""
        kind = item.get("type")
        return (kind in HOSTED and self.provider != DEFAULT_PROVIDER) or ("opaque" in item and kind not in RETURNED)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole conversation, as `messages` of the API of the loop; raise `UsageError` if it has none."""
        messages: list[dict[str, Any]] | None = self.request("").get("messages")
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
        self._items: dict[str, Item] = {}
        self._inputs: dict[str, list[str]] = {}

    def feed(self, data: bytes) -> list[CanonicalEvent]:
        """Return the events of bytes, cut anywhere."""
        return self._read(self._decoder.feed(data))

    def close(self) -> list[CanonicalEvent]:
        """Return the last events."""
        return self._read(self._decoder.close()) + self._accepted(self._stage.close())

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
            if (note := NOTES.get(name)) is not None:
                note(self, event)
            if self.end is None:
                self.end = ENDS.get(name)
            accepted.append(event)
        return accepted

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
        self._add(read.mapping_or_empty(event, "item"))

    def on_delta(self, event: CanonicalEvent) -> None:
        """Note a part of the input of a call."""
        self._inputs.setdefault(str(event.get("item_id")), []).append(read.text_or_none(event, "delta") or "")

    def on_input(self, event: CanonicalEvent) -> None:
        """Note the whole input of a call."""
        text = read.text_or_none(event, "arguments") or read.text_or_none(event, "input")
        if text is not None:
            self._inputs[str(event.get("item_id"))] = [text]

    def _add(self, item: Item) -> None:
        kind, key = read.text_or_none(item, "type"), read.text_or_none(item, "call_id") or read.text_or_none(item, "id")
        key = key or f"item {len(self._items)}"
        if kind is None or key in self._items:
            return
        if kind in OUTPUT_TYPES:
            if read.text_or_none(item, "call_id") is None or read.text_or_none(item, "name") is None:
                self.dropped[f"{kind} without ID or name"] += 1
                return
            member = INPUT_MEMBERS[kind]
            streamed = "".join(self._inputs.get(str(item.get("id")), ()))
            item = {**item, member: read.text_or_none(item, member) or streamed}
        self._items[key] = item


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
