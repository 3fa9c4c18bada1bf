"""What a stream remembers of its responses, items and context.

The provider's index correlates, and the id first said for a slot stays, because some gateways rotate every id from
event to event (CONTRACT D6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from projector.contracts.kinds import Kind
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.context import WORKFLOW_NUMBERS, WORKFLOW_TEXTS, StreamContext
from projector.core.faults import Fault
from projector.core.parts import TextPart
from projector.core.slots import Places
from projector.core.transcript import Item, Response, Run
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.redactor import Redactor

DROP_NAMES_MAX: Final = 64
"""How many names are counted one by one; a hostile provider could invent a new one with every event."""
OTHER: Final = "other"

CONTEXT_ORDER: Final = ("conversation_id", "response_id", "agent", "workflow")

ROLES: Final[Mapping[str, str]] = {"message": "assistant"}
"""What an item's role is where the provider does not say it."""

ITEM_FAMILIES: Final[Mapping[str, str]] = {
    "custom_tool_call": "function_call",
    "mcp_approval_request": "mcp_call",
}
"""Item types whose events are those of another type."""


class StreamState:
    """Everything that handlers read and write: of a stream, or of one branch of a run.

    Args:
        redactor: the only source of clean values.
        context: what the host says of the stream.
        main: of a further branch, the state of the main one, with which it shares the run, the places and the counts.
        stage: of a branch; see `BranchContext`.
        is_optional: of a branch; see `BranchContext`.
    """

    def __init__(
        self,
        redactor: Redactor,
        context: StreamContext,
        *,
        main: StreamState | None = None,
        stage: int | None = None,
        is_optional: bool = False,
    ) -> None:
        self.redactor = redactor
        self.policy = redactor.policy
        self.run: Run = Run() if main is None else main.run
        self.places: Places = Places(redactor) if main is None else main.places
        self.dropped: Counter[str] = Counter() if main is None else main.dropped
        """What was not said, by event type or reason."""
        self.branch = self.places.next_branch()
        self.stage = self.branch if stage is None else stage
        self.is_optional = is_optional
        self.response = Response(self.places.next_slot, after=None)
        self.fault: Fault | None = None
        """What the provider reported as its error."""
        self.fault_message: str | None = None
        """The provider's own words about it, untrusted."""
        self.calls: dict[str, Item] = {}
        """Items of tool calls, by every id under which the host or an output item may name them."""
        self.envelope: dict[str, object] = {}
        """The context members of section 6.2 as they are said now."""
        self._say_always("conversation_id", self.run.conversation_id)
        self.set_context({"conversation_id": context.conversation_id, "agent": context.agent})
        self.set_context({"workflow": context.workflow})

    def count(self, name: str, times: int = 1) -> None:
        """Count something that is not said."""
        known = name in self.dropped or len(self.dropped) < DROP_NAMES_MAX
        self.dropped[name if known else OTHER] += times

    def set_context(self, members: Mapping[str, object]) -> None:
        """Take context members from the host; None removes one, what is not named stays (D9).

        A conversation is set once: agent and workflow may change, and another conversation is another stream.
        """
        for name, value in members.items():
            if name == "conversation_id" and self.run.conversation_id is not None:
                self.count("conversation_id is set")
                continue
            self._say_always(name, self._workflow(value) if name == "workflow" else self._identifier(value))
            if name == "conversation_id":
                self.run.conversation_id = self._identifier(value)

    def forget(self) -> None:
        """Keep nothing of what has been said; the stream is over."""
        self.response = Response(self.places.next_slot, after=None)
        self.calls.clear()
        self.run.forget()

    def begin_response(self) -> None:
        """Begin a response, behind the slots already used."""
        self.response = Response(self.places.next_slot, after=self.response.id)
        self._say_always("response_id", None)

    def set_response_id(self, provider_id: str | None) -> None:
        """Take the id of the response; the first one said stays (D4)."""
        if provider_id and self.response.id is None:
            self.response.id = self.redactor.identifier(provider_id)
            self._say_always("response_id", self.response.id)

    def find(self, index: int | None, provider_id: str | None) -> Item | None:
        """Give the item at the provider's index; without one, the item with the provider's id.

        An index that comes later than its item is bound to it by the id.
        """
        response = self.response
        if index is None:
            return response.by_id.get(provider_id) if provider_id else None
        if index not in response.by_index and provider_id in response.unplaced:
            response.by_index[index] = response.unplaced.pop(provider_id)
        return response.by_index.get(index)

    def item_of(self, event: CanonicalEvent, item_type: str) -> tuple[Item, list[Frame]]:
        """Give the open item that an event belongs to; one that the provider never announced is announced here (D7).

        Raises:
            Unreadable: the item is closed, or of another type.
        """
        at = event.get("output_index")
        item = self.response.by_index.get(at) if type(at) is int else None
        if item is not None and item.open and item.type == item_type:
            return item, []  # the way of nearly every event
        index = read.index_or_none(event, "output_index")
        provider_id = read.text_or_none(event, "item_id")
        item = self.find(index, provider_id)
        if item is None and index is None and provider_id is None:
            item = self.response.last_open(item_type)
        if item is None:
            return self.announce(item_type, index=index, provider_id=provider_id)
        if not item.open:
            raise read.UnreadableEvent(f"`{event.get('type')}`: its item is closed")
        if ITEM_FAMILIES.get(item.type, item.type) != ITEM_FAMILIES.get(item_type, item_type):
            raise read.UnreadableEvent(f"`{event.get('type')}`: its item is of another type")
        return item, []

    def announce(
        self,
        item_type: str,
        *,
        index: int | None,
        provider_id: str | None,
        role: str | None = None,
        status: str | None = None,
    ) -> tuple[Item, list[Frame]]:
        """Open a new slot for an item and say `output_item.added`."""
        slot = self.places.slot(None if index is None else self.response.base_slot + index)
        role = role or ROLES.get(item_type)
        said_role = self.redactor.label(role).value if role else None
        item = Item(slot, self.places.item_id(provider_id, slot), self.redactor.identifier(item_type), said_role)
        self.response.items.append(item)
        self.response.by_type.setdefault(item.type, []).append(item)
        if index is not None:
            self.response.by_index[index] = item
        if provider_id:
            self.response.by_id[provider_id] = item
        if provider_id and index is None:
            self.response.unplaced[provider_id] = item
        said_status = self.redactor.identifier(status or "in_progress")
        return item, [
            frames.output_item(Kind.OUTPUT_ITEM_ADDED, item.slot, item.item_id, item.type, item.role, said_status)
        ]

    def part(self, parts: dict[int, TextPart], position: int) -> TextPart:
        """Give the text at a position of an item, begun where it is new."""
        part = parts.get(position)
        if part is None:
            part = parts[position] = TextPart(self.redactor.message_stream)
        return part

    def complete(self, part: TextPart, text: str) -> Cleaned[CleanText]:
        """Give the rest of a text that is now known as a whole; where it contradicts its deltas they win (D30)."""
        rest = part.complete(text)
        if rest is None:
            self.count("done differs from its deltas")
            return part.close()
        return rest

    def whole(self, text: str) -> Cleaned[CleanText]:
        """Give a text of the model that is known as a whole and that grows nowhere."""
        stream = self.redactor.message_stream()
        return compose.joined(stream.feed(text), stream.close())

    def _say_always(self, name: str, value: object) -> None:
        """Put a member into the envelope, in the order of section 6.2, or take an absent one out."""
        members = {**self.envelope, name: value}
        self.envelope = {known: said for known in CONTEXT_ORDER if (said := members.get(known))}

    def _identifier(self, value: object) -> CleanText | None:
        return self.redactor.identifier(value) if isinstance(value, str) and value else None

    def _workflow(self, value: object) -> dict[str, object]:
        if not isinstance(value, Mapping):
            return {}
        texts = {name: self._identifier(value.get(name)) for name in WORKFLOW_TEXTS}
        numbers = {name: read.index_or_none(value, name) for name in WORKFLOW_NUMBERS}
        return {name: said for name, said in (texts | numbers).items() if said is not None}
