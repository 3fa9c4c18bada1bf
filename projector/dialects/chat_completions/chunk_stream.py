"""State of one Chat Completions stream, and its chunks: identity, joined texts, calls, annotations, the one end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.core.canonical import Frame, WireEvent
from projector.core.context import parse_time
from projector.core.truncation import fit
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import TEXT_PLACE, literal, pattern_of

Delta: TypeAlias = dict[str, Any]
"""An entry of `tool_calls` in a chunk."""

UNNAMED: Final = "unknown"
"""Name of a call whose name has not arrived. Clients join the names of all fragments, so such a call waits."""

SERVICE_TIERS: Final = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
"""Tiers that the API has. Those of other providers are not written."""

CUSTOM: Final = "custom_tool_call"
CALLS: Final = frozenset({"function_call", CUSTOM})
"""Types of items that are calls for the client."""


class _Call:
    """One call as written so far."""

    __slots__ = ("call_id", "extra", "has_input", "held", "index", "is_custom", "name")

    def __init__(self, item_type: str) -> None:
        self.is_custom = item_type == CUSTOM
        self.call_id = ""
        self.name = UNNAMED
        self.index: int | None = None
        """Position in `tool_calls`; None until it is written."""
        self.held: list[str] = []
        """Fragments of the input that cannot be written yet."""
        self.has_input = False
        self.extra: Delta = {}
        """What the client carries for the provider, in the member that clients of Gemini's endpoint send back."""

    def entry(self, fragment: str, **first: str) -> Delta:
        """Return an entry with a fragment of the input, and for the first one ID, type and name."""
        name = {"name": first.pop("name")} if first else {}
        extra, self.extra = self.extra, {}
        entry: Delta = {"index": self.index, **first, "function": {**name, "arguments": fragment}, **extra}
        if self.is_custom:
            entry["custom"] = {**name, "input": fragment}
        return entry


class ClientCalls:
    """The calls that the client has to execute, as `tool_calls`: functions and custom tools.

    Methods that read a frame return the entries to write now. In a stream of one response each call is written as it
    arrives. In a run the host may execute a call itself, and clients execute every call that they receive; so the calls
    of a run are written at its end, without those that have an output, those of a response that was followed by another
    one, and those of a workflow, which does not wait for clients.

    A call of a custom tool is written twice in each entry: as `custom`, as the API has it, and as a function whose
    arguments are the input, because the models and helpers of the SDKs reject a streamed call that is no function.
    """

    def __init__(self, *, is_run: bool) -> None:
        self._is_run = is_run
        self._calls: dict[str, _Call] = {}
        """Item ID -> call, without those that the host executed."""
        self._count = 0
        self._has_ended = False
        """Whether the last response has ended."""

    @property
    def are_waiting(self) -> bool:
        """Whether a call that was written has no output."""
        return any(call.index is not None for call in self._calls.values())

    def end_response(self) -> None:
        """Record that a response has ended."""
        self._has_ended = True

    def add(self, frame: Frame) -> None:
        """Read the announcement of an item. Another response shows that the calls before it were executed."""
        if self._has_ended:  # parallel responses are in workflows, whose calls are not written
            self._has_ended = False
            self._calls.clear()
        if frame["item_type"] in CALLS and not (self._is_run and "workflow" in frame):
            self._calls[frame["item_id"]] = _Call(frame["item_type"])

    def begin(self, frame: Frame) -> list[Delta]:
        """Read a status; the first one has the ID and name of the call."""
        call, tool = self._calls.get(frame["item_id"]), frame["tool"]
        if call is None or call.call_id:
            return []
        call.call_id, call.name = tool["tool_call_id"], tool["name"]
        return [] if self._is_run or call.name == UNNAMED else self._announce(call)

    def seal(self, frame: Frame) -> list[Delta]:
        """Read what the client carries with a call: with its first entry, or alone."""
        call = self._calls.get(frame["item_id"])
        if call is None:
            return []
        call.extra = {"extra_content": {"google": {"thought_signature": frame["sealed"]}}}
        return [] if call.index is None else [call.entry("")]

    def feed(self, frame: Frame) -> list[Delta]:
        """Read a delta of the arguments."""
        call = self._calls.get(frame["item_id"])
        return [] if call is None else self._add_input(call, frame["delta"])

    def complete(self, frame: Frame) -> list[Delta]:
        """Read the complete arguments. They are written if no delta was."""
        call = self._calls.get(frame["item_id"])
        if call is None:
            return []
        if call.index is None:
            call.name = frame["tool_name"]
        return [] if call.has_input else self._add_input(call, frame["arguments_text"])

    def close(self, frame: Frame) -> list[Delta]:
        """Read the end of an item. A call that waited for its name is written."""
        call = self._calls.get(frame["item_id"])
        return [] if call is None or self._is_run else self._release(call)

    def answer(self, frame: Frame) -> None:
        """Read an output: the host executed the call."""
        self._calls.pop(frame["item_id"], None)

    def finish(self) -> list[Delta]:
        """Return the calls of a run that wait for the client."""
        return [entry for call in self._calls.values() for entry in self._release(call)]

    def _add_input(self, call: _Call, fragment: str) -> list[Delta]:
        if not fragment:
            return []
        call.has_input = True
        if call.index is None:
            call.held.append(fragment)
            return []
        return [call.entry(fragment)]

    def _release(self, call: _Call) -> list[Delta]:
        """Return a call that was held back, unless it is written already."""
        if call.index is not None:
            return []
        entries = self._announce(call)
        held, call.held = call.held, []
        return entries + [entry for fragment in held for entry in self._add_input(call, fragment)]

    def _announce(self, call: _Call) -> list[Delta]:
        """Return the first entry of a call: ID, type and name, without any input."""
        call.index = self._count
        self._count += 1
        return [call.entry("", id=call.call_id, type="function", name=call.name)]


BLANK_LINE: Final = "\n\n"
"""Between the texts of two items."""


class _Waiting:
    """Deltas of an item that cannot be written yet, with their parts."""

    __slots__ = ("deltas", "is_done")

    def __init__(self) -> None:
        self.deltas: list[tuple[int, str]] = []
        self.is_done = False


class JoinedText:
    """One text made of the texts of several items, in the order in which they were streamed (CONTRACT D13).

    A completion has one `content`, one `refusal` and one `reasoning_content`. One item is written at a time: texts of
    items that are streamed beside it, as by parallel branches, wait until it is done, so that sentences are never
    mixed. Each method returns the deltas to write now.

    Args:
        between_parts: text between two parts of one item.
    """

    __slots__ = ("_between_parts", "_current", "_part", "_starts", "_waiting", "length")

    def __init__(self, between_parts: str = BLANK_LINE) -> None:
        self.length = 0
        """Length of everything written, in code points."""
        self._starts: dict[str, dict[int, int]] = {}
        """Item -> index of a part -> the position of its text."""
        self._between_parts = between_parts
        self._current: str | None = None
        self._part = 0
        self._waiting: dict[str, _Waiting] = {}

    def __contains__(self, item_id: str) -> bool:
        """Return whether an item has text, written or waiting."""
        return item_id in self._starts or item_id in self._waiting

    def start(self, item_id: str, index: int) -> int:
        """Return the position of the text of a part; 0 if it has none."""
        return self._starts.get(item_id, {}).get(index, 0)

    def is_current(self, item_id: str) -> bool:
        """Return whether deltas of an item are written at once, as they are within a part."""
        return item_id == self._current

    def feed(self, item_id: str, index: int, delta: str) -> list[str]:
        """Add a delta of a part of an item."""
        if item_id == self._current and index == self._part:
            self.length += len(delta)
            return [delta]
        if not delta:
            return []
        if self._current is None or item_id == self._current:
            return [self._write(item_id, index, delta)]
        self._waiting.setdefault(item_id, _Waiting()).deltas.append((index, delta))
        return []

    def close(self, item_id: str) -> list[str]:
        """End an item. If it is the current one, the next waiting item is written."""
        if item_id != self._current:
            if item_id in self._waiting:
                self._waiting[item_id].is_done = True
            return []
        self._current = None
        written: list[str] = []
        while self._waiting:
            following = next(iter(self._waiting))
            waiting = self._waiting.pop(following)
            written += [self._write(following, index, delta) for index, delta in waiting.deltas]
            if not waiting.is_done:
                break
            self._current = None
        return written

    def _write(self, item_id: str, index: int, delta: str) -> str:
        """Return a delta with what separates it from the text before it."""
        separator = ""
        if item_id != self._current:
            separator = BLANK_LINE if self.length else ""
        elif index != self._part:
            separator = self._between_parts
        self._current, self._part = item_id, index
        self._starts.setdefault(item_id, {}).setdefault(index, self.length + len(separator))
        self.length += len(separator) + len(delta)
        return separator + delta


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
        if meta.get("service_tier") in SERVICE_TIERS:
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
