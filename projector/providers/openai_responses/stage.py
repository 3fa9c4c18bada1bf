"""OpenAI Responses streams: their events are the canonical vocabulary, so they are only parsed and checked.

Reasoning that a model writes between tags in its text is the one thing that is translated (`tagged_texts`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from projector.core.canonical import type_name, unknown_members
from projector.core.handlers import DROPPED, HANDLERS
from projector.core.handlers.responses import END_STATUS
from projector.core.handlers.tool_calls import ARGUMENTS_DELTAS
from projector.core.lane import TEXT_DELTA, Slots
from projector.core.sse import NO_OBJECT, REPEATED_DELTA, SseMessage
from projector.providers.error_shapes import error_of
from projector.providers.openai_responses.tagged_texts import TaggedTexts
from projector.providers.stage_parts import Events, JsonStage
from projector.providers.think import ThinkProfile


class ResponsesProfile(ThinkProfile):
    """Differences of one upstream. The defaults work with every known server."""


RECENT_MAX: Final = 64
"""Events of which the content is kept: a gateway repeats the last ones, after a connection of its own broke."""


class ReadNumbers:
    """The numbers of one stream. Once a number stands for two events, numbers mean nothing in it."""

    __slots__ = ("_is_reliable", "_recent", "highest")

    def __init__(self) -> None:
        self._recent: deque[tuple[int, object]] = deque(maxlen=RECENT_MAX)
        self.highest = -1
        """The highest number so far."""
        self._is_reliable = True

    def is_repeated(self, event: Mapping[str, Any]) -> bool:
        """Record an event; return whether it is a delta that was read before, under its number."""
        number, delta = event.get("sequence_number"), event.get("delta")
        if type(number) is not int or not self._is_reliable:
            return False
        content = event["type"] if delta is None else delta
        if number > self.highest:  # nearly every event
            self.highest = number
            self._recent.append((number, content))
            return False
        known = [said for at, said in self._recent if at == number]
        self._is_reliable = not known or known[0] == content
        return delta is not None and bool(known) and self._is_reliable

    def add(self, numbers: Iterable[int], deltas: Iterable[str]) -> None:
        """Record deltas, whose numbers rise."""
        self._recent.extend(zip(numbers, deltas, strict=True))
        self.highest = self._recent[-1][0]


DEFAULT: Final = ResponsesProfile()

ERROR: Final = "error"
MEMBERS: Final = {
    "event": frozenset({
        "annotation", "annotation_index", "arguments", "background", "code", "command", "command_index",
        "content_index", "delta", "diff", "error", "input", "item", "item_id", "logprobs", "message", "obfuscation",
        "output", "output_format", "output_index", "param", "part", "partial_image_b64", "partial_image_index",
        "quality", "refusal", "response", "sequence_number", "size", "status", "summary_index", "text", "type",
    }),
    "response": frozenset({
        "access_programs", "background", "completed_at", "content_filters", "conversation", "created_at", "error",
        "frequency_penalty", "id", "image", "incomplete_details", "input_transformations", "instructions",
        "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation", "object", "output",
        "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_diagnostics",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
        "service_tier", "status", "store", "temperature", "text", "tool_choice", "tool_usage", "tools", "top_logprobs",
        "top_p", "truncation", "usage", "user",
    }),
    "item": frozenset({
        "acknowledged_safety_checks", "action", "actions", "approval_request_id", "approve", "arguments", "async",
        "background", "call_id", "caller", "code", "container_id", "content", "created_by", "encrypted_content",
        "environment", "error", "execution", "fingerprint", "id", "input", "max_output_length", "name", "namespace",
        "operation", "output", "output_format", "outputs", "pending_safety_checks", "phase", "quality", "queries",
        "reason", "result", "results", "revised_prompt", "role", "server_label", "size", "status", "summary",
        "svg_usage", "tools", "type",
    }),
    "part": frozenset({"annotations", "logprobs", "refusal", "text", "type"}),
    "annotation": frozenset({
        "container_id", "end_index", "file_id", "filename", "index", "start_index", "title", "type", "url",
    }),
}  # fmt: skip
"""Members of an event, and of an object in it, that the API has: others are counted (CONTRACT D30)."""


class OpenAIResponsesStage(JsonStage):
    """Reads each message as one event (CONTRACT D12)."""

    def __init__(self, profile: ResponsesProfile = DEFAULT) -> None:
        super().__init__()
        self._texts = TaggedTexts(profile.think_mode, profile.think_tags, self.dropped)
        self._numbers = ReadNumbers()
        self._is_in_text = False  # whether deltas that were skipped are of a text

    def read(self, event: object, message: SseMessage) -> Events:
        """Return the event of a message."""
        if type(event) is dict and "type" in event:
            name = event["type"]
            if type(name) is str and (name in HANDLERS or name in DROPPED):  # others are counted as a whole
                self._dropped.note_unknown_in(event, MEMBERS)
            elif type(name) is not str or "response" not in event:  # which may be cancelled
                return self._dropped.drop(type_name(name))
            return self._dropped.drop(REPEATED_DELTA) if self._numbers.is_repeated(event) else self._texts.read(event)
        return self._untyped(event, message)

    def _held(self) -> Events:
        """Return text that might have been the beginning of a tag."""
        return [*self._texts.close()]

    def slots(self, event: Mapping[str, Any], _name: str, /) -> Slots | None:
        """Return what may differ in further deltas of arguments, or of a text without tags; None for another event."""
        name = event.get("type")
        self._is_in_text = name == TEXT_DELTA
        if event.get("sequence_number") != self._numbers.highest or unknown_members(event, MEMBERS):
            return None
        if name in ARGUMENTS_DELTAS:  # which have a lane as texts have
            return Slots(("delta",), number=("sequence_number",), padding=("obfuscation",), event=str(name))
        if name != TEXT_DELTA or not self._texts.is_plain(event):
            return None
        return Slots(("delta",), number=("sequence_number",), padding=("obfuscation",), stops=self._texts.stops)

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas, and their numbers."""
        self._numbers.add(numbers, texts)
        if self._is_in_text:
            self._texts.skip(texts)

    def _untyped(self, event: object, message: SseMessage) -> Events:
        """Return an error, a whole response as its end, or an event with the type that its message names."""
        if (error := error_of(event)) is not None:
            return [error.event()]
        if not isinstance(event, dict):
            return self._dropped.drop(NO_OBJECT)
        if event.get("object") == "response":
            status = event.get("status")
            end = f"response.{status}"
            return self._texts.read({"type": end if end in END_STATUS else "response.in_progress", "response": event})
        return self.read({**event, "type": message.event or None}, message)
