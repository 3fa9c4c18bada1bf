"""State of one Chat Completions stream, and its chunks: identity, joined texts, calls, annotations, the one end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.core.canonical import Frame
from projector.core.truncation import fit
from projector.dialects.answer_stream import AnswerStream, ClientCall, InTurn, seconds
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import PARAGRAPH, TEXT_PLACE, literal, pattern_of
from projector.dialects.openai_errors import error_object


class JoinedText:
    """One text made of the texts of several items, in the order in which they were streamed (CONTRACT D13).

    A completion has one `content`, one `refusal` and one `reasoning_content`. Each method returns the deltas to write
    now.

    Args:
        between_parts: text between two parts of one item.
    """

    __slots__ = ("_between_parts", "_items", "_last", "_part", "_starts", "length")

    def __init__(self, between_parts: str = PARAGRAPH) -> None:
        self.length = 0
        """Length of everything written, in code points."""
        self._starts: dict[str, dict[int, int]] = {}
        """Item -> index of a part -> the position of its text."""
        self._between_parts = between_parts
        self._items: InTurn[tuple[str, int, str]] = InTurn()
        self._last: str | None = None
        self._part = 0
        """The open item and part that were written last."""

    def __contains__(self, item_id: str) -> bool:
        """Return whether an item has text, written or waiting."""
        return item_id in self._starts or item_id in self._items.waiting

    def start(self, item_id: str, index: int) -> int:
        """Return the position of the text of a part; 0 if it has none."""
        return self._starts.get(item_id, {}).get(index, 0)

    def is_current(self, item_id: str) -> bool:
        """Return whether deltas of an item are written at once, as they are within a part."""
        return item_id == self._items.current

    def feed(self, item_id: str, index: int, delta: str) -> list[str]:
        """Add a delta of a part of an item."""
        if item_id == self._items.current and index == self._part:
            self.length += len(delta)
            return [delta]
        pieces = self._items.feed(item_id, (item_id, index, delta)) if delta else []
        return [self._write(*piece) for piece in pieces]

    def close(self, item_id: str) -> list[str]:
        """End an item."""
        self._last = None if self.is_current(item_id) else self._last
        return [self._write(*piece) for piece in self._items.close(item_id)]

    def _write(self, item_id: str, index: int, delta: str) -> str:
        """Return a delta with what separates it from the text before it."""
        separator = ""
        if item_id != self._last:
            separator = PARAGRAPH if self.length else ""
        elif index != self._part:
            separator = self._between_parts
        self._last, self._part = item_id, index
        self._starts.setdefault(item_id, {}).setdefault(index, self.length + len(separator))
        self.length += len(separator) + len(delta)
        return separator + delta


ANNOTATIONS_MAX_ITEMS: Final = 1_000
"""Limit of a container in a public event (CONTRACT D27)."""


class ChunkStream(AnswerStream):
    """One completion. The chunks of the current frame are collected in `events`.

    A call of a custom tool is written twice in each entry: as `custom`, as the API has it, and as a function whose
    arguments are the input, because the models and helpers of the SDKs reject a streamed call that is no function.
    """

    service_tiers = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})

    def __init__(self, options: DialectOptions, frame_max_bytes: int) -> None:
        super().__init__(options)
        self.texts: Mapping[str, JoinedText] = {
            "content": JoinedText(between_parts=""),
            "refusal": JoinedText(),
            "reasoning_content": JoinedText(),
        }
        """Member of a delta -> its text."""
        self.commentary: set[str] = set()
        """Messages that are not part of the answer."""
        self.citations: list[Frame] = []
        """Citations of web pages. They are written together, because clients replace the list or require an index."""
        self._frame_max_bytes = frame_max_bytes
        self._count = 0
        """Number of calls that were written."""
        self._head = self._tail = b""

    def announce(self, call: ClientCall) -> None:
        """Write the first entry of a call: ID, type and name, without any input."""
        call.place = self._count
        self._count += 1
        self._add_call(call, "", {"id": call.call_id, "type": "function"}, {"name": call.name})

    def write_input(self, call: ClientCall, fragment: str) -> None:
        """Write an entry with a fragment of the input."""
        self._add_call(call, fragment, {}, {})

    def on_sealed(self, frame: Frame) -> None:
        """Write what the client carries with a call, in the member that clients of Gemini's endpoint send back.

        It is written with the first entry of the call, or alone.
        """
        if (call := self.calls.get(frame["item_id"])) is not None:
            call.extra = {"extra_content": {"google": {"thought_signature": frame["sealed"]}}}
            if call.place is not None:
                self.write_input(call, "")

    def _add_call(self, call: ClientCall, fragment: str, first: Mapping[str, str], name: Mapping[str, str]) -> None:
        extra, call.extra = call.extra, {}
        entry = {"index": call.place, **first, "function": {**name, "arguments": fragment}, **extra}
        if call.is_custom:
            entry["custom"] = {**name, "input": fragment}
        self.add({"tool_calls": [entry]})

    def begin(self, frame: Frame) -> None:
        """Write the first chunk. It fixes ID, model, time and service tier."""
        head = {
            "id": frame.get("response_id") or frame["stream_id"],
            "object": "chat.completion.chunk",
            "created": self.created_at or seconds(frame),
            "model": self.model,
            **self.service_tier,
        }
        self._head = codec.dumps(head)[:-1] + b',"choices":['
        self._tail = b',"usage":null}' if self.options.include_usage else b"}"
        self.add({"role": "assistant", "content": ""})

    def add(self, delta: Mapping[str, Any], finish: str | None = None) -> None:
        """Write a chunk with a delta."""
        self._emit(delta, finish, self._tail)

    def pattern(self, member: str) -> bytes:
        """Return a chunk with a delta of a text as a format, with one place for the text."""
        choice = _CHOICE % (pattern_of({member: ""}, {member: TEXT_PLACE}), b"null")
        return literal(self._head) + choice + literal(self._tail)

    def add_texts(self, member: str, deltas: list[str]) -> None:
        """Write a chunk for each delta of a text."""
        for delta in deltas:
            self.add({member: delta})

    def add_extension(self, members: Frame) -> None:
        """Write a chunk with an empty delta and members of a public event, within its limit."""
        data = codec.dumps(members)
        if len(data) > self._frame_max_bytes:
            data = codec.dumps(fit(members, self._frame_max_bytes))
        self._emit({}, None, b',"public_sse":' + data + self._tail)

    def end(self, finish: str, usage: Mapping[str, Any] | None) -> None:
        """Write the finish reason, then the usage if it was requested and is known."""
        self.add({}, finish)
        if usage is not None and self.options.include_usage:
            self.events.append((None, self._head + b'],"usage":' + codec.dumps(usage) + b"}"))

    def fail(self, error: Mapping[str, Any]) -> None:
        """Write the error that ends the stream."""
        members = error_object(error["code"], error["message"], error.get("param"), error.get("type"))
        self.events.append((None, codec.dumps({"error": members})))

    def annotation(self, frame: Frame) -> dict[str, Any]:
        """Return a citation, with positions in the joined text."""
        citation, content = frame["citation"], self.texts["content"]
        start = content.start(frame["item_id"], frame["content_index"])
        indexes = ("start_index", "end_index")
        positions = {name: min(start + citation.get(name, 0), content.length) for name in indexes}
        names = {name: citation.get(name, "") for name in ("url", "title")}
        return {"type": "url_citation", "url_citation": positions | names}

    def _emit(self, delta: Mapping[str, Any], finish: str | None, tail: bytes) -> None:
        end = codec.dumps(finish) if finish else b"null"
        self.events.append((None, self._head + _CHOICE % (codec.dumps(delta), end) + tail))


_CHOICE: Final = b'{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]'
