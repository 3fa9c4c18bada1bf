"""The items of a response as they stream: each writes its own canonical events, in the shape of the Responses API.

Events for parts (`content_part.*`, `output_text.done`) are left out: the item's own `done` carries all that they would.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.providers.openai_chat.citations import Annotation
from projector.redaction.compose import Gathered

Event: TypeAlias = dict[str, Any]
"""A canonical event under construction; it leaves as `CanonicalEvent`."""


def _whole(pieces: Gathered[str]) -> str:
    """Give a text of pieces; a surrogate pair that came in two halves is one character again (CONTRACT D31)."""
    return codec.scrub(pieces.text)


class Message:
    """The message of a response: at most one text and one refusal, indexed in the order in which they began."""

    def __init__(self, item_id: str, output_index: int) -> None:
        self.item_id = item_id
        self.output_index = output_index
        self._texts: Gathered[str] = Gathered()
        self._refusals: Gathered[str] = Gathered()
        self._annotations: list[Annotation] = []
        self._indexes: dict[str, int] = {}

    @property
    def has_text(self) -> bool:
        """Whether there is a text that a citation can belong to."""
        return bool(self._texts)

    def added(self) -> Event:
        """Announce the message."""
        item = {"type": "message", "id": self.item_id, "role": "assistant", "status": "in_progress", "content": []}
        return {"type": "response.output_item.added", "output_index": self.output_index, "item": item}

    def text(self, delta: str) -> Event:
        """Say more text."""
        self._texts.add(delta)
        return {
            "type": "response.output_text.delta",
            "item_id": self.item_id,
            "output_index": self.output_index,
            "content_index": self._index_of("output_text"),
            "delta": delta,
        }

    def refusal(self, delta: str) -> Event:
        """Say more of a refusal."""
        self._refusals.add(delta)
        return {**self._place("response.refusal.delta", "refusal"), "delta": delta}

    def annotation(self, annotation: Annotation) -> Event:
        """Say a citation of the text."""
        place = self._place("response.output_text.annotation.added", "output_text")
        self._annotations.append(annotation)
        return {**place, "annotation_index": len(self._annotations) - 1, "annotation": annotation}

    def done(self, status: str) -> list[Event]:
        """Say the end of the refusal, if there is one, and of the message."""
        events: list[Event] = []
        content: list[Event] = []
        for kind in self._indexes:
            if kind == "refusal":
                refusal = _whole(self._refusals)
                events.append({**self._place("response.refusal.done", "refusal"), "refusal": refusal})
                content.append({"type": "refusal", "refusal": refusal})
            else:
                text = _whole(self._texts)
                content.append({"type": "output_text", "text": text, "annotations": self._annotations})
        item = {"type": "message", "id": self.item_id, "role": "assistant", "status": status, "content": content}
        return [*events, {"type": "response.output_item.done", "output_index": self.output_index, "item": item}]

    def _place(self, event_type: str, kind: str) -> Event:
        place = {"type": event_type, "item_id": self.item_id, "output_index": self.output_index}
        return {**place, "content_index": self._index_of(kind)}

    def _index_of(self, kind: str) -> int:
        return self._indexes.setdefault(kind, len(self._indexes))


class Reasoning:
    """One stretch of reasoning: full text, summary, or what only the provider can read."""

    def __init__(self, item_id: str, output_index: int) -> None:
        self.item_id = item_id
        self.output_index = output_index
        self.encrypted: str | None = None
        self._texts: Gathered[str] = Gathered()
        self._summaries: Gathered[str] = Gathered()

    def added(self) -> Event:
        """Announce the reasoning."""
        item = {"type": "reasoning", "id": self.item_id, "status": "in_progress", "summary": []}
        return {"type": "response.output_item.added", "output_index": self.output_index, "item": item}

    def text(self, delta: str) -> Event:
        """Say more of the full text."""
        self._texts.add(delta)
        return {
            "type": "response.reasoning_text.delta",
            "item_id": self.item_id,
            "output_index": self.output_index,
            "content_index": 0,
            "delta": delta,
        }

    def summary(self, delta: str) -> Event:
        """Say more of what the provider calls a summary."""
        self._summaries.add(delta)
        return {**self._place("response.reasoning_summary_text.delta"), "summary_index": 0, "delta": delta}

    def done(self, status: str) -> list[Event]:
        """Say the end of text and summary, and of the item."""
        events: list[Event] = []
        item: Event = {"type": "reasoning", "id": self.item_id, "status": status, "summary": []}
        if self._summaries:
            text = _whole(self._summaries)
            events.append({**self._place("response.reasoning_summary_text.done"), "summary_index": 0, "text": text})
            item["summary"] = [{"type": "summary_text", "text": text}]
        if self._texts:
            text = _whole(self._texts)
            events.append({**self._place("response.reasoning_text.done"), "content_index": 0, "text": text})
            item["content"] = [{"type": "reasoning_text", "text": text}]
        if self.encrypted is not None:
            item["encrypted_content"] = self.encrypted
        return [*events, {"type": "response.output_item.done", "output_index": self.output_index, "item": item}]

    def _place(self, event_type: str) -> Event:
        return {"type": event_type, "item_id": self.item_id, "output_index": self.output_index}


class CallShape(NamedTuple):
    """How a kind of call is written: its item type, the member with its input, the stem of its events."""

    item_type: str
    member: str
    events: str


CALL_SHAPES: Final = {
    "function": CallShape("function_call", "arguments", "response.function_call_arguments"),
    "custom": CallShape("custom_tool_call", "input", "response.custom_tool_call_input"),
}
"""The member of a tool call's fragment that holds name and input -> the shape of the call."""


class Call:
    """One tool call; until it has a place it only collects."""

    def __init__(self, call_id: str, shape: CallShape) -> None:
        self.call_id = call_id
        self.name = ""
        self.item_id = ""
        self.output_index = -1  # not announced
        self._shape = shape
        self._inputs: Gathered[str] = Gathered()

    def collect(self, delta: str) -> None:
        """Keep input that comes before the call can be announced."""
        if delta:
            self._inputs.add(delta)

    def added(self, item_id: str, output_index: int) -> list[Event]:
        """Announce the call, and say what was collected."""
        self.item_id, self.output_index = item_id, output_index
        collected, self._inputs = self._inputs.text, Gathered()
        item = self._item("in_progress", "")
        announced = {"type": "response.output_item.added", "output_index": output_index, "item": item}
        return [announced, self.input(collected)] if collected else [announced]

    def input(self, delta: str) -> Event:
        """Say more of the input."""
        self._inputs.add(delta)
        return {**self._place(f"{self._shape.events}.delta"), "delta": delta}

    def done(self, status: str) -> list[Event]:
        """Say the whole input, and the end of the call."""
        whole = _whole(self._inputs)
        item = self._item(status, whole)
        return [
            {**self._place(f"{self._shape.events}.done"), self._shape.member: whole},
            {"type": "response.output_item.done", "output_index": self.output_index, "item": item},
        ]

    @property
    def has_input(self) -> bool:
        """Whether anything of the input is known."""
        return bool(self._inputs)

    def _place(self, event_type: str) -> Event:
        return {"type": event_type, "item_id": self.item_id, "output_index": self.output_index}

    def _item(self, status: str, whole: str) -> Event:
        return {
            "type": self._shape.item_type,
            "id": self.item_id,
            "call_id": self.call_id,
            "name": self.name,
            self._shape.member: whole,
            "status": status,
        }
