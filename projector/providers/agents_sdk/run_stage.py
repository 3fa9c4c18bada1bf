"""Translation of a run of the Agents SDK into canonical events and host events.

Raw events are the provider's. The rest comes from the host (CONTRACT D35): tool outputs, the current agent, where one
response of the run ends and the next begins. Items that the run made without a model (a message of an error handler, a
call of an earlier stream that is answered now, an approval request) become a response of their own, because items exist
in responses only.

Stream events, run items and tool outputs of the SDK that are in no table here are dropped and counted;
docs/agents_sdk.md has the reasons.

The SDK writes one placeholder into every ID when it makes Responses events of a Chat Completions stream, and gives late
reasoning index 0, where the message may be already. So an item is identified by its index and type: the first item at
an index keeps it, any other has none and is known by its ID (CONTRACT D6).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.core import canonical as read
from projector.core.canonical import NO_TYPE, CanonicalEvent
from projector.core.faults import Fault
from projector.core.sse import TOO_DEEP, encode_sse
from projector.providers.agents_sdk.failures import ENDS, Phase, judge
from projector.providers.stage_parts import ItemIds

# items with placeholder IDs


PLACEHOLDER: Final = "__fake_id__"
"""The ID of every response and item that the SDK builds for a model without such IDs, as with Chat Completions."""

ITEM_OF_EVENT: Final[Mapping[str, str]] = {
    f"response.{name}.{change}": item_type
    for item_type, names in {
        "message": ("content_part", "output_text", "output_text.annotation", "refusal"),
        "reasoning": ("reasoning_summary_part", "reasoning_summary_text", "reasoning_text"),
        "function_call": ("function_call_arguments",),
    }.items()
    for name in names
    for change in ("added", "delta", "done")
}
"""Event that may have a placeholder -> type of its item."""

STEMS: Final[Mapping[str, str]] = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
"""Item type -> prefix of the IDs that replace its placeholders."""


@dataclass(slots=True)
class _Item:
    item_id: str
    index: int | None
    """The SDK's output index, unless another item has it."""
    call_id: str | None


class Placeholders(ItemIds):
    """The items of one response that have placeholders. Others pass unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[int] = set()
        self._by_index: dict[tuple[int | None, str], _Item] = {}
        self._by_call: dict[str, _Item] = {}

    def replace(self, event: CanonicalEvent) -> list[CanonicalEvent]:
        """Return the event without placeholders, after an event with the ID of its response if an item shows it."""
        response, item = event.get("response"), event.get("item")
        if read.is_mapping(response) and response.get("id") == PLACEHOLDER:
            return [{**event, "response": _without_ids(event, response)}]
        if read.is_mapping(item) and item.get("id") == PLACEHOLDER:
            announced = self._announce_response(item)
            item_type = read.text_or_none(item, "type") or ""
            known = self._find(event, item_type, read.text_or_none(item, "call_id"))
            return [*announced, _with_index(known, {**event, "item": {**item, "id": known.item_id}})]
        if event.get("item_id") == PLACEHOLDER:
            known = self._find(event, ITEM_OF_EVENT.get(str(event.get("type")), ""), None)
            return [_with_index(known, {**event, "item_id": known.item_id})]
        return [event]

    def _announce_response(self, item: Mapping[str, object]) -> list[CanonicalEvent]:
        """Return an event with the provider's ID of the response, once: the SDK keeps it in the items (D4)."""
        known = read.text_or_none(read.mapping_or_empty(item, "provider_data"), "response_id")
        if known is None or self.response_id:
            return []
        self.response_id = known
        return [{"type": "response.in_progress", "response": {"id": known, "status": "in_progress"}}]

    def _find(self, event: CanonicalEvent, item_type: str, call_id: str | None) -> _Item:
        index = read.index_or_none(event, "output_index")
        item = self._by_call.get(call_id) if call_id else None
        item = item or self._by_index.get((index, item_type))
        if item is None or (call_id and item.call_id not in (None, call_id)):
            item = self._new(index, item_type)
        if call_id:
            item.call_id = call_id
            self._by_call[call_id] = item
        self._by_index[index, item_type] = item
        return item

    def _new(self, index: int | None, item_type: str) -> _Item:
        item_id, _ = self.next_id(STEMS.get(item_type, "item"))
        item = _Item(item_id, index if index not in self._taken else None, None)
        if index is not None:
            self._taken.add(index)
        return item


def _with_index(item: _Item, event: dict[str, object]) -> CanonicalEvent:
    if item.index is None:
        event.pop("output_index", None)
    return event


def _without_ids(event: CanonicalEvent, response: Mapping[str, object]) -> dict[str, object]:
    """Return a response without placeholders, and with a status at its beginning, where such a response has none."""
    known = {name: value for name, value in response.items() if name != "id" and value is not None}
    if event.get("type") == "response.created":
        known.setdefault("status", "in_progress")
    items = [
        {name: value for name, value in item.items() if name != "id" or value != PLACEHOLDER}
        for item in read.mappings(known, "output")
    ]
    return {**known, "output": items}


# the run


NEXT: Final[CanonicalEvent] = {"type": "projector.next_response"}
CANCEL: Final[CanonicalEvent] = {"type": "projector.cancel"}
HOST_PREFIX: Final = "projector."
"""Types of host events. A provider's event of such a type is dropped (D35)."""

AFTER_THE_END: Final = frozenset({"keepalive"})
"""Events that may follow the end of a response without beginning another one."""

RUN_ITEM_EVENTS: Final[Mapping[str, str]] = {
    "message_output_created": "message_output_item",
    "handoff_requested": "handoff_call_item",
    "handoff_occured": "handoff_output_item",  # the SDK's own spelling
    "tool_called": "tool_call_item",
    "tool_search_called": "tool_search_call_item",
    "tool_search_output_created": "tool_search_output_item",
    "tool_output": "tool_call_output_item",
    "reasoning_item_created": "reasoning_item",
    "mcp_approval_requested": "mcp_approval_request_item",
    "mcp_approval_response": "mcp_approval_response_item",
    "mcp_list_tools": "mcp_list_tools_item",
}
"""Name of a `run_item_stream_event` -> type of its run item."""

CALL_ITEMS: Final = frozenset({"tool_call_item", "handoff_call_item"})
"""Run items of calls of functions."""

REQUEST: Final = "mcp_approval_request"
"""Item of a call that waits for approval. Those of the provider's own MCP servers are items of a response."""

OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
"""Outputs of calls that have a public tool type."""

FAILED: Final = "failed"


class RunStage:
    """Translates one run: `feed` is called with its stream events, then `close` or `fail` at its end.

    Args:
        earlier: run items from before this stream: a resumed run answers calls of earlier streams.
        is_rejected: whether a person rejected a call, given the name of its tool (after its namespace and a dot) and
            its ID. Its output is the SDK's message for the model, and nothing in the item tells it from a result.
    """

    def __init__(
        self, earlier: Iterable[Any] = (), is_rejected: Callable[[str, str], bool] = lambda _name, _call_id: False
    ) -> None:
        self.dropped = read.Drops()
        """Input that was not translated, by the SDK's name or by reason."""
        self._phase: Phase = "idle"
        self._context: list[CanonicalEvent] = []
        """The current agent, held back until the next event: alone it would begin a stream."""
        self._placeholders = Placeholders()
        self._is_rejected = is_rejected
        self._calls: dict[str, str] = {}
        """ID of each call of this stream -> name of its tool."""
        self._messages = 0
        """Messages of the last response that the run has still to repeat as run items."""
        self._earlier = _earlier_calls(earlier)

    def feed(self, event: object, /) -> list[CanonicalEvent]:
        """Return the events of a stream event, in order."""
        name = str(getattr(event, "type", None))
        handler = STREAM_EVENTS.get(name)
        return self._after_context(handler(self, event)) if handler is not None else self.dropped.drop(name)

    def close(self, interruptions: Iterable[Any] = (), *, is_cancelled: bool = False) -> list[CanonicalEvent]:
        """End the run, and return the approval requests that it waits for, or its cancellation by the host."""
        if is_cancelled:
            return [*self._context, CANCEL]
        requests = [_request_item(one) for one in interruptions if _members(one.raw_item).get("type") != REQUEST]
        return self._after_context(self._own_response(requests)) or self._context

    def fail(self, error: BaseException) -> tuple[list[CanonicalEvent], Fault | None]:
        """End the run with an exception; return its last events, and its fault unless these events end it."""
        verdict = judge(error, self._phase)
        if verdict is None or isinstance(verdict, Fault):
            return self._context, verdict
        return [*self._context, verdict], None

    def on_raw(self, event: Any) -> list[CanonicalEvent]:
        """Return an event of the model's response."""
        raw = _members(event.data)
        name = read.text_or_none(raw, "type")
        if name is None or name.startswith(HOST_PREFIX) or (self._has_ended and name in AFTER_THE_END):
            return self.dropped.drop(name or NO_TYPE)
        events = self._begin()
        self._note(raw, name)
        return events + self._placeholders.replace(raw)

    def on_run_item(self, event: Any) -> list[CanonicalEvent]:
        """Return what the raw events do not have: an output, or a message that no model wrote."""
        item_type = RUN_ITEM_EVENTS.get(event.name)
        handler = RUN_ITEMS.get(item_type or "")
        return handler(self, event.item) if handler is not None else self.dropped.drop(event.name)

    def on_agent(self, event: Any) -> list[CanonicalEvent]:
        """Hold back the new agent until the next event."""
        self._context = [{"type": "projector.context", "agent": event.new_agent.name}]
        return []

    def on_message(self, item: Any) -> list[CanonicalEvent]:
        """Return a message that no response has: an error handler of the host wrote it."""
        if self._messages:
            self._messages -= 1
            return []
        return self._own_response([_members(item.raw_item)])

    def on_output(self, item: Any) -> list[CanonicalEvent]:
        """Return a tool output, after its call if that is of an earlier stream."""
        raw = _members(item.raw_item)
        kind, call_id = read.text_or_none(raw, "type") or NO_TYPE, read.text_or_none(raw, "call_id")
        if kind not in OUTPUTS or call_id is None:
            return self.dropped.drop(kind)
        events: list[CanonicalEvent] = []
        if call_id not in self._calls and call_id in self._earlier:
            events = self._own_response([self._earlier[call_id]])
        if self._has_ended:
            self._phase = "awaited"
        status = FAILED if self._is_rejected(self._calls.get(call_id, ""), call_id) else raw.get("status")
        output = {"call_id": call_id, "output": _output(item, raw), "status": status}
        return [*events, {"type": "projector.tool_output", **output}]

    @property
    def is_responding(self) -> bool:
        """Whether a response of the model has begun and not ended."""
        return self._phase == "open"

    @property
    def _has_ended(self) -> bool:
        return self._phase not in {"idle", "open"}

    def _begin(self) -> list[CanonicalEvent]:
        """Return the boundary before a further response of the run."""
        has_ended, self._phase = self._has_ended, "open"
        if not has_ended:
            return []
        self._placeholders = Placeholders()
        self._messages = 0
        return [NEXT]

    def _note(self, raw: CanonicalEvent, name: str) -> None:
        response = read.mapping_or_empty(raw, "response")
        items = [read.mapping_or_empty(raw, "item"), *read.mappings(response, "output")]
        self._note_calls(items)
        messages = sum(item.get("type") == "message" for item in items)
        if name == "response.output_item.done":
            self._messages += messages
        elif name in ENDS:
            self._phase = ENDS[name]
            self._messages = max(self._messages, messages)

    def _note_calls(self, items: Iterable[Mapping[str, object]]) -> None:
        for item in items:
            if (call_id := read.text_or_none(item, "call_id")) is not None:
                names = (read.text_or_none(item, "namespace"), read.text_or_none(item, "name"))
                self._calls[call_id] = ".".join(filter(None, names)) or self._calls.get(call_id, "")

    def _own_response(self, items: Iterable[Mapping[str, object]]) -> list[CanonicalEvent]:
        """Return items that no model's response has as a response of their own; nothing without items."""
        output = [{**item, "id": None} if item.get("id") == PLACEHOLDER else item for item in items]
        if not output:
            return []
        self._note_calls(output)
        events = self._begin()
        self._phase = "completed"
        return [
            *events,
            {"type": "response.created", "response": {"status": "in_progress"}},
            {"type": "response.completed", "response": {"status": "completed", "output": output}},
        ]

    def _after_context(self, events: list[CanonicalEvent]) -> list[CanonicalEvent]:
        if not events:
            return []
        context, self._context = self._context, []
        return context + events


def _earlier_calls(run_items: Iterable[Any]) -> dict[str, CanonicalEvent]:
    """Return the calls of earlier streams by their call IDs, each with the item ID that it had there.

    The SDK keeps the items of a response in the order in which it announced them, so they are numbered again.
    """
    calls: dict[str, CanonicalEvent] = {}
    responses: defaultdict[str, Placeholders] = defaultdict(Placeholders)
    for one in run_items:
        raw = _members(getattr(one, "raw_item", None))
        if raw.get("id") == PLACEHOLDER:
            response_id = read.text_or_none(read.mapping_or_empty(raw, "provider_data"), "response_id") or ""
            numbers = responses[response_id]
            numbers.response_id = response_id
            raw["id"], _ = numbers.next_id(STEMS.get(str(raw.get("type")), "item"))
        if getattr(one, "type", None) in CALL_ITEMS and (call_id := read.text_or_none(raw, "call_id")):
            calls[call_id] = raw
    return calls


StreamHandler: TypeAlias = Callable[[RunStage, Any], list[CanonicalEvent]]

STREAM_EVENTS: Final[Mapping[str, StreamHandler]] = {
    "raw_response_event": RunStage.on_raw,
    "run_item_stream_event": RunStage.on_run_item,
    "agent_updated_stream_event": RunStage.on_agent,
}

RUN_ITEMS: Final[Mapping[str, StreamHandler]] = {
    "message_output_item": RunStage.on_message,
    "tool_call_output_item": RunStage.on_output,
    "handoff_output_item": RunStage.on_output,
}


def encode(events: Iterable[CanonicalEvent], dropped: Counter[str]) -> bytes:
    """Encode events of a stage as an event stream. Those nested too deeply are counted in `dropped` (CONTRACT D31)."""
    data = b""
    for event in events:
        try:
            data += encode_sse(codec.dumps_exact(event))
        except codec.CodecError:
            dropped[TOO_DEEP] += 1
    return data


def _members(value: Any) -> dict[str, Any]:
    """Return the members of an SDK object as the provider sent them; nothing for other objects."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        sent: dict[str, Any] = value.model_dump(exclude_unset=True, warnings=False)
        return sent
    return {}


def _output(item: Any, raw: Mapping[str, object]) -> object:
    """Return a tool's result if it is JSON, else the text that the model receives."""
    output: Any = getattr(item, "output", None)
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json", warnings=False)
    if output is None:
        return raw.get("output")
    try:
        codec.dumps_exact(output)
    except codec.CodecError:
        return raw.get("output")
    return output


def _request_item(approval: Any) -> dict[str, object]:
    """Return a call that waits for approval as the item that the contract has for it (D18).

    Calls of a shell and patches have an action or an operation in place of arguments.
    """
    raw = _members(approval.raw_item)
    asked = raw.get("action", raw.get("operation", {}))
    return {
        "type": REQUEST,
        "id": f"approval_{approval.call_id}",
        "name": approval.name,
        "arguments": approval.arguments or codec.dumps_exact(asked).decode(),
    }
