"""The output of a Chat response: which item each piece belongs to, and when items open and close.

A Chat response has one message, however often its text is interrupted, and calls whose fragments may interleave until
the end; these stay open until then. Reasoning closes when another item continues, and is a new item each time it
resumes. Output indexes follow the order of first appearance (CONTRACT D33).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.core import canonical as read
from projector.core.canonical import Drops
from projector.providers.openai_chat.chunk_fields import EXTRA, SHOWN, returned_reasoning
from projector.providers.stage_parts import (
    CALL_SHAPES,
    Annotation,
    Call,
    Event,
    Message,
    Outputs,
    Reasoning,
    image_events,
    index_of,
)

Item: TypeAlias = Message | Reasoning | Call

LEGACY_INDEX: Final = -1
"""Index of the only call of the old `function_call`. No provider's index is negative."""

NAME_MAX_CHARS: Final = 1_000
"""Length from which a name gets no further fragments: the names that APIs accept have 64 to 128."""


def indexes_of(fragments: Sequence[Mapping[str, object]]) -> list[int | None]:
    """Return the index of the call of each fragment of a chunk; None if it is unknown.

    Several calls at a time that have neither an index nor an ID are told apart by their places (CONTRACT D50). Where
    several with names have one index, it is no index.
    """
    indexes: list[int | None] = []
    for at, fragment in enumerate(fragments):
        index = index_of(fragment)
        if not fragment.get("id") and len(fragments) > 1:
            is_repeated = index in indexes and "name" in read.mapping_or_empty(fragment, "function")
            index = at if index is None else None if is_repeated else index
        indexes.append(index)
    return indexes


class Calls:
    """The tool calls of one response: which call a fragment belongs to (CONTRACT D34, D50).

    Servers number calls from 0 or 1 or not at all, send all calls of a chunk at index 0, repeat an ID with each
    fragment or leave it blank after the first, and send a name whole, again with each fragment, or in fragments.
    """

    def __init__(self) -> None:
        self.all: list[Call] = []
        self.latest: Call | None = None
        self._latest_at: dict[int, Call] = {}
        self._by_key: dict[tuple[int | None, str], Call] = {}

    def find(self, index: int | None, call_id: str, name: str, kind: str, *, has_input: bool) -> Call | None:
        """Return the call that a fragment continues or begins; None if it has neither ID nor name, and none is open.

        `index` may be None, `call_id` and `name` empty.
        """
        call = self._known(index, call_id, name, has_input=has_input)
        if call is None:
            if not call_id and not name:
                return None
            call = Call(call_id, CALL_SHAPES[kind])
            self.all.append(call)
        call.call_id = call.call_id or call_id
        if not call.is_announced and len(call.name) < NAME_MAX_CHARS:
            call.name = name if name.startswith(call.name) else call.name + name
        self.latest = call
        if index is not None:
            self._latest_at[index] = call
        if call_id:
            self._by_key[index, call_id] = call
            self._by_key.setdefault((None, call_id), call)
        return call

    def _known(self, index: int | None, call_id: str, name: str, *, has_input: bool) -> Call | None:
        latest = self.latest if index is None else self._latest_at.get(index)
        if call_id and (known := self._by_key.get((index, call_id))) is not None:
            return known
        if not call_id and not name:
            return latest or self.latest
        if latest is None:
            return None
        if index is not None and latest.name and not name and has_input:
            return latest  # some servers send another ID with each fragment
        if call_id:
            is_named_twice = bool(name and latest.name)
            return None if latest.call_id or is_named_twice else latest  # a call may get its ID late
        return None if latest.name and self._is_another(latest, index, name, has_input=has_input) else latest

    @staticmethod
    def _is_another(latest: Call, index: int | None, name: str, *, has_input: bool) -> bool:
        """Check whether a fragment with a name and without an ID begins another call than the latest one."""
        if name != latest.name:
            return index is None or latest.has_input  # else it may be a fragment of the name
        return index is None and has_input and latest.has_values


class ChatOutput(Outputs):
    """The output items of one response."""

    def __init__(self, dropped: Drops) -> None:
        super().__init__(dropped)
        self._calls = Calls()
        self._open: dict[int, Item] = {}
        self._current: Item | None = None
        """The item that was continued last."""
        self._named: Call | None = None
        """A call with a name, and without input: its name may go on."""
        self._blank_text: list[str] = []
        self._blank_chars = 0
        self._blank_reasoning: list[str] = []
        self._waiting_citations: list[Annotation] = []
        self._returned: dict[str, list[str]] = {}
        """Member of a message -> reasoning that goes back in it."""
        self._has_reasoning = self._is_returned = False

    def text(self, delta: str) -> list[Event]:
        """Add text. Blanks wait for the first visible character: reasoning may still come, and comes before it."""
        message = self._message
        if message is not None and self._current is message and message.has_text:
            return [message.text(delta)]  # nearly every delta
        self._blank_text.append(delta)
        self._blank_chars += len(delta)
        return self._flush_text() if message is not None or delta.strip() else []

    @property
    def is_in_text(self) -> bool:
        """Whether the last input continued the text."""
        message = self._message
        return message is not None and self._current is message and self._reasoning is None and message.has_text

    @property
    def chars(self) -> int:
        """Characters of the text so far."""
        return (self._message.chars if self._message is not None else 0) + self._blank_chars

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
        if self._returned:
            item.opaque = returned_reasoning(self._returned_texts())
            self._returned, self._is_returned = {}, True
        return item.done("completed")

    def _returned_texts(self) -> dict[str, str]:
        return {name: codec.scrub("".join(texts)) for name, texts in self._returned.items()}

    def empty_reasoning(self) -> list[Event]:
        """Add reasoning without text: a block that the model opened and closed at once."""
        events = self.end_reasoning()
        _, opened = self._open_reasoning()
        return events + opened + self.end_reasoning()

    def refusal(self, delta: str) -> list[Event]:
        """Add text of a refusal."""
        message, events = self._open_message()
        return [*events, message.refusal(delta)]

    def cite(self, annotations: Sequence[Annotation]) -> list[Event]:
        """Add citations. They wait until there is a text."""
        waiting = [*self._waiting_citations, *annotations]
        has_text = self._message is not None and self._message.has_text
        self._waiting_citations = [] if has_text else waiting
        return super().cite(waiting) if has_text else []

    def call(
        self, index: int | None, call_id: str, name: str, kind: str, delta: str, extra: Mapping[str, object]
    ) -> list[Event]:
        """Add a fragment of a tool call. The call is announced when its name is complete: something else follows.

        `extra` is what the provider wants back with the call.
        """
        call = self._calls.find(index, call_id, name, kind, has_input=bool(delta.strip()))
        if call is None:
            return self._dropped.drop("fragment of no call")
        if extra:
            call.opaque[EXTRA], call.is_signed = extra, True
        events = self._announce_named() if call is not self._named else []
        if not call.is_announced:
            call.collect(delta)
            self._named = call if call.name else None
            self._current = call if call.name else self._current
            return events + (self._announce_named() if call.has_input else [])
        if not delta:
            return events
        self._current = call
        return [*events, *self.end_reasoning(), *call.input(delta)]

    def keep_reasoning(self, name: str, text: str) -> None:
        """Keep reasoning that the provider wants back with the calls of this response."""
        self._returned.setdefault(name, []).append(text)

    def image(self, image_format: str, data: str) -> list[Event]:
        """Add an image of the answer, which is complete at once."""
        events = self._announce_named() + self.end_reasoning()
        return events + image_events(*self.next_id("ig"), image_format, data)

    def end(self, status: str) -> list[Event]:
        """Emit the held content and close all items. Unless the status is `completed`, the current item was cut off."""
        events = self._announce_named()
        events += self._flush_text() if self._blank_text else []
        for call in self._calls.all:
            if not call.is_announced and call.has_input:
                events += self._announce_call(call)
        self._drop_blanks()
        super().cite(self._waiting_citations)  # without a text they are counted
        first = next((call for call in self._calls.all if call.is_announced), None)
        if first is not None:
            first.opaque |= self._returned_texts()
            if self._has_reasoning and not self._returned and not self._is_returned:
                first.opaque[SHOWN] = None
        cut_off = self._current if status != "completed" else None
        for item in self._open.values():
            if item is not cut_off:
                events += item.done("completed")
            else:  # the arguments of such a call are not complete (CONTRACT D23)
                events += item.flush() if isinstance(item, Call) else item.done("incomplete")
        return events

    def _flush_text(self) -> list[Event]:
        text = "".join(self._blank_text)
        self._blank_text.clear()
        self._blank_chars = 0
        message, events = self._open_message()
        return [*events, message.text(text), *self.cite(())]

    def _open_message(self) -> tuple[Message, list[Event]]:
        events = self._announce_named() + self.end_reasoning()
        message, added = self._opened_message()
        self._open[message.output_index] = self._current = message
        return message, events + added

    def _open_reasoning(self) -> tuple[Reasoning, list[Event]]:
        events = self._announce_named()
        item, added = self._opened_reasoning()
        self._has_reasoning = True
        self._open[item.output_index] = self._current = item
        return item, events + added

    def _announce_named(self) -> list[Event]:
        """Announce the call whose name was read last."""
        call, self._named = self._named, None
        return [] if call is None else self._announce_call(call)

    def _announce_call(self, call: Call) -> list[Event]:
        events = self.end_reasoning() + call.added(*self.next_id("fc"))
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
