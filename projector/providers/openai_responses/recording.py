"""Recording of Responses streams: which strings of their events are pieces of one text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core.handlers import DROPPED, HANDLERS, HOST_HANDLERS
from projector.providers.openai_responses.stage import ERROR
from projector.providers.recording_shape import ALONE, Channels, Event, GenericChannels, Path, RecordingShape

DELTAS: Final = frozenset(
    f"response.{name}.delta"
    for name in (
        *("output_text", "refusal", "reasoning_summary_text", "reasoning_text", "audio", "audio.transcript"),
        *("function_call_arguments", "mcp_call_arguments", "custom_tool_call_input", "code_interpreter_call_code"),
        *("shell_call_command", "shell_call_output_content", "apply_patch_call_operation_diff"),
    )
)
"""Events whose `delta` is a piece of a text."""

_DELTA: Final = ("delta",)

_BEGINNINGS: Final[Mapping[Path, tuple[str, ...]]] = {
    ("response.content_part.added", "part", "text"): ("response.output_text.delta",),
    ("response.content_part.added", "part", "refusal"): ("response.refusal.delta",),
    ("response.reasoning_summary_part.added", "part", "text"): ("response.reasoning_summary_text.delta",),
    ("response.output_item.added", "item", "arguments"): (
        "response.function_call_arguments.delta",
        "response.mcp_call_arguments.delta",
    ),
    ("response.output_item.added", "item", "input"): ("response.custom_tool_call_input.delta",),
    ("response.output_item.added", "item", "code"): ("response.code_interpreter_call_code.delta",),
}
"""Where an event may hold the beginning of a text -> the deltas that continue it."""

_COUNTS: Final = frozenset({("usage",), ("response", "usage"), ("response", "tool_usage")})

_COMPLETE: Final = (HANDLERS.keys() | DROPPED.keys() | HOST_HANDLERS.keys()) - DELTAS
"""Events whose strings are complete texts."""


class ResponsesChannels(GenericChannels):
    """Channels of the Responses API: pieces in deltas, complete strings in every other known event."""

    def channels(self, path: Path, /) -> Channels:
        """Return the channels of a string of this event."""
        if self._type in DELTAS and path == _DELTA:
            return self.of_delta(self._type, path)
        if self._type not in _COMPLETE:
            return super().channels(path)
        deltas = _BEGINNINGS.get((self._type, *path), ())
        return (*(channel for delta in deltas for channel in self.of_delta(delta, _DELTA)), ALONE)


def _typed(event: Event, name: str) -> Event:
    """Return an event with its type: old servers put it in the message's name only. An error needs none."""
    return event if "type" in event or not name or event.get(ERROR) else {**event, "type": name}


def recording_shape() -> RecordingShape:
    """Return how Responses streams are recorded."""
    return RecordingShape(channels=ResponsesChannels, name_event=_typed, counts=_COUNTS)
