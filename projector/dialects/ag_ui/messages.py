"""Text messages and refusals; citations and what was withheld are metadata of the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts import codec
from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame
from projector.dialects.ag_ui.items import Message, Notices
from projector.dialects.ag_ui.run import REFUSAL, TEXT, Event, Run, metadata, unless_completed

FINAL_TEXTS: Final[Mapping[str, str]] = {TEXT: "response_text", REFUSAL: "refusal_text"}
"""Kind of a message -> member of `final` that holds all of that kind."""

CITATIONS_MAX_BYTES: Final = 262_144
"""Of one message, as JSON; more would make its last event too large for a client's buffer."""


def on_added(run: Run, frame: Frame) -> list[Event]:
    """Remember the item; it is said with its first text."""
    run.messages[frame["item_id"]] = Message(frame["item_id"])
    run.voice.transcript.begin(frame["item_id"])
    return []


def on_text_delta(run: Run, frame: Frame) -> list[Event]:
    """Say more text."""
    return _say(run, frame, TEXT)


def on_refusal_delta(run: Run, frame: Frame) -> list[Event]:
    """Say more of a refusal: a text whose metadata calls it one."""
    return _say(run, frame, REFUSAL)


def on_citation(run: Run, frame: Frame) -> list[Event]:
    """Keep a citation for the end of its message."""
    message = run.messages[frame["item_id"]]
    said = [] if message.kind else _begin(run, message, TEXT, frame.get("agent"))
    message.notices.take(frame)
    citation = {"content_index": frame["content_index"], **frame["citation"]}
    message.citations_bytes += len(codec.dumps(citation))
    if message.citations_bytes <= CITATIONS_MAX_BYTES:
        message.citations.append(citation)
    return said


def on_done(run: Run, frame: Frame) -> list[Event]:
    """Say the end of the message."""
    message = run.messages[frame["item_id"]]
    if not message.kind:
        run.silent.append(message)
    return _end(run, message, unless_completed(frame["status"]))


def say_unsaid(run: Run, final: Mapping[str, str]) -> list[Event]:
    """Say the texts of `final` that no delta has said, as the last message that had none (D13)."""
    unsaid = {kind: text for kind, name in FINAL_TEXTS.items() if (text := final.get(name))}
    said: list[Event] = []
    for message in run.silent[-1:]:
        for kind, text in unsaid.items():
            if not run.has_said(kind, text):
                pieces = [text[at : at + DELTA_MAX_CHARS] for at in range(0, len(text), DELTA_MAX_CHARS)]
                said += [*_begin(run, message, kind, None), *(_content(run, message, piece) for piece in pieces)]
        said += _end(run, message, None)
    return said


def _say(run: Run, frame: Frame, kind: str) -> list[Event]:
    message = run.messages[frame["item_id"]]
    said = [] if message.kind == kind else _begin(run, message, kind, frame.get("agent"))
    notices = message.notices.take(frame) if "notices" in frame else None
    delta, content_index = frame["delta"], frame["content_index"]
    if not delta:
        return said
    run.voice.transcript.add(kind, message.item_id, content_index, delta)
    content = _content(run, message, delta)
    if notices is not None or content_index != message.content_index:
        new_index = content_index if content_index != message.content_index else None
        content["metadata"] = metadata(content_index=new_index, notices=notices)
        message.content_index = content_index
    said.append(content)
    return said


def _begin(run: Run, message: Message, kind: str, agent: object) -> list[Event]:
    """Say that a text or a refusal begins, after the end of the other one."""
    said = _end(run, message, None)
    message.id = run.message_ids.give(f"{message.item_id}:{kind}" if message.kind else message.item_id)
    message.kind = kind
    run.parent_id = message.id
    about = metadata(kind=kind if kind == REFUSAL else None)
    said.append(run.event("TEXT_MESSAGE_START", messageId=message.id, role="assistant", name=agent, metadata=about))
    return said


def _content(run: Run, message: Message, delta: str) -> Event:
    return {"type": "TEXT_MESSAGE_CONTENT", "timestamp": run.at, "messageId": message.id, "delta": delta}


def _end(run: Run, message: Message, status: str | None) -> list[Event]:
    """Say the end of what is open, if anything is."""
    if not message.kind:
        return []
    about = metadata(citations=message.citations, notices=message.notices.all, status=status)
    message.citations, message.notices = [], Notices()
    return [run.event("TEXT_MESSAGE_END", messageId=message.id, metadata=about)]
