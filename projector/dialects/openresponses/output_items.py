"""Output items of Open Responses, and the parts they are made of.

A part grows by deltas and is repeated as a whole when it is done. Indexes are our own: `output_index` and the indexes
of parts count what was announced, so that clients find each of them at its index in `response.output`
(docs/dialects.md).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from projector.contracts.kinds import VENDOR


class PartKind(NamedTuple):
    """One kind of part: its names on the wire."""

    type: str
    text_event: str
    text_member: str = "text"
    """Member with the text, in the part and in the event that ends the text."""
    part_event: str = "response.content_part"
    list_member: str = "content"
    index_member: str = "content_index"
    """Member with the index of a part, in events and in frames."""
    part_members: Mapping[str, tuple[()]] = {}
    """Further members of the part, empty at first."""
    event_members: Mapping[str, tuple[()]] = {}
    """Further members of the text events, always empty: clients require them."""


TEXT: Final = PartKind(
    "output_text",
    "response.output_text",
    part_members={"annotations": (), "logprobs": ()},
    event_members={"logprobs": ()},
)
REFUSAL: Final = PartKind("refusal", "response.refusal", "refusal")
REASONING: Final = PartKind("reasoning_text", "response.reasoning")
SUMMARY: Final = PartKind(
    "summary_text",
    "response.reasoning_summary_text",
    part_event="response.reasoning_summary_part",
    list_member="summary",
    index_member="summary_index",
)


class Part:
    """One part of an item."""

    __slots__ = ("annotations", "buffer", "index", "is_open", "kind", "position")

    def __init__(self, kind: PartKind, index: int, position: Mapping[str, object]) -> None:
        self.kind = kind
        self.index = index
        self.position = {**position, kind.index_member: index}
        """Members of every event of the part: item and indexes."""
        self.is_open = True
        self.annotations: list[dict[str, object]] = []
        self.buffer = io.StringIO()

    @property
    def text(self) -> str:
        """The text so far."""
        return self.buffer.getvalue()

    def wire(self) -> dict[str, object]:
        """Return the current part as it is written."""
        part: dict[str, object] = {"type": self.kind.type, self.kind.text_member: self.text, **self.kind.part_members}
        return {**part, "annotations": self.annotations.copy()} if self.annotations else part


CORE: Final[Mapping[str, Mapping[str, object]]] = {
    "message": {"content": ()},
    "reasoning": {"summary": ()},
    "function_call": {"call_id": "", "name": "unknown", "arguments": ""},
    "function_call_output": {"call_id": "", "output": ""},
}
"""Item type of Open Responses that we write -> its required members, with initial values."""

STATUSES: Final[Mapping[str, str]] = {"failed": "incomplete"}
"""Our status of an item -> that of Open Responses, if they differ."""

ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
"""Roles of Open Responses. A message with any other role becomes the assistant's."""

OWN_MEMBERS: Final[Mapping[str, str]] = {"tool_call_id": "call_id", "arguments_text": "arguments"}
"""Public member of a call -> member of an item of Open Responses. Our own items keep the public names."""


class Item:
    """One output item as written so far."""

    def __init__(self, item_id: str, item_type: str, role: str | None = None) -> None:
        self.id = item_id
        self.is_core = item_type in CORE
        self.type = item_type if self.is_core else f"{VENDOR}:{item_type}"
        self.index: int | None = None
        """Index in the output; None until the item is announced."""
        self.position: dict[str, object] = {}
        self.members: dict[str, Any] = {"type": self.type, "id": item_id, "status": "in_progress"}
        if item_type == "message":
            self.members["role"] = role if role in ROLES else "assistant"
        self.members.update(CORE.get(item_type, {}))
        self.parts: dict[tuple[str, int], Part] = {}
        """Type of a part and its index in the frames -> the last such part."""
        self._lists: dict[str, list[Part]] = {}
        self.arguments = io.StringIO()
        """Deltas of the arguments of a call."""

    def open_part(self, kind: PartKind, index: int) -> Part:
        """Add a part at the end of its list."""
        siblings = self._lists.setdefault(kind.list_member, [])
        part = self.parts[kind.type, index] = Part(kind, len(siblings), self.position)
        siblings.append(part)
        return part

    def open_parts(self) -> list[Part]:
        """Return the parts that are not done, in order."""
        return [part for siblings in self._lists.values() for part in siblings if part.is_open]

    def update(self, fields: Mapping[str, object]) -> None:
        """Set members of a call, given by their public names. An item of Open Responses that is done never changes."""
        if self.is_core and self.members["status"] != "in_progress":
            return
        for name, value in fields.items():
            member = OWN_MEMBERS.get(name, name) if self.is_core else name
            if not self.is_core or member in self.members:
                self.members[member] = value

    def close(self, status: str) -> None:
        """Set the final status."""
        self.members["status"] = STATUSES.get(status, status) if self.is_core else status

    def wire(self) -> dict[str, Any]:
        """Return the current item as it is written."""
        item = self.members | {name: [part.wire() for part in parts] for name, parts in self._lists.items()}
        if item.get("arguments") == "":  # without the whole arguments, as after a cut, the deltas are used
            item["arguments"] = self.arguments.getvalue()
        return item
