"""Decoders by input format: SSE, NDJSON, or the one of these that the first bytes indicate."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, TypeAlias

from projector.contracts import limits
from projector.core.faults import FAULTS, Fault
from projector.core.sse import BOM, DONE, LineSplitter, SseDecoder, SseMessage, is_whole

InputFormat: TypeAlias = Literal["auto", "sse", "ndjson"]


class NdjsonDecoder:
    """Decodes lines of JSON: each line that is not blank is a message."""

    def __init__(self, max_event_bytes: int = limits.EVENT_MAX_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._lines = LineSplitter()
        self._has_message = False
        self._is_over = False

    def feed(self, data: bytes, /) -> list[SseMessage | Fault]:
        """Decode bytes and return the lines they complete, as `SseDecoder.feed` does."""
        if self._is_over:
            return []
        messages: list[SseMessage | Fault] = []
        for line in self._lines.feed(data):
            if len(line) > self._max_event_bytes:
                return self._overflow(messages)
            if line.strip():
                messages.append(SseMessage(line))
        if len(self._lines.rest) > self._max_event_bytes:
            return self._overflow(messages)
        self._has_message = self._has_message or bool(messages)
        return messages

    def close(self) -> list[SseMessage | Fault]:
        """End the input; return the last line if it is whole, or a fault, as `SseDecoder.close` does."""
        if self._is_over:
            return []
        self._is_over = True
        last = self._lines.close()
        if is_whole(last):
            return [SseMessage(last)]
        if self._has_message or not last.strip():
            return []
        is_cut = last.lstrip().startswith(b"{") or DONE.startswith(last.strip())
        return [FAULTS["upstream_truncated" if is_cut else "upstream_malformed"]]

    def _overflow(self, messages: list[SseMessage | Fault]) -> list[SseMessage | Fault]:
        self._is_over = True
        return [*messages, FAULTS["upstream_event_too_large"]]


class AutoDecoder:
    """Decodes NDJSON if the first character is `{`, an event stream otherwise. Lines of comments do not decide."""

    def __init__(self, max_event_bytes: int = limits.EVENT_MAX_BYTES, *, message_fields: Collection[str] = ()) -> None:
        self._max_event_bytes = max_event_bytes
        self._message_fields = message_fields
        self._undecided = bytearray()
        self._is_in_comment = False
        self._decoder: SseDecoder | NdjsonDecoder | None = None

    def feed(self, data: bytes, /) -> list[SseMessage | Fault]:
        """Decode bytes with the decoder that the first character selects."""
        if self._decoder is None:
            self._undecided += data
            rest = self._after_comments(data)
            is_too_late = len(self._undecided) - len(rest) > self._max_event_bytes
            if not rest and not is_too_late:
                return []
            if rest.startswith(b"{") and not is_too_late:
                self._decoder = NdjsonDecoder(self._max_event_bytes)
            else:
                self._decoder = SseDecoder(self._max_event_bytes, message_fields=self._message_fields)
            data = bytes(self._undecided)
            self._undecided.clear()
        return self._decoder.feed(data)

    def close(self) -> list[SseMessage | Fault]:
        """End the input and return the remaining messages. An input of blanks and comments is an empty stream."""
        return self._decoder.close() if self._decoder is not None else []

    def _after_comments(self, data: bytes) -> bytes:
        """Return what follows blanks and whole lines that begin with a colon."""
        rest = data
        while True:
            if self._is_in_comment:
                line = rest.splitlines(keepends=True)[0] if rest else b""
                if not line.endswith((b"\n", b"\r")):
                    return b""
                self._is_in_comment, rest = False, rest[len(line) :]
            rest = rest.lstrip(BOM + b" \t\r\n")
            if not rest.startswith(b":"):
                return rest
            self._is_in_comment = True


Decoder: TypeAlias = SseDecoder | NdjsonDecoder | AutoDecoder
MakeDecoder: TypeAlias = Callable[[], Decoder]


def decoder_for(input_format: InputFormat, max_event_bytes: int, message_fields: tuple[str, ...]) -> Decoder:
    """Create the decoder of an input format."""
    if input_format == "ndjson":
        return NdjsonDecoder(max_event_bytes)
    decoder = AutoDecoder if input_format == "auto" else SseDecoder
    return decoder(max_event_bytes, message_fields=message_fields)
