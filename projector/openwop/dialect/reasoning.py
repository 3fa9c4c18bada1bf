"""Reasoning: blocks that grow by deltas and are closed with all of their text (RFC 0024; CONTRACT D36).

A block is what one item says of one kind, summary or full text, in a row; its parts are paragraphs of it. An agent has
one open block at most, because readers know a block by its agent: what another item of the agent begins closes it. Of
what a block may not say, its deltas say nothing either, so the closing text is always the deltas joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core.canonical import Frame
from projector.openwop import agents
from projector.openwop.contract.parts import Verbosity
from projector.openwop.dialect.items import Block, Thought
from projector.openwop.dialect.run import Run
from projector.redaction import texts
from projector.redaction.clean import TRUNCATED_HERE

SUMMARY_MAX_TOKENS: Final = 512
"""What the protocol bounds a summary to by default."""
CHARS_PER_TOKEN: Final = 4
"""Tokens are the provider's to count; four characters are one in English text, about."""

BLOCK_MAX_CHARS: Final[Mapping[str, int]] = {
    "summary": SUMMARY_MAX_TOKENS * CHARS_PER_TOKEN,
    "full": 1_048_576,  # its closing event repeats it: as much as a frame of trees may hold (CONTRACT D37)
}
"""Verbosity -> how long a block may be; what is longer is cut with a notice."""

PARAGRAPH: Final = "\n\n"


def on_added(run: Run, frame: Frame) -> None:
    """Remember who reasons: the agent of a block is the one that began it."""
    run.thoughts[frame["item_id"]] = Thought(run.agent_id)


def on_summary_delta(run: Run, frame: Frame) -> None:
    """Say more of a summary."""
    _say(run, frame, "summary", frame["summary_index"])


def on_text_delta(run: Run, frame: Frame) -> None:
    """Say more of the full text, which only policy `full` lets come here."""
    _say(run, frame, "full", frame["content_index"])


def on_done(run: Run, frame: Frame) -> None:
    """Close the item's block; an item that said nothing is an empty one, unless reasoning is off."""
    item_id = frame["item_id"]
    thought = run.thoughts[item_id]
    block = run.blocks.get(thought.agent_id)
    if block is not None and block.item_id == item_id:
        _close(run, block)
    elif not thought.has_spoken and run.verbosity != "off":
        _close(run, _open(run, thought, item_id, run.verbosity))


def _say(run: Run, frame: Frame, verbosity: Verbosity, part: int) -> None:
    item_id = frame["item_id"]
    thought = run.thoughts[item_id]
    block = run.blocks.get(thought.agent_id)
    if block is None or (block.item_id, block.verbosity) != (item_id, verbosity):
        block = _open(run, thought, item_id, verbosity)
    delta = frame["delta"]
    if delta and part != block.part:
        delta = PARAGRAPH + delta if block.text else delta
        block.part = part
    notices = block.notices.take(frame) or []
    if len(delta) > block.room:
        delta = texts.cut(delta, block.room)
        cut = [notice._replace(path="delta")._asdict() for notice in TRUNCATED_HERE]
        notices = [*notices, *(block.notices.take({"notices": cut}) or [])]
        block.room = 0
    block.room -= len(delta)
    if delta:
        block.text.add(delta)
        _say_delta(run, block, delta, notices)


def _say_delta(run: Run, block: Block, delta: str, notices: object) -> None:
    if not run.options.streams_reasoning:
        return
    payload = agents.reasoning_delta(block.agent_id, delta, block.sequence, block.verbosity)
    run.say("agent.reasoning.delta", payload, notices=notices)
    block.sequence += 1


def _open(run: Run, thought: Thought, item_id: str, verbosity: Verbosity) -> Block:
    """Open a block, behind the end of the one that its agent had open."""
    if (other := run.blocks.get(thought.agent_id)) is not None:
        _close(run, other)
    thought.has_spoken = True
    block = Block(thought.agent_id, item_id, verbosity, BLOCK_MAX_CHARS[verbosity])
    run.blocks[thought.agent_id] = block
    return block


def _close(run: Run, block: Block) -> None:
    """Say all of a block: what counts, whatever the deltas said."""
    del run.blocks[block.agent_id]
    payload = agents.reasoned(block.agent_id, block.text.text, block.verbosity)
    run.say("agent.reasoned", payload, notices=block.notices.give())
