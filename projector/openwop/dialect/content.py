"""Content of model output: text, refusals, citations, images, and reasoning blocks (RFC 0024; CONTRACT D36).

A reasoning block is the consecutive output of one item with one verbosity (summary or full text); parts of the item are
paragraphs of the block. An agent has at most one open block, because readers identify a block by its agent: output of
another item of the agent closes it. Deltas obey the limits of their block, so the closing text is always the deltas
joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame
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

PARAGRAPH: Final = "\n\n"


def on_text_delta(state: LogState, frame: Frame) -> None:
    """Emit text, in the channel of its message."""
    state.has_text = True
    _emit_chunk(state, frame["delta"], frame["item_id"], frame.get("notices"))


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
    state.emit("output.chunk", chunk | present(channel=channel), notices=notices)


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
    """Close the block of the item; an item without output gets an empty block unless reasoning is off."""
    item_id = frame["item_id"]
    item = state.reasoning[item_id]
    block = state.blocks.get(item.agent_id)
    if block is not None and block.item_id == item_id:
        _close_block(state, block)
    elif not item.has_blocks and state.verbosity != "off":
        _close_block(state, _open_block(state, item, item_id, state.verbosity))


def _extend_block(state: LogState, frame: Frame, verbosity: Verbosity, part: int) -> None:
    item_id = frame["item_id"]
    item = state.reasoning[item_id]
    block = state.blocks.get(item.agent_id)
    if block is None or (block.item_id, block.verbosity) != (item_id, verbosity):
        block = _open_block(state, item, item_id, verbosity)
    delta = frame["delta"]
    if delta and part != block.part:
        delta = PARAGRAPH + delta if block.text else delta
        block.part = part
    notices = [*frame.get("notices", ())]
    block.notices.add(notices)
    if len(delta) > block.room:
        delta = cut_text(delta, block.room)
        truncated: list[object] = [notice._replace(path="delta")._asdict() for notice in TRUNCATED_HERE]
        block.notices.add(truncated)
        notices += truncated
        block.room = 0
    block.room -= len(delta)
    if delta:
        block.text.add(delta)
        if state.options.streams_reasoning:
            payload = event_log.reasoning_delta(block.agent_id, delta, block.sequence, block.verbosity)
            state.emit("agent.reasoning.delta", payload, notices=notices)
            block.sequence += 1


def _open_block(state: LogState, item: ReasoningItem, item_id: str, verbosity: Verbosity) -> ReasoningBlock:
    """Open a block after closing the open block of the same agent."""
    if (other := state.blocks.get(item.agent_id)) is not None:
        _close_block(state, other)
    item.has_blocks = True
    block = ReasoningBlock(item.agent_id, item_id, verbosity, BLOCK_MAX_CHARS[verbosity])
    state.blocks[item.agent_id] = block
    return block


def _close_block(state: LogState, block: ReasoningBlock) -> None:
    del state.blocks[block.agent_id]
    payload = event_log.reasoned(block.agent_id, block.text.text, block.verbosity)
    state.emit("agent.reasoned", payload, notices=block.notices.release())
