"""Decode lines into SSE messages. Numbers in brackets refer to the divergences in `projector.core.sse`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from projector.contracts import limits
from projector.core.faults import FAULTS, Fault
from projector.core.sse.lines import Lines
from projector.core.sse.messages import SseMessage, is_whole

_EVENT_NAMES_MAX: Final = 128  # twice the event types of the largest vocabulary


class SseDecoder:
    """Turn the bytes of an event stream into messages, however they are cut."""

    def __init__(self, max_event_bytes: int = limits.EVENT_MAX_BYTES, *, message_fields: Collection[str] = ()) -> None:
        self._max_event_bytes = max_event_bytes
        self._message_fields = {name.encode(): name for name in message_fields}
        self._lines = Lines()
        self._event_names: dict[bytes, str] = {}  # by whole line: most streams repeat a few names
        self._data: bytes | None = None
        self._more: list[bytes] = []  # data lines after the first one
        self._event = ""
        self._event_bytes = 0  # of the complete lines since the last blank one
        self._has_content = False
        self._has_message = False
        self._is_over = False

    def feed(self, data: bytes, /) -> list[SseMessage | Fault]:
        """Take some bytes; return the messages that they complete.

        Returns:
            Messages in order. The last item is the fault `upstream_event_too_large` when an event is larger than
            `max_event_bytes`; the decoder then ignores everything that follows.
        """
        if self._is_over:
            return []
        most = self._event_bytes + len(self._lines.rest) + len(data)
        lines = self._lines.feed(data)
        if most > self._max_event_bytes:
            return self._read_near_limit(lines)
        return self._read(lines)

    def close(self) -> list[SseMessage | Fault]:
        """Take the end of input; return the unfinished last event if its data is whole (1).

        Returns:
            Messages, or the fault `upstream_malformed` alone where there was content but no message (3).
        """
        if self._is_over:
            return []
        self._is_over = True
        last = self._lines.close()
        messages = self._read([last]) if last else []
        if self._data is not None and is_whole(data := b"\n".join([self._data, *self._more])):
            messages.append(SseMessage(data, self._event))
            self._has_message = True
        if self._has_content and not self._has_message:
            return [FAULTS["upstream_malformed"]]
        return messages

    def _read(self, lines: Sequence[bytes]) -> list[SseMessage | Fault]:
        """Read whole lines. Each byte of each stream passes here, so the loop makes no call that it can avoid."""
        messages: list[SseMessage | Fault] = []
        if not lines:
            return messages
        data, event = self._data, self._event
        new, event_names, more = tuple.__new__, self._event_names, self._more
        for line in lines:
            if not line:
                if data is not None:
                    if more:
                        data = b"\n".join([data, *more])
                        more.clear()
                    messages.append(new(SseMessage, (data, event)))
                    data = None
                event = ""
            elif data is None and line[:6] == b"data: ":
                data = line[6:]
            elif line in event_names:
                event = event_names[line]
            else:
                data, event = self._read_field(line, data, event, messages)
        self._data, self._event = data, event
        self._event_bytes = _bytes_after_blank(lines, self._event_bytes) if lines[-1] else 0
        if not self._has_message:
            self._has_message = any(message[0] for message in messages)
            self._has_content = self._has_content or any(map(_is_content, lines))
        return messages

    def _read_field(
        self, line: bytes, data: bytes | None, event: str, messages: list[SseMessage | Fault]
    ) -> tuple[bytes | None, str]:
        """Read any line but a blank one; return the data and the event name as they now stand."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")  # one optional blank
        if field == b"data":
            if data is None:
                return value, event
            self._more.append(value)
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
        """Read as far as the limit allows (2): line by line here, so that a cut does not change where it ends."""
        size = self._event_bytes
        for number, line in enumerate(lines):
            size = size + len(line) if line else 0
            if size > self._max_event_bytes:
                return self._overflow(self._read(lines[:number]))
        messages = self._read(lines)
        if size + len(self._lines.rest) > self._max_event_bytes:
            return self._overflow(messages)
        return messages

    def _overflow(self, messages: list[SseMessage | Fault]) -> list[SseMessage | Fault]:
        self._is_over = True
        return [*messages, FAULTS["upstream_event_too_large"]]


def _bytes_after_blank(lines: Sequence[bytes], carried: int) -> int:
    """Give the size of the event that the lines leave open; `carried` is its size before them."""
    size = 0
    for line in reversed(lines):
        if not line:
            return size
        size += len(line)
    return carried + size


def _is_content(line: bytes) -> bool:
    return not line.startswith(b":") and bool(line.strip())
