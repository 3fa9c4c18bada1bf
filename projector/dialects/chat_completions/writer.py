"""Encode frames as chunks of one chat completion: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import DeltaFrames
from projector.core.faults import FAULTS
from projector.dialects.chat_completions.chunk_stream import ANNOTATIONS_MAX_ITEMS, ChunkStream
from projector.dialects.chat_completions.completion_object import TRUNCATED, failure, usage_of
from projector.dialects.chat_completions.public_members import extension_of
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.openai_errors import error_object
from projector.redaction.policy import Policy

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

RUNNING: Final = frozenset({"queued", "in_progress"})


def on_meta(stream: ChunkStream, frame: Frame) -> None:
    """Keep model and creation time for the chunks."""
    stream.identify(frame)


def on_lifecycle(stream: ChunkStream, frame: Frame) -> None:
    """Keep the reason of an end."""
    if frame["status"] not in RUNNING:
        stream.calls.end_response()
    if "reason" in frame:
        stream.reasons[frame["status"]] = frame["reason"]


def on_item_added(stream: ChunkStream, frame: Frame) -> None:
    """Prepare a call."""
    stream.calls.add(frame)


def on_item_done(stream: ChunkStream, frame: Frame) -> None:
    """Write what waited for the end of the item."""
    for member, joined in stream.texts.items():
        stream.add_texts(member, joined.close(frame["item_id"]))
    stream.reasoning_kinds.pop(frame["item_id"], None)
    stream.add_calls(stream.calls.close(frame))


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
    """Write a delta of reasoning: of each item its summary or its full text, whichever comes first."""
    if stream.reasoning_kinds.setdefault(frame["item_id"], frame["kind"]) == frame["kind"]:
        on_text("reasoning_content", index, stream, frame)


def on_citation(stream: ChunkStream, frame: Frame) -> None:
    """Keep the citation of a web page; the API has no other."""
    is_shown = frame["citation"]["type"] == "url_citation" and frame["item_id"] not in stream.commentary
    if is_shown and len(stream.citations) < ANNOTATIONS_MAX_ITEMS:
        stream.citations.append(frame)


def on_tool_status(stream: ChunkStream, frame: Frame) -> None:
    """Write the start of a call that the client executes."""
    stream.add_calls(stream.calls.begin(frame))


def on_arguments_delta(stream: ChunkStream, frame: Frame) -> None:
    """Write a delta of the arguments."""
    stream.add_calls(stream.calls.feed(frame))


def on_arguments_done(stream: ChunkStream, frame: Frame) -> None:
    """Write arguments that came without deltas."""
    stream.add_calls(stream.calls.complete(frame))


def on_output(stream: ChunkStream, frame: Frame) -> None:
    """Record that a call needs no execution by the client."""
    stream.calls.answer(frame)


def on_final(stream: ChunkStream, frame: Frame) -> None:
    """Write what was held back, then the end."""
    final = frame["final"]
    status = final["status"]
    if status == "failed":
        stream.fail(failure(stream.reasons.get(status), stream.provider_error))
        return
    for member, name in FINAL_TEXTS.items():
        stream.add_missing(member, final.get(name, ""))
    stream.add_annotations()
    stream.add_calls(stream.calls.finish())
    finish = FINISHES[status]
    if status == "incomplete":
        finish = INCOMPLETE_FINISHES.get(stream.reasons.get(status, ""), finish)
    elif status == "completed" and stream.calls.are_waiting:
        finish = "tool_calls"
    stream.end(finish, usage_of(final["usage"]) if "usage" in final else None)


def on_error(stream: ChunkStream, frame: Frame) -> None:
    """Write the error, with the members that the provider reported."""
    error, reported = frame["error"], stream.provider_error
    if error["source"] != "provider" or error["code"] in FAULTS:
        reported = {}
    stream.fail(error_object(error["code"], error["message"], reported.get("param"), reported.get("type")))


def on_provider_error(stream: ChunkStream, frame: Frame) -> None:
    """Keep the error that the provider reported, for the end of the stream."""
    stream.provider_error = frame


HANDLED: Final[Mapping[str, Writer]] = {
    PrivateKind.RESPONSE_META: on_meta,
    Kind.LIFECYCLE: on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_item_added,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    PrivateKind.ITEM_DETAILS: on_details,
    Kind.MESSAGE_DELTA: on_content,
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REFUSAL_DELTA: partial(on_text, "refusal", "content_index"),
    Kind.REASONING_SUMMARY_DELTA: partial(on_reasoning, "summary_index"),
    PrivateKind.REASONING_DELTA: partial(on_reasoning, "content_index"),
    Kind.TOOL_STATUS: on_tool_status,
    Kind.TOOL_ARGUMENTS_DELTA: on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: on_arguments_done,
    Kind.TOOL_OUTPUT: on_output,
    Kind.FINAL: on_final,
    Kind.ERROR: on_error,
    PrivateKind.RESPONSE_ERROR: on_provider_error,
}

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "all branches are written in one completion",
    PrivateKind.RESPONSE_USAGE: "the completion has the sum over all responses",
    PrivateKind.FILE_PATH: "the API has annotations for web pages only",
    PrivateKind.REASONING_DONE: "the deltas contain the whole text",
    PrivateKind.REASONING_ENCRYPTED: "the API has no encrypted reasoning",
    Kind.REFUSAL_DONE: "the deltas contain the whole text",
    PrivateKind.ITEM_MEMBERS: "the API has no such items",
    Kind.TOOL_CODE_DELTA: "the API has no hosted tools; an extension",
    Kind.TOOL_CODE_DONE: "the API has no hosted tools; an extension",
    Kind.CHUNK_DELTA: "the API streams no images; an extension",
    Kind.CHUNK_DONE: "the API streams no images; an extension",
}
"""Frame kind -> why no chunk of the API is written."""

BEFORE_WORK: Final = frozenset(
    {
        *(PrivateKind.BRANCH, PrivateKind.RESPONSE_META, PrivateKind.RESPONSE_USAGE, PrivateKind.ITEM_DETAILS),
        *(PrivateKind.ITEM_MEMBERS, PrivateKind.RESPONSE_ERROR),
        *(Kind.LIFECYCLE, Kind.ERROR),
    }
)
"""Kinds without a first chunk: ID and model may still be unknown, and an error may be the whole stream."""


class ChatCompletions:
    """The writer of one stream: one completion, even for a run of several responses."""

    def __init__(self, policy: Policy, options: DialectOptions) -> None:
        self._stream = ChunkStream(options, policy.limits.frame_max_bytes)
        self._has_extensions = options.extensions

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the chunks of a frame. What only some clients accept comes first."""
        stream, kind = self._stream, frame["kind"]
        stream.events = []
        if kind not in BEFORE_WORK:
            stream.begin(frame)
            if self._has_extensions:
                self._add_extension(frame)
        writer = HANDLED.get(kind)
        if writer is not None:
            writer(stream, frame)
        return stream.events

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if it is commentary, or waits for another item."""
        stream = self._stream
        joined = stream.texts["content"]
        if not joined.is_current(frame["item_id"]):
            return None
        pattern = stream.pattern("content")

        def write(deltas: DeltaFrames) -> list[WireEvent]:
            joined.length += sum(map(len, deltas.texts))
            return [(None, pattern % text) for text in deltas.encoded]

        return write

    def _add_extension(self, frame: Frame) -> None:
        is_commentary = frame["kind"] == Kind.MESSAGE_DELTA and frame["item_id"] in self._stream.commentary
        members = extension_of(frame, has_chunk=not is_commentary)
        if members is not None:
            self._stream.add_extension(members)
