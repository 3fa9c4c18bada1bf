"""Content of model output: text, refusals, citations, images, and reasoning blocks (RFC 0024; CONTRACT D36).

A reasoning block is the output of one item with one verbosity (summary or full text); parts of the item are paragraphs
of the block. An agent has at most one open block in a node, because readers identify a block by these two: a further
one waits until the open one is closed. Deltas obey the limits of their block, so the closing text is always the deltas
joined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from projector.contracts import codec
from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import DeltaFrames
from projector.dialects.descriptor import RepeatWriter
from projector.dialects.frame_writer import NUMBER_PLACE, TEXT_PLACE, literal, pattern_of
from projector.openwop import event_log
from projector.openwop.dialect.log_state import LogState, ReasoningBlock, ReasoningItem
from projector.openwop.event_log import SUMMARY_MAX_CHARS, VENDOR, Verbosity, present
from projector.redaction.clean import TRUNCATED_HERE, cut_text

REFUSAL: Final = ":refusal"
"""Channel suffix of a refusal: text and refusal of one item are separate texts."""

IMAGE_MEMBERS: Final[Mapping[str, str]] = {
    "target": "target",
    "encoding": "encoding",
    "chunk_index": "chunkIndex",
    "data": "data",
}
"""Frame member -> event member."""

BLOCK_MAX_CHARS: Final[Mapping[str, int]] = {
    "summary": SUMMARY_MAX_CHARS,
    "full": 1_048_576,  # repeated by its closing event: as much as a frame with trees may hold (CONTRACT D37)
}
"""Verbosity -> length at which a block is truncated, with a notice."""

WAITING_MAX_CHARS: Final = 1_048_576
"""Length of the reasoning of one run that may wait for the end of other blocks: as much as the largest of them."""

PARAGRAPH: Final = "\n\n"


def on_text_delta(state: LogState, frame: Frame) -> None:
    """Emit text, in the channel of its message."""
    state.has_text = True
    _emit_chunk(state, frame["delta"], frame["item_id"], frame.get("notices"))


def repeat_text(state: LogState) -> RepeatWriter:
    """Return a writer of events equal to the last one, which has text, but for number, time and text."""
    event, log = state.events[-1], state.log
    name = event["type"]
    begin_of_id = event["eventId"].removesuffix(str(event["sequence"]))
    pattern = pattern_of(
        event,
        {
            "eventId": literal(codec.dumps(begin_of_id)[:-1]) + NUMBER_PLACE + b'"',
            "payload": pattern_of(event["payload"], {"chunk": TEXT_PLACE}),
            "timestamp": TEXT_PLACE,
            "sequence": NUMBER_PLACE,
        },
    )

    def write(deltas: DeltaFrames) -> list[WireEvent]:
        timestamp = deltas.timestamp.encode()
        first = log.sequence
        log.sequence += len(deltas.encoded)
        return [(name, pattern % (at, text, timestamp, at)) for at, text in enumerate(deltas.encoded, first)]

    return write


def on_refusal_delta(state: LogState, frame: Frame) -> None:
    """Emit text of a refusal, in a channel of its own."""
    _emit_chunk(state, frame["delta"], frame["item_id"] + REFUSAL, frame.get("notices"))


def on_citation(state: LogState, frame: Frame) -> None:
    """Emit a citation, as an event type of our own."""
    position = {"nodeId": state.node_id, "channel": frame["item_id"], "contentIndex": frame["content_index"]}
    payload = {**position, "citation": frame["citation"]}
    state.emit(f"{VENDOR}.{frame['kind']}", payload, notices=frame.get("notices"))


def on_image(state: LogState, frame: Frame) -> None:
    """Emit a chunk or the end of an image, as an event type of our own."""
    members = {name: frame[member] for member, name in IMAGE_MEMBERS.items() if member in frame}
    payload = {"nodeId": state.node_id, "callId": state.calls[frame["item_id"]].id, **members}
    state.emit(f"{VENDOR}.{frame['kind']}", payload, notices=frame.get("notices"))


def emit_final_text(state: LogState, text: str) -> None:
    """Emit text that only the terminal frame contains (CONTRACT D13)."""
    for at in range(0, len(text), DELTA_MAX_CHARS):
        _emit_chunk(state, text[at : at + DELTA_MAX_CHARS], None)


def close_text(state: LogState, node_id: str, finish_reason: str | None = None) -> None:
    """Emit the last chunk of a model call, if the node has open text."""
    if node_id not in state.open_texts:
        return
    meta = present(finishReason=finish_reason, model=state.open_texts.pop(node_id))
    chunk = {"nodeId": node_id, "runId": state.log.run_id, "chunk": "", "isLast": True}
    state.emit("output.chunk", chunk | present(meta=meta or None), node_id=node_id)


def _emit_chunk(state: LogState, text: str, channel: str | None, notices: object = None) -> None:
    state.open_texts[state.node_id] = state.branch.model
    chunk = {"nodeId": state.node_id, "runId": state.log.run_id, "chunk": text, "isLast": False}
    if channel is not None:
        chunk["channel"] = channel
    state.emit("output.chunk", chunk, notices=notices)


def on_reasoning_added(state: LogState, frame: Frame) -> None:
    """Record the agent of a reasoning item."""
    state.reasoning[frame["item_id"]] = ReasoningItem(state.agent_id)


def on_summary_delta(state: LogState, frame: Frame) -> None:
    """Emit text of a reasoning summary."""
    _extend_block(state, frame, "summary", frame["summary_index"])


def on_reasoning_delta(state: LogState, frame: Frame) -> None:
    """Emit full reasoning text; its frames exist under the policy `full` only."""
    _extend_block(state, frame, "full", frame["content_index"])


def on_reasoning_done(state: LogState, frame: Frame) -> None:
    """End the blocks of the item; an item without output gets an empty block unless reasoning is off."""
    item = state.reasoning[frame["item_id"]]
    if not item.blocks and state.verbosity != "off":
        _new_block(state, item, state.verbosity)
    for block in item.blocks.values():
        block.is_over = True
    for block in item.blocks.values():
        _advance(state, (block.agent_id, block.node_id))


def close_blocks(state: LogState, node_id: str) -> None:
    """Close all blocks of a node."""
    for place in [place for place in state.blocks if place[1] == node_id]:
        for block in state.blocks[place]:
            block.is_over = True
        _advance(state, place)


def _extend_block(state: LogState, frame: Frame, verbosity: Verbosity, part: int) -> None:
    item = state.reasoning[frame["item_id"]]
    block = item.blocks.get(verbosity)
    if block is None or block.is_over:
        block = _new_block(state, item, verbosity)
    delta = frame["delta"]
    if delta and part != block.part:
        delta = PARAGRAPH + delta if block.text else delta
        block.part = part
    notices = [*frame.get("notices", ())]
    is_open = state.blocks[block.agent_id, block.node_id][0] is block
    room = block.room if is_open else min(block.room, WAITING_MAX_CHARS - state.waiting_chars)
    if len(delta) > room:
        delta = cut_text(delta, room)
        notices += [notice._replace(path="delta")._asdict() for notice in TRUNCATED_HERE]
        block.room = len(delta)
    block.room -= len(delta)
    if delta:
        block.text.add(delta)
    block.notices.add(notices)
    if is_open:
        _emit_delta(state, block, delta, notices)
    else:
        state.waiting_chars += len(delta)
        block.waiting_notices.add(notices)


def _new_block(state: LogState, item: ReasoningItem, verbosity: Verbosity) -> ReasoningBlock:
    """Begin a block in the current node; it is open if no other block of the agent is."""
    block = ReasoningBlock(item.agent_id, state.node_id, verbosity, BLOCK_MAX_CHARS[verbosity])
    item.blocks[verbosity] = block
    state.blocks.setdefault((block.agent_id, block.node_id), deque()).append(block)
    return block


def _advance(state: LogState, place: tuple[str, str]) -> None:
    """Close the open block of a place if it is over, and open the next one, with the text that waited."""
    blocks = state.blocks.get(place)
    while blocks and blocks[0].is_over:
        _close_block(state, blocks.popleft())
        if blocks:
            _emit_waiting(state, blocks[0])
    if not blocks:
        state.blocks.pop(place, None)


def _emit_waiting(state: LogState, block: ReasoningBlock) -> None:
    text, notices = block.text.text[block.emitted_chars :], block.waiting_notices.release()
    state.waiting_chars -= len(text)
    for at in range(0, len(text), DELTA_MAX_CHARS):
        _emit_delta(state, block, text[at : at + DELTA_MAX_CHARS], notices if at == 0 else [])


def _emit_delta(state: LogState, block: ReasoningBlock, delta: str, notices: list[object]) -> None:
    block.emitted_chars += len(delta)
    if delta and state.options.streams_reasoning:
        payload = event_log.reasoning_delta(block.agent_id, delta, block.sequence, block.verbosity)
        state.emit("agent.reasoning.delta", payload, node_id=block.node_id, notices=notices)
        block.sequence += 1


def _close_block(state: LogState, block: ReasoningBlock) -> None:
    payload = event_log.reasoned(block.agent_id, block.text.text, block.verbosity)
    state.emit("agent.reasoned", payload, node_id=block.node_id, notices=block.notices.release())
