"""Code of the code interpreter (seed section 9.9, CONTRACT D20, D27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts import limits
from projector.core import canonical as read
from projector.core import frames
from projector.core.calls import ToolCall
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import status
from projector.core.parts import TextPart
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.core.truncation import split_delta
from projector.redaction.clean import Cleaned, CleanText

ITEM_TYPE: Final = "code_interpreter_call"


def on_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what may be said of the delta now."""
    delta = read.text(event, "delta")
    item, call, said = status.call_of(state, event, ITEM_TYPE)
    part = _part(state, call)
    if part.done:
        raise read.UnreadableEvent("`response.code_interpreter_call_code.delta`: its code is done")
    return said + _deltas(item, call, part.feed(delta))


def on_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what the deltas did not, then the whole code."""
    text = read.text(event, "code")
    item, call, said = status.call_of(state, event, ITEM_TYPE)
    return said + _complete(state, item, call, text)


def finish(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Say the code of a finished item, unless that was done before; what streamed is whole where the item has none."""
    text = raw.get("code")
    if type(text) is str and text:
        return _complete(state, item, call, text)
    said = flush(item, call)
    if call.code is None or call.code.done or raw.get("status") == "incomplete":
        return said
    call.code.done = True
    whole = Cleaned(call.code.text, call.code.notices)
    return [*said, frames.tool_code_done(item.slot, item.item_id, call.call_id, whole)]


def flush(item: Item, call: ToolCall) -> list[Frame]:
    """Say what was held back of code that was cut off."""
    return [] if call.code is None or call.code.done else _deltas(item, call, call.code.close())


def _part(state: StreamState, call: ToolCall) -> TextPart:
    if call.code is None:
        call.code = TextPart(state.redactor.code_stream)
    return call.code


def _complete(state: StreamState, item: Item, call: ToolCall, text: str) -> list[Frame]:
    part = _part(state, call)
    if part.done:
        return []
    part.done = True
    is_new = not part.text
    rest = state.complete(part, text)
    whole = Cleaned(part.text, part.notices)
    # short code that comes at once needs no delta: its `done` says it all
    said = [] if is_new and len(whole.value) <= limits.DELTA_MAX_CHARS else _deltas(item, call, rest)
    return [*said, frames.tool_code_done(item.slot, item.item_id, call.call_id, whole)]


def _deltas(item: Item, call: ToolCall, delta: Cleaned[CleanText]) -> list[Frame]:
    return [frames.tool_code_delta(item.slot, item.item_id, call.call_id, piece) for piece in split_delta(delta)]
