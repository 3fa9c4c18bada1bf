"""Text of messages and refusals, citations and images: chunks of the node that speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame
from projector.openwop.contract.parts import VENDOR
from projector.openwop.dialect.run import Run
from projector.openwop.log import present

REFUSAL: Final = ":refusal"
"""Behind the item in the channel of a refusal: text and refusal of one item are not one text."""

IMAGE_MEMBERS: Final[Mapping[str, str]] = {
    "target": "target",
    "encoding": "encoding",
    "chunk_index": "chunkIndex",
    "data": "data",
}
"""Member of a frame -> member of its event."""


def on_text_delta(run: Run, frame: Frame) -> None:
    """Say more text, in the channel of its message."""
    run.has_said_text = True
    _chunk(run, frame, frame["item_id"])


def on_refusal_delta(run: Run, frame: Frame) -> None:
    """Say more of a refusal, in a channel of its own."""
    _chunk(run, frame, frame["item_id"] + REFUSAL)


def on_citation(run: Run, frame: Frame) -> None:
    """Say a citation, which OpenWOP has no event for."""
    place = {"nodeId": run.node_id, "channel": frame["item_id"], "contentIndex": frame["content_index"]}
    payload = {**place, "citation": frame["citation"]}
    run.say(f"{VENDOR}.{frame['kind']}", payload, notices=frame.get("notices"))


def on_image(run: Run, frame: Frame) -> None:
    """Say a piece of an image or its end, which OpenWOP has no event for."""
    members = {said: frame[name] for name, said in IMAGE_MEMBERS.items() if name in frame}
    payload = {"nodeId": run.node_id, "callId": run.calls[frame["item_id"]].id, **members}
    run.say(f"{VENDOR}.{frame['kind']}", payload, notices=frame.get("notices"))


def say_unsaid(run: Run, text: str) -> None:
    """Say a text of which only the end tells (CONTRACT D13)."""
    run.speaking[run.node_id] = run.voice.model
    for at in range(0, len(text), DELTA_MAX_CHARS):
        piece = text[at : at + DELTA_MAX_CHARS]
        chunk = {"nodeId": run.node_id, "runId": run.log.run_id, "chunk": piece, "isLast": False}
        run.say("output.chunk", chunk)


def close(run: Run, node_id: str, finish_reason: str | None = None) -> None:
    """Say that a node has no more text from this call of its model, if it said any."""
    if node_id not in run.speaking:
        return
    meta = present(finishReason=finish_reason, model=run.speaking.pop(node_id))
    chunk = {"nodeId": node_id, "runId": run.log.run_id, "chunk": "", "isLast": True}
    run.say("output.chunk", chunk | present(meta=meta or None), node_id=node_id)


def _chunk(run: Run, frame: Frame, channel: str) -> None:
    chunk = {"nodeId": run.node_id, "runId": run.log.run_id, "chunk": frame["delta"], "isLast": False}
    run.speaking[run.node_id] = run.voice.model
    run.say("output.chunk", chunk | {"channel": channel}, notices=frame.get("notices"))
