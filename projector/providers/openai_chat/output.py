"""The output of a Chat response: which item each piece belongs to, and when items open and close.

A Chat response has one message, however often its text is interrupted, and calls whose fragments may interleave until
the end; these stay open until then. Reasoning closes when another item continues, and is a new item each time it
resumes. Output indexes follow the order of first appearance (CONTRACT D33).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from projector.providers.canonical_items import CALL_SHAPES, Annotation, Call, Event, Message, Reasoning
from projector.providers.openai_chat.chunk_fields import Drops

Item: TypeAlias = Message | Reasoning | Call

RESPONSE_ID_KEPT_CHARS: Final = 200
"""Maximum characters of the response ID in item IDs, so that these stay within the contract's limit."""

LEGACY_INDEX: Final = -1
"""Index of the only call of the old `function_call`. No provider's index is negative."""


class Calls:
    """The tool calls of one response: which call a fragment belongs to (CONTRACT D34).

    Servers number calls from 0 or 1 or not at all, send all calls of a chunk at index 0, repeat an ID with each
    fragment or leave it blank after the first.
    """

    def __init__(self) -> None:
        self.all: list[Call] = []
        self._latest: Call | None = None
        self._latest_at: dict[int, Call] = {}
        self._by_key: dict[tuple[int | None, str], Call] = {}

    def find(self, index: int | None, call_id: str, name: str, kind: str) -> Call:
        """Return the call that a fragment continues or begins. `index` may be None, `call_id` and `name` empty."""
        call = self._known(index, call_id, name)
        if call is None:
            call = Call(call_id, CALL_SHAPES[kind])
            self.all.append(call)
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        self._latest = call
        if index is not None:
            self._latest_at[index] = call
        if call_id:
            self._by_key[index, call_id] = call
            self._by_key.setdefault((None, call_id), call)
        return call

    def _known(self, index: int | None, call_id: str, name: str) -> Call | None:
        latest = self._latest if index is None else self._latest_at.get(index)
        if call_id and (known := self._by_key.get((index, call_id))) is not None:
            return known
        if latest is None:
            return None
        if call_id:
            is_named_twice = bool(name and latest.name)
            return None if latest.call_id or is_named_twice else latest  # a call may get its ID late
        is_another = index is None and bool(name and latest.name) and name != latest.name
        return None if is_another else latest


class ChatOutput:
    """The output items of one response. Methods that add input return the events that it causes."""

    def __init__(self, dropped: Drops) -> None:
        self.response_id = ""
        """Part of item IDs. It may arrive late, or never."""
        self._dropped = dropped
        self._calls = Calls()
        self._count = 0
        self._open: dict[int, Item] = {}
        self._current: Item | None = None
        """The item that was continued last."""
        self._message: Message | None = None
        self._reasoning: Reasoning | None = None
        self._blank_text: list[str] = []
        self._blank_reasoning: list[str] = []
        self._waiting_citations: list[Annotation] = []

    @property
    def is_empty(self) -> bool:
        """Whether no item has been announced."""
        return self._count == 0

    def text(self, delta: str) -> list[Event]:
        """Add text. Blanks wait for the first visible character: reasoning may still come, and comes before it."""
        message = self._message
        if message is not None and self._reasoning is None and message.has_text:
            self._current = message
            return [message.text(delta)]  # nearly every delta
        self._blank_text.append(delta)
        return self._flush_text() if message is not None or delta.strip() else []

    @property
    def is_in_text(self) -> bool:
        """Whether the last input continued the text."""
        message = self._message
        return message is not None and self._current is message and self._reasoning is None and message.has_text

    def skip(self, texts: Iterable[str]) -> None:
        """Add text whose events are not needed; only while `is_in_text`."""
        if self._message is not None:
            self._message.skip(texts)

    def reasoning(self, delta: str) -> list[Event]:
        """Add full reasoning text."""
        return self._add_reasoning(delta, Reasoning.text)

    def summary(self, delta: str) -> list[Event]:
        """Add text that the provider calls a summary of its reasoning."""
        return self._add_reasoning(delta, Reasoning.summary)

    def encrypted(self, content: str) -> list[Event]:
        """Add encrypted reasoning. An item has one; another one begins a new item."""
        known = self._reasoning.encrypted if self._reasoning is not None else None
        events = self.end_reasoning() if known not in {None, content} else []
        item, more = self._open_reasoning()
        item.encrypted = content
        return events + more

    def end_reasoning(self) -> list[Event]:
        """Close the reasoning, because it ended or another item continues."""
        self._drop_blanks()
        item, self._reasoning = self._reasoning, None
        if item is None:
            return []
        del self._open[item.output_index]
        return item.done("completed")

    def empty_reasoning(self) -> list[Event]:
        """Add reasoning without text: a block that the model opened and closed at once."""
        events = self.end_reasoning()
        _, opened = self._open_reasoning()
        return events + opened + self.end_reasoning()

    def refusal(self, delta: str) -> list[Event]:
        """Add text of a refusal."""
        message, events = self._open_message()
        return [*events, message.refusal(delta)]

    def cite(self, annotations: Iterable[Annotation]) -> list[Event]:
        """Add citations. They wait until there is a text."""
        self._waiting_citations += annotations
        message = self._message
        if message is None or not message.has_text:
            return []
        waiting, self._waiting_citations = self._waiting_citations, []
        return [message.annotation(annotation) for annotation in waiting]

    def call(self, index: int | None, call_id: str, name: str, kind: str, delta: str) -> list[Event]:
        """Add a fragment of a tool call. The call is announced when its name is known."""
        call = self._calls.find(index, call_id, name, kind)
        if not call.is_announced:
            call.collect(delta)
            return self._announce_call(call) if call.name else []
        if not delta:
            return []
        self._current = call
        return [*self.end_reasoning(), call.input(delta)]

    def end(self, status: str) -> list[Event]:
        """Emit the held content and close all items. Unless the status is `completed`, the current item was cut off."""
        events = self._flush_text() if self._blank_text else []
        for call in self._calls.all:
            if not call.is_announced and call.has_input:
                events += self._announce_call(call)
        self._drop_blanks()
        if self._waiting_citations:
            self._dropped.note("citations without a text", len(self._waiting_citations))
        cut_off = self._current if status != "completed" else None
        for item in self._open.values():
            if item is not cut_off:
                events += item.done("completed")
            elif not isinstance(item, Call):  # the arguments of such a call are not complete (CONTRACT D23)
                events += item.done("incomplete")
        return events

    def _flush_text(self) -> list[Event]:
        text = "".join(self._blank_text)
        self._blank_text.clear()
        message, events = self._open_message()
        return [*events, message.text(text), *self.cite(())]

    def _open_message(self) -> tuple[Message, list[Event]]:
        events = self.end_reasoning()
        message = self._message
        if message is None:
            message = self._message = Message(*self._next_id("msg"))
            self._open[message.output_index] = message
            events.append(message.added())
        self._current = message
        return message, events

    def _open_reasoning(self) -> tuple[Reasoning, list[Event]]:
        item = self._reasoning
        events = []
        if item is None:
            item = self._reasoning = Reasoning(*self._next_id("rs"))
            self._open[item.output_index] = item
            events.append(item.added())
        self._current = item
        return item, events

    def _announce_call(self, call: Call) -> list[Event]:
        events = self.end_reasoning() + call.added(*self._next_id("fc"))
        self._open[call.output_index] = self._current = call
        return events

    def _add_reasoning(self, delta: str, add: Callable[[Reasoning, str], Event]) -> list[Event]:
        """Add reasoning. Blanks wait for the first visible character: alone they are none (seed 003, edge cases)."""
        if self._reasoning is None and not delta.strip():
            self._blank_reasoning.append(delta)
            return []
        item, events = self._open_reasoning()
        if self._blank_reasoning:
            delta = "".join([*self._blank_reasoning, delta])
            self._blank_reasoning.clear()
        events.append(add(item, delta))
        return events

    def _drop_blanks(self) -> None:
        if self._blank_reasoning:
            self._blank_reasoning.clear()
            self._dropped.note("reasoning of blanks alone")

    def _next_id(self, kind: str) -> tuple[str, int]:
        index = self._count
        self._count += 1
        stem = f"{kind}_{self.response_id[:RESPONSE_ID_KEPT_CHARS]}" if self.response_id else kind
        return f"{stem}_{index}", index
