"""Chat Completions chunks as canonical events: identity, end, errors and usage. Deltas are read in `deltas`.

A response ends at `[DONE]`, or at the end of input after a finish reason. Until then, input after a finish reason is
read: some servers send a finish reason with every chunk, and usage after it (CONTRACT D32).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault
from projector.core.lane import Slots
from projector.core.sse import COMMENT, DONE, SseMessage, is_comment
from projector.providers.canonical_items import Event
from projector.providers.drops import JsonStage, usage_of
from projector.providers.error_shapes import ReportedError, error_beside, error_of, members_of
from projector.providers.openai_chat import chunk_fields
from projector.providers.openai_chat.chunk_fields import ERROR, ChatProfile
from projector.providers.openai_chat.deltas import Citations, DeltaReader
from projector.providers.openai_chat.output import ChatOutput

DEFAULT: Final = ChatProfile()

CHUNK_MARKS: Final = frozenset({"choices", "usage", "x_groq"})
"""An object with none of these is not a chunk."""

ONLY_DELTA: Final = chunk_fields.CHUNK_KNOWN - {"x_groq", "citations", "search_results", "base_resp", ERROR}
ONLY_CHOICE_DELTA: Final = chunk_fields.CHOICE_KNOWN - {"usage", ERROR}
"""Members of a chunk and a choice that may be there, null or empty, if only the delta is read."""

FIRST: Final = (0, None)
"""The index of the only choice that is projected (D33)."""


class OpenAIChatStage(JsonStage):
    """Translates one response. The last item is a fault if a payload is not JSON before a finish reason (D12, D32)."""

    def __init__(self, profile: ChatProfile = DEFAULT) -> None:
        super().__init__()
        self._citations = Citations()
        self._output = ChatOutput(self._dropped)
        self._deltas = DeltaReader(profile, self._output, self._citations, self._dropped)
        self._usage: dict[str, object] = {}
        self._reason: str | None = None
        self._inner_error: ReportedError | None = None
        self._is_identified = False

    def read(self, chunk: object, message: SseMessage) -> list[CanonicalEvent | Fault]:
        """Return the events of a chunk."""
        if not isinstance(chunk, dict):
            error = error_of(chunk, has_begun=bool(self._response))
            return self._dropped.drop("(no object)") if error is None else self._report(error, [])
        delta = _only_delta(chunk, message[1]) if self._is_identified else None
        if delta is not None:
            return self._numbered(self._deltas.feed(delta))  # nearly every chunk
        return self._read_object(chunk, message.event)

    @property
    def has_reason(self) -> bool:
        """Whether there was a finish reason."""
        return self._reason is not None

    def close(self) -> list[CanonicalEvent | Fault]:
        """Return the end of the response, if there was a finish reason; else the stream was truncated."""
        if self._is_over:
            return []
        return self._stop(self._deltas.flush()) if self._reason is None else self._end()

    def slots(self, chunk: Mapping[str, Any], name: str, /) -> Slots | None:
        """Return what may differ in further chunks with nothing but text; None for another chunk."""
        delta = _only_delta(chunk, name)
        if delta is None or not self._deltas.continues_text(delta):
            return None
        return Slots(
            text=("choices", 0, "delta", "content"),
            next_number=self._numbered.next,
            padding=("obfuscation",),
            stops=self._deltas.stops,
        )

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas of the text, and their sequence numbers."""
        self._output.skip(texts)
        self._deltas.skip(texts)
        self._pass_over(numbers)

    def _read_object(self, chunk: dict[str, Any], name: str) -> list[CanonicalEvent | Fault]:
        was_finished = self._reason is not None
        events: list[Event] = []
        is_chunk = not CHUNK_MARKS.isdisjoint(chunk)
        if is_chunk:
            events = self._read_chunk(chunk)
        if is_chunk:
            error = error_beside(chunk) or self._inner_error
        else:
            error = members_of(chunk) if name == ERROR else error_of(chunk, has_begun=bool(self._response))
        if error is not None:
            return self._report(error, events, is_late=was_finished)
        return self._numbered(events) if is_chunk else self._dropped.drop("(no chunk)")

    def _read_chunk(self, chunk: dict[str, Any]) -> list[Event]:
        if not chunk_fields.CHUNK_KNOWN.issuperset(chunk):
            self._dropped.note_unknown("chunk", chunk.keys() - chunk_fields.CHUNK_KNOWN)
        tier = {"service_tier": chunk["service_tier"]} if chunk.get("service_tier") else {}
        events = [] if self._is_identified else self._identify(chunk, tier)
        self._response |= tier
        self._inner_error = None
        for choice in self._dropped.objects(chunk, "chunk", "choices"):
            if choice.get("index", 0) in FIRST:
                events += self._read_choice(choice)
            else:
                self._dropped.note("choices beyond the first")
        if "x_groq" in chunk:
            extension = read.mapping_or_empty(chunk, "x_groq")
            self._take_usage(extension.get("usage") or {})
            self._inner_error = error_beside(extension) or self._inner_error
        if usage := chunk.get("usage"):
            self._take_usage(usage)
        if "citations" in chunk or "search_results" in chunk:
            events += self._output.cite(self._citations.of_chunk(chunk))
        return events

    def _read_choice(self, choice: Mapping[str, object]) -> list[Event]:
        if not chunk_fields.CHOICE_KNOWN.issuperset(choice):
            self._dropped.note_unknown("choice", choice.keys() - chunk_fields.CHOICE_KNOWN)
        if usage := choice.get("usage"):
            self._take_usage(usage)
        if ERROR in choice:
            self._inner_error = error_beside(choice)
        delta = choice.get("delta")
        if delta is None and self._output.is_empty:
            delta = choice.get("message")  # a whole completion in one chunk; after deltas it only repeats them
        events: list[Event] = []
        if isinstance(delta, dict):
            events = self._deltas.feed(delta)
        elif delta is not None:
            self._dropped.note("choice.delta")
        finish = choice.get("finish_reason")
        if type(finish) is str and finish:
            self._reason = finish
            if finish not in chunk_fields.FINISHES:
                self._dropped.note(f"finish_reason.{finish}")
        return events

    def _read_text(self, message: SseMessage) -> list[CanonicalEvent | Fault]:
        """Read a payload that is not JSON: blank, the end mark, an error in plain text, or a broken stream."""
        text = message.data.strip()
        if is_comment(text):
            return self._dropped.drop(COMMENT)
        if self._is_over or (text != DONE and self.has_reason):
            return [] if text == DONE else self._dropped.drop("(after the end)")
        if text == DONE:
            return self._end()
        if message.event == ERROR:
            return self._report(members_of(text.decode("utf-8", "replace")), [])
        return [*self._stop(self._deltas.flush()), FAULTS["upstream_malformed"]]

    def _identify(self, chunk: Mapping[str, object], tier: Mapping[str, object]) -> list[Event]:
        """Announce the response, and again when its ID is known: some first chunks are empty."""
        response_id, model = read.text_or_none(chunk, "id"), read.text_or_none(chunk, "model")
        if self._response and response_id is None:
            return []
        if response_id is not None:
            self._output.response_id = response_id
            self._is_identified = True
        return self._announce(**tier, id=response_id, model=model, created_at=read.count_or_none(chunk, "created"))

    def _take_usage(self, usage: object) -> None:
        """Keep the last usage that is not all zero (D52): several are cumulative."""
        if not isinstance(usage, dict):
            self._dropped.note("usage")
        elif read.has_counts(usage) or not self._usage:
            self._usage = usage

    def _end(self) -> list[CanonicalEvent | Fault]:
        """Emit what was held back, close all items, and end the response with the status of its finish reason."""
        if not self._response:
            return self._stop([])
        status, reason = chunk_fields.FINISHES.get(self._reason or "", ("completed", None))
        events = self._deltas.flush() + self._output.end(status)
        return self._finish(events, status, reason=reason, usage=usage_of(self._usage, chunk_fields.COUNTS))

    def _report(
        self, error: ReportedError, events: list[Event], *, is_late: bool = False
    ) -> list[CanonicalEvent | Fault]:
        """Emit an error of the provider, which ends the stream, unless it follows a finish reason (D32)."""
        if is_late:
            self._dropped.note("error after a finish reason")
            return self._numbered(events)
        return self._stop([*events, *self._deltas.flush(), error.event()])


def _only_delta(chunk: Mapping[str, Any], name: str) -> dict[str, object] | None:
    """Return the delta of a chunk in which nothing else is read or counted; None for another chunk."""
    if (
        not ONLY_DELTA.issuperset(chunk)
        or chunk.get("usage")
        or type(choices := chunk.get("choices")) is not list
        or len(choices) != 1
        or ERROR in (name, chunk.get("object"))
    ):
        return None
    choice = choices[0]
    if type(choice) is not dict or not ONLY_CHOICE_DELTA.issuperset(choice):
        return None
    delta = choice.get("delta")
    if type(delta) is not dict or choice.get("finish_reason") is not None or choice.get("index", 0) not in FIRST:
        return None
    return delta
