"""The JSON answer of a Messages stream, made of its events."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.dialects.anthropic_messages.blocks import DELTAS
from projector.dialects.anthropic_messages.errors import TYPE_STATUSES
from projector.dialects.descriptor import JsonAnswer

ANSWER_MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of the content of a JSON answer (CONTRACT D37)."""

INVALID: Final = "INVALID_JSON"
"""Member of the input of a call whose arguments are no JSON object: the API documents this name for sending one."""

_MEMBERS: Final[Mapping[str, str]] = dict(DELTAS.values())
"""Type of a delta -> its member."""


class MessageAssembly:
    """Builder of the message, from the events of a stream."""

    def __init__(self, max_bytes: int = ANSWER_MAX_BYTES) -> None:
        self._message: dict[str, Any] = {}
        self._error: Mapping[str, Any] | None = None
        self._is_over = False
        self._texts: dict[str, io.StringIO] = {}
        """Member of the open block -> what its deltas join to."""
        self._max_bytes = max_bytes
        self._held = 0
        self._is_truncated = False

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the answer so far."""
        return self._held

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        self._is_truncated = self._is_truncated or self._held + len(event) > self._max_bytes
        read = codec.loads(event)
        if read["type"] in _BEYOND_LIMIT or not self._is_truncated:
            self._held += len(event)
            _READERS[read["type"]](self, read)

    def close(self) -> JsonAnswer:
        """Return the message or the error, or raise `ValueError` if the stream did not end."""
        if self._error is not None:
            return JsonAnswer(TYPE_STATUSES[self._error["error"]["type"]], self._error)
        if not self._is_over:
            raise ValueError("expected a complete Messages stream, but it has no `message_stop`")
        return JsonAnswer(200, self._message)

    def on_start(self, event: Mapping[str, Any]) -> None:
        """Read the message without content."""
        self._message = event["message"]

    def on_block(self, event: Mapping[str, Any]) -> None:
        """Start a block."""
        self._message["content"].append(event["content_block"])

    def on_delta(self, event: Mapping[str, Any]) -> None:
        """Continue the last block."""
        delta = event["delta"]
        member = _MEMBERS[delta["type"]]
        if member == "citation":
            self._message["content"][-1].setdefault("citations", []).append(delta[member])
        else:
            self._texts.setdefault(member, io.StringIO()).write(delta[member])

    def on_stop(self, _event: Mapping[str, Any]) -> None:
        """Complete the last block."""
        for member, text in self._texts.items():
            value = text.getvalue()
            change = {"input": _input_of(value)} if member == "partial_json" else {member: value}
            self._message["content"][-1].update(change)
        self._texts = {}

    def on_end(self, event: Mapping[str, Any]) -> None:
        """Read stop reason and usage."""
        self._message.update(event["delta"])
        self._message["usage"].update(event["usage"])
        if self._is_truncated:
            self.on_stop(event)
            self._message["stop_reason"] = "max_tokens"

    def on_over(self, _event: Mapping[str, Any]) -> None:
        """Record the end."""
        self._is_over = True

    def on_error(self, event: Mapping[str, Any]) -> None:
        """Keep the error."""
        self._error = event


def _input_of(text: str) -> dict[str, Any]:
    """Return the input of a call, which is always an object."""
    try:
        value = codec.loads(text.encode())
    except codec.CodecError:
        value = None
    return value if isinstance(value, dict) else {INVALID: text}


_READERS: Final = {
    "message_start": MessageAssembly.on_start,
    "content_block_start": MessageAssembly.on_block,
    "content_block_delta": MessageAssembly.on_delta,
    "content_block_stop": MessageAssembly.on_stop,
    "message_delta": MessageAssembly.on_end,
    "message_stop": MessageAssembly.on_over,
    "error": MessageAssembly.on_error,
}
_BEYOND_LIMIT: Final = frozenset({"message_start", "message_delta", "message_stop", "error"})
"""Events that are read when the answer is full."""
