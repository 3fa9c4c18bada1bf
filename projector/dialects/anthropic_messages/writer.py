"""Encode frames as events of one message: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import SEARCH_ID, SIGNATURE, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent, object_in
from projector.dialects.answer_stream import ANSWER_MAX_BYTES, COMMON, AnswerStream, ClientCall, InTurn, LimitedAnswer
from projector.dialects.answer_stream import DROPPED as ANSWER_DROPPED
from projector.dialects.anthropic_messages.errors import TYPE_STATUSES, stream_error
from projector.dialects.descriptor import DialectOptions, JsonAnswer, RepeatWriter
from projector.dialects.frame_writer import PARAGRAPH, TEXT_PLACE, missing_texts, pattern_of

# blocks

Event: TypeAlias = dict[str, Any]

DELTAS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "signature": ("signature_delta", "signature"),
    "tool_use": ("input_json_delta", "partial_json"),
    "citations": ("citations_delta", "citation"),
}
"""What a delta continues -> its type, and its member."""


class Block(NamedTuple):
    """A block of an item, before it has a number."""

    item_id: str
    part: int | str
    """What distinguishes it from other blocks of its item."""
    start: Mapping[str, Any]
    """`content_block` of its start."""


def delta_event(index: int, kind: str, value: object) -> Event:
    """Return the event of a delta."""
    delta_type, member = DELTAS[kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": delta_type, member: value}}


# frames

TEXT: Final[Mapping[str, Any]] = {"type": "text", "text": ""}
THINKING: Final[Mapping[str, Any]] = {"type": "thinking", "thinking": "", "signature": ""}

_RESPONSE_TEXT: Final = "response_text"
_REFUSAL_TEXT: Final = "refusal_text"


def on_item_done(stream: AnthropicMessages, frame: Frame) -> None:
    """Stop the block of an item, and write what waited for it.

    The block of an incomplete call stays open until the message ends: clients execute a call when its block stops, also
    if an error follows.
    """
    item_id = frame["item_id"]
    call = stream.calls.get(item_id)
    if call is not None and frame["status"] == "incomplete":
        return
    if call is not None and not stream.is_run:
        stream.end_call(call)
    stream.close_item(item_id)
    stream.reasoning.pop(item_id, None)


def on_members(stream: AnthropicMessages, frame: Frame) -> None:
    """Keep the toolset of a call, by which clients find their function."""
    if "toolset_name" in frame["details"]:
        stream.members[frame["item_id"]] = {"toolset_name": frame["details"]["toolset_name"]}


def on_text(member: str, stream: AnthropicMessages, frame: Frame) -> None:
    """Write a delta of a text or a refusal, which is a text too."""
    if frame["delta"]:
        stream.texts.add(member)
        stream.write(Block(frame["item_id"], f"{member}.{frame['content_index']}", TEXT), "text", frame["delta"])


def on_citation(stream: AnthropicMessages, frame: Frame) -> None:
    """Write the citation of a web page while the block of its text is open."""
    citation, part = frame["citation"], f"{_RESPONSE_TEXT}.{frame['content_index']}"
    if citation["type"] != "url_citation" or not stream.is_open(frame["item_id"], part):
        return
    names = {"url": citation.get("url", ""), "title": citation.get("title")}
    hidden = {"cited_text": "", "encrypted_index": ""}
    value = {"type": "web_search_result_location", **names, **hidden}
    stream.write(Block(frame["item_id"], part, TEXT), "citations", value)


def on_reasoning(index: str, stream: AnthropicMessages, frame: Frame) -> None:
    """Write a delta of reasoning. All parts of an item are one block, because it has one signature."""
    last = stream.reasoning_part(frame, index) if frame["delta"] else None
    if last is not None:
        separator = "" if frame[index] == last else PARAGRAPH
        stream.write(Block(frame["item_id"], 0, THINKING), "thinking", separator + frame["delta"])


def on_encrypted(stream: AnthropicMessages, frame: Frame) -> None:
    """Write encrypted reasoning as the signature, which is the last delta of a block."""
    stream.write(Block(frame["item_id"], 0, THINKING), "signature", SIGNATURE + frame["encrypted_content"])


def on_tool_status(stream: AnthropicMessages, frame: Frame) -> None:
    """Write the start of a call that the client executes, or a search that is done."""
    tool = frame["tool"]
    is_search = tool["tool_type"] == "web_search" and "query" in tool and tool["status"] == "completed"
    if is_search and stream.options.extensions:
        write_search(stream, frame["item_id"], tool)
    stream.on_tool_status(frame)


def write_search(stream: AnthropicMessages, item_id: str, tool: Mapping[str, Any]) -> None:
    """Write a search of the provider, and the addresses that it found."""
    call_id = SEARCH_ID + tool["tool_call_id"]
    call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}
    hidden = {"title": "", "encrypted_content": "", "page_age": None}
    found = [{"type": "web_search_result", "url": url, **hidden} for url in tool.get("sources", ())]
    result = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": found}
    stream.write(Block(item_id, 0, call), "tool_use", codec.dumps({"query": tool["query"]}).decode())
    stream.write(Block(item_id, 1, result), "tool_use", "")
    stream.close_item(item_id)


HANDLED: Final[Mapping[str, Callable[[AnthropicMessages, Frame], None]]] = {
    **COMMON,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    PrivateKind.ITEM_MEMBERS: on_members,
    Kind.MESSAGE_DELTA: partial(on_text, _RESPONSE_TEXT),
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REFUSAL_DELTA: partial(on_text, _REFUSAL_TEXT),
    Kind.REASONING_SUMMARY_DELTA: partial(on_reasoning, "summary_index"),
    PrivateKind.REASONING_DELTA: partial(on_reasoning, "content_index"),
    PrivateKind.REASONING_ENCRYPTED: on_encrypted,
    Kind.TOOL_STATUS: on_tool_status,
}

DROPPED: Final[Mapping[str, str]] = {
    **ANSWER_DROPPED,
    PrivateKind.CALL_SEALED: "a call has no member for it",
    PrivateKind.ITEM_DETAILS: "the API has no phases of messages",
    PrivateKind.FILE_PATH: "the API has no such citation",
    Kind.TOOL_CODE_DELTA: "tools that the provider executes are not written; the text is complete without them",
    Kind.TOOL_CODE_DONE: "tools that the provider executes are not written; the text is complete without them",
    **dict.fromkeys((Kind.CHUNK_DELTA, Kind.CHUNK_DONE), "the API streams no images"),
}
"""Frame kind -> why no event is written."""


# the message

FINISHES: Final[Mapping[str, str]] = {"completed": "end_turn", "refused": "refusal", "cancelled": "pause_turn"}
"""Status of `final` -> stop reason. The API has none for a cancelled response; clients end the turn at this one, and
do not repeat the request."""

INCOMPLETE_FINISHES: Final[Mapping[str, str]] = {
    "content_filter": "refusal",
    "pause_turn": "pause_turn",
    "compaction": "pause_turn",
    "model_context_window_exceeded": "model_context_window_exceeded",
}
"""Reason of an incomplete response -> stop reason; for any other it is `max_tokens`."""

_CACHE: Final[Mapping[str, int]] = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def usage_of(usage: Mapping[str, int], estimate: int) -> dict[str, Any]:
    """Return the usage with the members of the API, whose input tokens are without the cached ones."""
    cached = usage.get("cached_input_tokens", 0)
    read = max(usage["input_tokens"] - cached, 0) if "input_tokens" in usage else estimate
    counts: dict[str, Any] = {"input_tokens": read, **_CACHE, "cache_read_input_tokens": cached}
    counts["output_tokens"] = usage.get("output_tokens", 0)
    if "reasoning_output_tokens" in usage:
        counts["output_tokens_details"] = {"thinking_tokens": usage["reasoning_output_tokens"]}
    return counts


class AnthropicMessages(AnswerStream):
    """The writer of one stream: one message, even for a run of several responses."""

    writers = HANDLED

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(options)
        self._count = 0
        """Number of blocks that have started."""
        self.members: dict[str, Mapping[str, Any]] = {}
        """Item -> further members of its call, which come before its name."""
        self.texts: set[str] = set()
        """Members of `final` of which some text was written."""
        self.has_calls = False
        self._block: Block | None = None
        """The open block."""
        self._items: InTurn[tuple[Block, str, object]] = InTurn()
        """Deltas: the blocks of one item are written at a time."""

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        super().feed(frame)
        return [(event["type"], codec.dumps(event)) for event in self.events]

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if it waits for another item."""
        if not self.is_open(frame["item_id"], f"{_RESPONSE_TEXT}.{frame['content_index']}"):
            return None
        event = delta_event(self._count - 1, "text", "")
        delta = pattern_of(event["delta"], {"text": TEXT_PLACE})
        pattern = pattern_of(event, {"delta": delta})
        return RepeatWriter(event["type"], lambda deltas: [pattern % text for text in deltas.encoded])

    def fail(self, error: Mapping[str, Any]) -> None:
        """Write the error that ends the stream."""
        known = {"is_retryable": error.get("is_retryable", False), "request_id": self.options.request_id}
        self.events.append(stream_error(error["code"], error["message"], error.get("type"), **known))

    def begin_work(self, frame: Frame) -> None:
        """Write the first event, once. A stream may be nothing but a response that failed."""
        if not (frame["kind"] == Kind.FINAL and frame["final"]["status"] == "failed"):
            super().begin_work(frame)

    def begin(self, frame: Frame) -> None:
        """Write the first event."""
        usage = {"input_tokens": self.options.input_tokens, **_CACHE, "output_tokens": 1}
        message = {
            "id": frame.get("response_id") or frame["stream_id"],
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        self.events.append({"type": "message_start", "message": message})

    def is_open(self, item_id: str, part: int | str) -> bool:
        """Return whether deltas of a block are written at once, without a start."""
        return self._block is not None and self._block[:2] == (item_id, part)

    def write(self, block: Block, kind: str, value: object) -> None:
        """Write a delta of a block, as soon as it is the turn of its item. An empty one only starts the block."""
        self._write_pieces(self._items.feed(block.item_id, (block, kind, value)))

    def close_item(self, item_id: str) -> None:
        """End an item, and its block if it is the current one; write what waited for it."""
        self._write_pieces(self._items.close(item_id))
        if self._items.current is None:
            self._stop_block()

    def _write_pieces(self, pieces: list[tuple[Block, str, object]]) -> None:
        for block, kind, value in pieces:
            if not self.is_open(block.item_id, block.part):
                self._stop_block()
                start = {"type": "content_block_start", "index": self._count, "content_block": dict(block.start)}
                self.events.append(start)
                self._block = block
                self._count += 1
            if value:
                self.events.append(delta_event(self._count - 1, kind, value))

    def _stop_block(self) -> None:
        if self._block is not None:
            self._block = None
            self.events.append({"type": "content_block_stop", "index": self._count - 1})

    def announce(self, call: ClientCall) -> None:
        """Start the block of a call."""
        members = self.members.pop(call.item_id, {})
        start = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}, **members}
        call.place = Block(call.item_id, 0, start)
        self.has_calls = True
        self.write(call.place, "tool_use", '{"input":"' if call.is_custom else "")

    def write_input(self, call: ClientCall, fragment: str) -> None:
        """Write a fragment of the input of a call. That of a custom tool is a text, and becomes a member."""
        text = codec.dumps(fragment)[1:-1].decode() if call.is_custom else fragment
        self.write(call.place, "tool_use", text)

    def end_call(self, call: ClientCall) -> None:
        """Write the rest of a call: an input is always an object."""
        self.release(call)
        if call.is_custom:
            self.write(call.place, "tool_use", '"}')
        elif not call.has_input:
            self.write(call.place, "tool_use", "{}")

    def finish(self, final: Frame, reason: str) -> None:
        """Write what was held back, then stop reason, usage, and the end."""
        missing = missing_texts(final, self.late, self.texts)
        for member in (_RESPONSE_TEXT, _REFUSAL_TEXT):
            if member in missing:
                self.write(Block(f"final.{member}", 0, TEXT), "text", missing[member])
                self.close_item(f"final.{member}")
        for item_id, call in self.calls.items() if self.is_run else ():
            self.end_call(call)
            self.close_item(item_id)
        stop = FINISHES.get(final["status"]) or INCOMPLETE_FINISHES.get(reason, "max_tokens")
        if final["status"] == "completed" and self.has_calls:
            stop = "tool_use"
        delta: Event = {"stop_reason": stop, "stop_sequence": None}
        if stop == "refusal":
            explanation = final.get(_REFUSAL_TEXT)
            delta["stop_details"] = {"type": "refusal", "category": None, "explanation": explanation}
        usage = usage_of(final.get("usage", {}), self.options.input_tokens)
        for item_id in self._items.all():
            self.close_item(item_id)
        self.events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


# the JSON answer

INVALID: Final = "INVALID_JSON"
"""Member of the input of a call whose arguments are no JSON object: the API documents this name for sending one."""

_MEMBERS: Final[Mapping[str, str]] = dict(DELTAS.values())
"""Type of a delta -> its member."""


class MessageAssembly(LimitedAnswer):
    """Builder of the message, from the events of a stream."""

    def __init__(self, max_bytes: int = ANSWER_MAX_BYTES) -> None:
        super().__init__(max_bytes)
        self.message: dict[str, Any] = {}
        self.ends: list[Mapping[str, Any]] = []
        """Its last event, which may be an error."""
        self._texts: dict[str, io.StringIO] = {}
        """Member of the open block -> what its deltas join to."""

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        read = codec.loads(event)
        if self._fits(len(event), is_needed=read["type"] in _BEYOND_LIMIT):
            _READERS[read["type"]](self, read)

    def close(self) -> JsonAnswer:
        """Return the message or the error, or raise `ValueError` if the stream did not end."""
        if not self.ends:
            raise ValueError("expected a complete Messages stream, but it has no `message_stop`")
        error = self.ends[-1].get("error")
        return (
            JsonAnswer(200, self.message) if error is None else JsonAnswer(TYPE_STATUSES[error["type"]], self.ends[-1])
        )

    def on_delta(self, event: Mapping[str, Any]) -> None:
        """Continue the last block."""
        delta = event["delta"]
        member = _MEMBERS[delta["type"]]
        if member == "citation":
            self.message["content"][-1].setdefault("citations", []).append(delta[member])
        else:
            self._texts.setdefault(member, io.StringIO()).write(delta[member])

    def on_stop(self, _event: Mapping[str, Any]) -> None:
        """Complete the last block."""
        for member, text in self._texts.items():
            block, value = self.message["content"][-1], text.getvalue()
            if member == "partial_json":  # the input of a call, which is always an object
                found = object_in(value)
                block["input"] = {INVALID: value} if found is None else found
            else:
                block[member] = value
        self._texts = {}

    def on_end(self, event: Mapping[str, Any]) -> None:
        """Read stop reason and usage."""
        self.message.update(event["delta"])
        self.message["usage"].update(event["usage"])
        if self._is_truncated:
            self.on_stop(event)
            self.message["stop_reason"] = "max_tokens"


_READERS: Final[Mapping[str, Callable[[MessageAssembly, dict[str, Any]], None]]] = {
    "message_start": lambda answer, event: answer.message.update(event["message"]),
    "content_block_start": lambda answer, event: answer.message["content"].append(event["content_block"]),
    "content_block_delta": MessageAssembly.on_delta,
    "content_block_stop": MessageAssembly.on_stop,
    "message_delta": MessageAssembly.on_end,
    "message_stop": lambda answer, event: answer.ends.append(event),
    "error": lambda answer, event: answer.ends.append(event),
}
_BEYOND_LIMIT: Final = frozenset({"message_start", "message_delta", "message_stop", "error"})
"""Events that are read when the answer is full."""
