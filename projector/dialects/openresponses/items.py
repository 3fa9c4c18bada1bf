"""Output items as Open Responses shows them, and the parts that they are made of.

A part grows by deltas and is said once more as a whole when it is done; `PartKind` is all that tells the four kinds of
part from each other. Places are our own: `output_index` and the indexes of parts count what was announced, so that
clients find each thing at its index in `response.output` (docs/dialects.md).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

VENDOR: Final = "public-sse"
"""What stands before every name that is ours and not of Open Responses (CONTRACT D37)."""


class PartKind(NamedTuple):
    """One kind of part: its names on the wire."""

    type: str
    text_member: str
    """The member that holds the text, in the part and in the event that ends the text."""
    holder: str
    """The member of the item that lists parts of this kind."""
    index_member: str
    """What events call the place of a part; the frames' name too."""
    part_event: str
    text_event: str
    empty: Mapping[str, tuple[()]] = {}
    """Members that stand beside the text, empty at first."""
    beside: Mapping[str, tuple[()]] = {}
    """Members that stand beside the text in events; clients read them without asking."""


TEXT: Final = PartKind(
    type="output_text",
    text_member="text",
    holder="content",
    index_member="content_index",
    part_event="response.content_part",
    text_event="response.output_text",
    empty={"annotations": (), "logprobs": ()},
    beside={"logprobs": ()},
)
REFUSAL: Final = PartKind(
    type="refusal",
    text_member="refusal",
    holder="content",
    index_member="content_index",
    part_event="response.content_part",
    text_event="response.refusal",
)
REASONING: Final = PartKind(
    type="reasoning_text",
    text_member="text",
    holder="content",
    index_member="content_index",
    part_event="response.content_part",
    text_event="response.reasoning",
)
SUMMARY: Final = PartKind(
    type="summary_text",
    text_member="text",
    holder="summary",
    index_member="summary_index",
    part_event="response.reasoning_summary_part",
    text_event="response.reasoning_summary_text",
)


class Part:
    """One part of an item."""

    __slots__ = ("_buffer", "annotations", "index", "is_open", "kind", "place")

    def __init__(self, kind: PartKind, index: int, place: Mapping[str, object]) -> None:
        self.kind = kind
        self.index = index
        self.place = {**place, kind.index_member: index}
        """What every event of the part says of where it belongs."""
        self.is_open = True
        self.annotations: list[dict[str, object]] = []
        self._buffer = io.StringIO()

    @property
    def text(self) -> str:
        """All that was said."""
        return self._buffer.getvalue()

    def write(self, delta: str) -> None:
        """Take more of the text."""
        self._buffer.write(delta)

    def wire(self) -> dict[str, object]:
        """Give the part as it stands in its item."""
        said: dict[str, object] = {"type": self.kind.type, self.kind.text_member: self.text, **self.kind.empty}
        if self.annotations:
            said["annotations"] = self.annotations.copy()
        return said


CORE: Final[Mapping[str, Mapping[str, object]]] = {
    "message": {"content": ()},
    "reasoning": {"summary": ()},
    "function_call": {"call_id": "", "name": "unknown", "arguments": ""},
    "function_call_output": {"call_id": "", "output": ""},
}
"""Item types of Open Responses that are said -> the members that they have from the beginning, with nothing in them."""

STATUSES: Final[Mapping[str, str]] = {"failed": "incomplete"}
"""What the status of an item of Open Responses is where that has no such word."""

ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
"""The roles of Open Responses; a message of any other is the assistant's."""

OWN_MEMBERS: Final[Mapping[str, str]] = {"tool_call_id": "call_id", "arguments_text": "arguments"}
"""What a call's members are called in an item of Open Responses; in ours they keep the public names."""


class Item:
    """One output item: what has been said of it."""

    def __init__(self, item_id: str, item_type: str, role: str | None = None) -> None:
        self.id = item_id
        self.is_core = item_type in CORE
        self.type = item_type if self.is_core else f"{VENDOR}:{item_type}"
        self.index: int | None = None
        """Its place in the output; None until the item has been said."""
        self.place: dict[str, object] = {}
        """What every event of the item says of where it belongs."""
        self.members: dict[str, Any] = {"type": self.type, "id": item_id, "status": "in_progress"}
        if item_type == "message":
            self.members["role"] = role if role in ROLES else "assistant"
        self.members.update(CORE.get(item_type, {}))
        self.parts: dict[tuple[str, int], Part] = {}
        """The part that grows now, by its type and the index that frames give it."""
        self._lists: dict[str, list[Part]] = {}
        self._arguments = io.StringIO()

    def announce(self, index: int) -> None:
        """Take the place in the output."""
        self.index = index
        self.place = {"item_id": self.id, "output_index": index}

    def open_part(self, kind: PartKind, index: int) -> Part:
        """Begin a part behind those of its list."""
        siblings = self._lists.setdefault(kind.holder, [])
        part = self.parts[kind.type, index] = Part(kind, len(siblings), self.place)
        siblings.append(part)
        return part

    def open_parts(self) -> list[Part]:
        """Give the parts that are not done, in their order."""
        return [part for siblings in self._lists.values() for part in siblings if part.is_open]

    def add_arguments(self, delta: str) -> None:
        """Take more of the arguments of a call."""
        self._arguments.write(delta)

    def learn(self, fields: Mapping[str, object]) -> None:
        """Take members of a call, by their public names; what Open Responses calls done is done."""
        if self.is_core and self.members["status"] != "in_progress":
            return
        for name, value in fields.items():
            said = OWN_MEMBERS.get(name, name) if self.is_core else name
            if not self.is_core or said in self.members:
                self.members[said] = value

    def close(self, status: str) -> None:
        """Take the status that the item ends with."""
        self.members["status"] = STATUSES.get(status, status) if self.is_core else status

    def wire(self) -> dict[str, Any]:
        """Give the item as it stands now."""
        said = self.members | {holder: [part.wire() for part in parts] for holder, parts in self._lists.items()}
        if said.get("arguments") == "":  # not yet said as a whole, or cut off: what its deltas make
            said["arguments"] = self._arguments.getvalue()
        return said
