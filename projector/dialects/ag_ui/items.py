"""What is remembered of messages, reasoning, calls and activities: plain records without rules."""

from __future__ import annotations

from typing import Any

from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.core.canonical import Frame


class Notices:
    """What was withheld or cut in one message or call.

    Metadata of a later event takes the place of an earlier one's, so the last event of each names everything again.
    """

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: list[object] = []

    def take(self, frame: Frame) -> list[object] | None:
        """Take the notices of a frame; give them for the event that says it."""
        new: list[object] | None = frame.get("notices")
        if new is not None:
            self.all += [notice for notice in new if notice not in self.all][: NOTICES_MAX_ITEMS - len(self.all)]
        return new


class Message:
    """One message item: a text, a refusal, or one after the other."""

    __slots__ = ("citations", "citations_bytes", "content_index", "id", "item_id", "kind", "notices")

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        self.id = ""
        self.kind = ""
        """What is open, text or refusal; empty before either."""
        self.content_index = 0
        self.citations: list[object] = []
        self.citations_bytes = 0
        self.notices = Notices()


class Reasoning:
    """One reasoning item: a span with a message for each part of it."""

    __slots__ = ("first_id", "id", "item_id", "notices", "part")

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        self.part: tuple[str, int] | None = None
        """What is open: kind and index."""
        self.id = ""
        self.first_id: str | None = None
        """The message that holds the encrypted value."""
        self.notices = Notices()


class Call:
    """One call of a function or of an MCP tool."""

    __slots__ = (
        "branch",
        "has_arguments",
        "has_ended",
        "has_started",
        "held",
        "id",
        "is_answered",
        "is_awaiting",
        "is_cut_off",
        "item_id",
        "item_type",
        "name",
        "notices",
        "output",
        "response",
        "server_label",
    )

    def __init__(self, item_id: str, item_type: str, branch: int, response: int) -> None:
        self.item_id = item_id
        self.item_type = item_type
        self.branch = branch
        self.response = response
        self.id = ""
        self.name = ""
        self.server_label: str | None = None
        self.held: list[str] = []
        """Arguments of a call whose name is not known yet."""
        self.has_started = False
        self.has_arguments = False
        self.has_ended = False
        self.is_awaiting = False
        """Whether it waits for an approval."""
        self.is_cut_off = False
        self.is_answered = False
        self.output: Frame | None = None
        """An output, until it is known whether the call failed."""
        self.notices = Notices()


class Activity:
    """What a tool of the provider is doing."""

    __slots__ = ("content", "id", "type")

    def __init__(self, message_id: str, activity_type: str, content: dict[str, Any]) -> None:
        self.id = message_id
        self.type = activity_type
        self.content = content
        """The members that were said last; of lists that grow, only that they are there."""
