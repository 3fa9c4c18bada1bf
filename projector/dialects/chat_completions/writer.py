"""Encode frames as chunks of one chat completion: one function for each frame kind, listed in `HANDLED`.

Before them are the member `public_sse`, the shape of usage and failures, and the JSON answer made of the chunks.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames
from projector.dialects.answer_stream import ANSWER_MAX_BYTES, COMMON, LimitedAnswer
from projector.dialects.answer_stream import DROPPED as ANSWER_DROPPED
from projector.dialects.chat_completions.chunk_stream import ANNOTATIONS_MAX_ITEMS, ChunkStream
from projector.dialects.descriptor import DialectOptions, JsonAnswer, RepeatWriter
from projector.dialects.frame_writer import ENVELOPE, missing_texts
from projector.dialects.openai_errors import status_of
from projector.redaction.policy import Policy

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


ERROR_PREFIX: Final = b'{"error":'
"""Start of the data of an error, as this dialect encodes it."""

HEAD: Final = ("id", "created", "model", "service_tier")
"""Members of a chunk that a completion has too."""

TEXTS: Final = ("content", "refusal", "reasoning_content")
"""Members of a delta that are joined."""

TRUNCATED: Final = "length"
"""Finish reason of an answer that is not complete."""


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


class CompletionAssembly(LimitedAnswer):
    """Builder of the JSON answer, from the chunks of a stream."""

    def __init__(self, max_bytes: int = ANSWER_MAX_BYTES) -> None:
        super().__init__(max_bytes)
        self._error = b""
        self._head: dict[str, Any] = {}
        self._finish: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._texts: dict[str, io.StringIO] = {}
        self._calls: list[dict[str, Any]] = []
        """Calls, each with the text of its input as a buffer."""
        self._annotations: list[Any] = []
        self._extensions: list[Any] = []

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        if event.startswith(ERROR_PREFIX):
            self._error = event
            self._fits(len(event), is_needed=True)
            return
        chunk = codec.loads(event)
        self._head = self._head or {name: chunk[name] for name in HEAD if name in chunk}
        self._usage = chunk.get("usage") or self._usage
        if "public_sse" in chunk and self._fits(len(codec.dumps(chunk["public_sse"]))):
            self._extensions.append(chunk["public_sse"])
        for choice in chunk["choices"]:
            self._finish = choice["finish_reason"] or self._finish
            self._add(choice["delta"])

    def close(self) -> JsonAnswer:
        """Return the `chat.completion` or `{"error": ...}`, or raise `ValueError` if the stream did not end."""
        if self._error:
            error = codec.loads(self._error)["error"]
            return JsonAnswer(status_of(error["code"], error["type"]), {"error": error})
        if self._finish is None:
            raise ValueError("expected a complete Chat Completions stream, but no chunk has a finish reason")
        finish = TRUNCATED if self._is_truncated else self._finish
        body: dict[str, Any] = {**self._head, "object": "chat.completion"}
        body["choices"] = [{"index": 0, "message": self._message(), "logprobs": None, "finish_reason": finish}]
        if self._usage is not None:
            body["usage"] = self._usage
        if self._extensions:
            body["public_sse"] = self._extensions
        return JsonAnswer(200, body)

    def _message(self) -> dict[str, Any]:
        texts = {name: text for name, joined in self._texts.items() if (text := joined.getvalue())}
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, **texts}
        if self._annotations:
            message["annotations"] = self._annotations
        if self._calls:
            message["tool_calls"] = [_whole_call(call) for call in self._calls]
        return message

    def _add(self, delta: Mapping[str, Any]) -> None:
        for name in TEXTS:
            if (text := delta.get(name)) and self._fits(len(codec.dumps(text))):
                self._texts.setdefault(name, io.StringIO()).write(text)
        for entry in delta.get("tool_calls", ()):
            self._add_call(entry)
        if "annotations" in delta and self._fits(len(codec.dumps(delta["annotations"]))):
            self._annotations += delta["annotations"]

    def _add_call(self, entry: Mapping[str, Any]) -> None:
        kind = "custom" if "custom" in entry else "function"  # a custom call is written in both forms
        body, member = entry[kind], _INPUTS[kind]
        if "id" in entry and self._fits(len(codec.dumps([entry["id"], body["name"]]))):
            self._calls.append({"id": entry["id"], "type": kind, kind: {"name": body["name"], member: io.StringIO()}})
        if "extra_content" in entry and self._fits(len(codec.dumps(entry["extra_content"]))):
            self._calls[entry["index"]]["extra_content"] = entry["extra_content"]
        fragment = body[member]
        if fragment and self._fits(len(codec.dumps(fragment))):
            self._calls[entry["index"]][kind][member].write(fragment)


_INPUTS: Final = {"custom": "input", "function": "arguments"}
"""Kind of a call -> its member with the input."""


def _whole_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with the text of its input."""
    kind, member = call["type"], _INPUTS[call["type"]]
    return {**call, kind: {**call[kind], member: call[kind][member].getvalue()}}


Writer: TypeAlias = Callable[[ChunkStream, Frame], None]

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

COMMENTARY: Final = "commentary"
"""Phase of a message that announces what the model does next."""


def on_item_done(stream: ChunkStream, frame: Frame) -> None:
    """Write what waited for the end of the item."""
    for member, joined in stream.texts.items():
        stream.add_texts(member, joined.close(frame["item_id"]))
    stream.reasoning.pop(frame["item_id"], None)
    if (call := stream.calls.get(frame["item_id"])) is not None and not stream.is_run:
        stream.release(call)


def on_details(stream: ChunkStream, frame: Frame) -> None:
    """Read the phase of a message, unless its text has begun."""
    if frame["details"].get("phase") == COMMENTARY and frame["item_id"] not in stream.texts["content"]:
        stream.commentary.add(frame["item_id"])


def on_content(stream: ChunkStream, frame: Frame) -> None:
    """Write a delta of the answer. Commentary is no part of it, unless nothing else follows (CONTRACT D43)."""
    if frame["item_id"] not in stream.commentary:
        on_text("content", "content_index", stream, frame)


def on_text(member: str, index: str, stream: ChunkStream, frame: Frame) -> None:
    """Write a delta of a text."""
    stream.add_texts(member, stream.texts[member].feed(frame["item_id"], frame[index], frame["delta"]))


def on_reasoning(index: str, stream: ChunkStream, frame: Frame) -> None:
    """Write a delta of reasoning."""
    if stream.reasoning_part(frame, index) is not None:
        on_text("reasoning_content", index, stream, frame)


def on_citation(stream: ChunkStream, frame: Frame) -> None:
    """Keep the citation of a web page; the API has no other."""
    is_shown = frame["citation"]["type"] == "url_citation" and frame["item_id"] not in stream.commentary
    if is_shown and len(stream.citations) < ANNOTATIONS_MAX_ITEMS:
        stream.citations.append(frame)


HANDLED: Final[Mapping[str, Writer]] = {
    **COMMON,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    PrivateKind.ITEM_DETAILS: on_details,
    Kind.MESSAGE_DELTA: on_content,
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REFUSAL_DELTA: partial(on_text, "refusal", "content_index"),
    Kind.REASONING_SUMMARY_DELTA: partial(on_reasoning, "summary_index"),
    PrivateKind.REASONING_DELTA: partial(on_reasoning, "content_index"),
    Kind.TOOL_STATUS: ChunkStream.on_tool_status,
    PrivateKind.CALL_SEALED: ChunkStream.on_sealed,
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


class ChatCompletions(ChunkStream):
    """The writer of one stream: one completion, even for a run of several responses."""

    writers = HANDLED

    def __init__(self, policy: Policy, options: DialectOptions) -> None:
        super().__init__(options, policy.limits.frame_max_bytes)

    def begin_work(self, frame: Frame) -> None:
        """Write the first chunk, once, and what only some clients accept before the chunks of the frame."""
        super().begin_work(frame)
        if self.options.extensions:
            self._add_extension(frame)

    def finish(self, final: Frame, reason: str) -> None:
        """Write what was held back, then the end."""
        written = [name for member, name in FINAL_TEXTS.items() if self.texts[member].length]
        missing = missing_texts(final, self.late, written)
        for member, name in FINAL_TEXTS.items():
            self.add_texts(member, self.texts[member].feed(f"final.{name}", 0, missing.get(name, "")))
        if self.citations:
            self.add({"annotations": [self.annotation(frame) for frame in self.citations]})
        for call in self.calls.values():
            self.release(call)
        finish = FINISHES[final["status"]]
        if final["status"] == "incomplete":
            finish = INCOMPLETE_FINISHES.get(reason, finish)
        elif final["status"] == "completed" and self.calls:
            finish = "tool_calls"
        self.end(finish, usage_of(final["usage"]) if "usage" in final else None)

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if it is commentary, or waits for another item."""
        joined = self.texts["content"]
        if not joined.is_current(frame["item_id"]):
            return None
        pattern = self.pattern("content")

        def write(deltas: DeltaFrames) -> list[bytes]:
            joined.length += sum(map(len, deltas.texts))
            return [pattern % text for text in deltas.encoded]

        return RepeatWriter(None, write)

    def _add_extension(self, frame: Frame) -> None:
        is_commentary = frame["kind"] == Kind.MESSAGE_DELTA and frame["item_id"] in self.commentary
        extension = _whole if is_commentary else EXTENSIONS.get(frame["kind"])  # commentary has no chunk
        if extension is not None and (members := extension(frame)) is not None:
            self.add_extension(members)
