"""Generated images: their bytes travel in chunks only (seed section 9.11, CONTRACT D21)."""

from __future__ import annotations

from collections.abc import Mapping

from projector.contracts.kinds import ChunkField
from projector.core import canonical as read
from projector.core import frames
from projector.core.calls import ToolCall
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import fields, status
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.core.truncation import split_base64
from projector.redaction.clean import TRUNCATED_HERE


def on_partial_image(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say the status and the bytes of a partial image."""
    part_index = read.index(event, "partial_image_index")
    data = read.text(event, "partial_image_b64")
    item, call, said = status.call_of(state, event, "image_generation_call")
    fields.image_generation(state, item, call, event)
    return (
        said
        + status.say_status(item, call, "partial_image")
        + _chunks(state, item, call, "partial_image_b64", part_index, data)
    )


def finish(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Say the final image, unless policy leaves images to the host."""
    data = read.text_or_none(raw, "result")
    if data is None or state.policy.images == "host":
        return []
    return _chunks(state, item, call, "image_b64", 0, data)


def _chunks(
    state: StreamState, item: Item, call: ToolCall, field: ChunkField, part_index: int, data: str
) -> list[Frame]:
    """Say base64 data in chunks, once per target; what is not base64 is left out with a notice."""
    if (field, part_index) in call.images:
        state.count("chunk target is closed")
        return []
    call.images.add((field, part_index))
    target = frames.chunk_target(call.call_id, field, part_index)
    clean = state.redactor.base64(data)
    if clean is None:
        return [frames.chunk_done(item.slot, item.item_id, target, TRUNCATED_HERE)]
    pieces = split_base64(clean, state.policy.limits.image_chunk_max_chars)
    said = [frames.chunk_delta(item.slot, item.item_id, target, at, piece) for at, piece in enumerate(pieces)]
    return [*said, frames.chunk_done(item.slot, item.item_id, target)]
