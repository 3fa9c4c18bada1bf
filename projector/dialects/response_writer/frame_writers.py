"""Functions that write one frame kind each, in every protocol of this package; `COMMON` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from projector.contracts.kinds import TOOL_TYPES, VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame
from projector.dialects.answer_stream import error_of, failure_of, seconds
from projector.dialects.frame_writer import UNKNOWN
from projector.dialects.response_writer.output_items import REFUSAL, SUMMARY, TEXT, CallText, Item, Part, PartKind
from projector.dialects.response_writer.response_stream import ResponseStream, Writer

ID_PREFIX_CHARS: Final = 200
"""Characters of the call's ID that the ID of its output begins with: it stays within the contract's limit."""

NOT_MEMBERS: Final = frozenset({"tool_type", "status"})
"""Members of `tool` that are not members of the item, which has a type and a status of its own."""

WHOLE_TEXTS: Final = ("arguments_text", "arguments_json", "code")
"""Members of a frame that has the whole text of a call."""


def on_lifecycle(stream: ResponseStream, frame: Frame) -> None:
    """Write the start of the response. Keep the reason of its end for the last event."""
    status = frame["status"]
    if status == "queued":
        stream.begin(frame, status)
        return
    stream.begin_work(frame)
    stream.emit_notices(frame)
    stream.reason = frame.get("reason", stream.reason)


def on_final(stream: ResponseStream, frame: Frame) -> None:
    """Write the attachments, then the whole response."""
    final = frame["final"]
    if "attachments" in final:
        stream.emit_own("attachments", {"attachments": final["attachments"]})
    event, status = stream.ends[final["status"]]
    members: dict[str, Any] = {"usage": final.get("usage")}
    reason = stream.reason
    stream.emit_notices(frame)
    if status == "completed":
        members["completed_at"] = max(seconds(frame), stream.created_at)  # the later of two clocks
    elif status == "failed":
        error = failure_of(reason, stream.reported)
        members["error"] = stream.response_error(error["code"], error["message"])
        if stream.announces_failure:
            stream.emit("error", stream.error_members(error))
    else:
        reason = "cancelled" if final["status"] == "cancelled" else reason
        members["incomplete_details"] = stream.incomplete_details(reason)
    stream.end(event, status, **members)


def on_error(stream: ResponseStream, frame: Frame) -> None:
    """Write the error, then the failed response."""
    error = frame["error"]
    stream.begin_work(frame)
    stream.emit_notices(frame)
    stream.emit("error", stream.error_members(error_of(error, stream.reported)))
    in_response = stream.response_error(error.get("code") or UNKNOWN, error["message"])
    stream.end("response.failed", "failed", error=in_response)


def on_item_added(stream: ResponseStream, frame: Frame) -> None:
    """Announce an item. A call is announced by its first status, which has its name and ID and follows at once."""
    item_type, item_id = frame["item_type"], frame["item_id"]
    if item_type in stream.dropped_items:
        return
    role = frame.get("role")
    role = role if role in stream.roles else "assistant"
    item = stream.items[item_id] = Item(item_id, item_type, stream.shapes.get(item_type), role)
    item.update(stream.details.pop(item_id, {}))
    if item_type not in TOOL_TYPES:
        stream.announce(item)
        stream.emit_notices(frame)


def on_item_details(stream: ResponseStream, frame: Frame) -> None:
    """Keep members of an item that no public frame has."""
    item = stream.items.get(frame["item_id"])
    if item is None:
        stream.details[frame["item_id"]] = frame["details"]
    elif not item.is_done:
        item.update(frame["details"])


def on_item_done(stream: ResponseStream, frame: Frame) -> None:
    """Close the open parts of an item, then the item."""
    stream.details.pop(frame["item_id"], None)
    if frame["item_type"] in stream.dropped_items:
        return
    if frame["item_id"] not in stream.items:
        on_item_added(stream, frame)  # only after an internal error undid the announcement
    item = announced(stream, frame)
    for part in item.open_parts():
        close_part(stream, part)
    item.close(frame["status"])
    stream.finish(item)
    stream.emit_notices(frame)


def on_delta(kind: PartKind, stream: ResponseStream, frame: Frame) -> None:
    """Write a delta of a text, and start a part if none is open."""
    item = stream.items[frame["item_id"]]
    part = item.parts.get((kind.type, frame[kind.index_member]))
    if part is None or not part.is_open:
        part = open_part(stream, item, kind, frame[kind.index_member])
    delta = frame["delta"]
    part.buffer.write(delta)
    members = {**part.position, "delta": delta, **kind.event_members}
    stream.last_delta = stream.emit(f"{kind.text_event}.delta", members)
    stream.emit_notices(frame)


def on_part_done(kind: PartKind, stream: ResponseStream, frame: Frame) -> None:
    """Close a part. A part without any text has not been opened."""
    part = stream.items[frame["item_id"]].parts.get((kind.type, frame[kind.index_member]))
    if part is not None and part.is_open:
        close_part(stream, part)
        stream.emit_notices(frame)


def on_citation(stream: ResponseStream, frame: Frame) -> None:
    """Write a citation as an annotation of a part."""
    item, index = stream.items[frame["item_id"]], frame["content_index"]
    part = item.parts.get((TEXT.type, index)) or open_part(stream, item, TEXT, index)
    citation = frame["citation"]
    kind = citation["type"]
    core = stream.citations.get(kind)
    annotation = {**citation, "type": f"{VENDOR}:{kind}"} if core is None else {"type": kind, **core, **citation}
    position = {**part.position, "annotation_index": len(part.annotations)}
    part.annotations.append(annotation)
    stream.emit("response.output_text.annotation.added", {**position, "annotation": annotation})
    stream.emit_notices(frame)


def on_encrypted(stream: ResponseStream, frame: Frame) -> None:
    """Keep encrypted reasoning for the end of its item."""
    stream.items[frame["item_id"]].members["encrypted_content"] = frame["encrypted_content"]


def on_text_delta(stream: ResponseStream, frame: Frame) -> None:
    """Write a delta of the arguments or the code of a call."""
    item = announced(stream, frame)
    if (text := item.call_text) is None:
        stream.emit_extension(frame, item)
        return
    item.text.write(frame["delta"])
    stream.emit(f"{text.event}.delta", {**item.position, "delta": frame["delta"]})
    stream.emit_notices(frame)


def on_text_done(stream: ResponseStream, frame: Frame) -> None:
    """Write the whole arguments or the whole code of a call."""
    item = announced(stream, frame)
    item.update({name: frame[name] for name in WHOLE_TEXTS if name in frame})
    if (text := item.call_text) is None:
        stream.emit_extension(frame, item)
        return
    if "tool_name" in frame:
        item.update({"name": frame["tool_name"]})
    whole = _whole_text(stream, item, text)
    name = {"name": frame["tool_name"]} if text.has_name else {}
    stream.emit(f"{text.event}.done", {**item.position, **name, text.member: whole})
    stream.emit_notices(frame)


def _whole_text(stream: ResponseStream, item: Item, text: CallText) -> str:
    """Return the whole text of a call. The deltas may hold more of a long one than its `done` (CONTRACT D27)."""
    whole, joined = item.members[text.member], item.text.getvalue()
    if len(joined) > len(whole):
        item.members[text.member] = joined
        return joined
    if text.repeats_as_delta and whole and not joined:
        item.text.write(whole)
        stream.emit(f"{text.event}.delta", {**item.position, "delta": whole})
    return str(whole)


def write_output_item(stream: ResponseStream, frame: Frame, call: Item, item_type: str) -> None:
    """Write the output of a function as an item."""
    item_id = stream.output_ids.allocate(f"{call.id[:ID_PREFIX_CHARS]}_output", stream.items)
    item = stream.items[item_id] = Item(item_id, item_type, stream.shapes.get(item_type))
    item.update({"tool_call_id": frame["tool_call_id"]})
    stream.announce(item)
    item.update({"output": frame["output"]})
    item.close("completed")
    stream.finish(item)
    stream.emit_notices(frame)


def announced(stream: ResponseStream, frame: Frame) -> Item:
    """Return the item of a frame. Announce it first if no status has."""
    item = stream.items[frame["item_id"]]
    if item.index is None:
        stream.announce(item)
    return item


def open_part(stream: ResponseStream, item: Item, kind: PartKind, index: int) -> Part:
    """Add a part to an item and announce it."""
    part = item.open_part(kind, index)
    stream.emit(f"{kind.part_event}.added", {**part.position, "part": part.wire()})
    return part


def close_part(stream: ResponseStream, part: Part) -> None:
    """Write the whole text of a part, and its end."""
    part.is_open = False
    kind = part.kind
    stream.emit(f"{kind.text_event}.done", {**part.position, kind.text_member: part.text, **kind.event_members})
    stream.emit(f"{kind.part_event}.done", {**part.position, "part": part.wire()})


COMMON: Final[Mapping[str, Writer]] = {
    PrivateKind.RESPONSE_META: ResponseStream.on_meta,
    PrivateKind.RESPONSE_ERROR: ResponseStream.on_provider_error,
    Kind.LIFECYCLE: on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_item_added,
    Kind.OUTPUT_ITEM_DONE: on_item_done,
    Kind.MESSAGE_DELTA: partial(on_delta, TEXT),
    Kind.MESSAGE_CITATION: on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(on_delta, SUMMARY),
    PrivateKind.REASONING_DELTA: lambda stream, frame: on_delta(stream.reasoning, stream, frame),
    PrivateKind.REASONING_DONE: lambda stream, frame: on_part_done(stream.reasoning, stream, frame),
    PrivateKind.REASONING_ENCRYPTED: on_encrypted,
    Kind.REFUSAL_DELTA: partial(on_delta, REFUSAL),
    Kind.REFUSAL_DONE: partial(on_part_done, REFUSAL),
    Kind.TOOL_ARGUMENTS_DELTA: on_text_delta,
    Kind.TOOL_ARGUMENTS_DONE: on_text_done,
    Kind.TOOL_CODE_DELTA: on_text_delta,
    Kind.TOOL_CODE_DONE: on_text_done,
    Kind.ERROR: on_error,
    Kind.FINAL: on_final,
}
"""Frame kind -> its writer, where the protocols differ at most by members of their classes."""

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "all branches write items of one response object",
    PrivateKind.RESPONSE_USAGE: "the response object has the sum over all responses",
    PrivateKind.CALL_SEALED: "a call has no member for it",
    PrivateKind.LATE_TEXTS: "an item that is done does not change",
}
"""Frame kind -> why nothing is written."""
