"""Write messages and reasoning: text messages, refusals, and a span of messages for each reasoning item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts import codec
from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame
from projector.dialects.ag_ui.ag_ui_run import (
    AgUiRun,
    Event,
    Message,
    Notices,
    Reasoning,
    metadata,
    unless_completed,
)
from projector.dialects.frame_writer import (
    ENCRYPTED_MAX_CHARS,
    FINAL_TEXTS,
    NUMBER_PLACE,
    REFUSAL,
    TEXT,
    TEXT_PLACE,
    left_out,
    pattern_of,
)

CITATIONS_MAX_BYTES: Final = 262_144
"""JSON size for one message. More would make its last event too large for a client's buffer."""

SUMMARY: Final = "summary"
FULL: Final = "full"
PART_INDEXES: Final[Mapping[str, str]] = {SUMMARY: "summary_index", FULL: "content_index"}


def on_message_added(run: AgUiRun, frame: Frame) -> list[Event]:
    """Add a message. Its first text starts it on the wire."""
    message = run.messages[frame["item_id"]] = Message(frame["item_id"])
    message.notices.add(frame)
    run.branch_state.add_message(frame["output_index"])
    return []


def on_message_delta(kind: str, run: AgUiRun, frame: Frame) -> list[Event]:
    """Write a delta of a text, or of a refusal: a text with the kind `refusal` in its metadata."""
    message = run.messages[frame["item_id"]]
    events = [] if message.kind == kind else _start_message(run, message, kind, frame.get("agent"))
    notices = message.notices.add(frame) if "notices" in frame else None
    delta, content_index = frame["delta"], frame["content_index"]
    if not delta:
        return events
    run.branch_state.add(kind, frame["output_index"], content_index, delta)
    content = _content(run, message, delta)
    if notices is not None or content_index != message.content_index:
        new_index = content_index if content_index != message.content_index else None
        content["metadata"] = metadata(content_index=new_index, notices=notices)
        message.content_index = content_index
    events.append(content)
    return events


def text_pattern(run: AgUiRun, frame: Frame) -> bytes:
    """Return the event of a further delta of a text, as a format with places for the time and the text."""
    return pattern_of(_content(run, run.messages[frame["item_id"]], frame["delta"]), _PLACES)


_PLACES: Final[Mapping[str, bytes]] = {"timestamp": NUMBER_PLACE, "delta": TEXT_PLACE}


def on_citation(run: AgUiRun, frame: Frame) -> list[Event]:
    """Keep a citation for the end of its message."""
    message = run.messages[frame["item_id"]]
    events = [] if message.kind else _start_message(run, message, TEXT, frame.get("agent"))
    message.notices.add(frame)
    citation = {"content_index": frame["content_index"], **frame["citation"]}
    message.citations_bytes += len(codec.dumps(citation))
    if message.citations_bytes <= CITATIONS_MAX_BYTES:
        message.citations.append(citation)
    else:
        message.notices.add({"notices": left_out("citation")})
    return events


def on_message_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the end of a message."""
    message = run.messages[frame["item_id"]]
    if not message.kind:
        run.silent.append(message)
    return _end_message(run, message, unless_completed(frame["status"]))


def write_missing_texts(run: AgUiRun, final: Mapping[str, str]) -> list[Event]:
    """Write the texts of `final` that no delta contained, as the last message without a text (D13)."""
    texts = {kind: text for kind, name in FINAL_TEXTS.items() if (text := final.get(name))}
    events: list[Event] = []
    for message in run.silent[-1:]:
        for kind, text in texts.items():
            if not run.has_sent(kind, text):
                deltas = [text[at : at + DELTA_MAX_CHARS] for at in range(0, len(text), DELTA_MAX_CHARS)]
                events += [*_start_message(run, message, kind, None), *(_content(run, message, one) for one in deltas)]
        events += _end_message(run, message, None)
    return events


def _start_message(run: AgUiRun, message: Message, kind: str, agent: object) -> list[Event]:
    """Start a text or a refusal, after the end of the other one."""
    events = _end_message(run, message, None)
    message.id = run.message_ids.allocate(f"{message.item_id}:{kind}" if message.kind else message.item_id)
    message.kind = kind
    run.parent_id = message.id
    about = metadata(kind=kind if kind == REFUSAL else None)
    events.append(run.event("TEXT_MESSAGE_START", messageId=message.id, role="assistant", name=agent, metadata=about))
    return events


def _content(run: AgUiRun, message: Message, delta: str) -> Event:
    return {"type": "TEXT_MESSAGE_CONTENT", "timestamp": run.at, "messageId": message.id, "delta": delta}


def _end_message(run: AgUiRun, message: Message, status: str | None) -> list[Event]:
    if not message.kind:
        return []
    about = metadata(citations=message.citations, notices=message.notices.all, status=status)
    message.citations, message.notices = [], Notices()
    return [run.event("TEXT_MESSAGE_END", messageId=message.id, metadata=about)]


# reasoning (CONTRACT D36)


def on_reasoning_added(run: AgUiRun, frame: Frame) -> list[Event]:
    """Start a reasoning span."""
    item_id = frame["item_id"]
    run.reasonings[item_id] = Reasoning(item_id)
    return [run.event("REASONING_START", messageId=item_id, metadata=metadata(notices=frame.get("notices")))]


def on_reasoning_delta(kind: str, run: AgUiRun, frame: Frame) -> list[Event]:
    """Write a delta of a summary, or of the full text: only the policy `full` produces such frames."""
    reasoning, part = run.reasonings[frame["item_id"]], (kind, frame[PART_INDEXES[kind]])
    events = [] if reasoning.part == part else _start_part(run, reasoning, part)
    about = metadata(notices=reasoning.notices.add(frame))
    if frame["delta"]:
        content = {"messageId": reasoning.id, "delta": frame["delta"], "metadata": about}
        events.append(run.event("REASONING_MESSAGE_CONTENT", **content))
    return events


def on_encrypted(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the encrypted value, for the first message of the item; start an empty one if there is none."""
    reasoning = run.reasonings[frame["item_id"]]
    value = frame["encrypted_content"]
    if len(value) > ENCRYPTED_MAX_CHARS:
        reasoning.notices.add({"notices": left_out("encrypted_content")})
        return []
    events = _start_part(run, reasoning, (SUMMARY, 0)) if reasoning.first_id is None else []
    entity = {"subtype": "message", "entityId": reasoning.first_id, "encryptedValue": value}
    return [*events, run.event("REASONING_ENCRYPTED_VALUE", **entity)]


def on_reasoning_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the end of the last part and of the span."""
    reasoning = run.reasonings[frame["item_id"]]
    notices = None if reasoning.part else reasoning.notices.all
    about = metadata(notices=notices, status=unless_completed(frame["status"]))
    return [*_end_part(run, reasoning), run.event("REASONING_END", messageId=reasoning.item_id, metadata=about)]


def _start_part(run: AgUiRun, reasoning: Reasoning, part: tuple[str, int]) -> list[Event]:
    """Start a part, after the end of the one before. A part that continues later is another message."""
    events = _end_part(run, reasoning)
    kind, index = part
    preferred = f"{reasoning.item_id}:{index}" if kind == SUMMARY else f"{reasoning.item_id}:{kind}:{index}"
    reasoning.part = part
    reasoning.id = run.message_ids.allocate(preferred)
    reasoning.first_id = reasoning.first_id or reasoning.id
    run.parent_id = None
    about = metadata(kind=kind, item_id=reasoning.item_id)
    events.append(run.event("REASONING_MESSAGE_START", messageId=reasoning.id, role="reasoning", metadata=about))
    return events


def _end_part(run: AgUiRun, reasoning: Reasoning) -> list[Event]:
    if reasoning.part is None:
        return []
    about = metadata(notices=reasoning.notices.all)
    reasoning.part, reasoning.notices = None, Notices()
    return [run.event("REASONING_MESSAGE_END", messageId=reasoning.id, metadata=about)]
