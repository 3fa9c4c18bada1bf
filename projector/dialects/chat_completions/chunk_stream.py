"""State of one Chat Completions stream, and its chunks: identity, texts, calls, annotations, the one end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.core.canonical import Frame, WireEvent
from projector.core.context import parse_time
from projector.core.truncation import fit
from projector.dialects.chat_completions.client_calls import ClientCalls, Delta
from projector.dialects.chat_completions.joined_text import JoinedText
from projector.dialects.delta_pattern import TEXT_PLACE, literal, pattern_of
from projector.dialects.descriptor import DialectOptions

UNKNOWN: Final = "unknown"
"""Model of a response whose provider did not name it."""

ANNOTATIONS_MAX_ITEMS: Final = 1_000
"""Limit of a container in a public event (CONTRACT D27)."""


class ChunkStream:
    """One completion. The chunks of the current frame are collected in `events`."""

    def __init__(self, options: DialectOptions, frame_max_bytes: int) -> None:
        self.events: list[WireEvent] = []
        self.texts: Mapping[str, JoinedText] = {
            "content": JoinedText(between_parts=""),
            "refusal": JoinedText(),
            "reasoning_content": JoinedText(),
        }
        """Member of a delta -> its text."""
        self.reasoning_kinds: dict[str, str] = {}
        """Open reasoning item -> the kind of frame that its text is read from."""
        self.commentary: set[str] = set()
        """Messages that are not part of the answer."""
        self.calls = ClientCalls(is_run=options.is_run)
        self.provider_error: Frame = {}
        """The error that the provider reported last."""
        self.citations: list[Frame] = []
        """Citations of web pages. They are written together, because clients replace the list or require an index."""
        self.reasons: dict[str, str] = {}
        """Status of a response -> the last reason of it."""
        self._options = options
        self._frame_max_bytes = frame_max_bytes
        self._model = UNKNOWN
        self._tier: dict[str, str] = {}
        self._created = 0
        self._has_begun = False
        self._head = self._tail = b""

    def identify(self, meta: Frame) -> None:
        """Read model, creation time and service tier from `response.meta`. Those of the first response are kept."""
        if self._model == UNKNOWN:
            self._model = meta.get("model", UNKNOWN)
        self._created = self._created or meta.get("created_at", 0)
        if "service_tier" in meta:
            self._tier = {"service_tier": meta["service_tier"]}

    def begin(self, frame: Frame) -> None:
        """Write the first chunk, once. It fixes ID, model, time and service tier."""
        if self._has_begun:
            return
        self._has_begun = True
        created = self._created or int(parse_time(frame["server_timestamp"], "server_timestamp"))
        head = {
            "id": frame.get("response_id") or frame["stream_id"],
            "object": "chat.completion.chunk",
            "created": created,
            "model": self._model,
            **self._tier,
        }
        self._head = codec.dumps(head)[:-1] + b',"choices":['
        self._tail = b',"usage":null}' if self._options.include_usage else b"}"
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

    def add_missing(self, member: str, text: str) -> None:
        """Write a whole text, if nothing of it was written."""
        joined = self.texts[member]
        if text and not joined.length:
            joined.length = len(text)
            self.add({member: text})

    def add_calls(self, entries: list[Delta]) -> None:
        """Write a chunk for each entry of `tool_calls`."""
        for entry in entries:
            self.add({"tool_calls": [entry]})

    def add_extension(self, members: Frame) -> None:
        """Write a chunk with an empty delta and members of a public event, within its limit."""
        data = codec.dumps(members)
        if len(data) > self._frame_max_bytes:
            data = codec.dumps(fit(members, self._frame_max_bytes))
        self._emit({}, None, b',"public_sse":' + data + self._tail)

    def add_annotations(self) -> None:
        """Write the citations, with positions in the joined text."""
        if self.citations:
            self.add({"annotations": [self._annotation(frame) for frame in self.citations]})

    def end(self, finish: str, usage: Mapping[str, Any] | None) -> None:
        """Write the finish reason, then the usage if it was requested and is known."""
        self.add({}, finish)
        if usage is not None and self._options.include_usage:
            self.events.append((None, self._head + b'],"usage":' + codec.dumps(usage) + b"}"))

    def fail(self, error: Mapping[str, Any]) -> None:
        """Write the error that ends the stream."""
        self.events.append((None, codec.dumps({"error": error})))

    def _annotation(self, frame: Frame) -> dict[str, Any]:
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
