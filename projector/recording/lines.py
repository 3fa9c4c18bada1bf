"""The lines of a recording: the data of each message of a provider's stream, as one JSON value or a fixed text.

A line has no SSE event name. If the name matters, it becomes a member of the value (`RecordingShape.name_event`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from projector.contracts import codec, limits
from projector.core.faults import FAULTS, Fault
from projector.core.input_formats import InputFormat, decoder_for
from projector.core.sse import DONE, SseMessage, is_comment
from projector.providers import PROVIDERS
from projector.providers.recording_shape import RecordingShape

ERROR: Final = "error"
NO_JSON: Final = b"(no JSON: withheld)"
"""Replaces a payload that cannot be searched. It ends a stream as the payload does."""
_READ_BYTES: Final = 65_536
_TOO_DEEP: Final = "(too deep: withheld)"
_LONG_DIGITS: Final = re.compile(rb"\d{19}")


class FixedLine(NamedTuple):
    """Fixed text in place of a line that is not JSON."""

    text: bytes


class StreamLines(NamedTuple):
    """The values of a stream's lines, and the fault at its end, if a line cannot express it."""

    values: list[Any]
    fault: Fault | None = None


def read_lines(
    provider: str, data: bytes, input_format: InputFormat = "sse", pause: Callable[[], None] = lambda: None
) -> StreamLines:
    """Decode a stream, message by message. Comments and blank messages are skipped. `pause`: see `spans.Finder`."""
    shape = shape_of(provider)
    row = PROVIDERS.get(provider)
    fields, is_bare = (row.message_fields, row.has_bare_json) if row is not None else ((), False)
    decoder = decoder_for(input_format, limits.EVENT_MAX_BYTES, fields, has_bare_json=is_bare)
    values: list[Any] = []
    messages: list[SseMessage | Fault] = []
    for at in range(0, len(data), _READ_BYTES):
        pause()
        messages += decoder.feed(data[at : at + _READ_BYTES])
    for item in [*messages, *decoder.close()]:
        pause()
        if not isinstance(item, Fault):
            values += _values(shape, item)
        elif item is FAULTS["upstream_malformed"]:
            values.append(FixedLine(NO_JSON))
        else:
            return StreamLines(values, item)
    return StreamLines(values)


def shape_of(provider: str) -> RecordingShape:
    """Return how a provider's streams are recorded; the generic shape for an unknown provider."""
    return PROVIDERS[provider].recording() if provider in PROVIDERS else RecordingShape()


def encode_line(value: Any) -> bytes:
    """Return the line of a value, without its newline."""
    return value.text if isinstance(value, FixedLine) else codec.dumps_exact(value)


def _values(shape: RecordingShape, message: SseMessage) -> list[Any]:
    text = message.data.strip()
    if is_comment(text):
        return []
    if text == DONE:
        return [FixedLine(DONE)]
    try:
        value = _loads(message.data)
    except codec.TooDeepError:
        return [_TOO_DEEP]
    except codec.CodecError:
        is_error = shape.has_text_errors and message.event == ERROR
        return [{ERROR: text.decode("utf-8", "replace")}] if is_error else [FixedLine(NO_JSON)]
    return [shape.name_event(value, message.event) if isinstance(value, dict) else value]


def _loads(data: bytes) -> Any:
    """Parse JSON without rounding large integers, as most parsers do."""
    if _LONG_DIGITS.search(data):
        with suppress(codec.CodecError):
            return codec.loads_exact(data.decode("utf-8", "replace"))
    return codec.loads(data)
