"""Frame builders, one per kind: the only module that defines the shape of a frame (seed contract, section 9).

Builders accept clean values only; mypy rejects a raw string. A value that may be redacted or cut comes as `Cleaned`;
its notices are added to the frame, with paths that start at the event (CONTRACT D26). Missing members are absent,
never null (D3). The envelope is added later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal, TypeAlias

from projector.contracts import kinds
from projector.core.canonical import Frame
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText, Notice, bounded, notice

Lossy: TypeAlias = Cleaned[CleanText] | Cleaned[CleanJson] | None

Place: TypeAlias = tuple[int, CleanText]
"""Output index and id of the item that a frame is about."""

TextBuilder: TypeAlias = Callable[[Place, int | CleanText, Cleaned[CleanText]], Frame]
"""Builds a text frame from the place, position in the item (or call id) and text."""

PRIVATE: Final = frozenset(kinds.PrivateKind)


def _text_builder(kind: str, key: str, field: str = "delta") -> TextBuilder:
    def build(place: Place, position: int | CleanText, text: Cleaned[CleanText]) -> Frame:
        frame: Frame = {"kind": kind, "output_index": place[0], "item_id": place[1], key: position, field: text.value}
        return _set_fields(frame, frame, "", {field: text}) if text.notices else frame

    return build


message_delta: Final = _text_builder("message.delta", "content_index")  # 9.3
reasoning_summary_delta: Final = _text_builder("reasoning_summary.delta", "summary_index")  # 9.5
refusal_delta: Final = _text_builder("refusal.delta", "content_index")  # 9.6
refusal_done: Final = _text_builder("refusal.done", "content_index", "refusal_text")
tool_code_delta: Final = _text_builder("tool.code.delta", "tool_call_id")  # 9.9
tool_code_done: Final = _text_builder("tool.code.done", "tool_call_id", "code")
reasoning_delta: Final = _text_builder("reasoning.delta", "content_index")  # private (D36): only under policy `full`


def lifecycle(status: str, reason: Cleaned[CleanText] | None = None) -> Frame:
    """Build `lifecycle` (section 9.1)."""
    frame: Frame = {"kind": "lifecycle", "status": status}
    return frame if reason is None else _set_fields(frame, frame, "", {"reason": reason})


def output_item(
    change: Literal["added", "done"], place: Place, item_type: CleanText, role: CleanText | None, status: CleanText
) -> Frame:
    """Build `output_item.added` or `output_item.done` (section 9.2)."""
    frame = _at(f"output_item.{change}", place, item_type=item_type)
    if role is not None:
        frame["role"] = role
    frame["status"] = status
    return frame


def message_citation(
    place: Place, content_index: int, citation: Mapping[str, object], lossy: Mapping[str, Lossy]
) -> Frame:
    """Build `message.citation` (section 9.4): `citation` has type and positions, `lossy` the texts."""
    frame = _at("message.citation", place, content_index=content_index, citation=dict(citation))
    return _set_fields(frame, frame["citation"], "citation.", lossy)


def tool_status(place: Place, tool: Mapping[str, object], lossy: Mapping[str, Lossy]) -> Frame:
    """Build `tool.status` (section 9.7): `lossy` has the fields that may carry notices, `tool` the others."""
    frame = _at("tool.status", place, tool=_present(dict(tool)))
    return _set_fields(frame, frame["tool"], "tool.", lossy)


def tool_arguments_delta(
    place: Place, tool_call_id: CleanText, tool_type: kinds.CallType, tool_name: CleanText, delta: Cleaned[CleanText]
) -> Frame:
    """Build `tool.arguments.delta` (section 9.8)."""
    members = {"tool_call_id": tool_call_id, "tool_type": tool_type, "tool_name": tool_name}
    frame = _at("tool.arguments.delta", place, **members)
    return _set_fields(frame, frame, "", {"delta": delta})


def tool_arguments_done(
    place: Place,
    tool_call_id: CleanText,
    tool_type: kinds.CallType,
    tool_name: CleanText,
    arguments_text: Cleaned[CleanText],
    arguments_json: Cleaned[CleanJson] | None,
) -> Frame:
    """Build `tool.arguments.done` (section 9.8)."""
    members = {"tool_call_id": tool_call_id, "tool_type": tool_type, "tool_name": tool_name}
    frame = _at("tool.arguments.done", place, **members)
    return _set_fields(frame, frame, "", {"arguments_text": arguments_text, "arguments_json": arguments_json})


def tool_output(
    place: Place, tool_call_id: CleanText, tool_type: kinds.ToolType, output: Cleaned[CleanJson] | Cleaned[CleanText]
) -> Frame:
    """Build `tool.output` (section 9.10)."""
    frame = _at("tool.output", place, tool_call_id=tool_call_id, tool_type=tool_type)
    return _set_fields(frame, frame, "", {"output": output})


def chunk_target(entity_id: CleanText, field: kinds.ChunkField, part_index: int) -> dict[str, object]:
    """Build the `target` of a chunk (section 9.11). Only tool calls have chunks today."""
    return {"entity_kind": "tool_call", "entity_id": entity_id, "field": field, "part_index": part_index}


def chunk_delta(place: Place, target: Mapping[str, object], chunk_index: int, data: CleanText) -> Frame:
    """Build `chunk.delta` (section 9.11)."""
    members = {"target": target, "encoding": "base64", "chunk_index": chunk_index, "data": data}
    return _at("chunk.delta", place, **members)


def chunk_done(place: Place, target: Mapping[str, object], notices: tuple[Notice, ...] = ()) -> Frame:
    """Build `chunk.done` (section 9.11); `notices` if part of the field was left out."""
    frame = _at("chunk.done", place, target=target)
    return _set_fields(frame, {}, "", {"target": Cleaned(compose.EMPTY, notices)})


def error(
    code: Cleaned[CleanText], message: Cleaned[CleanText], source: kinds.ErrorSource, *, is_retryable: bool
) -> Frame:
    """Build `error` (section 9.12)."""
    frame: Frame = {"kind": "error", "error": {}}
    _set_fields(frame, frame["error"], "error.", {"code": code, "message": message})
    frame["error"] |= {"source": source, "is_retryable": is_retryable}
    return frame


UNKNOWN_ITEMS: Final = Notice("truncated", "final", "Items of unknown types are not shown.")
"""Notice of a stream with items that nothing was emitted of (D49)."""


def final(
    status: str, fields: Mapping[str, Lossy], usage: Mapping[str, int] | None, *, has_unknown_items: bool = False
) -> Frame:
    """Build `final` (section 9.13); `fields` are the texts, `structured_output` and `attachments`."""
    frame: Frame = {"kind": "final", "final": {"status": status}}
    _set_fields(frame, frame["final"], "final.", fields)
    if has_unknown_items:
        frame["notices"] = [*frame.get("notices", ()), UNKNOWN_ITEMS._asdict()]
    if usage:
        frame["final"]["usage"] = dict(usage)
    return frame


def branch(number: int, *, is_over: bool = False) -> Frame:
    """Build the private `branch`: the branch that the following frames belong to, or that a branch is over."""
    return {"kind": "branch", "branch": number, "is_over": is_over}


def response_meta(
    response_id: CleanText | None,
    model: CleanText | None,
    created_at: int | None,
    text_format: Mapping[str, CleanText] | None = None,
    service_tier: CleanText | None = None,
    input_tokens: int | None = None,
) -> Frame:
    """Build the private `response.meta` (D37): what is known of a response before its end, for logs and dialects."""
    frame: Frame = {"kind": "response.meta", "id": response_id, "model": model, "created_at": created_at}
    return _present({**frame, "text_format": text_format, "service_tier": service_tier, "input_tokens": input_tokens})


def item_details(place: Place, details: Cleaned[CleanJson]) -> Frame:
    """Build the private `item.details` (D39): members of an item that no public frame has. It may precede its item."""
    frame = _at("item.details", place)
    return _set_fields(frame, frame, "", {"details": details})


def item_members(place: Place, members: Cleaned[CleanJson]) -> Frame:
    """Build the private `item.members` (D49): what a client needs to run a call, or to send an item back."""
    frame = _at("item.members", place)
    return _set_fields(frame, frame, "", {"details": members})


def file_path(place: Place, content_index: int, citation: Mapping[str, object], lossy: Mapping[str, Lossy]) -> Frame:
    """Build the private `message.file_path` (D39): the path of a file, a citation that the contract does not have."""
    frame = message_citation(place, content_index, citation, lossy)
    return {**frame, "kind": "message.file_path"}


def response_usage(usage: Mapping[str, int], *, is_cut: bool = False) -> Frame:
    """Build the private `response.usage`: tokens of one response; `final` has the sum of a run (CONTRACT D13).

    Of a response that was cut off (`is_cut`) they are what was known by then, and in no `final`.
    """
    return {"kind": "response.usage", "usage": dict(usage), **({"is_cut": True} if is_cut else {})}


def response_error(
    code: CleanText | None, message: CleanText, error_type: CleanText | None, param: CleanText | None
) -> Frame:
    """Build the private `response.error`: the provider's error, before the end that it causes."""
    return _present({"kind": "response.error", "code": code, "message": message, "type": error_type, "param": param})


def reasoning_done(place: Place, content_index: int | CleanText, text: Cleaned[CleanText]) -> Frame:
    """Build the private `reasoning.done` (D36): the complete reasoning text of one part, only under policy `full`."""
    return _at("reasoning.done", place, content_index=content_index, text=text.value)


def reasoning_encrypted(place: Place, encrypted_content: CleanText) -> Frame:
    """Build the private `reasoning.encrypted`, by the provider (D36, `encrypted_reasoning`) or sealed by us (D53)."""
    return _at("reasoning.encrypted", place, encrypted_content=encrypted_content)


def call_sealed(place: Place, sealed: CleanText) -> Frame:
    """Build the private `call.sealed`: what the provider wants back with a call, sealed by us (D53)."""
    return _at("call.sealed", place, sealed=sealed)


def late_texts(names: Sequence[str]) -> Frame:
    """Build the private `final.late_texts`: the texts of `final` that no delta contains, or not whole (D13)."""
    return {"kind": "final.late_texts", "names": [*names]}


def add_notices(frame: Frame, replaced: AbstractSet[str]) -> None:
    """Add a notice for each ID and name of a frame with its envelope that stands for something withheld (D41)."""
    found = [notice("redacted", path) for path, value in _names(frame) if value in replaced]
    if found:
        present = [Notice(**row) for row in frame.get("notices", ())]
        frame["notices"] = [row._asdict() for row in bounded([*present, *found])]


def _names(frame: Frame) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of the members of a frame and of its objects; trees have notices of their own."""
    for name, value in frame.items():
        if type(value) is str:
            yield name, value
        elif type(value) is dict:
            yield from ((f"{name}.{member}", text) for member, text in value.items() if type(text) is str)


def _at(kind: str, place: Place, **members: object) -> Frame:
    return {"kind": kind, "output_index": place[0], "item_id": place[1], **members}


def _present(fields: dict[str, Any]) -> Frame:
    """Return the fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}


def _set_fields(frame: Frame, target: dict[str, Any], prefix: str, fields: Mapping[str, Lossy]) -> Frame:
    """Set fields of the target, and add their notices, with full paths, to the frame."""
    found: list[Notice] = []
    for name, cleaned in fields.items():
        if cleaned is None:
            continue
        target[name] = cleaned.value
        found += [each._replace(path=prefix + name + each.path) for each in cleaned.notices]
    if found:
        frame["notices"] = [each._asdict() for each in bounded(found)]
    return frame
