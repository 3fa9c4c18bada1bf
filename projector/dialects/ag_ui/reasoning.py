"""Reasoning: a span for each item, a message for each part, and what only the provider can read (CONTRACT D36)."""

from __future__ import annotations

from typing import Final

from projector.core.canonical import Frame
from projector.dialects.ag_ui.items import Notices, Reasoning
from projector.dialects.ag_ui.run import Event, Run, metadata, unless_completed
from projector.redaction.clean import TRUNCATED_HERE

SUMMARY: Final = "summary"
FULL: Final = "full"

ENCRYPTED_MAX_CHARS: Final = 4_194_304
"""A client's buffer takes 10,485,760 characters; half of a value is of no use, so a longer one is left out."""


def on_added(run: Run, frame: Frame) -> list[Event]:
    """Say that the model thinks."""
    item_id = frame["item_id"]
    run.reasonings[item_id] = Reasoning(item_id)
    return [run.event("REASONING_START", messageId=item_id)]


def on_summary_delta(run: Run, frame: Frame) -> list[Event]:
    """Say more of a summary."""
    return _say(run, frame, SUMMARY, frame["summary_index"])


def on_text_delta(run: Run, frame: Frame) -> list[Event]:
    """Say more of the full text, which only policy `full` lets come here."""
    return _say(run, frame, FULL, frame["content_index"])


def on_encrypted(run: Run, frame: Frame) -> list[Event]:
    """Say what the client shall send back, on the first message of the item; an empty one where there is none."""
    reasoning = run.reasonings[frame["item_id"]]
    value = frame["encrypted_content"]
    if len(value) > ENCRYPTED_MAX_CHARS:
        notices = [notice._replace(path="encrypted_content")._asdict() for notice in TRUNCATED_HERE]
        reasoning.notices.take({"notices": notices})
        return []
    said = _begin(run, reasoning, (SUMMARY, 0)) if reasoning.first_id is None else []
    entity = {"subtype": "message", "entityId": reasoning.first_id, "encryptedValue": value}
    return [*said, run.event("REASONING_ENCRYPTED_VALUE", **entity)]


def on_done(run: Run, frame: Frame) -> list[Event]:
    """Say the end of the last part and of the span."""
    reasoning = run.reasonings[frame["item_id"]]
    notices = None if reasoning.part else reasoning.notices.all
    about = metadata(notices=notices, status=unless_completed(frame["status"]))
    return [*_end(run, reasoning), run.event("REASONING_END", messageId=reasoning.item_id, metadata=about)]


def _say(run: Run, frame: Frame, kind: str, index: int) -> list[Event]:
    reasoning = run.reasonings[frame["item_id"]]
    said = [] if reasoning.part == (kind, index) else _begin(run, reasoning, (kind, index))
    about = metadata(notices=reasoning.notices.take(frame))
    if frame["delta"]:
        content = {"messageId": reasoning.id, "delta": frame["delta"], "metadata": about}
        said.append(run.event("REASONING_MESSAGE_CONTENT", **content))
    return said


def _begin(run: Run, reasoning: Reasoning, part: tuple[str, int]) -> list[Event]:
    """Say that a part begins, after the end of the one before; one that comes back is a message of its own."""
    said = _end(run, reasoning)
    kind, index = part
    wanted = f"{reasoning.item_id}:{index}" if kind == SUMMARY else f"{reasoning.item_id}:{kind}:{index}"
    reasoning.part = part
    reasoning.id = run.message_ids.give(wanted)
    reasoning.first_id = reasoning.first_id or reasoning.id
    run.parent_id = None
    about = metadata(kind=kind, item_id=reasoning.item_id)
    said.append(run.event("REASONING_MESSAGE_START", messageId=reasoning.id, role="reasoning", metadata=about))
    return said


def _end(run: Run, reasoning: Reasoning) -> list[Event]:
    if reasoning.part is None:
        return []
    about = metadata(notices=reasoning.notices.all)
    reasoning.part, reasoning.notices = None, Notices()
    return [run.event("REASONING_MESSAGE_END", messageId=reasoning.id, metadata=about)]
