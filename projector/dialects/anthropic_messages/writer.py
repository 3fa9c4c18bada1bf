"""Encode frames as events of one message: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import DeltaFrames
from projector.core.faults import FAULTS
from projector.dialects.anthropic_messages.blocks import Block, ContentBlocks, Event, delta_event
from projector.dialects.anthropic_messages.errors import stream_error
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import TEXT_PLACE, literal, pattern_of

UNKNOWN: Final = "unknown"
"""Model of a response whose provider did not name it, and name of a call whose name has not arrived."""

SIGNATURE: Final = f"{VENDOR}."
"""Start of our signatures, so that encrypted reasoning comes back as what it is."""

SEARCH_ID: Final = "srvtoolu_public_sse_"
"""Start of our IDs of searches, whose blocks are for the client only."""

CUSTOM: Final = "custom_tool_call"
CALLS: Final = frozenset({"function_call", CUSTOM})
"""Types of items that are calls for the client."""

TEXT: Final[Mapping[str, Any]] = {"type": "text", "text": ""}
THINKING: Final[Mapping[str, Any]] = {"type": "thinking", "thinking": "", "signature": ""}

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


class _Call:
    """A call for the client, as read so far."""

    __slots__ = ("block", "call_id", "has_input", "held", "is_custom", "name")

    def __init__(self, item_type: str) -> None:
        self.is_custom = item_type == CUSTOM
        self.call_id = ""
        self.name = UNKNOWN
        self.block: Block | None = None
        """Its block; None until it is written."""
        self.held: list[str] = []
        """Fragments of the input that cannot be written yet."""
        self.has_input = False


class MessageStream:
    """One message. The events of the current frame are collected in `events`."""

    def __init__(self, options: DialectOptions) -> None:
        self.events: list[Event] = []
        self.blocks = ContentBlocks()
        self.calls: dict[str, _Call] = {}
        """Item -> its call, without those that the host executed."""
        self.members: dict[str, Mapping[str, Any]] = {}
        """Item -> further members of its call, which come before its name."""
        self.reasoning_kinds: dict[str, tuple[str, int]] = {}
        """Reasoning item -> the kind of frame that its text is read from, and the last part."""
        self.provider_error: Frame = {}
        """The error that the provider reported last."""
        self.reasons: dict[str, str] = {}
        """Status of a response -> the last reason of it."""
        self.texts: set[str] = set()
        """Members of `final` of which some text was written."""
        self.has_calls = False
        self.is_run = options.is_run
        self.has_ended = False
        """Whether the last response has ended."""
        self.shows_searches = options.extensions
        self._input_tokens = options.input_tokens
        self._request_id = options.request_id
        self._model = UNKNOWN
        self._has_begun = False

    def identify(self, meta: Frame) -> None:
        """Read the model from `response.meta`. That of the first response is kept."""
        if self._model == UNKNOWN:
            self._model = meta.get("model", UNKNOWN)

    def fail(self, code: str, message: str, reported: str | None, *, is_retryable: bool = False) -> None:
        """Write the error that ends the stream."""
        found = stream_error(code, message, reported, is_retryable=is_retryable, request_id=self._request_id)
        self.events.append(found)

    def begin(self, frame: Frame) -> None:
        """Write the first event, once."""
        if self._has_begun:
            return
        self._has_begun = True
        usage = {"input_tokens": self._input_tokens, **_CACHE, "output_tokens": 1}
        message = {
            "id": frame.get("response_id") or frame["stream_id"],
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        self.events.append({"type": "message_start", "message": message})

    def write(self, block: Block, kind: str, value: object) -> None:
        """Write a delta of a block."""
        self.events += self.blocks.feed(block, kind, value)

    def announce(self, item_id: str, call: _Call) -> None:
        """Start the block of a call, and write what was held of its input."""
        if call.block is not None:
            return
        members = self.members.pop(item_id, {})
        start = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}, **members}
        call.block = Block(item_id, 0, start)
        self.has_calls = True
        self.write(call.block, "tool_use", '{"input":"' if call.is_custom else "")
        held, call.held = call.held, []
        for fragment in held:
            self.add_input(call, fragment)

    def add_input(self, call: _Call, fragment: str) -> None:
        """Write a fragment of the input of a call. That of a custom tool is a text, and becomes a member."""
        call.has_input = call.has_input or bool(fragment)
        if call.block is None:
            call.held.append(fragment)
        elif fragment:
            text = codec.dumps(fragment)[1:-1].decode() if call.is_custom else fragment
            self.write(call.block, "tool_use", text)

    def end_call(self, item_id: str, call: _Call) -> None:
        """Write the rest of a call: an input is always an object."""
        self.announce(item_id, call)
        if call.block is None:
            return
        if call.is_custom:
            self.write(call.block, "tool_use", '"}')
        elif not call.has_input:
            self.write(call.block, "tool_use", "{}")

    def end(self, stop_reason: str, details: Mapping[str, Any] | None, usage: Mapping[str, int]) -> None:
        """Write stop reason, usage, and the end."""
        self.events += self.blocks.finish()
        delta: Event = {"stop_reason": stop_reason, "stop_sequence": None}
        if details is not None:
            delta["stop_details"] = details
        self.events += [
            {"type": "message_delta", "delta": delta, "usage": usage_of(usage, self._input_tokens)},
            {"type": "message_stop"},
        ]


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


Writer: TypeAlias = Callable[[MessageStream, Frame], None]


def on_lifecycle(stream: MessageStream, frame: Frame) -> None:
    """Keep the reason of an end."""
    stream.has_ended = stream.has_ended or frame["status"] not in {"queued", "in_progress"}
    if "reason" in frame:
        stream.reasons[frame["status"]] = frame["reason"]


def on_item_added(stream: MessageStream, frame: Frame) -> None:
    """Prepare a call. Another response shows that the calls before it were executed."""
    if stream.has_ended:
        stream.has_ended = False
        stream.calls.clear()
    if frame["item_type"] in CALLS and not (stream.is_run and "workflow" in frame):
        stream.calls[frame["item_id"]] = _Call(frame["item_type"])


def on_item_done(stream: MessageStream, frame: Frame) -> None:
    """Stop the block of an item, and write what waited for it.

    The block of an incomplete call stays open until the message ends: clients execute a call when its block stops, also
    if an error follows.
    """
    item_id = frame["item_id"]
    call = stream.calls.get(item_id)
    if call is not None and frame["status"] == "incomplete":
        return
    if call is not None and not stream.is_run:
        stream.end_call(item_id, call)
    stream.events += stream.blocks.close(item_id)
    stream.reasoning_kinds.pop(item_id, None)


def on_members(stream: MessageStream, frame: Frame) -> None:
    """Keep the toolset of a call, by which clients find their function."""
    if "toolset_name" in frame["details"]:
        stream.members[frame["item_id"]] = {"toolset_name": frame["details"]["toolset_name"]}


def on_text(member: str, stream: MessageStream, frame: Frame) -> None:
    """Write a delta of a text or a refusal, which is a text too."""
    if frame["delta"]:
        stream.texts.add(member)
        stream.write(Block(frame["item_id"], f"{member}.{frame['content_index']}", TEXT), "text", frame["delta"])


def on_citation(stream: MessageStream, frame: Frame) -> None:
    """Write the citation of a web page while the block of its text is open."""
    citation, part = frame["citation"], f"{_RESPONSE_TEXT}.{frame['content_index']}"
    if citation["type"] != "url_citation" or not stream.blocks.is_open(frame["item_id"], part):
        return
    names = {"url": citation.get("url", ""), "title": citation.get("title")}
    hidden = {"cited_text": "", "encrypted_index": ""}
    value = {"type": "web_search_result_location", **names, **hidden}
    stream.write(Block(frame["item_id"], part, TEXT), "citations", value)


def on_reasoning(index: str, stream: MessageStream, frame: Frame) -> None:
    """Write a delta of reasoning: of each item its summary or its full text, whichever comes first.

    All parts of an item are one block, because it has one signature.
    """
    item_id, part = frame["item_id"], frame[index]
    kind, last = stream.reasoning_kinds.get(item_id, (frame["kind"], part))
    if kind != frame["kind"] or not frame["delta"]:
        return
    stream.reasoning_kinds[item_id] = (kind, part)
    separator = "" if part == last else "\n\n"
    stream.write(Block(item_id, 0, THINKING), "thinking", separator + frame["delta"])


def on_encrypted(stream: MessageStream, frame: Frame) -> None:
    """Write encrypted reasoning as the signature, which is the last delta of a block."""
    stream.write(Block(frame["item_id"], 0, THINKING), "signature", SIGNATURE + frame["encrypted_content"])


def on_tool_status(stream: MessageStream, frame: Frame) -> None:
    """Write the start of a call that the client executes, or a search that is done."""
    call, tool = stream.calls.get(frame["item_id"]), frame["tool"]
    if (
        stream.shows_searches
        and tool["tool_type"] == "web_search"
        and "query" in tool
        and tool["status"] == "completed"
    ):
        write_search(stream, frame["item_id"], tool)
    if call is None or call.call_id:
        return
    call.call_id, call.name = tool["tool_call_id"], tool["name"]
    if not stream.is_run and call.name != UNKNOWN:
        stream.announce(frame["item_id"], call)


def write_search(stream: MessageStream, item_id: str, tool: Mapping[str, Any]) -> None:
    """Write a search of the provider, and the addresses that it found."""
    call_id = SEARCH_ID + tool["tool_call_id"]
    call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}
    hidden = {"title": "", "encrypted_content": "", "page_age": None}
    found = [{"type": "web_search_result", "url": url, **hidden} for url in tool.get("sources", ())]
    result = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": found}
    stream.write(Block(item_id, 0, call), "tool_use", codec.dumps({"query": tool["query"]}).decode())
    stream.write(Block(item_id, 1, result), "tool_use", "")
    stream.events += stream.blocks.close(item_id)


def on_arguments_delta(stream: MessageStream, frame: Frame) -> None:
    """Write a delta of the arguments."""
    call = stream.calls.get(frame["item_id"])
    if call is not None:
        stream.add_input(call, frame["delta"])


def on_arguments_done(stream: MessageStream, frame: Frame) -> None:
    """Write arguments that came without deltas."""
    call = stream.calls.get(frame["item_id"])
    if call is None:
        return
    if call.block is None:
        call.name = frame["tool_name"]
    if not call.has_input:
        stream.add_input(call, frame["arguments_text"])


def on_output(stream: MessageStream, frame: Frame) -> None:
    """Record that a call needs no execution by the client."""
    stream.calls.pop(frame["item_id"], None)


def on_final(stream: MessageStream, frame: Frame) -> None:
    """Write what was held back, then the end."""
    final = frame["final"]
    status, reason = final["status"], stream.reasons.get(final["status"], "")
    if status == "failed":
        fault, reported = FAULTS["provider_error"], stream.provider_error
        code, message = reported.get("code") or reason or fault.code, reported.get("message", fault.message)
        stream.fail(code, message, reported.get("type"))
        return
    for member in (_RESPONSE_TEXT, _REFUSAL_TEXT):
        if member not in stream.texts and final.get(member):
            stream.write(Block(f"final.{member}", 0, TEXT), "text", final[member])
            stream.events += stream.blocks.close(f"final.{member}")
    for item_id, call in stream.calls.items() if stream.is_run else ():
        stream.end_call(item_id, call)
        stream.events += stream.blocks.close(item_id)
    stop = FINISHES.get(status) or INCOMPLETE_FINISHES.get(reason, "max_tokens")
    if status == "completed" and stream.has_calls:
        stop = "tool_use"
    details = None
    if stop == "refusal":
        details = {"type": "refusal", "category": None, "explanation": final.get(_REFUSAL_TEXT)}
    stream.end(stop, details, final.get("usage", {}))


_RESPONSE_TEXT: Final = "response_text"
_REFUSAL_TEXT: Final = "refusal_text"


def on_error(stream: MessageStream, frame: Frame) -> None:
    """Write the error, which ends the stream: nothing of the end of a message precedes it."""
    error = frame["error"]
    is_reported = error["source"] == "provider" and error["code"] not in FAULTS
    reported = stream.provider_error.get("type") if is_reported else None
    stream.fail(error["code"], error["message"], reported, is_retryable=error["is_retryable"])


def on_provider_error(stream: MessageStream, frame: Frame) -> None:
    """Keep the error that the provider reported, for the end of the stream."""
    stream.provider_error = frame


HANDLED: Final[Mapping[str, Writer]] = {
    PrivateKind.RESPONSE_META: MessageStream.identify,
    Kind.LIFECYCLE: on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_item_added,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    PrivateKind.ITEM_MEMBERS: on_members,
    Kind.MESSAGE_DELTA: partial(on_text, _RESPONSE_TEXT),
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REFUSAL_DELTA: partial(on_text, _REFUSAL_TEXT),
    Kind.REASONING_SUMMARY_DELTA: partial(on_reasoning, "summary_index"),
    PrivateKind.REASONING_DELTA: partial(on_reasoning, "content_index"),
    PrivateKind.REASONING_ENCRYPTED: on_encrypted,
    Kind.TOOL_STATUS: on_tool_status,
    Kind.TOOL_ARGUMENTS_DELTA: on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: on_arguments_done,
    Kind.TOOL_OUTPUT: on_output,
    Kind.FINAL: on_final,
    Kind.ERROR: on_error,
    PrivateKind.RESPONSE_ERROR: on_provider_error,
}

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "all branches are written in one message",
    PrivateKind.RESPONSE_USAGE: "the message has the sum over all responses",
    PrivateKind.CALL_SEALED: "a call has no member for it",
    PrivateKind.ITEM_DETAILS: "the API has no phases of messages",
    PrivateKind.FILE_PATH: "the API has no such citation",
    PrivateKind.REASONING_DONE: "the deltas contain the whole text",
    Kind.REFUSAL_DONE: "the deltas contain the whole text",
    Kind.TOOL_CODE_DELTA: "tools that the provider executes are not written; the text is complete without them",
    Kind.TOOL_CODE_DONE: "tools that the provider executes are not written; the text is complete without them",
    Kind.CHUNK_DELTA: "the API streams no images",
    Kind.CHUNK_DONE: "the API streams no images",
}
"""Frame kind -> why no event is written."""

BEFORE_WORK: Final = frozenset(
    {
        *(PrivateKind.BRANCH, PrivateKind.RESPONSE_META, PrivateKind.RESPONSE_USAGE, PrivateKind.ITEM_DETAILS),
        *(PrivateKind.ITEM_MEMBERS, PrivateKind.RESPONSE_ERROR),
        *(Kind.LIFECYCLE, Kind.ERROR),
    }
)
"""Kinds without a first event: ID and model may still be unknown, and an error may be the whole stream."""


class AnthropicMessages:
    """The writer of one stream: one message, even for a run of several responses."""

    def __init__(self, options: DialectOptions) -> None:
        self._stream = MessageStream(options)

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        stream, kind = self._stream, frame["kind"]
        stream.events = []
        if kind not in BEFORE_WORK and not (kind == Kind.FINAL and frame["final"]["status"] == "failed"):
            stream.begin(frame)
        writer = HANDLED.get(kind)
        if writer is not None:
            writer(stream, frame)
        return [(event["type"], codec.dumps(event)) for event in stream.events]

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if it waits for another item."""
        blocks = self._stream.blocks
        if not blocks.is_open(frame["item_id"], f"{_RESPONSE_TEXT}.{frame['content_index']}"):
            return None
        event = delta_event(blocks.index, "text", "")
        delta = pattern_of(event["delta"], {"text": TEXT_PLACE})
        pattern = literal(codec.dumps({**event, "delta": None})[: -len(b"null}")]) + delta + b"}"

        def write(deltas: DeltaFrames) -> list[bytes]:
            return [pattern % text for text in deltas.encoded]

        return RepeatWriter(event["type"], write)
