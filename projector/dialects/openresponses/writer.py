"""Encode frames as events of Open Responses: one function for each frame kind, listed in `HANDLED`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import TOOL_TYPES, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.dialects.openresponses import response
from projector.dialects.openresponses.fitting import EVENT_MAX_BYTES
from projector.dialects.openresponses.items import REASONING, REFUSAL, SUMMARY, TEXT, VENDOR, Item, Part, PartKind
from projector.dialects.openresponses.stream import Stream

Writer: TypeAlias = Callable[[Stream, Frame], None]

SILENT_ITEMS: Final[Mapping[str, str]] = {
    "function_call_output": "its output is said on the call, and becomes an item there, whoever gave it",
    "custom_tool_call_output": "its output is said on the call, and becomes an item there, whoever gave it",
}
"""Item types of which nothing is said, and why; every other one is said, under our own name where it must be."""

CORE_CITATIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "url_citation": {"url": "", "title": "", "start_index": 0, "end_index": 0},
}
"""Citations of Open Responses, and their members, which are all required."""

ID_ROOM: Final = 200
"""What the id of an output keeps of its call's, so that it stays within the contract's limit of ids."""

NO_FIELDS: Final = frozenset({"tool_type", "status"})
"""Members of a tool's payload that its item says in its own way."""

FINAL_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("response.completed", "completed"),
    "refused": ("response.completed", "completed"),
    "incomplete": ("response.incomplete", "incomplete"),
    "cancelled": ("response.incomplete", "incomplete"),
    "failed": ("response.failed", "failed"),
}
"""Status of `final` -> the last event, and the status of the response in it."""


# the response


def on_meta(stream: Stream, frame: Frame) -> None:
    """Keep model and time for the response object."""
    stream.response.learn(frame)


def on_lifecycle(stream: Stream, frame: Frame) -> None:
    """Say that the response begins; of its end keep the reason, for the terminal."""
    status = frame["status"]
    if status == "queued":
        stream.begin(frame, status)
        return
    stream.go_on(frame)
    stream.response.reason = frame.get("reason", stream.response.reason)


def on_final(stream: Stream, frame: Frame) -> None:
    """Say attachments, then the whole response."""
    final = frame["final"]
    if "attachments" in final:
        stream.say(f"{VENDOR}:attachments", {"attachments": final["attachments"]})
    event, status = FINAL_EVENTS[final["status"]]
    members: dict[str, Any] = {"usage": final.get("usage")}
    reason = stream.response.reason
    if status == "completed":
        members["completed_at"] = max(response.seconds(frame), stream.response.created_at)  # two clocks
    elif status == "failed":
        members["error"] = response.failure(reason)
    else:
        reason = "cancelled" if final["status"] == "cancelled" else reason or response.UNKNOWN
        members["incomplete_details"] = {"reason": response.INCOMPLETE_REASONS.get(reason, reason)}
    stream.note(frame)
    stream.end(event, status, **members)


def on_error(stream: Stream, frame: Frame) -> None:
    """Say the error, then the response that it ended."""
    error = response.error_of(frame["error"])
    stream.note(frame)
    stream.say("error", {"error": error})
    told = {"code": error["code"] or response.UNKNOWN, "message": error["message"]}
    stream.end("response.failed", "failed", error=told)


# items


def on_item_added(stream: Stream, frame: Frame) -> None:
    """Announce an item; a call waits for its first status, which follows at once with its name and id."""
    item_type = frame["item_type"]
    if item_type in SILENT_ITEMS:
        return
    item = stream.items[frame["item_id"]] = Item(frame["item_id"], item_type, frame.get("role"))
    if item_type not in TOOL_TYPES:
        stream.announce(item)


def on_item_done(stream: Stream, frame: Frame) -> None:
    """Close the item's parts, then the item."""
    if frame["item_type"] in SILENT_ITEMS:
        return
    if frame["item_id"] not in stream.items:
        on_item_added(stream, frame)  # only where a fault of ours took the announcement back
    item = _said_item(stream, frame)
    for part in item.open_parts():
        _close_part(stream, part)
    item.close(frame["status"])
    stream.finish(item)


# texts


def on_delta(kind: PartKind, stream: Stream, frame: Frame) -> None:
    """Say more of a part's text; what begins the part, or begins it again, opens one."""
    item = stream.items[frame["item_id"]]
    part = item.parts.get((kind.type, frame[kind.index_member]))
    if part is None or not part.is_open:
        part = _open_part(stream, item, kind, frame[kind.index_member])
    delta = frame["delta"]
    part.write(delta)
    stream.say(f"{kind.text_event}.delta", {**part.place, "delta": delta, **kind.beside})
    stream.note(frame)


def on_part_done(kind: PartKind, stream: Stream, frame: Frame) -> None:
    """Close a part; one that never had a text is none."""
    part = stream.items[frame["item_id"]].parts.get((kind.type, frame[kind.index_member]))
    if part is not None and part.is_open:
        _close_part(stream, part)
        stream.note(frame)


def on_citation(stream: Stream, frame: Frame) -> None:
    """Say a citation of a part of a message."""
    item, index = stream.items[frame["item_id"]], frame["content_index"]
    part = item.parts.get((TEXT.type, index)) or _open_part(stream, item, TEXT, index)
    citation = frame["citation"]
    kind = citation["type"]
    core = CORE_CITATIONS.get(kind)
    said = {**citation, "type": f"{VENDOR}:{kind}"} if core is None else {"type": kind, **core, **citation}
    place = {**part.place, "annotation_index": len(part.annotations)}
    part.annotations.append(said)
    stream.say("response.output_text.annotation.added", {**place, "annotation": said})
    stream.note(frame)


def on_encrypted(stream: Stream, frame: Frame) -> None:
    """Keep encrypted reasoning for the end of its item."""
    stream.items[frame["item_id"]].members["encrypted_content"] = frame["encrypted_content"]


# tools


def on_tool_status(stream: Stream, frame: Frame) -> None:
    """Announce a call with its name and id; say the status where Open Responses has none for it."""
    item, tool = stream.items[frame["item_id"]], frame["tool"]
    item.learn({name: value for name, value in tool.items() if name not in NO_FIELDS})
    is_new = item.index is None
    if is_new:
        stream.announce(item)
    if not (is_new and item.is_core):
        stream.extend(frame, item)


def on_arguments_delta(stream: Stream, frame: Frame) -> None:
    """Say more of a call's arguments."""
    item = _said_item(stream, frame)
    if not item.is_core:
        stream.extend(frame, item)
        return
    item.add_arguments(frame["delta"])
    stream.say("response.function_call_arguments.delta", {**item.place, "delta": frame["delta"]})
    stream.note(frame)


def on_arguments_done(stream: Stream, frame: Frame) -> None:
    """Say a call's arguments as a whole."""
    item = _said_item(stream, frame)
    item.learn({name: frame[name] for name in ("arguments_text", "arguments_json") if name in frame})
    if not item.is_core:
        stream.extend(frame, item)
        return
    item.learn({"name": frame["tool_name"]})
    members = {"name": frame["tool_name"], "arguments": frame["arguments_text"]}
    stream.say("response.function_call_arguments.done", item.place | members)
    stream.note(frame)


def on_code_done(stream: Stream, frame: Frame) -> None:
    """Say the code, and keep it for the item."""
    item = _said_item(stream, frame)
    item.learn({"code": frame["code"]})
    stream.extend(frame, item)


def on_output(stream: Stream, frame: Frame) -> None:
    """Say an output: of a function as an item of its own, of any other tool as ours, kept for the item."""
    call, output = _said_item(stream, frame), frame["output"]
    if frame["tool_type"] != "function":
        call.learn({"output": output})
        stream.extend(frame, call)
        return
    item = Item(_output_id(stream, call.id), f"{call.type.removeprefix(f'{VENDOR}:')}_output")
    stream.items[item.id] = item
    item.learn({"tool_call_id": frame["tool_call_id"]})
    stream.announce(item)
    item.learn({"output": codec.dumps(output).decode() if item.is_core and not isinstance(output, str) else output})
    item.close("completed")
    stream.finish(item)
    stream.note(frame)


def on_extension(stream: Stream, frame: Frame) -> None:
    """Say an event that Open Responses does not know."""
    stream.extend(frame, _said_item(stream, frame))


def _said_item(stream: Stream, frame: Frame) -> Item:
    """Give the item of a frame, announced now if it still waits for a status."""
    item = stream.items[frame["item_id"]]
    if item.index is None:
        stream.announce(item)
    return item


def _open_part(stream: Stream, item: Item, kind: PartKind, index: int) -> Part:
    part = item.open_part(kind, index)
    stream.say(f"{kind.part_event}.added", {**part.place, "part": part.wire()})
    return part


def _close_part(stream: Stream, part: Part) -> None:
    part.is_open = False
    kind = part.kind
    stream.say(f"{kind.text_event}.done", {**part.place, kind.text_member: part.text, **kind.beside})
    stream.say(f"{kind.part_event}.done", {**part.place, "part": part.wire()})


def _output_id(stream: Stream, call_id: str) -> str:
    """Give the id for the output of a call; no other item has it."""
    item_id = f"{call_id[:ID_ROOM]}_output"
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
    PrivateKind.BRANCH: "items of one response object stand side by side anyway",
    PrivateKind.RESPONSE_USAGE: "the response object says the sum over all responses",
}
"""Every public kind is said: what Open Responses has no word for, as an extension."""


BEFORE_WORK: Final = frozenset({PrivateKind.RESPONSE_META, Kind.LIFECYCLE})
"""Kinds that do not mean that the response is in progress."""


class OpenResponses:
    """The writer of one stream: one response object, even for a run of several responses."""

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES) -> None:
        self._stream = Stream(max_bytes)

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        stream, kind = self._stream, frame["kind"]
        writer = HANDLED.get(kind)
        if writer is None:
            return []
        stream.said = []
        if kind not in BEFORE_WORK:
            stream.go_on(frame)
        writer(stream, frame)
        return stream.said
