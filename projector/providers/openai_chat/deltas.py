"""One delta of a choice: reasoning, text, refusal, citations and calls, in this order, in every spelling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from projector.contracts import codec
from projector.core import canonical as read
from projector.providers.openai_chat import fields
from projector.providers.openai_chat.answer import Answer
from projector.providers.openai_chat.calls import LEGACY
from projector.providers.openai_chat.citations import Citations
from projector.providers.openai_chat.drops import Drops
from projector.providers.openai_chat.items import CALL_SHAPES, Event
from projector.providers.openai_chat.profile import ChatProfile
from projector.providers.think import Operation, ThinkSplitter

DETAILS: Final[Mapping[str, tuple[str, Callable[[Answer, str], list[Event]]]]] = {
    "reasoning.text": ("text", Answer.reasoning),
    "reasoning.summary": ("summary", Answer.summary),
    "reasoning.encrypted": ("data", Answer.encrypted),
}
"""Type of an entry of `reasoning_details` -> the member that is said, and how. Signatures and formats are not."""

ALWAYS_LACKING: Final = "reasoning.encrypted"
"""What no other spelling of reasoning ever holds."""


class DeltaReader:
    """Read the deltas of one choice into its answer."""

    def __init__(self, profile: ChatProfile, answer: Answer, citations: Citations, dropped: Drops) -> None:
        self._answer = answer
        self._citations = citations
        self._dropped = dropped
        self._reasoning_fields = profile.reasoning_fields
        self._spelling: str | None = None
        self._known = fields.DELTA_KNOWN | set(profile.reasoning_fields)
        self._splitter = ThinkSplitter(profile.think_mode, profile.think_tags)

    def feed(self, delta: Mapping[str, object]) -> list[Event]:
        """Take a delta; give its events."""
        if len(delta) == 1 and self._splitter.is_plain and type(text := delta.get("content")) is str and text:
            return self._answer.text(text)  # the way of nearly every delta of servers that send no empty members
        if not self._known.issuperset(delta):
            self._dropped.note_unknown("delta", delta.keys() - self._known)
        events = self._read_reasoning(delta)
        if content := delta.get("content"):
            events += self._split(content) if type(content) is str else self._read_parts(content)
        if refusal := delta.get("refusal"):
            events += self._answer.refusal(refusal) if type(refusal) is str else self._drop("delta.refusal")
        if delta.get("annotations"):
            annotations = self._dropped.objects(delta, "delta", "annotations")
            events += self._answer.cite(self._citations.of_message(annotations))
        if delta.get("tool_calls") or delta.get("function_call"):
            events += self._read_calls(delta)
        return events

    def flush(self) -> list[Event]:
        """Take the end of the text; give what was held because it looked like a tag."""
        return self._operate(self._splitter.close())

    def _split(self, text: str) -> list[Event]:
        """Read text, which may hold reasoning between tags."""
        return self._answer.text(text) if self._splitter.is_plain else self._operate(self._splitter.push(text))

    def _operate(self, operations: list[Operation]) -> list[Event]:
        answer = self._answer
        events: list[Event] = []
        for kind, text in operations:
            if kind == "close":
                events += answer.end_reasoning()
            else:
                events += answer.text(text) if kind == "text" else answer.reasoning(text)
        return events

    def _read_reasoning(self, delta: Mapping[str, object]) -> list[Event]:
        """Read one spelling only: servers repeat the same text under several (D33)."""
        events: list[Event] = []
        for name in self._reasoning_fields:
            text = delta.get(name)
            if not text:
                continue
            if type(text) is str and self._spelling in {None, name}:
                self._spelling = name
                events += self._answer.reasoning(text)
            else:
                self._dropped.note(f"delta.{name}")
        if delta.get("reasoning_details"):
            events += self._read_details(delta)
        return events

    def _read_details(self, delta: Mapping[str, object]) -> list[Event]:
        events: list[Event] = []
        for entry in self._dropped.objects(delta, "delta", "reasoning_details"):
            kind = read.text_or_none(entry, "type") or ""
            if kind not in DETAILS:
                self._dropped.note(f"reasoning_details.{kind}")
            elif self._spelling is None or kind == ALWAYS_LACKING:
                member, say = DETAILS[kind]
                text = read.text_or_none(entry, member)
                events += say(self._answer, text) if text else []
        return events

    def _read_parts(self, parts: object) -> list[Event]:
        """Read content that is a list of parts."""
        if not isinstance(parts, list):
            return self._drop("delta.content")
        events: list[Event] = []
        for part in parts:
            if isinstance(part, str):
                events += self._split(part) if part else []
            elif isinstance(part, dict):
                events += self._read_part(part)
            else:
                events += self._drop("content part")
        return events

    def _read_part(self, part: Mapping[str, object]) -> list[Event]:
        kind = read.text_or_none(part, "type")
        if kind == "text":
            text = read.text_or_none(part, "text")
            return self._split(text) if text else []
        if kind == "refusal":
            refusal = read.text_or_none(part, "refusal")
            return self._answer.refusal(refusal) if refusal else []
        if kind == "thinking":
            thinking = read.text_or_none(part, "thinking")
            texts = [thinking] if thinking else [read.text_or_none(t, "text") for t in read.mappings(part, "thinking")]
            return [event for text in texts if text for event in self._answer.reasoning(text)]
        return self._drop(f"content.{kind}")

    def _read_calls(self, delta: Mapping[str, object]) -> list[Event]:
        events: list[Event] = []
        for fragment in self._dropped.objects(delta, "delta", "tool_calls"):
            events += self._read_call(read.index_or_none(fragment, "index"), fragment)
        if function := delta.get("function_call"):
            events += self._read_call(LEGACY, {"function": function})
        return events

    def _read_call(self, index: int | None, fragment: Mapping[str, object]) -> list[Event]:
        kind = "custom" if "custom" in fragment else "function"
        body = read.mapping_or_empty(fragment, kind)
        return self._answer.call(
            index,
            read.text_or_none(fragment, "id") or "",
            read.text_or_none(body, "name") or "",
            kind,
            self._input(body.get(CALL_SHAPES[kind].member)),
        )

    def _input(self, value: object) -> str:
        """Give a call's input as text; some servers send whole arguments as an object."""
        if type(value) is str:
            return value
        if isinstance(value, dict):
            with contextlib.suppress(codec.CodecError):  # nested too deep to be written
                return codec.dumps(value).decode()
        if value is not None:
            self._dropped.note("tool call input")
        return ""

    def _drop(self, name: str) -> list[Event]:
        self._dropped.note(name)
        return []
