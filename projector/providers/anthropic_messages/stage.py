"""Messages events as canonical events: identity, end, errors and usage. Blocks are read in `output_blocks`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from projector.core import canonical as read
from projector.core.lane import Slots
from projector.core.sse import CLOSED_DELTA, CLOSED_STOP, NO_OBJECT, REPEATED_START, SseMessage
from projector.providers.anthropic_messages import block_fields as fields
from projector.providers.anthropic_messages.api import MessagesProfile
from projector.providers.anthropic_messages.output_blocks import Block, Output
from projector.providers.error_shapes import error_of, members_of
from projector.providers.stage_parts import Event, Events, JsonStage, index_of

DEFAULT: Final = MessagesProfile()

DELTA: Final = "content_block_delta"
TEXT_DELTA: Final = "text_delta"
IMPLIED: Final = {TEXT_DELTA: "text", "thinking_delta": "thinking"}
"""Type of a delta -> type of the block that it begins if no start has."""

_FULL_THINKING: Final = "dev-full-thinking"
"""Begin of the beta with which thinking is the full text."""
_SUMMARISING: Final = re.compile(r"(?:^|[./])claude-(?!v?[0-3](?:\D|$)|instant)")
"""Name of a model whose thinking is a summary: from 4 on."""

MESSAGE: Final = "message"
CONTENT: Final = {"content": fields.MEMBERS["content_block"]}
"""Members of the blocks of a whole message."""


class AnthropicMessagesStage(JsonStage):
    """Translates one response. The last item is a fault, too, if another response begins."""

    def __init__(self, profile: MessagesProfile = DEFAULT) -> None:
        super().__init__()
        self._profile = profile
        self._output = Output(self._dropped)
        self._blocks: dict[int, Block | None] = {}
        """Open blocks by index; None for one of an unknown type."""
        self._highest = -1
        """The highest index of a block that has begun."""
        self._details: Mapping[str, object] = {}
        self._early_reason: str | None = None
        """The stop reason that some servers put into the start of an empty message, where nothing has ended."""

    def read(self, event: object, message: SseMessage) -> Events:
        """Return the events of one event."""
        name = NO_OBJECT
        if isinstance(event, dict):
            named = message.event if message.event != MESSAGE else ""  # which is the default of event streams
            name = read.text_or_none(event, "type") or named
            if (handle := EVENTS.get(name)) is not None:
                self._dropped.note_unknown_in(event, fields.MEMBERS, MESSAGE if name == MESSAGE else "event")
                return handle(self, event)
        error = error_of(event, has_begun=bool(self._response))
        return self._dropped.drop(f"event.{name}") if error is None else self._fail(error.event())

    def slots(self, event: Mapping[str, Any], _name: str, /) -> Slots | None:
        """Return what may differ in further events with nothing but text; None for another event."""
        delta = read.mapping_or_empty(event, "delta")
        block = self._blocks.get(index_of(event) or 0)
        if event.get("type") != DELTA or delta.get("type") != TEXT_DELTA:
            return None
        if block is None or not self._output.is_in_text(block) or read.unknown_members(event, fields.MEMBERS):
            return None
        return Slots(("delta", "text"), next_number=self._next_number)

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas of the text, and their sequence numbers."""
        self._output.skip(texts)
        self._pass_over(numbers)

    def on_block_start(self, event: Mapping[str, Any]) -> Events:
        """Begin a block."""
        given = read.mapping_or_empty(event, "content_block")
        return self._numbered(self._start_block(index_of(event) or 0, given))

    def on_delta(self, event: Mapping[str, Any]) -> Events:
        """Add a delta, by its own type: some servers put thinking into blocks of text, or leave out their start."""
        index = index_of(event) or 0
        delta = read.mapping_or_empty(event, "delta")
        kind = read.text_or_none(delta, "type") or ""
        is_first = index > self._highest and kind in IMPLIED
        events = self._start_block(index, {"type": IMPLIED[kind]}) if is_first else []
        block = self._blocks.get(index)
        if block is None:
            return self._dropped.drop("delta of an unknown block" if index in self._blocks else CLOSED_DELTA)
        add = DELTAS.get(kind)
        if add is None or (block.kind in fields.GROWING) == (add is _compaction):
            return self._dropped.drop(f"delta.{kind}")
        return self._numbered(events + add(self._output, block, delta))

    def on_block_stop(self, event: Mapping[str, Any]) -> Events:
        """End a block."""
        index = index_of(event) or 0
        if index not in self._blocks:
            return self._dropped.drop(CLOSED_STOP)
        block = self._blocks.pop(index)
        return [] if block is None else self._numbered(self._output.stop(block))

    def on_message_delta(self, event: Mapping[str, Any]) -> Events:
        """Note stop reason, container and usage, which replaces what was known."""
        self._note_end(read.mapping_or_empty(event, "delta"))
        self._note_usage(event)
        return []

    def on_message_stop(self, event: Mapping[str, Any]) -> Events:
        """End the response."""
        self._note_usage(event)
        if not self._response:
            return self._dropped.drop("stop of no message")
        return self._end()

    def on_error(self, event: Mapping[str, Any]) -> Events:
        """End the stream with an error, unless the message has its stop reason."""
        error = members_of(event)
        kind = error.type if error.type != "error" else None  # the type of the event
        return self._fail(error._replace(code=error.code or kind).event())

    def on_start(self, event: Mapping[str, Any]) -> Events:
        """Begin the response."""
        message = read.mapping_or_empty(event, MESSAGE)
        self._dropped.note_unknown_in(message, {"usage": fields.MEMBERS["usage"]})
        is_first, events = not self._response, self.on_message(message)
        if is_first and not message.get("content"):
            self._early_reason, self._reason = self._reason, None
        return events

    def on_message(self, message: Mapping[str, Any]) -> Events:
        """Begin the response, or read a whole one; a repeated start is ignored, and one of another ends the stream."""
        known, response_id = self._response.get("id"), read.text_or_none(message, "id")
        if self._response:
            if known is None or response_id in {None, known}:
                return self._dropped.drop(REPEATED_START)
            return self._another()
        self._note_usage(message)
        events = self._identify(message)
        for at, given in enumerate(self._dropped.objects(message, MESSAGE, "content", CONTENT)):
            events += self._start_block(at, given)
            block = self._blocks.pop(at, None)
            events += self._output.stop(block) if block is not None else []
        self._note_end(message)
        return self._numbered(events)

    def _identify(self, message: Mapping[str, Any]) -> list[Event]:
        response_id, model = read.text_or_none(message, "id"), read.text_or_none(message, "model")
        self._output.response_id = response_id or ""
        self._output.is_summary = self._thinks_in_summaries(model or "")
        return self._announce(id=response_id, model=model, usage=self.usage_so_far())

    def _thinks_in_summaries(self, model: str) -> bool:
        if self._profile.thinking != "auto":
            return self._profile.thinking == "summary"
        is_full = any(beta.startswith(_FULL_THINKING) for beta in self._profile.betas)
        return not is_full and _SUMMARISING.search(model) is not None

    def _start_block(self, index: int, given: Mapping[str, object]) -> list[Event]:
        """Begin a block. Some servers leave out the start of the message."""
        before = self._blocks.get(index)
        if before is not None and before.given == given and "id" in given:
            return self._dropped.drop(REPEATED_START)
        events = [] if self._response else self._identify({})
        events += [] if before is None else self._output.stop(before)
        self._highest = max(self._highest, index)
        kind = read.text_or_none(given, "type") or ""
        if kind == "fallback":
            model = read.text_or_none(read.mapping_or_empty(given, "to"), "model")
            self._response |= {"model": model} if model else {}
            self._output.is_summary = self._thinks_in_summaries(model or "")
        self._blocks[index], started = self._output.start(kind, given)
        return events + started

    def _note_end(self, source: Mapping[str, object]) -> None:
        self._reason = (read.text_or_none(source, "stop_reason") or "").lower() or self._reason
        self._details = read.mapping_or_empty(source, "stop_details") or self._details
        container = read.text_or_none(read.mapping_or_empty(source, "container"), "id")
        self._output.container_id = container or self._output.container_id

    def _note_usage(self, source: Mapping[str, object]) -> None:
        """Keep counts, which are cumulative: some servers send 0 for those that they do not know at the end."""
        usage = read.mapping_or_empty(source, "usage")
        self._usage |= {
            name: value for name, value in usage.items() if value or (value is not None and name not in self._usage)
        }

    def usage_so_far(self) -> Mapping[str, object]:
        """Return the usage that was read."""
        return fields.responses_usage(self._usage)

    def _end(self) -> Events:
        stop = self._reason or self._early_reason or "end_turn"
        if stop not in fields.ENDS:
            self._dropped.note(f"stop_reason.{stop}")
        status, reason = fields.ENDS.get(stop, ("completed", None))
        events: list[Event] = []
        open_blocks = [block for block in self._blocks.values() if block is not None]
        if stop == "refusal" and self._output.is_visible:
            status, reason = "incomplete", "content_filter"
        elif stop == "refusal":
            for block in open_blocks:
                events += self._output.stop(block)
            open_blocks = []
            events += self._output.refuse(read.text_or_none(self._details, "explanation"))
        events += self._output.end(status, open_blocks, is_cut=reason == fields.CUT)
        return self._finish(events, status, reason=reason)


EVENTS: Final[Mapping[str, Callable[[AnthropicMessagesStage, Mapping[str, Any]], Events]]] = {
    "message_start": AnthropicMessagesStage.on_start,
    MESSAGE: AnthropicMessagesStage.on_message,
    "content_block_start": AnthropicMessagesStage.on_block_start,
    DELTA: AnthropicMessagesStage.on_delta,
    "content_block_stop": AnthropicMessagesStage.on_block_stop,
    "message_delta": AnthropicMessagesStage.on_message_delta,
    "message_stop": AnthropicMessagesStage.on_message_stop,
    "ping": lambda _stage, _event: [],
    "error": AnthropicMessagesStage.on_error,
}
"""Type of an event -> what reads it."""


def _signature(_output: Output, block: Block, delta: Mapping[str, object]) -> list[Event]:
    block.signature = read.text_or_none(delta, "signature") or block.signature
    return []


def _citation(_output: Output, block: Block, delta: Mapping[str, object]) -> list[Event]:
    block.citations.append(read.mapping_or_empty(delta, "citation"))
    return []


def _compaction(_output: Output, block: Block, delta: Mapping[str, object]) -> list[Event]:
    block.given = {**block.given, **delta, "type": block.kind}
    return []


DELTAS: Final[Mapping[str, Callable[[Output, Block, Mapping[str, object]], list[Event]]]] = {
    TEXT_DELTA: lambda output, block, delta: output.text(block, read.text_or_none(delta, "text") or ""),
    "thinking_delta": lambda output, block, delta: output.thinking(block, read.text_or_none(delta, "thinking") or ""),
    "input_json_delta": lambda output, block, delta: output.input(block, read.input_text(delta, "partial_json") or ""),
    "signature_delta": _signature,
    "citations_delta": _citation,
    "compaction_delta": _compaction,
}
"""Type of a delta -> what adds it."""
