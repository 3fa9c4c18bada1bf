"""What stages share: output items that are built delta by delta, counts of input that is not read, messages of JSON.

Items have canonical events in the shape of the Responses API. Events of parts (`content_part.*`, `output_text.done`)
are omitted: the `done` event of the item has the same content. Each stage announces its response and ends it; usage is
in a table of its API.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent, Drops
from projector.core.faults import FAULTS, Fault
from projector.core.sse import (
    AFTER_THE_END,
    ANOTHER_START,
    COMMENT,
    DONE,
    LATE_ERROR,
    NO_JSON,
    REPEATED_CHUNK,
    TOO_DEEP,
    SseMessage,
    is_comment,
)
from projector.core.whole_objects import WholeObjects
from projector.redaction.clean import Gathered

Event: TypeAlias = dict[str, Any]
"""A canonical event under construction. It leaves the stage as `CanonicalEvent`."""

Events: TypeAlias = list[CanonicalEvent | Fault]
"""What a stage returns. A fault is the last item that it returns."""

Annotation: TypeAlias = Mapping[str, object]

_WHOLE: Final = re.compile(r"[0-9]{1,7}(\.0)?")

UNCITED: Final = "citations without a text"
"""Name in the counts."""

_REASONS: Final[Mapping[tuple[str, str | None], str]] = {
    ("incomplete", "length"): "length model_length max_tokens max_output_tokens max_new_tokens token_limit error_limit"
    " model_context_window_exceeded",
    ("incomplete", "content_filter"): "content_filter content-filter content_filtered guardrail_intervened safety"
    " image_safety recitation image_recitation language blocklist prohibited_content image_prohibited_content spii"
    " model_armor escalation sensitive refusal error_toxic",
    ("failed", "malformed_function_call"): "malformed_function_call function_call_filter malformed_tool_use"
    " malformed_model_output malformed_response unexpected_tool_call too_many_tool_calls missing_thought_signature",
    ("cancelled", None): "abort cancelled canceled user_cancel",
}
_OWN_REASONS: Final[Mapping[str, str]] = {
    "incomplete": "insufficient_system_resource time_limit timeout not_finished pause_turn other image_other no_image",
    "failed": "error network_error",
}
REASONS: Final[Mapping[str, tuple[str, str | None]]] = {
    **{name: end for end, names in _REASONS.items() for name in names.split()},
    **{name: (status, name) for status, names in _OWN_REASONS.items() for name in names.split()},
}
"""Finish or stop reason, in lower case, of one of the APIs that servers translate -> status and reason of the response.
Reasons of a normal end are not here."""

ID_KEPT_CHARS: Final = 200
"""Maximum characters of the response's ID in IDs of items, so that these stay within the contract's limit."""


def moved(annotation: Annotation, by: int, most: int | None = None) -> Annotation:
    """Return a citation in a text that begins so many characters later, unless it has a position beyond `most`."""
    names = ("start_index", "end_index", "index") if by else ()
    positions = {name: at for name in names if (at := read.index_or_none(annotation, name)) is not None}
    if most is not None and max(positions.values(), default=0) > most:
        return annotation
    return {**annotation, **{name: max(at + by, 0) for name, at in positions.items()}}


def index_of(value: Mapping[str, object]) -> int | None:
    """Return the `index` of an object, which some servers write as text, or as `1.0`; None if it has none."""
    index = value.get("index")
    if type(index) is not int and isinstance(index, str | float) and _WHOLE.fullmatch(str(index)):
        return read.index_or_none({"index": int(float(index))}, "index")
    return read.index_or_none(value, "index")


class ItemIds:
    """The IDs and output indexes of the items of one response, in the order of their first appearance."""

    def __init__(self) -> None:
        self.response_id = ""
        """Part of the IDs. It may arrive late, or never."""
        self.count = 0
        """Items so far."""

    def next_id(self, kind: str) -> tuple[str, int]:
        """Return the ID and output index of the next item."""
        index = self.count
        self.count += 1
        stem = f"{kind}_{self.response_id[:ID_KEPT_CHARS]}" if self.response_id else kind
        return f"{stem}_{index}", index


def _joined(pieces: Gathered[str]) -> str:
    """Return the text of pieces. A surrogate pair that arrived in two pieces is one character (CONTRACT D31)."""
    return codec.scrub(pieces.text)


class _Item:
    """What all items have: their place, and how their events are built."""

    def __init__(self, item_id: str, output_index: int) -> None:
        self.item_id = item_id
        self.output_index = output_index
        self.opaque: Any = None
        """What the provider wants back with the item."""

    def progress(self, event_type: str, **members: object) -> Event:
        """Return an event within the item."""
        return {"type": event_type, "item_id": self.item_id, "output_index": self.output_index, **members}

    def item_event(self, change: str, item: Event) -> Event:
        """Return the event that announces or ends the item."""
        if change == "done" and self.opaque:
            item["opaque"] = self.opaque
        return {"type": f"response.output_item.{change}", "output_index": self.output_index, "item": item}


class Message(_Item):
    """A message: at most one text and one refusal. The first to begin has content index 0."""

    def __init__(self, item_id: str, output_index: int) -> None:
        super().__init__(item_id, output_index)
        self.has_text = False
        """Whether there is a text that a citation can belong to."""
        self.chars = 0
        """Characters of the text."""
        self._texts: Gathered[str] = Gathered()
        self._refusals: Gathered[str] = Gathered()
        self._annotations: list[Annotation] = []
        self._indexes: dict[str, int] = {}

    def added(self) -> Event:
        """Return the event that announces the message."""
        return self.item_event("added", self._item("in_progress", []))

    def text(self, delta: str) -> Event:
        """Return a delta of the text."""
        self.has_text = True
        self.chars += len(delta)
        self._texts.add(delta)
        return {  # nearly every event of a stream: one literal, no call
            "type": "response.output_text.delta",
            "item_id": self.item_id,
            "output_index": self.output_index,
            "content_index": self._index_of("output_text"),
            "delta": delta,
        }

    def skip(self, deltas: Sequence[str]) -> None:
        """Add deltas of the text whose events are not needed."""
        self.chars += sum(map(len, deltas))
        self._texts.extend(deltas)

    def refusal(self, delta: str) -> Event:
        """Return a delta of the refusal."""
        self._refusals.add(delta)
        return self.progress("response.refusal.delta", content_index=self._index_of("refusal"), delta=delta)

    def annotation(self, annotation: Annotation) -> Event:
        """Return the event of a citation in the text."""
        self._annotations.append(annotation)
        return self.progress(
            "response.output_text.annotation.added",
            content_index=self._index_of("output_text"),
            annotation_index=len(self._annotations) - 1,
            annotation=annotation,
        )

    def done(self, status: str) -> list[Event]:
        """Return the end of the refusal, if there is one, and of the message."""
        events: list[Event] = []
        content: list[Event] = []
        for kind, index in self._indexes.items():
            if kind == "refusal":
                refusal = _joined(self._refusals)
                events.append(self.progress("response.refusal.done", content_index=index, refusal=refusal))
                content.append({"type": kind, "refusal": refusal})
            else:
                content.append({"type": kind, "text": _joined(self._texts), "annotations": self._annotations})
        return [*events, self.item_event("done", self._item(status, content))]

    def _item(self, status: str, content: list[Event]) -> Event:
        return {"type": "message", "id": self.item_id, "role": "assistant", "status": status, "content": content}

    def _index_of(self, kind: str) -> int:
        return self._indexes.setdefault(kind, len(self._indexes))


class Reasoning(_Item):
    """One stretch of reasoning: full text, summary, encrypted content."""

    def __init__(self, item_id: str, output_index: int) -> None:
        super().__init__(item_id, output_index)
        self.encrypted: str | None = None
        self._texts: Gathered[str] = Gathered()
        self._summaries: Gathered[str] = Gathered()

    def added(self) -> Event:
        """Return the event that announces the reasoning."""
        return self.item_event(
            "added", {"type": "reasoning", "id": self.item_id, "status": "in_progress", "summary": []}
        )

    @property
    def said(self) -> str:
        """The summary so far, or the full text if there is none."""
        return _joined(self._summaries or self._texts)

    def text(self, delta: str) -> Event:
        """Return a delta of the full text."""
        self._texts.add(delta)
        return self.progress("response.reasoning_text.delta", content_index=0, delta=delta)

    def summary(self, delta: str) -> Event:
        """Return a delta of the summary."""
        self._summaries.add(delta)
        return self.progress("response.reasoning_summary_text.delta", summary_index=0, delta=delta)

    def done(self, status: str) -> list[Event]:
        """Return the end of summary and text, and of the item."""
        events: list[Event] = []
        item: Event = {"type": "reasoning", "id": self.item_id, "status": status, "summary": []}
        if self._summaries:
            text = _joined(self._summaries)
            events.append(self.progress("response.reasoning_summary_text.done", summary_index=0, text=text))
            item["summary"] = [{"type": "summary_text", "text": text}]
        if self._texts:
            text = _joined(self._texts)
            events.append(self.progress("response.reasoning_text.done", content_index=0, text=text))
            item["content"] = [{"type": "reasoning_text", "text": text}]
        if self.encrypted is not None:
            item["encrypted_content"] = self.encrypted
        return [*events, self.item_event("done", item)]


class CallShape(NamedTuple):
    """How a kind of call is written."""

    item_type: str
    member: str
    """Member of the item with the call's input."""
    events: str
    """Prefix of its event types."""


CALL_SHAPES: Final[Mapping[str, CallShape]] = {
    "function": CallShape("function_call", "arguments", "response.function_call_arguments"),
    "custom": CallShape("custom_tool_call", "input", "response.custom_tool_call_input"),
}
"""Kind of a call, which is also its type in Chat Completions -> its shape."""


class Call(_Item):
    """A tool call. Until it has an output index, it only collects its input."""

    def __init__(self, call_id: str, shape: CallShape) -> None:
        super().__init__("", -1)
        self.call_id = call_id
        self.name = ""
        self.opaque: dict[str, object] = {}
        self.is_signed = False
        """Whether what the provider wants back is known when the call begins: some clients read it there only."""
        self.members: Mapping[str, object] = {}
        """Further members of the item."""
        self._shape = shape
        self._objects = WholeObjects() if shape.member == "arguments" else None
        self._inputs: Gathered[str] = Gathered()

    @property
    def is_announced(self) -> bool:
        """Whether `added` was called."""
        return self.output_index >= 0

    @property
    def has_input(self) -> bool:
        """Whether any input has arrived."""
        return bool(self._inputs) or (self._objects is not None and bool(self._objects.held))

    @property
    def has_values(self) -> bool:
        """Whether the input so far is a whole object that is not empty."""
        return self._objects is not None and self._objects.has_values(self._objects.held)

    def collect(self, delta: str) -> None:
        """Keep input that arrives before the call can be announced."""
        if passed := self._passed(delta):
            self._inputs.add(passed)

    def added(self, item_id: str, output_index: int) -> list[Event]:
        """Return the event that announces the call, and its input so far as one delta."""
        self.item_id, self.output_index = item_id, output_index
        collected, self._inputs = self._inputs.text, Gathered()
        item = self._item("in_progress", "")
        if self.is_signed:
            item["opaque"] = dict(self.opaque)
        return [self.item_event("added", item), *self._delta(collected)]

    def input(self, delta: str) -> list[Event]:
        """Return the delta of the input that some input causes, if it causes one."""
        return self._delta(self._passed(delta))

    def flush(self) -> list[Event]:
        """Return the delta of an object that was held back, because another one might have replaced it (D50)."""
        return self._delta(self._objects.take() if self._objects is not None else "")

    def done(self, status: str) -> list[Event]:
        """Return the complete input, and the end of the call."""
        flushed = self.flush()
        text = _joined(self._inputs)
        done = self.progress(f"{self._shape.events}.done", **{self._shape.member: text})
        return [*flushed, done, self.item_event("done", self._item(status, text))]

    def _passed(self, delta: str) -> str:
        return delta if self._objects is None else self._objects.feed(delta)

    def _delta(self, text: str) -> list[Event]:
        if not text:
            return []
        self._inputs.add(text)
        return [self.progress(f"{self._shape.events}.delta", delta=text)]

    def _item(self, status: str, text: str) -> Event:
        return {
            "type": self._shape.item_type,
            "id": self.item_id,
            "call_id": self.call_id,
            "name": self.name,
            self._shape.member: text,
            "status": status,
            **self.members,
        }


class Outputs(ItemIds):
    """The open message and reasoning of one response. Methods that add input return the events that it causes."""

    def __init__(self, dropped: Drops) -> None:
        super().__init__()
        self._dropped = dropped
        self._message: Message | None = None
        self._reasoning: Reasoning | None = None

    def skip(self, texts: Sequence[str]) -> None:
        """Add text whose events are not needed, because it only continues the text of the message."""
        if self._message is not None:
            self._message.skip(texts)

    def cite(self, annotations: Sequence[Annotation]) -> list[Event]:
        """Add citations of the text; without a text they are counted."""
        message = self._message
        if message is None or not message.has_text:
            if annotations:
                self._dropped.note(UNCITED, len(annotations))
            return []
        return [message.annotation(annotation) for annotation in annotations]

    def _opened_message(self) -> tuple[Message, list[Event]]:
        """Return the message, and the event that announces it if there was none."""
        if self._message is not None:
            return self._message, []
        self._message = Message(*self.next_id("msg"))
        return self._message, [self._message.added()]

    def _opened_reasoning(self) -> tuple[Reasoning, list[Event]]:
        """Return the reasoning, and the event that announces it if there was none."""
        if self._reasoning is not None:
            return self._reasoning, []
        self._reasoning = Reasoning(*self.next_id("rs"))
        return self._reasoning, [self._reasoning.added()]

    def _ended_message(self, status: str) -> list[Event]:
        message, self._message = self._message, None
        return [] if message is None else message.done(status)


class HostedCall(_Item):
    """A call of a tool of the provider, until its result is known."""

    def __init__(self, item_id: str, item_type: str, name: str, output_index: int, members: dict[str, Any]) -> None:
        super().__init__(item_id, output_index)
        self.item_type = item_type
        self.name = name
        self.members = members

    def event(self, change: str, status: str) -> Event:
        """Return the event that announces the call, or ends it."""
        return self.item_event(change, {"type": self.item_type, "id": self.item_id, "status": status, **self.members})

    def call_code(self, code: str) -> list[Event]:
        """Return the code that runs in a container, and that it runs."""
        done = self.progress("response.code_interpreter_call_code.done", code=code)
        return [done, self.progress("response.code_interpreter_call.interpreting")]


def image_events(item_id: str, output_index: int, image_format: str, data: str) -> list[Event]:
    """Return the events of an image of the answer, which is complete at once."""
    members = {"output_format": image_format, "result": None}
    call = HostedCall(item_id, "image_generation_call", "", output_index, members)
    added = call.event("added", "in_progress")
    members["result"] = data
    return [added, call.event("done", "completed")]


# messages of JSON


class JsonStage(ABC):
    """A stage of messages that are JSON. The last item is a fault if one is not JSON before the end of the response.

    Args:
        counts: where the usage of the API has its counts; none if its events have the shape of the Responses API.
    """

    def __init__(self, counts: Counts | None = None) -> None:
        self._counts = counts or {}
        self.dropped: Counter[str]
        """Input that was not read, by object and member or by reason."""
        self.dropped = self._dropped = Drops()
        self._next_number = 0
        """The number of the next event: they count from 0 in the order in which they are emitted."""
        self._is_over = False
        self._response: dict[str, Any] = {}
        """Members of the response so far; empty before it is announced."""
        self._reason: str | None = None
        """Why the response ends, if that is known before its end."""
        self._ending: bytes | None = None
        """The message with that reason, until another one follows: some gateways send their last one twice. Not the
        first message of a response: others send a reason with each one."""
        self._usage: dict[str, object] = {}

    def feed(self, message: SseMessage, /) -> Events:
        """Return the events of a message."""
        if self._ending is not None and message[0] == self._ending:
            return self._dropped.drop(REPEATED_CHUNK)
        if message[0] == DONE:  # to find that it is no JSON takes 30 times as long as to parse a chunk
            return self._read_text(message)
        try:
            value = codec.loads(message[0])
        except codec.TooDeepError:
            return self._dropped.drop(TOO_DEEP)
        except codec.CodecError:
            return self._read_text(message)
        if self._is_over:
            return self._dropped.drop(AFTER_THE_END)
        may_end = self._reason is None and bool(self._response)
        events = self.read(value, message)
        self._ending = message[0] if may_end and self._reason is not None else None
        return events

    @abstractmethod
    def read(self, value: object, message: SseMessage) -> Events:
        """Return the events of the JSON of a message, before the end."""

    def usage_so_far(self) -> Mapping[str, object]:
        """Return the usage that was read, in the shape of the Responses API, which holds if the response is cut off."""
        return usage_of(self._usage, self._counts)

    def close(self) -> Events:
        """Return the end of the response, if its reason is known; else the stream was truncated."""
        if self._is_over:
            return []
        return self._held() if self._reason is None else self._end()

    def _held(self) -> Events:
        """Return the events of what was held back, because the stream was truncated."""
        return []

    def _end(self) -> Events:
        """Return the last events of the response, whose reason is known."""
        return []

    def _read_text(self, message: SseMessage) -> Events:
        """Read a payload that is not JSON: a comment, an end mark of another API, or a broken stream."""
        if is_comment(message.data):
            return self._dropped.drop(COMMENT)
        if message.data.strip() == DONE:
            return self.close()
        if self._is_over or self._reason is not None:
            return self._dropped.drop(AFTER_THE_END)
        held, self._is_over = self._held(), True
        self._dropped.note(NO_JSON)
        return [*held, FAULTS["upstream_malformed"]]

    def _announce(self, **members: object) -> list[Event]:
        """Return the event that announces the response, or what else of it is known now; empty members are unknown."""
        name = "response.in_progress" if self._response else "response.created"
        known = {member: value for member, value in members.items() if value}
        self._response = {**self._response, "object": "response", **known}
        return [{"type": name, "response": {**self._response, "status": "in_progress", "output": []}}]

    def _pass_over(self, numbers: Sequence[int]) -> None:
        """Record the sequence numbers of events that were read without this stage."""
        self._next_number = numbers[-1] + 1

    def _numbered(self, events: list[Event]) -> Events:
        """Return events with their numbers."""
        for event in events:
            event["sequence_number"] = self._next_number
            self._next_number += 1
        return list(events)

    def _finish(
        self, events: list[Event], status: str, *, reason: str | None, error: Mapping[str, object] | None = None
    ) -> Events:
        """Return the last events, and the end of the response, whose items had their own events.

        Args:
            events: the last events of items.
            status: the status of the response.
            reason: why it is `incomplete`, or the code of its error; None if no reason is known.
            error: its error, if more than a code is known.
        """
        response = {**self._response, "status": status, "output": []}
        if status == "failed":
            response["error"] = error or {"code": reason}
        elif reason is not None:
            response["incomplete_details"] = {"reason": reason}
        if usage := self.usage_so_far():
            response["usage"] = usage
        return self._stop([*events, {"type": f"response.{status}", "response": response}])

    def _fail(self, error: Event) -> Events:
        """Return an error of the provider, which ends the stream, unless it follows the reason of the end (D32)."""
        return self._stop([error]) if self._reason is None else self._dropped.drop(LATE_ERROR)

    def _another(self) -> Events:
        """Return the end of the stream, in which another response begins: a fault, unless this one has its reason."""
        self._dropped.note(ANOTHER_START)
        if self._reason is not None:
            return self._end()
        self._is_over = True
        return [FAULTS["upstream_truncated"]]

    def _stop(self, events: list[Any]) -> Events:
        """Return the last events of the response."""
        self._is_over = True
        return self._numbered(events)


Counts: TypeAlias = Mapping[str, tuple[str, ...]]
"""Path of a count in a Responses `usage` -> its paths in the usage of an API. The first with a count is read; names
joined by ` + ` are a sum, which is known if one of them is."""


def usage_of(usage: Mapping[str, object], counts: Counts) -> dict[str, object]:
    """Return token counts in the shape of a Responses `usage` (CONTRACT D13). An unknown count is absent, not 0."""
    known: dict[str, object] = {}
    for name, paths in counts.items() if usage else ():
        for path in paths:
            if (count := _count_at(usage, path)) is not None:
                outer, _, inner = name.rpartition(".")
                known |= {outer: {inner: count}} if outer else {inner: count}
                break
    return known


def _count_at(usage: Mapping[str, object], path: str) -> int | None:
    found: list[int] = []
    for one in path.split(" + "):
        outer, _, name = one.rpartition(".")
        holder = usage
        for step in outer.split(".") if outer else ():
            holder = read.mapping_or_empty(holder, step)
        if (count := read.count_or_none(holder, name)) is not None:
            found.append(count)
    return sum(found) if found else None
