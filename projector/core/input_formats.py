"""Decoders by input format: SSE, NDJSON, or the one of these that the first bytes indicate; JSON instead of SSE."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final, Literal, TypeAlias

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


class BareJsonDecoder:
    """Decodes an event stream that may have JSON objects outside its fields: each is a message (CONTRACT D48).

    The elements of a JSON array are such objects, and errors that a server writes into a stream as they are. An object
    begins at the beginning of a line, or after a bracket or comma there, and ends with its last brace.
    """

    def __init__(self, max_event_bytes: int = limits.EVENT_MAX_BYTES, *, message_fields: Collection[str] = ()) -> None:
        self.most_bytes = max_event_bytes
        """Maximum size of an event."""
        self._sse = SseDecoder(max_event_bytes, message_fields=message_fields)
        self._object = bytearray()
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False
        self._is_at_start = True
        """Whether a line begins, or only brackets and commas of an array came before."""
        self._has_object = False
        self._is_over = False

    def feed(self, data: bytes, /) -> list[SseMessage | Fault]:
        """Decode bytes and return the messages they complete, as `SseDecoder.feed` does."""
        messages: list[SseMessage | Fault] = []
        at = 0
        while at < len(data) and not self._is_over:
            if self._depth:
                at = self._read_object(data, at, messages)
            elif not self._is_at_start:
                at = self._read_line(data, at, messages)
            elif data[at : at + 1] == b"{":
                messages += self._sse.feed(b"\n\n")  # the object ends the event before it
                self._depth, at = 1, at + 1
                self._object = bytearray(b"{")
            elif data[at] in _BETWEEN:
                at += 1
            else:
                self._is_at_start = False
        return messages

    def close(self) -> list[SseMessage | Fault]:
        """End the input, as `SseDecoder.close` does; an unfinished object is no message."""
        if self._is_over:
            return []
        self._is_over = True
        if self._depth and not self._has_object:
            return [FAULTS["upstream_truncated"]]
        return [item for item in self._sse.close() if not (self._has_object and isinstance(item, Fault))]

    @property
    def line_end(self) -> bytes:
        """The line end of the stream: LF or CRLF."""
        return self._sse.line_end

    def take_unfinished(self) -> bytes:
        """Return what is not complete yet, as `SseDecoder.take_unfinished` does; it may be fed again."""
        unfinished = self._sse.take_unfinished() + self._object
        self._object, self._depth = bytearray(), 0
        self._is_in_string, self._is_escaped, self._is_at_start = False, False, True
        return unfinished

    def _read_line(self, data: bytes, at: int, messages: list[SseMessage | Fault]) -> int:
        """Read to the end of a line; return where the next one begins."""
        found = _LINE_END.search(data, at)
        end = len(data) if found is None else found.end()
        messages += self._sse.feed(data[at:end])
        self._is_over = bool(messages) and isinstance(messages[-1], Fault)
        self._is_at_start = found is not None
        return end

    def _read_object(self, data: bytes, begin: int, messages: list[SseMessage | Fault]) -> int:
        """Read to the end of the object; return where it is."""
        at = begin
        while at < len(data) and self._depth:
            if self._is_escaped:
                self._is_escaped, at = False, at + 1
                continue
            found = (_IN_STRING if self._is_in_string else _IN_OBJECT).search(data, at)
            if found is None:
                at = len(data)
                break
            at, mark = found.end(), found[0]
            self._is_escaped = mark == b"\\"
            self._is_in_string ^= mark == b'"'
            self._depth += (mark == b"{") - (mark == b"}")
        if len(self._object) + at - begin > self.most_bytes:
            self._is_over = True
            messages.append(FAULTS["upstream_event_too_large"])
            return at
        self._object += data[begin:at]
        if not self._depth:
            messages.append(SseMessage(bytes(self._object)))
            self._object, self._has_object = bytearray(), True
        return at


_LINE_END: Final = re.compile(rb"\r\n|[\r\n]")
_IN_STRING: Final = re.compile(rb'["\\]')
_IN_OBJECT: Final = re.compile(rb'["{}]')
_BETWEEN: Final = b"[], \t"
"""Bytes between the elements of an array, beside line ends, which may end an event."""


class AutoDecoder:
    """Decodes NDJSON if the first character is `{`, an event stream otherwise. Lines of comments do not decide.

    Args:
        stream: the decoder of an event stream.
    """

    def __init__(self, stream: SseDecoder | BareJsonDecoder) -> None:
        self._max_event_bytes = stream.most_bytes
        self._stream = stream
        self._undecided = bytearray()
        self._is_in_comment = False
        self._decoder: SseDecoder | BareJsonDecoder | NdjsonDecoder | None = None

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
                self._decoder = self._stream
            data = bytes(self._undecided)
            self._undecided.clear()
        return self._decoder.feed(data)

    def close(self) -> list[SseMessage | Fault]:
        """End the input and return the remaining messages. An input of blanks and comments is an empty stream."""
        return self._decoder.close() if self._decoder is not None else []

    def _after_comments(self, data: bytes) -> bytes:
        """Return what follows blanks and whole lines that begin with a colon."""
        rest = _BLANKS_AND_COMMENTS.sub(b"", b":" + data if self._is_in_comment else data, count=1)
        self._is_in_comment = rest.startswith(b":")
        return b"" if self._is_in_comment else rest


_BLANKS_AND_COMMENTS: Final = re.compile(rb"\A(?:[%b \t\r\n]|:[^\r\n]*+[\r\n]|)*+" % BOM)


Decoder: TypeAlias = SseDecoder | BareJsonDecoder | NdjsonDecoder | AutoDecoder
MakeDecoder: TypeAlias = Callable[[], Decoder]


def decoder_for(
    input_format: InputFormat, max_event_bytes: int, message_fields: tuple[str, ...], *, has_bare_json: bool = False
) -> Decoder:
    """Create the decoder of an input format."""
    if input_format == "ndjson":
        return NdjsonDecoder(max_event_bytes)
    stream = (BareJsonDecoder if has_bare_json else SseDecoder)(max_event_bytes, message_fields=message_fields)
    return AutoDecoder(stream) if input_format == "auto" else stream
