"""Responses: beginning, status, end and errors (seed sections 9.1 and 9.12; CONTRACT D4, D7, D10, D12 to D14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from projector.contracts.kinds import LifecycleStatus
from projector.core import canonical as read
from projector.core import frames, reported_errors
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.faults import FAULTS
from projector.core.handlers import endings, items, messages
from projector.core.reported_errors import ProviderError
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.redactor import Redactor

RUNNING: Final[Mapping[str, int]] = {"queued": 0, "in_progress": 1}
"""Statuses of a response before its end, in order; it never goes back."""

ENDED: Final = frozenset(get_args(LifecycleStatus)).difference(RUNNING)

CANCELLED: Final = "response.cancelled"
"""Event of a cancelled response: the SDK has none, and some servers send their own name with the status."""

END_STATUS: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    CANCELLED: "cancelled",
}
"""The status of an ended response that has none itself."""

REQUESTED_TIER: Final = "auto"
"""Service tier of a response that repeats the request; the real one follows."""

STRUCTURED: Final = frozenset({"json_schema", "json_object"})
"""Types of a text format that a frame has; its name and schema belong to the request."""


def on_status(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit the status of a response when it changes."""
    response = read.mapping(event, "response")
    output = _identify(state, response)
    status = read.text_or_none(response, "status")
    before = state.response.status
    if status is None or status not in RUNNING or (before is not None and RUNNING[status] <= RUNNING[before]):
        return output
    return output + _emit_status(state, status, response)


def on_end(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit content that only the final snapshot contains, close every item, emit the final status."""
    response = read.mapping_or_empty(event, "response")
    status = read.text_or_none(response, "status")
    ended = status if status is not None and status in ENDED else END_STATUS[read.text(event, "type")]
    output = _identify(state, response)
    output += _settle_items(state, read.mappings(response, "output"), is_complete=ended == "completed")
    output += endings.usage(state)
    error = read.mapping_or_empty(response, "error")
    if ended == "failed" and error and not state.response.is_repeated:
        output.append(_report(state, reported_errors.read_error(state.redactor, error)))
    output += _emit_status(state, ended, response)
    endings.settle(state, ended)
    return output


def is_cancelled(event: CanonicalEvent) -> bool:
    """Check whether an event reports that its response was cancelled, whatever the type of the event (D45)."""
    return read.mapping_or_empty(event, "response").get("status") == END_STATUS[CANCELLED]


def on_error(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Read the error, flat or nested; emit the private `response.error`. The terminal follows from the lifecycle."""
    nested = read.mapping_or_empty(event, "error")
    if isinstance(text := event.get("error"), str):
        nested = {"message": text}
    error = reported_errors.read_error(state.redactor, nested, event)
    fault = FAULTS["provider_error"]
    state.fault = fault._replace(
        code=error.code or error.type or fault.code,
        is_retryable=any(reported_errors.is_retryable(name) for name in (error.code, error.type) if name),
    )
    state.fault_message, state.fault_notices = error.shown(state.redactor), error.code_notices
    return [_report(state, error)]


def _report(state: StreamState, error: ProviderError) -> Frame:
    """Record an error of the provider; return the private `response.error`."""
    state.run.add_error(error)
    return frames.response_error(error.code, error.shown(state.redactor).value, error.type, error.param)


def _identify(state: StreamState, response: Mapping[str, object]) -> list[Frame]:
    """Read id, model and output format; emit the private `response.meta` once."""
    if state.response.id is None:
        state.set_response_id(read.text_or_none(response, "id"))
    output = _service_tier(state, response)
    _note_usage(state, response)
    if state.response.has_meta and "text" not in response and "tools" not in response:
        return output
    text_format = read.mapping_or_empty(read.mapping_or_empty(response, "text"), "format")
    kind = read.text_or_none(text_format, "type")
    if kind in STRUCTURED:
        state.response.wants_structure = True
    for tool in read.mappings(response, "tools"):
        if tool.get("type") == "code_interpreter":
            state.response.container_mode = "explicit" if isinstance(tool.get("container"), str) else "auto"
    model = read.text_or_none(response, "model")
    if state.response.has_meta or (model is None and state.response.id is None):
        return output
    state.response.has_meta = True
    clean_model = state.redactor.name(model) if model else None
    created_at = read.count_or_none(response, "created_at")
    structure = {"type": state.redactor.identifier(kind)} if kind is not None and kind in STRUCTURED else None
    n_read = read.count_or_none(state.response.usage, "input_tokens")
    meta = frames.response_meta(state.response.id, clean_model, created_at, structure, input_tokens=n_read)
    return [meta, *output]


def _service_tier(state: StreamState, response: Mapping[str, object]) -> list[Frame]:
    """Emit the service tier when it is known, and when it changes."""
    tier = read.text_or_none(response, "service_tier")
    if tier is None or tier in {REQUESTED_TIER, state.response.service_tier}:
        return []
    state.response.service_tier = tier
    return [frames.response_meta(None, None, None, service_tier=state.redactor.name(tier))]


def _emit_status(state: StreamState, status: str, response: Mapping[str, object]) -> list[Frame]:
    """Emit `lifecycle`, with the reason if the response is not complete; a repeated response has ended before (D10)."""
    if status in ENDED and state.response.is_repeated:
        state.count("repeated end of a response")
        return []
    state.response.status = status
    return [frames.lifecycle(status, _reason(state.redactor, response))]


def _reason(redactor: Redactor, response: Mapping[str, object]) -> Cleaned[CleanText] | None:
    """Return why a response is not complete; a code that cannot be shown is replaced by ours, as in `error`."""
    if not response.get("incomplete_details") and not response.get("error"):
        return None
    reason = read.text_or_none(read.mapping_or_empty(response, "incomplete_details"), "reason")
    if reason is not None:
        return redactor.label(reason)
    error = reported_errors.clean_error(
        redactor, code=reported_errors.read_code(read.mapping_or_empty(response, "error"), "code")
    )
    if error.code is None and not error.hides_code:
        return None
    return Cleaned(error.code or redactor.identifier(FAULTS["provider_error"].code), error.code_notices)


def _note_usage(state: StreamState, response: Mapping[str, object]) -> None:
    """Keep the last usage of a response that is not all zero (D52)."""
    usage = read.mapping_or_empty(response, "usage")
    if usage and (read.has_counts(usage) or not state.response.usage):
        state.response.usage = usage


def _settle_items(state: StreamState, snapshot: list[Mapping[str, object]], *, is_complete: bool) -> list[Frame]:
    """Finish open items with their final form in the snapshot, and emit items that only it contains (D7, D30).

    An item in progress was cut off if its response is not complete.
    """
    if not is_complete:
        snapshot = [{**raw, "status": "incomplete"} if raw.get("status") == "in_progress" else raw for raw in snapshot]
    output: list[Frame] = []
    if not snapshot and not state.response.items:
        return output
    matched = _match(state, snapshot)
    has_no_text = not any(item.texts or item.refusals for item in state.response.items)
    for item in state.response.items.copy():
        raw = matched.get(item)
        item.phase = item.phase or items.phase_of(raw or {})
        if item.open and raw is not None:
            output += items.finish(state, item, raw)
        elif item.open:
            output += items.close(state, item, {}, None)
        elif raw is not None and has_no_text and item.type == "message":
            messages.finish(state, item, raw)  # too late for its frames; `final` includes the text (D13)
            item.is_late = True
    known = {id(raw) for raw in matched.values()}
    for raw in snapshot:
        if id(raw) not in known:
            output += items.emit_whole(state, raw)
    return output


def _match(state: StreamState, snapshot: list[Mapping[str, object]]) -> dict[Item, Mapping[str, object]]:
    """Find each streamed item in the snapshot: by id, by index and type, else as the next of its type.

    Open items go first. Ids may have rotated or been replaced, and indexes shift if the snapshot leaves items out.
    """
    by_id = {raw.get("id"): raw for raw in snapshot if type(raw.get("id")) is str}
    matched: dict[Item, Mapping[str, object]] = {}
    taken: set[int] = set()

    def match(item: Item, raw: Mapping[str, object] | None) -> None:
        if raw is not None and raw.get("type") == item.type and id(raw) not in taken and item not in matched:
            matched[item] = raw
            taken.add(id(raw))

    for item in state.response.items:
        match(item, by_id.get(item.item_id))
    if len(matched) == len(state.response.items):  # of nearly every response
        return matched
    for index, item in state.response.by_index.items():
        match(item, snapshot[index] if index < len(snapshot) else None)
    types = {item.type for item in state.response.items}
    left = {kind: iter([raw for raw in snapshot if raw.get("type") == kind and id(raw) not in taken]) for kind in types}
    for item in sorted(state.response.items, key=lambda item: not item.open):
        if item not in matched:
            match(item, next(left[item.type], None))
    return matched
