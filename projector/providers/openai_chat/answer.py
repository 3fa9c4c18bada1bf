"""Which item speaks: items open when they have something to say, reasoning closes when something else speaks.

A Chat response is one message, however often its text is interrupted, and calls whose fragments may interleave until
the end; so these stay open until then. Reasoning is a new item each time it resumes. Places follow the order of first
appearance (CONTRACT D33).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from projector.providers.openai_chat.calls import Calls
from projector.providers.openai_chat.citations import Annotation
from projector.providers.openai_chat.drops import Drops
from projector.providers.openai_chat.items import Call, Event, Message, Reasoning

Item: TypeAlias = Message | Reasoning | Call

ID_ROOM: Final = 200
"""What item ids keep of a response's id, so that their place still fits into the contract's limit of ids."""


class Answer:
    """The output of one response. Every method returns the events that it causes, perhaps none."""

    def __init__(self, dropped: Drops) -> None:
        self.response_id = ""
        """What item ids are made from; it may come late, or never."""
        self._dropped = dropped
        self._calls = Calls()
        self._places = 0
        self._open: dict[int, Item] = {}
        self._speaker: Item | None = None
        self._message: Message | None = None
        self._reasoning: Reasoning | None = None
        self._blank_text: list[str] = []
        self._blank_reasoning: list[str] = []
        self._uncited: list[Annotation] = []

    @property
    def is_empty(self) -> bool:
        """Whether no item has been announced."""
        return self._places == 0

    def text(self, delta: str) -> list[Event]:
        """Take text. Blanks wait for the first visible character: reasoning may still come, and comes before it."""
        message = self._message
        if message is not None and self._reasoning is None and message.has_text:
            self._speaker = message
            return [message.text(delta)]  # the way of nearly every delta
        self._blank_text.append(delta)
        return self._say_text() if message is not None or delta.strip() else []

    def reasoning(self, delta: str) -> list[Event]:
        """Take full reasoning text. Blanks alone are no reasoning (seed 003, edge cases)."""
        if self._waits(delta):
            return []
        item, events = self._open_reasoning()
        events.append(item.text(self._with_blanks(delta)))
        return events

    def summary(self, delta: str) -> list[Event]:
        """Take what the provider calls a summary of its reasoning."""
        if self._waits(delta):
            return []
        item, events = self._open_reasoning()
        events.append(item.summary(self._with_blanks(delta)))
        return events

    def encrypted(self, blob: str) -> list[Event]:
        """Take reasoning that only the provider can read; an item holds one blob, another one begins an item."""
        known = self._reasoning.encrypted if self._reasoning is not None else None
        events = self.end_reasoning() if known not in {None, blob} else []
        item, more = self._open_reasoning()
        item.encrypted = blob
        return events + more

    def end_reasoning(self) -> list[Event]:
        """Take the end of reasoning: said, or seen because something else speaks."""
        self._forget_blanks()
        item, self._reasoning = self._reasoning, None
        if item is None:
            return []
        del self._open[item.output_index]
        return item.done("completed")

    def refusal(self, delta: str) -> list[Event]:
        """Take a part of a refusal."""
        message, events = self._open_message()
        events.append(message.refusal(delta))
        return events

    def cite(self, annotations: Iterable[Annotation]) -> list[Event]:
        """Take citations; they wait for the text to which they belong."""
        self._uncited += annotations
        message = self._message
        if message is None or not message.has_text:
            return []
        uncited, self._uncited = self._uncited, []
        return [message.annotation(annotation) for annotation in uncited]

    def call(self, index: int | None, call_id: str, name: str, kind: str, delta: str) -> list[Event]:
        """Take a fragment of a tool call; it is announced when its name is known."""
        call = self._calls.find(index, call_id, name, kind)
        if call.output_index < 0:
            call.collect(delta)
            return self._announce_call(call) if call.name else []
        if not delta:
            return []
        events = self.end_reasoning()
        events.append(call.input(delta))
        self._speaker = call
        return events

    def end(self, status: str) -> list[Event]:
        """Take the end: say what waited, close what is open. What spoke last was cut off unless all is complete.

        A call that was cut off is left to the end of its response: it has no whole arguments to say (CONTRACT D23).
        """
        events = self._say_text() if self._blank_text else []
        for call in self._calls.all:
            if call.output_index < 0 and call.has_input:
                events += self._announce_call(call)
        self._forget_blanks()
        if self._uncited:
            self._dropped.note("citations without a text", len(self._uncited))
        cut_off = self._speaker if status != "completed" else None
        for item in self._open.values():
            if item is not cut_off:
                events += item.done("completed")
            elif not isinstance(item, Call):
                events += item.done("incomplete")
        return events

    def _say_text(self) -> list[Event]:
        """Say the text that waited, and the citations that waited for it."""
        text = "".join(self._blank_text)
        self._blank_text.clear()
        message, events = self._open_message()
        return [*events, message.text(text), *self.cite(())]

    def _open_message(self) -> tuple[Message, list[Event]]:
        events = self.end_reasoning()
        message = self._message
        if message is None:
            message = self._message = Message(*self._next_place("msg"))
            self._open[message.output_index] = message
            events.append(message.added())
        self._speaker = message
        return message, events

    def _open_reasoning(self) -> tuple[Reasoning, list[Event]]:
        item = self._reasoning
        events = []
        if item is None:
            item = self._reasoning = Reasoning(*self._next_place("rs"))
            self._open[item.output_index] = item
            events.append(item.added())
        self._speaker = item
        return item, events

    def _announce_call(self, call: Call) -> list[Event]:
        events = self.end_reasoning()
        events += call.added(*self._next_place("fc"))
        self._open[call.output_index] = call
        self._speaker = call
        return events

    def _waits(self, delta: str) -> bool:
        """Hold reasoning back as long as it is blank."""
        if self._reasoning is not None or delta.strip():
            return False
        self._blank_reasoning.append(delta)
        return True

    def _forget_blanks(self) -> None:
        if self._blank_reasoning:
            self._blank_reasoning.clear()
            self._dropped.note("reasoning of blanks alone")

    def _with_blanks(self, delta: str) -> str:
        if not self._blank_reasoning:
            return delta
        text = "".join([*self._blank_reasoning, delta])
        self._blank_reasoning.clear()
        return text

    def _next_place(self, kind: str) -> tuple[str, int]:
        """Give the id and the index of the next item."""
        index = self._places
        self._places += 1
        stem = f"{kind}_{self.response_id[:ID_ROOM]}" if self.response_id else kind
        return f"{stem}_{index}", index
