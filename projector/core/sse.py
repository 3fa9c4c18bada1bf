"""Server-sent events: decode bytes into messages, encode messages into bytes (WHATWG HTML, section 9.2).

The only module that knows line ends, byte order marks and SSE fields. Bytes are split into lines first and decoded
later, so a read may end inside a line end, a mark or a character.

`SseDecoder` differs from the standard, because it reads a provider's answer to one request:

1. An unfinished last event is returned if its data is whole: JSON, or the end mark of Chat streams (CONTRACT D12).
2. The size of an event is limited: the bytes of all its lines together, without line ends, and the number of lines.
3. Content without a single message is a fault at the end: `upstream_truncated` if the input ends inside an event,
   `upstream_malformed` for an error page and for events without data (D45). Comments and blank lines are not content; a
   stream of them alone is empty. The same holds for data that is a comment (D47).
4. `id` and `retry` are ignored: the stream is never reconnected.
5. `message_fields` names non-standard fields; each of their lines is a message under the field's name, and ends the
   event before it. One provider sends `error: {...}` and closes the connection.
6. A JSON document in place of an event stream is one message, at the end (D48).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from projector.contracts import codec, limits
from projector.contracts.json_values import count_values, has_long_text
from projector.core.canonical import NO_TYPE
from projector.core.faults import FAULTS, Fault

BOM: Final = b"\xef\xbb\xbf"
DONE: Final = b"[DONE]"
"""The data of the message that ends a Chat Completions stream; the one payload that is not JSON."""

LF: Final = ord("\n")
CR: Final = ord("\r")
"""Line ends as numbers: bytes search for a number in a third of the time that they search for other bytes."""

COMMENT: Final = "(comment)"
"""Name in the counts of data that is a comment."""
AFTER_THE_END: Final = "(after the end)"
"""Name in the counts of messages after the end of the response."""
NO_JSON: Final = "(no JSON)"
NO_OBJECT: Final = "(no object)"
NO_CHUNK: Final = "(no chunk)"
TOO_DEEP: Final = "(too deep)"
TOO_MANY_TEXTS: Final = "(too many texts)"
"""Names in the counts of messages that are no event; see `NO_EVENTS`."""
REPEATED_CHUNK: Final = "(repeated chunk)"
REPEATED_DELTA: Final = "(repeated delta)"
"""Names in the counts of messages that are sent twice."""
ANOTHER_START: Final = "start of another response"
REPEATED_START: Final = "repeated start"
REPEATED_EVENT: Final = "repeated event"
CLOSED_DELTA: Final = "delta of a closed block"
CLOSED_STOP: Final = "stop of a closed block"
LATE_ERROR: Final = "error after a finish reason"
NO_EVENTS: Final[Mapping[str, str]] = {
    NO_JSON: "data that is not JSON: the stream ends with `upstream_malformed`, and what follows is not read",
    NO_OBJECT: "data that is JSON, but not an object",
    NO_TYPE: "an object without a type",
    NO_CHUNK: "an object with no member of a chunk that has content",
    TOO_DEEP: "data that is nested too deeply (D31)",
    TOO_MANY_TEXTS: "a delta of one more text than may be open at once",
}
"""Name in the counts of data that is no event that a stage can read -> why."""
REASONS: Final[Mapping[str, str]] = {
    COMMENT: "a comment that was sent as data (D47)",
    AFTER_THE_END: "the provider had ended its response",
    REPEATED_CHUNK: "the chunk with the finish reason was sent twice",
    REPEATED_DELTA: "its sequence number was that of the same delta (D52)",
    ANOTHER_START: "the first response had not ended: the stream ends with `upstream_truncated`",
    REPEATED_START: "the start of a response was sent twice",
    REPEATED_EVENT: "the event ID was that of an event before",
    CLOSED_DELTA: "its content block had ended",
    CLOSED_STOP: "its content block had ended",
    LATE_ERROR: "the response had its finish reason (D32)",
}
"""Name in the counts of messages that are dropped because of what came before them, or as comments -> why."""
COMMENT_STARTS: Final = (b"", b":")
DOCUMENT_STARTS: Final = (b"{", b"[")

FIELDS: Final = (b"event", b"data", b"id", b"retry")

_EVENT_NAMES_MAX: Final = 128  # twice the event types of the largest vocabulary
_new_tuple: Final = tuple.__new__  # makes a message in less than half of the time that its class takes


class SseMessage(NamedTuple):
    """One message: its data as sent, lines joined by LF, and its event name, empty where there is none."""

    data: bytes
    event: str = ""


def is_comment(data: bytes) -> bool:
    """Check whether data is blank, or a comment that was sent as data (`data: : keepalive`; D47)."""
    return data.strip()[:1] in COMMENT_STARTS


def has_unread(dropped: Mapping[str, int]) -> bool:
    """Check whether a stage dropped JSON, by its counts."""
    return bool(dropped.keys() - {COMMENT, NO_JSON})


def is_whole(data: bytes) -> bool:
    """Check that data cut off by the end of input is complete: JSON, or the end mark."""
    most = limits.EVENT_VALUES_MAX
    if len(data) > most and (
        data[-1:] not in b"}] \t\n"
        or count_values(data, most) > most
        or has_long_text(data, limits.EVENT_TEXT_MAX_BYTES)
    ):
        return False  # it would take long to parse
    if data.strip() == DONE:
        return True
    try:
        codec.loads(data)
    except codec.CodecError:
        return False
    return True


class LineSplitter:
    """Splits bytes at LF, CRLF and CR and removes the byte order mark, in linear time."""

    def __init__(self) -> None:
        self.rest: bytes | bytearray = b""  # the unfinished line
        self._is_after_cr = False
        self._is_first = True
        self.line_end = b"\n"
        """CRLF once that was read."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are now complete, without their ends."""
        if self._is_after_cr or CR in data:
            data = self._with_lf_only(data)
        if LF not in data:
            if type(self.rest) is bytes:
                self.rest = bytearray(self.rest)  # grows in place, since a huge line may come byte by byte
            self.rest += data
            if self._is_first and len(self.rest) >= len(BOM):
                self._is_first = False
                self.rest = self.rest.removeprefix(BOM)
            return []
        lines = data.split(b"\n")
        if self.rest:
            lines[0] = b"".join((self.rest, lines[0]))
        self.rest = lines.pop()
        if self._is_first:
            self._is_first = False
            lines[0] = lines[0].removeprefix(BOM)
        return lines

    def take_rest(self) -> bytes:
        """Return the unfinished line, and forget it; it may be fed again."""
        rest, self.rest = bytes(self.rest), b""
        return rest

    def close(self) -> bytes:
        """Return the unfinished line, empty if there is none."""
        last = self.take_rest()
        return last.removeprefix(BOM) if self._is_first else last

    def _with_lf_only(self, data: bytes) -> bytes:
        """Replace each line end by LF. A CR ends its line at once; an LF after it is skipped."""
        if not data:
            return data
        is_second_half = self._is_after_cr and data.startswith(b"\n")
        self._is_after_cr = data.endswith(b"\r")
        if is_second_half or b"\r\n" in data:
            self.line_end = b"\r\n"
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data[1:] if is_second_half else data


class SseDecoder:
    """Decodes an event stream into messages, wherever its bytes are cut."""

    def __init__(self, max_event_bytes: int = limits.EVENT_MAX_BYTES, *, message_fields: Collection[str] = ()) -> None:
        self.most_bytes = max_event_bytes
        """Maximum size of an event."""
        self._message_fields = {name.encode(): name for name in message_fields}
        self._lines = LineSplitter()
        self._event_names: dict[bytes, str] = {}  # by whole line: most streams repeat a few names
        self._data: bytes | None = None
        self._more: list[bytes] = []  # data lines after the first one
        self._event = ""
        self._event_bytes = 0  # of the complete lines since the last blank one
        self._has_content = False
        self._has_field = False  # in the complete lines since the last blank one, as long as there is no message
        self._has_message = False
        self._document: bytearray | None = bytearray()
        """The lines of a JSON document (6); None once there was anything else."""
        self.is_document = False
        """Whether the input was a JSON document, which is the only message."""
        self._is_over = False

    def feed(self, data: bytes, /) -> list[SseMessage | Fault]:
        """Decode bytes and return the messages they complete.

        Returns:
            Messages in order. The last item is the fault `upstream_event_too_large` when an event is larger than
            `max_event_bytes`; the decoder then ignores everything that follows.
        """
        if self._is_over:
            return []
        most = self._event_bytes + len(self._lines.rest) + len(data)
        lines = self._lines.feed(data)
        messages = self._read(lines) if most <= self.most_bytes else self._read_near_limit(lines)
        if not self._is_over:
            return messages
        end = next(at for at, message in enumerate(messages) if isinstance(message, Fault))
        return messages[: end + 1]

    def close(self) -> list[SseMessage | Fault]:
        """End the input; return the unfinished last event if its data is whole (1).

        Returns:
            Messages, or only a fault if there was content but no message (3).
        """
        if self._is_over:
            return []
        self._is_over = True
        last = self._lines.close()
        messages = self._read([last]) if last and not self._is_cut_message(last) else []
        if self._data is not None and is_whole(data := b"\n".join([self._data, *self._more])):
            messages.append(SseMessage(data, self._event))
            self._has_message = True
        if self._has_message:
            return messages
        if self._document and is_whole(document := bytes(self._document)):
            self.is_document = True
            return [SseMessage(document)]
        if self._is_inside_event(last) or self._is_cut_document():
            return [FAULTS["upstream_truncated"]]
        return [FAULTS["upstream_malformed"]] if self._has_content else messages

    def _is_inside_event(self, last: bytes) -> bool:
        """Check that the input ends inside an event: after one of its fields, or inside one (D45)."""
        if self._has_field or not last:
            return self._has_field
        name, colon, _ = last.partition(b":")
        begun = (BOM, *FIELDS, *self._message_fields)
        return name in begun if colon else any(field.startswith(name) for field in begun)

    def _is_cut_document(self) -> bool:
        """Check that the input is the beginning of a JSON object, or of a list of them."""
        return bool(self._document) and bytes(self._document or b"").lstrip(b"[ \t\n").startswith(b"{")

    def _is_cut_message(self, last: bytes) -> bool:
        """Check that the last line is a message by its field (5), and that its JSON is cut off."""
        name, _, value = last.partition(b":")
        return name in self._message_fields and value.lstrip()[:1] == b"{" and not is_whole(value)

    @property
    def line_end(self) -> bytes:
        """The line end of the stream: LF or CRLF."""
        return self._lines.line_end

    def take_unfinished(self) -> bytes:
        """Return the fields of the message that is not complete yet, and forget them; they may be fed again."""
        lines = [b"event: %b\n" % self._event.encode()] if self._event else []
        if self._data is not None:
            lines += [b"data: %b\n" % line for line in (self._data, *self._more)]
        self._event, self._data, self._event_bytes = "", None, 0
        self._more.clear()
        return b"".join([*lines, self._lines.take_rest()])

    def _read(self, lines: Sequence[bytes]) -> list[SseMessage | Fault]:
        """Parse complete lines. Each byte of each stream passes here, so the loop avoids calls."""
        messages: list[SseMessage | Fault] = []
        if not lines:
            return messages
        data, event = self._data, self._event
        event_names, more = self._event_names, self._more
        for line in lines:
            if not line:
                if data is not None:
                    if more:
                        data = b"\n".join([data, *more])
                        more.clear()
                    messages.append(_new_tuple(SseMessage, (data, event)))
                    data = None
                event = ""
            elif data is None and line[:6] == b"data: ":
                data = line[6:]
            elif (name := event_names.get(line)) is not None:
                event = name
            else:
                data, event = self._read_field(line, data, event, messages)
        self._data, self._event = data, event
        self._event_bytes = _bytes_after_blank(lines, self._event_bytes) if lines[-1] else 0
        if not self._has_message:
            self._has_message = any(message[0] for message in messages)
            self._has_content = self._has_content or any(map(_is_content, lines))
            self._keep_document(lines)
            self._has_field = _is_field_after_blank(lines, carried=self._has_field)
        return messages

    def _keep_document(self, lines: Sequence[bytes]) -> None:
        """Keep lines that may be a JSON document: all from the first that is no comment, up to the limit (2)."""
        document = self._document
        if document is None or self._has_message:
            self._document = None
            return
        for line in lines:
            if not document and not _is_content(line):
                continue
            is_begun = bool(document) or line.lstrip()[:1] in DOCUMENT_STARTS
            if not is_begun or len(document) + len(line) > self.most_bytes:
                self._document = None
                return
            document += line + b"\n"

    def _read_field(
        self, line: bytes, data: bytes | None, event: str, messages: list[SseMessage | Fault]
    ) -> tuple[bytes | None, str]:
        """Parse a line that is not blank; return the updated data and event name."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")  # one optional blank
        if field == b"data":
            if data is None:
                return value, event
            self._more.append(value)
            if len(self._more) >= limits.EVENT_LINES_MAX:
                messages += self._overflow([])
        elif field == b"event":
            event = value.decode("utf-8", "replace")
            if len(self._event_names) < _EVENT_NAMES_MAX:
                self._event_names[line] = event
        elif field in self._message_fields:
            if data is not None:
                messages.append(SseMessage(b"\n".join([data, *self._more]), event))
                self._more.clear()
            messages.append(SseMessage(value, self._message_fields[field]))
            return None, ""
        return data, event

    def _read_near_limit(self, lines: Sequence[bytes]) -> list[SseMessage | Fault]:
        """Parse as far as the limit allows (2): line by line, so that the result does not depend on cuts."""
        size = self._event_bytes
        for number, line in enumerate(lines):
            size = size + len(line) if line else 0
            if size > self.most_bytes:
                return self._overflow(self._read(lines[:number]))
        messages = self._read(lines)
        if size + len(self._lines.rest) > self.most_bytes:
            return self._overflow(messages)
        return messages

    def _overflow(self, messages: list[SseMessage | Fault]) -> list[SseMessage | Fault]:
        self._is_over = True
        return [*messages, FAULTS["upstream_event_too_large"]]


def _bytes_after_blank(lines: Sequence[bytes], carried: int) -> int:
    """Return the size of the event that the lines leave open; `carried` is its size before them."""
    size = 0
    for line in reversed(lines):
        if not line:
            return size
        size += len(line)
    return carried + size


def _is_field_after_blank(lines: Sequence[bytes], *, carried: bool) -> bool:
    """Check whether the event that the lines leave open has a field; `carried` is whether it had one before them."""
    for line in reversed(lines):
        if not line:
            return False
        if line.partition(b":")[0] in FIELDS:
            return True
    return carried


def _is_content(line: bytes) -> bool:
    return not is_comment(line.removeprefix(b"data").removeprefix(b":") if line.startswith(b"data") else line)


def encode_sse(data: bytes, event: str | None = None) -> bytes:
    """Encode one message. Line ends are LF only: some clients split at LF LF.

    Data with line ends becomes one `data` line for each of its lines; a reader joins them with LF.
    """
    if LF in data or CR in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return b"data: %b\n\n" % data if event is None else b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def encode_events(events: Iterable[tuple[str | None, bytes]]) -> bytes:
    """Encode several messages, each a name or None and its data: `encode_sse` of each, joined."""
    parts: list[bytes] = []
    for name, data in events:
        if LF in data or CR in data:
            parts.append(encode_sse(data, name))
        elif name is None:
            parts += (b"data: ", data, b"\n\n")
        else:
            parts += (b"event: ", name.encode(), b"\ndata: ", data, b"\n\n")
    return b"".join(parts)


LINES: Final = (b"", b"\n", b"\n")
"""What `framing_of` returns, for lines of JSON."""


def framing_of(name: str | None) -> tuple[bytes, bytes, bytes]:
    """Return the bytes before, between and after messages with the same name, of data without line ends."""
    head = b"data: " if name is None else b"event: %b\ndata: " % name.encode()
    return head, b"\n\n" + head, b"\n\n"


def encode_numbered_events(events: Iterable[tuple[str | None, bytes]], first: int) -> bytes:
    """Encode several messages, each with the number of its event as its `id`."""
    return b"".join(
        [b"id: %d\n%b" % (number, encode_sse(data, name)) for number, (name, data) in enumerate(events, first)]
    )


def encode_comment(text: str) -> bytes:
    """Encode one comment on one line: a second line could be read as a field."""
    return b": " + " ".join(text.splitlines()).encode() + b"\n\n"
