"""Encode frames as events of Open Responses: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import TOOL_TYPES, VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.dialects.openresponses.output_items import REASONING, REFUSAL, SUMMARY, TEXT, Item, Part, PartKind
from projector.dialects.openresponses.response_object import INCOMPLETE_REASONS, UNKNOWN, error_of, failure, seconds
from projector.dialects.openresponses.response_stream import EVENT_MAX_BYTES, ResponseStream

Writer: TypeAlias = Callable[[ResponseStream, Frame], None]

DROPPED_ITEMS: Final[Mapping[str, str]] = {
    "function_call_output": "`tool.output` of the call writes this item, also for an output of the host",
    "custom_tool_call_output": "`tool.output` of the call writes this item, also for an output of the host",
}
"""Item types that are not written, and why. All others are written, under our own name if the protocol lacks it."""

CORE_CITATIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "url_citation": {"url": "", "title": "", "start_index": 0, "end_index": 0},
}
"""Citation of Open Responses -> its required members, with defaults."""

ID_PREFIX_CHARS: Final = 200
"""Characters of the call's ID that the ID of its output begins with: it stays within the contract's limit."""

NOT_MEMBERS: Final = frozenset({"tool_type", "status"})
"""Members of `tool` that are not members of the item, which has a type and a status of its own."""

FINAL_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("response.completed", "completed"),
    "refused": ("response.completed", "completed"),
    "incomplete": ("response.incomplete", "incomplete"),
    "cancelled": ("response.incomplete", "incomplete"),
    "failed": ("response.failed", "failed"),
}
"""Status of `final` -> the last event and the status of its response."""


def on_meta(stream: ResponseStream, frame: Frame) -> None:
    """Keep model and creation time for the response object."""
    stream.response.update(frame)


def on_lifecycle(stream: ResponseStream, frame: Frame) -> None:
    """Write the start of the response. Keep the reason of its end for the last event."""
    status = frame["status"]
    if status == "queued":
        stream.begin(frame, status)
        return
    stream.set_in_progress(frame)
    stream.response.reason = frame.get("reason", stream.response.reason)


def on_final(stream: ResponseStream, frame: Frame) -> None:
    """Write the attachments, then the whole response."""
    final = frame["final"]
    if "attachments" in final:
        stream.emit(f"{VENDOR}:attachments", {"attachments": final["attachments"]})
    event, status = FINAL_EVENTS[final["status"]]
    members: dict[str, Any] = {"usage": final.get("usage")}
    reason = stream.response.reason
    if status == "completed":
        members["completed_at"] = max(seconds(frame), stream.response.created_at)  # the later of two clocks
    elif status == "failed":
        members["error"] = failure(reason)
    else:
        reason = "cancelled" if final["status"] == "cancelled" else reason or UNKNOWN
        members["incomplete_details"] = {"reason": INCOMPLETE_REASONS.get(reason, reason)}
    stream.emit_notices(frame)
    stream.end(event, status, **members)


def on_error(stream: ResponseStream, frame: Frame) -> None:
    """Write the error, then the failed response."""
    error = error_of(frame["error"])
    stream.emit_notices(frame)
    stream.emit("error", {"error": error})
    in_response = {"code": error["code"] or UNKNOWN, "message": error["message"]}
    stream.end("response.failed", "failed", error=in_response)


def on_item_added(stream: ResponseStream, frame: Frame) -> None:
    """Announce an item. A call is announced by its first status, which has its name and ID and follows at once."""
    item_type = frame["item_type"]
    if item_type in DROPPED_ITEMS:
        return
    item = stream.items[frame["item_id"]] = Item(frame["item_id"], item_type, frame.get("role"))
    if item_type not in TOOL_TYPES:
        stream.announce(item)


def on_item_done(stream: ResponseStream, frame: Frame) -> None:
    """Close the open parts of an item, then the item."""
    if frame["item_type"] in DROPPED_ITEMS:
        return
    if frame["item_id"] not in stream.items:
        on_item_added(stream, frame)  # only after an internal error undid the announcement
    item = _announced(stream, frame)
    for part in item.open_parts():
        _close_part(stream, part)
    item.close(frame["status"])
    stream.finish(item)


def on_delta(kind: PartKind, stream: ResponseStream, frame: Frame) -> None:
    """Write a delta of a text, and start a part if none is open."""
    item = stream.items[frame["item_id"]]
    part = item.parts.get((kind.type, frame[kind.index_member]))
    if part is None or not part.is_open:
        part = _open_part(stream, item, kind, frame[kind.index_member])
    delta = frame["delta"]
    part.buffer.write(delta)
    stream.emit(f"{kind.text_event}.delta", {**part.position, "delta": delta, **kind.event_members})
    stream.emit_notices(frame)


def on_part_done(kind: PartKind, stream: ResponseStream, frame: Frame) -> None:
    """Close a part. A part without any text has not been opened."""
    part = stream.items[frame["item_id"]].parts.get((kind.type, frame[kind.index_member]))
    if part is not None and part.is_open:
        _close_part(stream, part)
        stream.emit_notices(frame)


def on_citation(stream: ResponseStream, frame: Frame) -> None:
    """Write a citation as an annotation of a part."""
    item, index = stream.items[frame["item_id"]], frame["content_index"]
    part = item.parts.get((TEXT.type, index)) or _open_part(stream, item, TEXT, index)
    citation = frame["citation"]
    kind = citation["type"]
    core = CORE_CITATIONS.get(kind)
    annotation = {**citation, "type": f"{VENDOR}:{kind}"} if core is None else {"type": kind, **core, **citation}
    position = {**part.position, "annotation_index": len(part.annotations)}
    part.annotations.append(annotation)
    stream.emit("response.output_text.annotation.added", {**position, "annotation": annotation})
    stream.emit_notices(frame)


def on_encrypted(stream: ResponseStream, frame: Frame) -> None:
    """Keep encrypted reasoning for the end of its item."""
    stream.items[frame["item_id"]].members["encrypted_content"] = frame["encrypted_content"]


def on_tool_status(stream: ResponseStream, frame: Frame) -> None:
    """Announce a call with its name and ID. Write a status that no event of Open Responses shows."""
    item, tool = stream.items[frame["item_id"]], frame["tool"]
    item.update({name: value for name, value in tool.items() if name not in NOT_MEMBERS})
    is_new = item.index is None
    if is_new:
        stream.announce(item)
    if not (is_new and item.is_core):
        stream.emit_extension(frame, item)


def on_arguments_delta(stream: ResponseStream, frame: Frame) -> None:
    """Write a delta of the arguments of a call."""
    item = _announced(stream, frame)
    if not item.is_core:
        stream.emit_extension(frame, item)
        return
    item.arguments.write(frame["delta"])
    stream.emit("response.function_call_arguments.delta", {**item.position, "delta": frame["delta"]})
    stream.emit_notices(frame)


def on_arguments_done(stream: ResponseStream, frame: Frame) -> None:
    """Write the whole arguments of a call."""
    item = _announced(stream, frame)
    item.update({name: frame[name] for name in ("arguments_text", "arguments_json") if name in frame})
    if not item.is_core:
        stream.emit_extension(frame, item)
        return
    item.update({"name": frame["tool_name"]})
    members = {"name": frame["tool_name"], "arguments": frame["arguments_text"]}
    stream.emit("response.function_call_arguments.done", item.position | members)
    stream.emit_notices(frame)


def on_code_done(stream: ResponseStream, frame: Frame) -> None:
    """Write the whole code, and keep it for the item."""
    item = _announced(stream, frame)
    item.update({"code": frame["code"]})
    stream.emit_extension(frame, item)


def on_output(stream: ResponseStream, frame: Frame) -> None:
    """Write an output: that of a function as an item, that of another tool as our own event and in its item."""
    call, output = _announced(stream, frame), frame["output"]
    if frame["tool_type"] != "function":
        call.update({"output": output})
        stream.emit_extension(frame, call)
        return
    item = Item(_output_id(stream, call.id), f"{call.type.removeprefix(f'{VENDOR}:')}_output")
    stream.items[item.id] = item
    item.update({"tool_call_id": frame["tool_call_id"]})
    stream.announce(item)
    item.update({"output": codec.dumps(output).decode() if item.is_core and not isinstance(output, str) else output})
    item.close("completed")
    stream.finish(item)
    stream.emit_notices(frame)


def on_extension(stream: ResponseStream, frame: Frame) -> None:
    """Write an event that Open Responses does not define."""
    stream.emit_extension(frame, _announced(stream, frame))


def _announced(stream: ResponseStream, frame: Frame) -> Item:
    """Return the item of a frame. Announce it first if no status has."""
    item = stream.items[frame["item_id"]]
    if item.index is None:
        stream.announce(item)
    return item


def _open_part(stream: ResponseStream, item: Item, kind: PartKind, index: int) -> Part:
    part = item.open_part(kind, index)
    stream.emit(f"{kind.part_event}.added", {**part.position, "part": part.wire()})
    return part


def _close_part(stream: ResponseStream, part: Part) -> None:
    part.is_open = False
    kind = part.kind
    stream.emit(f"{kind.text_event}.done", {**part.position, kind.text_member: part.text, **kind.event_members})
    stream.emit(f"{kind.part_event}.done", {**part.position, "part": part.wire()})


def _output_id(stream: ResponseStream, call_id: str) -> str:
    """Return a new ID for the output of a call."""
    item_id = f"{call_id[:ID_PREFIX_CHARS]}_output"
    while item_id in stream.items:
        item_id += "_"
    return item_id


HANDLED: Final[Mapping[str, Writer]] = {
    PrivateKind.RESPONSE_META: on_meta,
    Kind.LIFECYCLE: on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_item_added,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    Kind.MESSAGE_DELTA: partial(on_delta, TEXT),
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(on_delta, SUMMARY),
    PrivateKind.REASONING_DELTA: partial(on_delta, REASONING),
    PrivateKind.REASONING_DONE: partial(on_part_done, REASONING),
    PrivateKind.REASONING_ENCRYPTED: on_encrypted,
    Kind.REFUSAL_DELTA: partial(on_delta, REFUSAL),
    Kind.REFUSAL_DONE: partial(on_part_done, REFUSAL),
    Kind.TOOL_STATUS: on_tool_status,
    Kind.TOOL_ARGUMENTS_DELTA: on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: on_arguments_done,
    Kind.TOOL_CODE_DELTA: on_extension,
    Kind.TOOL_CODE_DONE: on_code_done,
    Kind.TOOL_OUTPUT: on_output,
    Kind.CHUNK_DELTA: on_extension,
    Kind.CHUNK_DONE: on_extension,
    Kind.ERROR: on_error,
    Kind.FINAL: on_final,
}

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "all branches write items of one response object",
    PrivateKind.RESPONSE_USAGE: "the response object has the sum over all responses",
}
"""Frame kind -> why nothing is written. Every public kind is written, if need be as an event of our own."""


BEFORE_WORK: Final = frozenset({PrivateKind.RESPONSE_META, Kind.LIFECYCLE})
"""Kinds that do not mean that the response is in progress."""


class OpenResponses:
    """The writer of one stream: one response object, even for a run of several responses."""

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES) -> None:
        self._stream = ResponseStream(max_bytes)

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        stream, kind = self._stream, frame["kind"]
        writer = HANDLED.get(kind)
        if writer is None:
            return []
        stream.events = []
        if kind not in BEFORE_WORK:
            stream.set_in_progress(frame)
        writer(stream, frame)
        return stream.events
