"""A response begins, changes status and ends (seed contract, section 9.1; CONTRACT D4, D7, D10, D13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from projector.contracts.kinds import LifecycleStatus
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import endings, items, messages
from projector.core.state import StreamState
from projector.core.transcript import Item

UNDER_WAY: Final[Mapping[str, int]] = {"queued": 0, "in_progress": 1}
"""What a response may be before its end, in order; it never goes back."""

ENDED: Final = frozenset(get_args(LifecycleStatus)) - UNDER_WAY.keys()

END_STATUS: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""What an ended response is where it does not say so itself; `cancelled` has a status but no event."""

STRUCTURED: Final = frozenset({"json_schema", "json_object"})

USAGE: Final[Mapping[str, tuple[str, ...]]] = {
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "total_tokens": ("total_tokens",),
    "cached_input_tokens": ("input_tokens_details", "cached_tokens"),
    "reasoning_output_tokens": ("output_tokens_details", "reasoning_tokens"),
}
"""What `final.usage` says -> where the provider's usage holds it (D13)."""


def on_status(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say the status of a response when it changes."""
    response = read.mapping(event, "response")
    said = _identify(state, response)
    status = read.text_or_none(response, "status")
    before = state.response.status
    if status is None or status not in UNDER_WAY or (before is not None and UNDER_WAY[status] <= UNDER_WAY[before]):
        return said
    return said + _say_status(state, status, response)


def on_end(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what only the snapshot holds, close every item, say the last status; never refuse to end."""
    response = read.mapping_or_empty(event, "response")
    status = read.text_or_none(response, "status")
    ended = status if status is not None and status in ENDED else END_STATUS[read.text(event, "type")]
    said = _identify(state, response)
    said += _settle_items(state, read.mappings(response, "output"), is_complete=ended == "completed")
    said += _take_usage(state, read.mapping_or_empty(response, "usage"))
    said += _say_status(state, ended, response)
    endings.settle(state, ended)
    return said


def _identify(state: StreamState, response: Mapping[str, object]) -> list[Frame]:
    """Learn id, model and output format; give them to dialects that say them, once."""
    state.set_response_id(read.text_or_none(response, "id"))
    text_format = read.mapping_or_empty(read.mapping_or_empty(response, "text"), "format")
    if read.text_or_none(text_format, "type") in STRUCTURED:
        state.response.wants_structure = True
    for tool in read.mappings(response, "tools"):
        if tool.get("type") == "code_interpreter":
            state.response.container_mode = "explicit" if isinstance(tool.get("container"), str) else "auto"
    model = read.text_or_none(response, "model")
    if state.response.meta_said or (model is None and state.response.id is None):
        return []
    state.response.meta_said = True
    model_said = state.redactor.identifier(model) if model else None
    return [frames.response_meta(state.response.id, model_said, read.count_or_none(response, "created_at"))]


def _say_status(state: StreamState, status: str, response: Mapping[str, object]) -> list[Frame]:
    """Say `lifecycle`, with the reason of an end that is not complete; a repeated response has said its end (D10)."""
    if status in ENDED and state.response.is_repeated:
        state.count("a repeated end")
        return []
    state.response.status = status
    reason = read.text_or_none(read.mapping_or_empty(response, "incomplete_details"), "reason")
    reason = reason or read.text_or_none(read.mapping_or_empty(response, "error"), "code")
    return [frames.lifecycle(status, state.redactor.identifier(reason) if reason else None)]


def _take_usage(state: StreamState, usage: Mapping[str, object]) -> list[Frame]:
    """Add what the response cost to the run's; give it to dialects that say it of each response."""
    counts: dict[str, int] = {}
    for name, (*outer, member) in USAGE.items():
        source = read.mapping_or_empty(usage, outer[0]) if outer else usage
        if (count := read.count_or_none(source, member)) is not None:
            counts[name] = count
            state.run.usage[name] += count
    return [frames.response_usage(counts)] if counts else []


def _settle_items(state: StreamState, snapshot: list[Mapping[str, object]], *, is_complete: bool) -> list[Frame]:
    """Close what is still open with the snapshot's word on it, and say items that only the snapshot knows (D7, D30).

    An item that is in progress when its response ends before it was complete was cut off.
    """
    if not is_complete:
        snapshot = [{**raw, "status": "incomplete"} if raw.get("status") == "in_progress" else raw for raw in snapshot]
    said: list[Frame] = []
    named = _match(state, snapshot)
    is_mute = not any(item.texts or item.refusals for item in state.response.items)
    for item in state.response.items.copy():
        raw = named.get(item)
        if item.open and raw is not None:
            said += items.finish(state, item, raw)
        elif item.open:
            said += items.close(state, item, {}, None)
        elif raw is not None and is_mute and item.type == "message":
            messages.finish(state, item, raw)  # too late to be said; `final` takes the text (D13)
    known = {id(raw) for raw in named.values()}
    for raw in snapshot:
        if id(raw) not in known:
            said += items.say_whole(state, raw)
    return said


def _match(state: StreamState, snapshot: list[Mapping[str, object]]) -> dict[Item, Mapping[str, object]]:
    """Find each streamed item in the snapshot: by id, by its place and type, else as the next of its type.

    Open items go first. Ids may have rotated or been replaced, and places shift where the snapshot leaves items out.
    """
    types = {item.type for item in state.response.items}
    by_id = {raw.get("id"): raw for raw in snapshot if type(raw.get("id")) is str}
    named: dict[Item, Mapping[str, object]] = {}
    taken: set[int] = set()

    def take(item: Item, raw: Mapping[str, object] | None) -> None:
        if raw is not None and raw.get("type") == item.type and id(raw) not in taken and item not in named:
            named[item] = raw
            taken.add(id(raw))

    for item in state.response.items:
        take(item, by_id.get(item.item_id))
    for index, item in state.response.by_index.items():
        take(item, snapshot[index] if index < len(snapshot) else None)
    left = {kind: iter([raw for raw in snapshot if raw.get("type") == kind and id(raw) not in taken]) for kind in types}
    for item in sorted(state.response.items, key=lambda item: not item.open):
        if item not in named:
            take(item, next(left[item.type], None))
    return named
