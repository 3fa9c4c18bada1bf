"""What each message of a provider's stream says, as the line of a recording: one JSON value, or words without secrets.

A line has no name, as a message has; so a name that says something becomes a member.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts import codec, limits
from projector.core.faults import FAULTS, Fault
from projector.core.input_formats import AutoDecoder, NdjsonDecoder
from projector.core.sse import DONE, SseDecoder, SseMessage
from projector.providers import PROVIDERS

Event: TypeAlias = dict[str, Any]
Named: TypeAlias = Callable[[Event, str], Event]

ERROR: Final = "error"
NO_JSON: Final = b"(no JSON: withheld)"
"""Stands for a payload that cannot be searched; it ends a stream as that payload does."""
_READ_BYTES: Final = 65_536
_TOO_DEEP: Final = "(too deep: withheld)"


class Words(NamedTuple):
    """A line that is no JSON and holds no payload."""

    text: bytes


class Read(NamedTuple):
    """A stream that was read: its lines, and the fault of the transport at its end, where a line cannot say it."""

    values: list[Any]
    fault: Fault | None = None


def read(provider: str, data: bytes, input_format: str = "sse", pause: Callable[[], None] = lambda: None) -> Read:
    """Decode a recorded stream, message by message; blank messages are skipped. `pause` as in `spans.Finder`."""
    decoder = _DECODERS[input_format](provider)
    values: list[Any] = []
    messages: list[SseMessage | Fault] = []
    for at in range(0, len(data), _READ_BYTES):
        pause()
        messages += decoder.feed(data[at : at + _READ_BYTES])
    for item in [*messages, *decoder.close()]:
        pause()
        if not isinstance(item, Fault):
            values += _values(provider, item)
        elif item is FAULTS["upstream_malformed"]:
            values.append(Words(NO_JSON))
        else:
            return Read(values, item)
    return Read(values)


def written(value: Any) -> bytes:
    """Give the line of a value, without its end."""
    return value.text if isinstance(value, Words) else codec.dumps_exact(value)


def _values(provider: str, message: SseMessage) -> list[Any]:
    words = message.data.strip()
    if not words:
        return []
    if words == DONE:
        return [Words(DONE)]
    name = _NAMED.get(provider, _as_it_is)
    try:
        value = _loads(message.data)
    except codec.TooDeepError:
        return [_TOO_DEEP]
    except codec.CodecError:
        is_error = provider in _SAY_ERRORS_IN_WORDS and message.event == ERROR
        return [{ERROR: words.decode("utf-8", "replace")}] if is_error else [Words(NO_JSON)]
    return [name(value, message.event) if isinstance(value, dict) else value]


def _loads(data: bytes) -> Any:
    """Read JSON with the digits of its integers, which most readers round where there are many."""
    if _LONG_DIGITS.search(data):
        with suppress(codec.CodecError):
            return codec.loads_exact(data.decode("utf-8", "replace"))
    return codec.loads(data)


_LONG_DIGITS: Final = re.compile(rb"\d{19}")


def _as_it_is(event: Event, _name: str) -> Event:
    return event


def _typed(event: Event, name: str) -> Event:
    """Give an event with its type, which an old server says as the message's name only; an error says it itself."""
    return event if "type" in event or not name or event.get(ERROR) else {**event, "type": name}


def _with_error(chunk: Event, name: str) -> Event:
    """Give a chunk that is an error as one that holds it."""
    return chunk if name != ERROR or chunk.get(ERROR) else {**chunk, ERROR: dict(chunk)}


_NAMED: Final[Mapping[str, Named]] = {"openai_responses": _typed, "openai_chat": _with_error}
_SAY_ERRORS_IN_WORDS: Final = frozenset({"openai_chat"})

_DECODERS: Final[Mapping[str, Callable[[str], SseDecoder | NdjsonDecoder | AutoDecoder]]] = {
    "sse": lambda provider: SseDecoder(limits.EVENT_MAX_BYTES, message_fields=PROVIDERS[provider].message_fields),
    "ndjson": lambda _provider: NdjsonDecoder(limits.EVENT_MAX_BYTES),
    "auto": lambda provider: AutoDecoder(limits.EVENT_MAX_BYTES, message_fields=PROVIDERS[provider].message_fields),
}
