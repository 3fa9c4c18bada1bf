"""Encode frames as chunks of one chat completion: one function for each frame kind, listed in `HANDLED`.

Before them are the joined texts and the member `public_sse`; after them the chunks: identity, calls, annotations, end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames
from projector.core.truncation import fit
from projector.dialects.answer_stream import COMMON, AnswerStream, ClientCall, InTurn, seconds
from projector.dialects.answer_stream import DROPPED as ANSWER_DROPPED
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import ENVELOPE, PARAGRAPH, TEXT_PLACE, literal, missing_texts, pattern_of
from projector.dialects.openai_errors import error_object
from projector.redaction.policy import Policy


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


# members that the API does not define

POSITION: Final = ("kind", "output_index", "item_id", "content_index", "summary_index", "tool_call_id")
"""Members of a public event that accompany its notices."""

FINAL_MEMBERS: Final = ("status", "structured_output", "attachments")
"""Members of `final` that no chunk has."""


def _notices(frame: Frame) -> Frame | None:
    if "notices" not in frame:
        return None
    return {name: frame[name] for name in (*POSITION, "notices") if name in frame}


def _whole(frame: Frame) -> Frame | None:
    return {name: value for name, value in frame.items() if name not in ENVELOPE}


def _arguments(frame: Frame) -> Frame | None:
    return _notices(frame) if frame["tool_type"] == "function" else _whole(frame)


def _citation(frame: Frame) -> Frame | None:
    return _notices(frame) if frame["citation"]["type"] == "url_citation" else _whole(frame)


def _final(frame: Frame) -> Frame | None:
    final = frame["final"]
    notices = {"notices": frame["notices"]} if "notices" in frame else {}
    return {"kind": frame["kind"], "final": {name: final[name] for name in FINAL_MEMBERS if name in final}, **notices}


EXTENSIONS: Final[Mapping[str, Callable[[Frame], Frame | None]]] = {
    **dict.fromkeys((*Kind, PrivateKind.REASONING_DELTA), _notices),
    Kind.TOOL_STATUS: _whole,
    Kind.TOOL_ARGUMENTS_DELTA: _arguments,
    Kind.TOOL_ARGUMENTS_DONE: _arguments,
    **dict.fromkeys((Kind.TOOL_CODE_DELTA, Kind.TOOL_CODE_DONE, Kind.TOOL_OUTPUT), _whole),
    **dict.fromkeys((Kind.CHUNK_DELTA, Kind.CHUNK_DONE), _whole),
    Kind.MESSAGE_CITATION: _citation,
    Kind.FINAL: _final,
    Kind.ERROR: lambda _frame: None,  # the chunk of an error has no other members
}
"""Kind -> what a public event has beyond its chunk; None if that is nothing."""


# frames

ANNOTATIONS_MAX_ITEMS: Final = 1_000
"""Limit of a container in a public event (CONTRACT D27)."""

COMMENTARY: Final = "commentary"
"""Phase of a message that announces what the model does next."""


def on_item_done(stream: ChatCompletions, frame: Frame) -> None:
    """Write what waited for the end of the item."""
    for member, joined in stream.texts.items():
        stream.add_texts(member, joined.close(frame["item_id"]))
    stream.reasoning.pop(frame["item_id"], None)
    if (call := stream.calls.get(frame["item_id"])) is not None and not stream.is_run:
        stream.release(call)


def on_details(stream: ChatCompletions, frame: Frame) -> None:
    """Read the phase of a message, unless its text has begun."""
    if frame["details"].get("phase") == COMMENTARY and frame["item_id"] not in stream.texts["content"]:
        stream.commentary.add(frame["item_id"])


def on_content(stream: ChatCompletions, frame: Frame) -> None:
    """Write a delta of the answer. Commentary is no part of it, unless nothing else follows (CONTRACT D43)."""
    if frame["item_id"] not in stream.commentary:
        on_text("content", "content_index", stream, frame)


def on_text(member: str, index: str, stream: ChatCompletions, frame: Frame) -> None:
    """Write a delta of a text."""
    stream.add_texts(member, stream.texts[member].feed(frame["item_id"], frame[index], frame["delta"]))


def on_reasoning(index: str, stream: ChatCompletions, frame: Frame) -> None:
    """Write a delta of reasoning."""
    if stream.reasoning_part(frame, index) is not None:
        on_text("reasoning_content", index, stream, frame)


def on_citation(stream: ChatCompletions, frame: Frame) -> None:
    """Keep the citation of a web page; the API has no other."""
    is_shown = frame["citation"]["type"] == "url_citation" and frame["item_id"] not in stream.commentary
    if is_shown and len(stream.citations) < ANNOTATIONS_MAX_ITEMS:
        stream.citations.append(frame)


def on_sealed(stream: ChatCompletions, frame: Frame) -> None:
    """Write what the client carries with a call, in the member that clients of Gemini's endpoint send back.

    It is written with the first entry of the call, or alone.
    """
    if (call := stream.calls.get(frame["item_id"])) is not None:
        call.extra = {"extra_content": {"google": {"thought_signature": frame["sealed"]}}}
        if call.place is not None:
            stream.write_input(call, "")


HANDLED: Final[Mapping[str, Callable[[ChatCompletions, Frame], None]]] = {
    **COMMON,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    PrivateKind.ITEM_DETAILS: on_details,
    Kind.MESSAGE_DELTA: on_content,
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REFUSAL_DELTA: partial(on_text, "refusal", "content_index"),
    Kind.REASONING_SUMMARY_DELTA: partial(on_reasoning, "summary_index"),
    PrivateKind.REASONING_DELTA: partial(on_reasoning, "content_index"),
    Kind.TOOL_STATUS: AnswerStream.on_tool_status,
    PrivateKind.CALL_SEALED: on_sealed,
}

DROPPED: Final[Mapping[str, str]] = {
    **ANSWER_DROPPED,
    PrivateKind.FILE_PATH: "the API has annotations for web pages only",
    PrivateKind.REASONING_ENCRYPTED: "the API has no encrypted reasoning",
    PrivateKind.ITEM_MEMBERS: "the API has no such items",
    **dict.fromkeys((Kind.TOOL_CODE_DELTA, Kind.TOOL_CODE_DONE), "the API has no hosted tools; an extension"),
    **dict.fromkeys((Kind.CHUNK_DELTA, Kind.CHUNK_DONE), "the API streams no images; an extension"),
}
"""Frame kind -> why no chunk of the API is written."""


# chunks

TRUNCATED: Final = "length"
"""Finish reason of an answer that is not complete."""

FINISHES: Final[Mapping[str, str]] = {
    "completed": "stop",
    "refused": "stop",
    "incomplete": TRUNCATED,
    "cancelled": TRUNCATED,
}
"""Status of `final` -> finish reason. The API has none for a cancelled response: its text is cut off as by a limit."""

INCOMPLETE_FINISHES: Final[Mapping[str, str]] = {"content_filter": "content_filter"}
"""Reason of an incomplete response -> finish reason, if it is not that of a limit."""

FINAL_TEXTS: Final[Mapping[str, str]] = {
    "content": "response_text",
    "refusal": "refusal_text",
    "reasoning_content": "reasoning_summary_text",
}
"""Member of a delta -> member of `final` with its text: it may have come too late for its frames, or be commentary."""


def usage_of(usage: Mapping[str, int]) -> dict[str, Any]:
    """Return the usage with the members of Chat Completions. The three counts are required, so an unknown one is 0."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    total = usage.get("total_tokens", read + written)
    counts: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": total}
    if "cached_input_tokens" in usage:
        counts["prompt_tokens_details"] = {"cached_tokens": usage["cached_input_tokens"]}
    if "reasoning_output_tokens" in usage:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage["reasoning_output_tokens"]}
    return counts


_CHOICE: Final = b'{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]'


class ChatCompletions(AnswerStream):
    """The writer of one stream: one completion, even for a run of several responses.

    A call of a custom tool is written twice in each entry: as `custom`, as the API has it, and as a function whose
    arguments are the input, because the models and helpers of the SDKs reject a streamed call that is no function.
    """

    writers = HANDLED
    service_tiers = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})

    def __init__(self, policy: Policy, options: DialectOptions) -> None:
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
        self._frame_max_bytes = policy.limits.frame_max_bytes
        self._count = 0
        """Number of calls that were written."""
        self._head = self._tail = b""

    def begin_work(self, frame: Frame) -> None:
        """Write the first chunk, once, and what only some clients accept before the chunks of the frame."""
        super().begin_work(frame)
        if self.options.extensions:
            self._add_extension(frame)

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
        self._add({"role": "assistant", "content": ""})

    def announce(self, call: ClientCall) -> None:
        """Write the first entry of a call: ID, type and name, without any input."""
        call.place = self._count
        self._count += 1
        self._add_call(call, "", {"id": call.call_id, "type": "function"}, {"name": call.name})

    def write_input(self, call: ClientCall, fragment: str) -> None:
        """Write an entry with a fragment of the input."""
        self._add_call(call, fragment, {}, {})

    def add_texts(self, member: str, deltas: list[str]) -> None:
        """Write a chunk for each delta of a text."""
        for delta in deltas:
            self._add({member: delta})

    def fail(self, error: Mapping[str, Any]) -> None:
        """Write the error that ends the stream."""
        members = error_object(error["code"], error["message"], error.get("param"), error.get("type"))
        self.events.append((None, codec.dumps({"error": members})))

    def finish(self, final: Frame, reason: str) -> None:
        """Write what was held back, then the finish reason, then the usage if it was requested and is known."""
        written = [name for member, name in FINAL_TEXTS.items() if self.texts[member].length]
        missing = missing_texts(final, self.late, written)
        for member, name in FINAL_TEXTS.items():
            self.add_texts(member, self.texts[member].feed(f"final.{name}", 0, missing.get(name, "")))
        if self.citations:
            self._add({"annotations": [self._annotation(frame) for frame in self.citations]})
        for call in self.calls.values():
            self.release(call)
        finish = FINISHES[final["status"]]
        if final["status"] == "incomplete":
            finish = INCOMPLETE_FINISHES.get(reason, finish)
        elif final["status"] == "completed" and self.calls:
            finish = "tool_calls"
        self._add({}, finish)
        if "usage" in final and self.options.include_usage:
            self.events.append((None, self._head + b'],"usage":' + codec.dumps(usage_of(final["usage"])) + b"}"))

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if it is commentary, or waits for another item."""
        joined = self.texts["content"]
        if not joined.is_current(frame["item_id"]):
            return None
        choice = _CHOICE % (pattern_of({"content": ""}, {"content": TEXT_PLACE}), b"null")
        pattern = literal(self._head) + choice + literal(self._tail)

        def write(deltas: DeltaFrames) -> list[bytes]:
            joined.length += sum(map(len, deltas.texts))
            return [pattern % text for text in deltas.encoded]

        return RepeatWriter(None, write)

    def _annotation(self, frame: Frame) -> dict[str, Any]:
        """Return a citation, with positions in the joined text."""
        citation, content = frame["citation"], self.texts["content"]
        start = content.start(frame["item_id"], frame["content_index"])
        indexes = ("start_index", "end_index")
        positions = {name: min(start + citation.get(name, 0), content.length) for name in indexes}
        names = {name: citation.get(name, "") for name in ("url", "title")}
        return {"type": "url_citation", "url_citation": positions | names}

    def _add_call(self, call: ClientCall, fragment: str, first: Mapping[str, str], name: Mapping[str, str]) -> None:
        extra, call.extra = call.extra, {}
        entry = {"index": call.place, **first, "function": {**name, "arguments": fragment}, **extra}
        if call.is_custom:
            entry["custom"] = {**name, "input": fragment}
        self._add({"tool_calls": [entry]})

    def _add_extension(self, frame: Frame) -> None:
        """Write a chunk with an empty delta and members of a public event, within its limit, if there are any."""
        is_commentary = frame["kind"] == Kind.MESSAGE_DELTA and frame["item_id"] in self.commentary
        extension = _whole if is_commentary else EXTENSIONS.get(frame["kind"])  # commentary has no chunk
        if extension is not None and (members := extension(frame)) is not None:
            data = codec.dumps(members)
            if len(data) > self._frame_max_bytes:
                data = codec.dumps(fit(members, self._frame_max_bytes))
            self._emit({}, None, b',"public_sse":' + data + self._tail)

    def _add(self, delta: Mapping[str, Any], finish: str | None = None) -> None:
        """Write a chunk with a delta."""
        self._emit(delta, finish, self._tail)

    def _emit(self, delta: Mapping[str, Any], finish: str | None, tail: bytes) -> None:
        end = codec.dumps(finish) if finish else b"null"
        self.events.append((None, self._head + _CHOICE % (codec.dumps(delta), end) + tail))
