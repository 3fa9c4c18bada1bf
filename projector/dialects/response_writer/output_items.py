"""Output items of a response object, and their parts.

A part grows by deltas and is repeated as a whole when it is done. Indexes are our own: `output_index` and the indexes
of parts count what was announced, so that clients find each of them at its index in `response.output`
(docs/dialects.md).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
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


class Field(NamedTuple):
    """How the member of an item is made from a member of a frame."""

    name: str
    convert: Callable[[Any], Any] = lambda value: value
    """Returns the value on the wire, or None if the protocol allows no such value: then the member is not set."""

    @classmethod
    def same(cls, *names: str) -> dict[str, Field]:
        """Return the fields of members that an item has under their public names."""
        return {name: cls(name) for name in names}


CALL: Final[Mapping[str, Field]] = {
    "tool_call_id": Field("call_id"),
    "arguments_text": Field("arguments"),
    **Field.same("name", "namespace", "caller", "async"),
}
"""Members of a call that the client runs."""


class CallText(NamedTuple):
    """A text of a call that grows by deltas: its arguments, input or code."""

    event: str
    """Type of its events, without `.delta` and `.done`."""
    member: str = "arguments"
    """Member with the whole text, in the item and in the last event."""
    has_name: bool = False
    """Whether the last event has the name of the tool."""
    repeats_as_delta: bool = False
    """Whether a text that comes whole is also written as a delta."""


class ItemShape(NamedTuple):
    """An item type of the protocol.

    Its members other than type, ID, status and role are here; those of the parts are added by the parts.
    """

    members: Mapping[str, object]
    """Required members, with initial values."""
    fields: Mapping[str, Field] = {}
    """Member of a frame -> member of the item."""
    text: CallText | None = None
    statuses: Mapping[str, str] = {"failed": "incomplete"}
    """Our status of an item -> that of the protocol, if they differ."""
    has_status: bool = True
    at_end: Mapping[str, object] = {}
    """Members that a finished item must have -> their values if they are null."""
    adds_fields: bool = False
    """Whether members that are not required may be set."""


FUNCTION_CALL: Final = ItemShape({"call_id": "", "name": "unknown", "arguments": ""}, CALL, adds_fields=True)


class Item:
    """One output item as written so far.

    Args:
        item_id: its public ID.
        item_type: its public type.
        shape: the item type of the protocol; None: the protocol has none, and the item has our own name.
        role: role of a message on the wire.
    """

    def __init__(self, item_id: str, item_type: str, shape: ItemShape | None, role: str | None = None) -> None:
        self.id = item_id
        self.shape = shape
        self.call_text = shape.text if shape is not None else None
        self.type = item_type if shape is not None else f"{VENDOR}:{item_type}"
        self.index: int | None = None
        """Index in the output; None until the item is announced."""
        self.position: dict[str, object] = {}
        self.is_done = False
        self.status: str | None = None
        """The last status of a call that was written."""
        self.members: dict[str, Any] = {"type": self.type, "id": item_id}
        if shape is None or shape.has_status:
            self.members["status"] = self._status("in_progress")
        if item_type == "message":
            self.members["role"] = role
        self.members.update(shape.members if shape is not None else {})
        self.parts: dict[tuple[str, int], Part] = {}
        """Type of a part and its index in the frames -> the last such part."""
        self._lists: dict[str, list[Part]] = {}
        self.text = io.StringIO()
        """Deltas of the text of a call."""
        self.chunks: dict[tuple[str, int], list[str]] = {}
        """Field and index of an image -> its chunks so far."""

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
        """Set members of a call, given by their public names. An item of the protocol that is done never changes."""
        if self.shape is None:
            self.members.update(fields)
            return
        if self.is_done:
            return
        for name, value in fields.items():
            field = self.shape.fields.get(name)
            if field is None or not (self.shape.adds_fields or field.name in self.members):
                continue
            if (converted := field.convert(value)) is not None:
                self.members[field.name] = converted

    def close(self, status: str) -> None:
        """Set the final status."""
        self.is_done = True
        if self.shape is None or self.shape.has_status:
            self.members["status"] = self._status(status)
        if self.shape is None:
            return
        self.members.update({name: value for name, value in self.shape.at_end.items() if self.members[name] is None})

    def _status(self, status: str) -> str:
        return status if self.shape is None else self.shape.statuses.get(status, status)

    def wire(self) -> dict[str, Any]:
        """Return the current item as it is written."""
        item = self.members | {name: [part.wire() for part in parts] for name, parts in self._lists.items()}
        text = self.call_text
        if text is not None and item[text.member] == "":  # without the whole text, as after a cut, the deltas are used
            item[text.member] = self.text.getvalue()
        return item
