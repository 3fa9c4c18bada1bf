"""One AG-UI run: its state, how its events are built, and the events of messages and reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame
from projector.dialects import page_run as page
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import IdAllocator, PendingNotices

PROTOCOL_VERSION: Final = "1.0"

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Larger numbers are not exact in a browser, and the protocol rejects them."""


@dataclass(slots=True, eq=False)
class Message:
    """One message item: a text, a refusal, or both in turn."""

    item_id: str
    id: str = ""
    kind: str = ""
    """The open message: text or refusal; empty before the first."""
    content_index: int = 0
    citations: list[object] = field(default_factory=list)
    citations_bytes: int = 0
    notices: PendingNotices = field(default_factory=PendingNotices)


@dataclass(slots=True, eq=False)
class Reasoning:
    """One reasoning item: a span with one message for each part."""

    item_id: str
    part: tuple[str, int] | None = None
    """Kind and index of the open part."""
    id: str = ""
    first_id: str | None = None
    """ID of the first message: the encrypted value belongs to it."""
    notices: PendingNotices = field(default_factory=PendingNotices)


@dataclass(slots=True, eq=False)
class Call(page.PageCall):
    """One call of a function or of an MCP tool."""

    has_arguments: bool = False
    has_ended: bool = False
    is_cut_off: bool = False
    output: Frame | None = None
    """Output, kept until the status of the call is known."""
    notices: PendingNotices = field(default_factory=PendingNotices)


@dataclass(slots=True, eq=False)
class Activity:
    """Work of a provider tool."""

    id: str
    type: str
    content: dict[str, Any]
    """Members as last sent. For a growing list, only that it exists."""


class AgUiRun(page.PageRun):
    """State of one run."""

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(options)
        self.calls: dict[str, Call] = {}
        self.message_ids = IdAllocator(options.taken_ids)
        self.at = 0
        """Time of the current frame, in milliseconds since 1970-01-01 UTC."""
        self.thread_id = ""
        self.run_id = ""
        self.parent_id: str | None = None
        """The assistant message that a call belongs to; None unless such a message is the last in the transcript."""
        self.messages: dict[str, Message] = {}
        self.silent: list[Message] = []
        """Messages that ended without a text."""
        self.reasonings: dict[str, Reasoning] = {}
        self.activities: dict[str, Activity] = {}

    def enter(self, branch: int) -> None:
        """Switch to another branch. Its calls do not belong to a message of the one before."""
        super().enter(branch)
        self.parent_id = None

    def event(self, event_type: str, /, **fields: object) -> page.Event:
        """Return an event, without the fields that are None."""
        event: page.Event = {"type": event_type, "timestamp": self.at}
        event.update((name, value) for name, value in fields.items() if value is not None)
        return event


def metadata(**members: object) -> dict[str, object] | None:
    """Return metadata under the vendor prefix, without empty members; None if all are empty."""
    return {f"{VENDOR}.{name}": value for name, value in page.present(members).items()} or None


CITATIONS_MAX_BYTES: Final = 262_144
"""JSON size for one message. More would make its last event too large for a client's buffer."""


def on_message_added(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Add a message. Its first text starts it on the wire."""
    message = run.messages[frame["item_id"]] = Message(frame["item_id"])
    message.notices.add(frame.get("notices"))
    return []


def on_message_delta(kind: str, run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write a delta of a text, or of a refusal: a text with the kind `refusal` in its metadata."""
    message = run.messages[frame["item_id"]]
    events = [] if message.kind == kind else _start_message(run, message, kind, frame.get("agent"))
    notices = message.notices.add(frame["notices"]) if "notices" in frame else None
    delta, content_index = frame["delta"], frame["content_index"]
    if not delta:
        return events
    content = content_event(run, message, delta)
    if notices is not None or content_index != message.content_index:
        new_index = content_index if content_index != message.content_index else None
        content["metadata"] = metadata(content_index=new_index, notices=notices)
        message.content_index = content_index
    events.append(content)
    return events


def on_citation(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Keep a citation for the end of its message."""
    message = run.messages[frame["item_id"]]
    events = [] if message.kind else _start_message(run, message, page.TEXT, frame.get("agent"))
    message.notices.add(frame.get("notices"))
    citation = {"content_index": frame["content_index"], **frame["citation"]}
    message.citations_bytes += len(codec.dumps(citation))
    if message.citations_bytes <= CITATIONS_MAX_BYTES:
        message.citations.append(citation)
    else:
        message.notices.add(page.left_out("citation"))
    return events


def on_message_done(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write the end of a message."""
    message = run.messages[frame["item_id"]]
    if not message.kind:
        run.silent.append(message)
    return _end_message(run, message, page.unless_completed(frame["status"]))


def write_missing_texts(run: AgUiRun, final: Mapping[str, str]) -> list[page.Event]:
    """Write the texts of `final` that no event contains, as the last message without a text (D13)."""
    events: list[page.Event] = []
    for message in run.silent[-1:]:
        for kind, deltas in run.missing_texts(final).items():
            events += [*_start_message(run, message, kind, None), *(content_event(run, message, one) for one in deltas)]
        events += _end_message(run, message, None)
    return events


def _start_message(run: AgUiRun, message: Message, kind: str, agent: object) -> list[page.Event]:
    """Start a text or a refusal, after the end of the other one."""
    events = _end_message(run, message, None)
    message.id = run.message_ids.allocate(f"{message.item_id}:{kind}" if message.kind else message.item_id)
    message.kind = kind
    run.parent_id = message.id
    run.written.add(page.FINAL_TEXTS[kind])
    about = metadata(kind=kind if kind == page.REFUSAL else None)
    events.append(run.event("TEXT_MESSAGE_START", messageId=message.id, role="assistant", name=agent, metadata=about))
    return events


def content_event(run: AgUiRun, message: Message, delta: str) -> page.Event:
    """Return the event of a delta of a text."""
    return {"type": "TEXT_MESSAGE_CONTENT", "timestamp": run.at, "messageId": message.id, "delta": delta}


def _end_message(run: AgUiRun, message: Message, status: str | None) -> list[page.Event]:
    if not message.kind:
        return []
    about = metadata(citations=message.citations, notices=message.notices.release(), status=status)
    message.citations = []
    return [run.event("TEXT_MESSAGE_END", messageId=message.id, metadata=about)]


# reasoning (CONTRACT D36)


def on_reasoning_added(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Start a reasoning span."""
    item_id = frame["item_id"]
    run.reasonings[item_id] = Reasoning(item_id)
    return [run.event("REASONING_START", messageId=item_id, metadata=metadata(notices=frame.get("notices")))]


def on_reasoning_delta(kind: str, run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write a delta of a summary, or of the full text: only the policy `full` produces such frames."""
    reasoning, part = run.reasonings[frame["item_id"]], (kind, frame[page.PART_INDEXES[kind]])
    events = [] if reasoning.part == part else _start_part(run, reasoning, part)
    about = metadata(notices=reasoning.notices.add(frame.get("notices")))
    if frame["delta"]:
        content = {"messageId": reasoning.id, "delta": frame["delta"], "metadata": about}
        events.append(run.event("REASONING_MESSAGE_CONTENT", **content))
    return events


def on_encrypted(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write the encrypted value, for the first message of the item; start an empty one if there is none."""
    reasoning = run.reasonings[frame["item_id"]]
    value = frame["encrypted_content"]
    if len(value) > page.ENCRYPTED_MAX_CHARS:
        reasoning.notices.add(page.left_out("encrypted_content"))
        return []
    events = _start_part(run, reasoning, (page.SUMMARY, 0)) if reasoning.first_id is None else []
    entity = {"subtype": "message", "entityId": reasoning.first_id, "encryptedValue": value}
    return [*events, run.event("REASONING_ENCRYPTED_VALUE", **entity)]


def on_reasoning_done(run: AgUiRun, frame: Frame) -> list[page.Event]:
    """Write the end of the last part and of the span."""
    reasoning = run.reasonings[frame["item_id"]]
    notices = None if reasoning.part else reasoning.notices.release()
    about = metadata(notices=notices, status=page.unless_completed(frame["status"]))
    return [*_end_part(run, reasoning), run.event("REASONING_END", messageId=reasoning.item_id, metadata=about)]


def _start_part(run: AgUiRun, reasoning: Reasoning, part: tuple[str, int]) -> list[page.Event]:
    """Start a part, after the end of the one before. A part that continues later is another message."""
    events = _end_part(run, reasoning)
    kind, index = part
    preferred = f"{reasoning.item_id}:{index}" if kind == page.SUMMARY else f"{reasoning.item_id}:{kind}:{index}"
    reasoning.part = part
    reasoning.id = run.message_ids.allocate(preferred)
    reasoning.first_id = reasoning.first_id or reasoning.id
    run.parent_id = None
    about = metadata(kind=kind, item_id=reasoning.item_id)
    events.append(run.event("REASONING_MESSAGE_START", messageId=reasoning.id, role="reasoning", metadata=about))
    return events


def _end_part(run: AgUiRun, reasoning: Reasoning) -> list[page.Event]:
    if reasoning.part is None:
        return []
    about = metadata(notices=reasoning.notices.release())
    reasoning.part = None
    return [run.event("REASONING_MESSAGE_END", messageId=reasoning.id, metadata=about)]
