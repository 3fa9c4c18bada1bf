"""What a run has said so far, and how its events are made: what all writers of the dialect share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from projector.dialects.ag_ui.event_parts import VENDOR
from projector.dialects.ag_ui.items import Activity, Call, Message, Reasoning
from projector.dialects.options import DialectOptions

Event: TypeAlias = dict[str, Any]
"""One event of AG-UI; `projector.dialects.ag_ui.events` says what it may hold."""

COMPLETED: Final = "completed"

TEXT: Final = "text"
REFUSAL: Final = "refusal"

PARAGRAPH: Final = "\n\n"
BETWEEN_PARTS: Final[Mapping[str, str]] = {TEXT: "", REFUSAL: PARAGRAPH}
"""Kind of a message -> what stands between its parts in `final`."""

_NOTHING: Final[tuple[object, ...]] = (None, [], "")


class Ids:
    """Gives ids to messages, or to calls, each once in a thread.

    Clients find messages by id over the whole conversation: text under an id that is there already would be appended to
    an old message, and arguments to an old call.
    """

    __slots__ = ("_taken",)

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def give(self, wanted: str) -> str:
        """Give the id that is wanted; where that is taken, the same with a number behind it."""
        given, number = wanted, 1
        while given in self._taken:
            number += 1
            given = f"{wanted}.{number}"
        self._taken.add(given)
        return given


class Transcript:
    """What messages have said in the last response that said anything, as `final` says it (CONTRACT D13)."""

    def __init__(self) -> None:
        self._items: list[str] = []
        self._parts: dict[tuple[str, str], dict[int, list[str]]] = {}
        """Kind and item -> what each of its parts has said."""
        self._last: dict[str, str] = {}

    def begin(self, item_id: str) -> None:
        """Take an item at its place."""
        self._items.append(item_id)

    def add(self, kind: str, item_id: str, content_index: int, delta: str) -> None:
        """Take what a part of a message says."""
        self._parts.setdefault((kind, item_id), {}).setdefault(content_index, []).append(delta)

    def settle(self) -> None:
        """Take the end of a response."""
        for kind, between in BETWEEN_PARTS.items():
            said = [self._parts[kind, item_id] for item_id in self._items if (kind, item_id) in self._parts]
            if said:
                texts = (between.join("".join(pieces) for pieces in parts.values()) for parts in said)
                self._last[kind] = PARAGRAPH.join(texts)
        self._items.clear()
        self._parts.clear()

    def last(self, kind: str) -> str | None:
        """Give what was said last, None where nothing was."""
        return self._last.get(kind)


class Voice:
    """What one branch of a run has said; a run without branches has one."""

    def __init__(self) -> None:
        self.response = 0
        """How many responses have ended: the number of the one that streams now."""
        self.transcript = Transcript()


class Run:
    """What one run has said so far."""

    def __init__(self, options: DialectOptions) -> None:
        self.options = options
        self.message_ids = Ids(options.taken_ids)
        self.call_ids = Ids(options.taken_ids)
        self.at = 0
        """The time of the frame that is written, in milliseconds since 1970-01-01 UTC."""
        self.thread_id = ""
        self.run_id = ""
        self.branch = 0
        """Who speaks: the number of the branch, 0 where there is one."""
        self.voice = Voice()
        self.voices = {0: self.voice}
        self.reason: str | None = None
        """Why the last response ended as it did."""
        self.models: set[str] = set()
        self.parent_id: str | None = None
        """The assistant message that a call joins: the last of the transcript, or None where something else is."""
        self.messages: dict[str, Message] = {}
        self.silent: list[Message] = []
        """Messages that were closed without a text."""
        self.reasonings: dict[str, Reasoning] = {}
        self.calls: dict[str, Call] = {}
        self.activities: dict[str, Activity] = {}

    def enter(self, branch: int) -> None:
        """Let another branch speak; a call of it joins no message of the one before."""
        self.branch, self.parent_id = branch, None
        self.voice = self.voices.setdefault(branch, Voice())

    def has_said(self, kind: str, text: str) -> bool:
        """Tell whether the text is what was said last: by one branch, or by the last ones one after the other."""
        said = [
            last for branch in sorted(self.voices) if (last := self.voices[branch].transcript.last(kind)) is not None
        ]
        return any(PARAGRAPH.join(said[first:]) == text for first in range(len(said)))

    def event(self, event_type: str, /, **fields: object) -> Event:
        """Give an event with the fields that have a value."""
        event: Event = {"type": event_type, "timestamp": self.at}
        event.update((name, value) for name, value in fields.items() if value is not None)
        return event


def metadata(**members: object) -> dict[str, object] | None:
    """Give metadata of the members that hold something, under the vendor's prefix; None where none does."""
    return {f"{VENDOR}.{name}": value for name, value in members.items() if value not in _NOTHING} or None


def unless_completed(status: str) -> str | None:
    """Give a status that is worth saying."""
    return status if status != COMPLETED else None
