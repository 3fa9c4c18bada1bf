"""Checker of the rules over a whole Messages stream, without I/O. Bad input is a violation, no exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.table import Violation
from tests.protocols.anthropic_messages.events import EVENT_ADAPTER

Event: TypeAlias = Mapping[str, Any]

DELTAS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "tool_use": frozenset({"input_json_delta"}),
    "server_tool_use": frozenset({"input_json_delta"}),
    "web_search_tool_result": frozenset(),
}
"""Type of a block -> the types of its deltas."""


class AnthropicMessagesChecker:
    """Checker of one stream, given as the data of its events. Every violation is of the rule `anthropic_messages`."""

    def __init__(self) -> None:
        self._line = 0
        self._count = 0
        self._open: Event | None = None
        """The open block."""
        self._deltas: list[str] = []
        """Types of the deltas of the open block."""
        self._has_begun = False
        self._has_calls = False
        self._ids: set[str] = set()
        self._finish: str | None = None
        self._is_over = False

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one event."""
        self._line = line_no
        return self._violations(self._check(line.encode() if isinstance(line, str) else line))

    def close(self) -> list[Violation]:
        """Check the end of the stream."""
        return self._violations([] if self._is_over else ["`message_stop` or an error at the end"])

    def _violations(self, expected: list[str]) -> list[Violation]:
        return [Violation(self._line, None, "anthropic_messages", "spec", f"expected {one}") for one in expected]

    def _check(self, data: bytes) -> list[str]:
        try:
            event = codec.loads(data)
            EVENT_ADAPTER.validate_python(event)
        except codec.CodecError:
            return ["JSON"]
        except ValidationError as error:
            return [f"an event of the schema: {mistake}" for mistake in sentences(error, event, root="event")]
        return ["nothing after the end"] if self._is_over else self._check_order(event)

    def _check_order(self, event: Event) -> list[str]:
        kind = event["type"]
        if kind == "error":
            self._is_over = True
            return ["no error after a stop reason"] if self._finish is not None else []
        if kind != "message_start" and not self._has_begun:
            return ["`message_start` before anything else"]
        if kind == "ping":
            return []
        if kind != "message_stop" and self._finish is not None:
            return ["only the end after the stop reason"]
        found: list[str] = getattr(self, f"_on_{kind}")(event)
        return found

    def _on_message_start(self, _event: Event) -> list[str]:
        was_begun, self._has_begun = self._has_begun, True
        return ["one `message_start`"] if was_begun else []

    def _on_content_block_start(self, event: Event) -> list[str]:
        found = [] if self._open is None else ["one open block at a time"]
        found += [] if event["index"] == self._count else ["indexes from 0 without gaps"]
        block = event["content_block"]
        if block["type"] == "tool_use":
            self._has_calls = True
            found += ["calls with IDs of their own"] if block["id"] in self._ids else []
            self._ids.add(block["id"])
        self._count += 1
        self._open, self._deltas = block, []
        return found

    def _on_content_block_delta(self, event: Event) -> list[str]:
        if self._open is None or event["index"] != self._count - 1:
            return ["deltas of the open block"]
        kind = event["delta"]["type"]
        found = [] if kind in DELTAS[self._open["type"]] else [f"deltas of a `{self._open['type']}`"]
        found += ["one signature, as the last delta"] if "signature_delta" in self._deltas else []
        self._deltas = [*self._deltas[-1:], kind]
        return found

    def _on_content_block_stop(self, event: Event) -> list[str]:
        if self._open is None or event["index"] != self._count - 1:
            return ["the stop of the open block"]
        is_whole = self._open["type"] in {"tool_use", "web_search_tool_result"}  # what its start has
        found = [] if self._deltas or is_whole else ["no empty block"]
        self._open = None
        return found

    def _on_message_delta(self, event: Event) -> list[str]:
        self._finish = event["delta"]["stop_reason"]
        found = [] if self._open is None else ["no open block at the end"]
        if self._finish == "tool_use" and not self._has_calls:
            found.append("a call before the stop reason `tool_use`")
        if (self._finish == "refusal") != ("stop_details" in event["delta"]):
            found.append("details of a refusal, and of nothing else")
        return found

    def _on_message_stop(self, _event: Event) -> list[str]:
        self._is_over = True
        return ["a stop reason before the end"] if self._finish is None else []
