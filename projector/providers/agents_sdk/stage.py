"""`RunStage`: what a run of the SDK streams becomes canonical events, and events of the host's own door.

The raw events are the provider's; the rest is the host's word (CONTRACT D35): outputs, the agent, where one response of
the run ends and the next begins. What the run made without a model (a message of an error handler, a call of an earlier
stream that is answered now, a request for approval) is said as a response of its own, because items have no other
place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import Fault
from projector.core.sse import encode_sse
from projector.providers.agents_sdk.failures import ENDS, Phase, judge
from projector.providers.agents_sdk.places import Places
from projector.providers.agents_sdk.reading import is_unsaid, members, output_of, request_of
from projector.providers.agents_sdk.vocabulary import ANSWERS, PLACEHOLDER, RUN_ITEM_EVENTS

NEXT: Final[CanonicalEvent] = {"type": "projector.next_response"}
CANCEL: Final[CanonicalEvent] = {"type": "projector.cancel"}
HOST_PREFIX: Final = "projector."
"""What a provider's event may not be called: an upstream cannot say what is the host's to say (D35)."""

BEHIND_THE_END: Final = frozenset({"keepalive"})
"""Events that may follow the end of a response, and begin no other one."""


class RunStage:
    """Read one run. `feed` takes its stream events, then either `close` or `fail` takes its end.

    Args:
        earlier: the run items that the result held before it streamed: a resumed run answers calls of earlier streams.
    """

    def __init__(self, earlier: Iterable[Any] = ()) -> None:
        self.dropped: Counter[str] = Counter()
        """What was not said, by the SDK's name or by reason."""
        self._phase: Phase = "idle"
        self._context: list[CanonicalEvent] = []
        """The agent that speaks from now on, until something is said: alone it would be the beginning of a stream."""
        self._places = Places()
        self._calls: set[str] = set()
        """The ids of the calls of this stream."""
        self._messages = 0
        """How many messages of the last response the run has still to repeat as run items."""
        self._earlier = {
            call_id: item.raw_item
            for item in earlier
            if getattr(item, "type", None) == "tool_call_item" and (call_id := getattr(item, "call_id", None))
        }

    def feed(self, event: object, /) -> list[CanonicalEvent]:
        """Take a stream event; give what it says, in order."""
        name = str(getattr(event, "type", None))
        handler = STREAM_EVENTS.get(name)
        return self._behind_context(handler(self, event)) if handler is not None else self._drop(name)

    def close(self, interruptions: Iterable[Any] = (), *, is_cancelled: bool = False) -> list[CanonicalEvent]:
        """Take the end of the run: the approvals that it waits for, and whether the host cancelled it."""
        if is_cancelled:
            return [*self._context, CANCEL]
        return self._behind_context(self._alone(map(request_of, filter(is_unsaid, interruptions)))) or self._context

    def fail(self, error: BaseException) -> tuple[list[CanonicalEvent], Fault | None]:
        """Take the exception that ended the run; give what it says, and its fault.

        Without a fault the end of the run is its end: its responses say it all, or a provider's own error does.
        """
        verdict = judge(error, self._phase)
        if verdict is None or isinstance(verdict, Fault):
            return self._context, verdict
        return [*self._context, verdict], None

    def on_raw(self, event: Any) -> list[CanonicalEvent]:
        """Say an event of the model's response."""
        raw = members(event.data)
        name = read.text_or_none(raw, "type")
        if name is None or name.startswith(HOST_PREFIX) or (self._has_ended and name in BEHIND_THE_END):
            return self._drop(name or "(no type)")
        said = self._begin()
        self._note(raw, name)
        return said + self._places.name(raw)

    def on_run_item(self, event: Any) -> list[CanonicalEvent]:
        """Say what the raw events have not: an output, or a message that no model wrote."""
        item_type = RUN_ITEM_EVENTS.get(event.name)
        handler = RUN_ITEMS.get(item_type or "")
        return handler(self, event.item) if handler is not None else self._drop(event.name)

    def on_agent(self, event: Any) -> list[CanonicalEvent]:
        """Keep the agent that speaks from now on."""
        self._context = [{"type": "projector.context", "agent": event.new_agent.name}]
        return []

    def on_message(self, item: Any) -> list[CanonicalEvent]:
        """Say a message that no response held: an error handler of the host wrote it."""
        if self._messages:
            self._messages -= 1
            return []
        return self._alone([members(item.raw_item)])

    def on_output(self, item: Any) -> list[CanonicalEvent]:
        """Say an output, behind its call where that is of an earlier stream."""
        raw = members(item.raw_item)
        kind, call_id = read.text_or_none(raw, "type") or "(no type)", read.text_or_none(raw, "call_id")
        if kind not in ANSWERS or call_id is None:
            return self._drop(kind)
        said: list[CanonicalEvent] = []
        if call_id not in self._calls and call_id in self._earlier:
            said = self._alone([members(self._earlier[call_id])])
        if self._has_ended:
            self._phase = "awaited"
        output = output_of(item, raw)
        return [
            *said,
            {"type": "projector.tool_output", "call_id": call_id, "output": output, "status": raw.get("status")},
        ]

    @property
    def _has_ended(self) -> bool:
        return self._phase not in {"idle", "open"}

    def _begin(self) -> list[CanonicalEvent]:
        """Give the boundary of the run before what begins another response."""
        has_ended, self._phase = self._has_ended, "open"
        if not has_ended:
            return []
        self._places = Places()
        self._messages = 0
        return [NEXT]

    def _note(self, raw: CanonicalEvent, name: str) -> None:
        """Remember calls, messages and the end of the response."""
        response = read.mapping_or_empty(raw, "response")
        items = [read.mapping_or_empty(raw, "item"), *read.mappings(response, "output")]
        self._calls.update(call_id for item in items if (call_id := read.text_or_none(item, "call_id")))
        messages = sum(item.get("type") == "message" for item in items)
        if name == "response.output_item.done":
            self._messages += messages
        elif name in ENDS:
            self._phase = ENDS[name]
            self._messages = max(self._messages, messages)

    def _alone(self, items: Iterable[Mapping[str, object]]) -> list[CanonicalEvent]:
        """Say items that no model's response holds as a response of their own; nothing where there are none."""
        output = [{**item, "id": None} if item.get("id") == PLACEHOLDER else item for item in items]
        if not output:
            return []
        self._calls.update(call_id for item in output if (call_id := read.text_or_none(item, "call_id")))
        said = self._begin()
        self._phase = "completed"
        return [
            *said,
            {"type": "response.created", "response": {"status": "in_progress"}},
            {"type": "response.completed", "response": {"status": "completed", "output": output}},
        ]

    def _behind_context(self, said: list[CanonicalEvent]) -> list[CanonicalEvent]:
        if not said:
            return []
        context, self._context = self._context, []
        return context + said

    def _drop(self, name: str) -> list[CanonicalEvent]:
        self.dropped[name] += 1
        return []


StreamHandler: TypeAlias = Callable[[RunStage, Any], list[CanonicalEvent]]

STREAM_EVENTS: Final[Mapping[str, StreamHandler]] = {
    "raw_response_event": RunStage.on_raw,
    "run_item_stream_event": RunStage.on_run_item,
    "agent_updated_stream_event": RunStage.on_agent,
}
"""What the SDK streams -> what takes it."""

RUN_ITEMS: Final[Mapping[str, StreamHandler]] = {
    "message_output_item": RunStage.on_message,
    "tool_call_output_item": RunStage.on_output,
    "handoff_output_item": RunStage.on_output,
}
"""Run items of which something is said -> what takes them."""

AT_THE_END: Final = frozenset({"tool_approval_item"})
"""Run items that are not streamed, but said in `close`."""


def encode(events: Iterable[CanonicalEvent], dropped: Counter[str]) -> bytes:
    """Give events as bytes of an event stream, for a pipeline that takes the host's events from it.

    Args:
        events: what a stage gave, without its fault.
        dropped: counts events that are nested deeper than can be written (CONTRACT D31).
    """
    data = b""
    for event in events:
        try:
            data += encode_sse(codec.dumps_exact(event))
        except codec.CodecError:
            dropped["(too deep)"] += 1
    return data
