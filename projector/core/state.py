"""The state of a stream or branch: its responses, items, slots, ids and context.

Items are found by the provider's index, and the id first emitted for a slot stays, because some gateways rotate every
id from event to event (CONTRACT D6). Others give items that are open at the same time one index: there, the ids count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.context import WORKFLOW_NUMBERS, WORKFLOW_TEXTS, StreamContext
from projector.core.faults import FAULTS, Fault, LimitError
from projector.core.lifecycle import TRANSITIONS, Phase, Transitions
from projector.core.transcript import Item, Response, ResponseEnd, RunRecord
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText, Notice
from projector.redaction.redactor import Redactor

CONTEXT_ORDER: Final = ("conversation_id", "response_id", "agent", "workflow")
POSITION: Final = ("stage_name", "parallel_group", "branch_index")
"""The members of `workflow` by which a client tells branches apart."""

ROLES: Final[Mapping[str, str]] = {"message": "assistant"}
"""The role of an item if the provider sends none."""

ITEM_FAMILIES: Final[Mapping[str, str]] = {
    "custom_tool_call": "function_call",
    "mcp_approval_request": "mcp_call",
}
"""Item types whose events are those of another type."""


def family_of(item_type: str) -> str:
    """Return the item type of which the events of an item are."""
    return ITEM_FAMILIES.get(item_type, item_type)


CALL_ID_ROOM: Final = 200
"""How many characters of a repeated call id are kept, so that its suffix stays within the limit of ids."""


class SlotAllocator:
    """Allocates slots, item ids and call ids, each unique in the stream; shared by its branches (CONTRACT D6, D8)."""

    def __init__(self, redactor: Redactor) -> None:
        self.next_slot = 0
        """The first slot after all that are used."""
        self._redactor = redactor
        self._slots: set[int] = set()
        self._item_ids: set[str] = set()
        self._spare_id = 0
        """The last number used to replace a duplicate id: each is tried once, not once per item."""
        self._call_ids: set[str] = set()
        self._branches = 0
        self._items = 0
        self._items_max = redactor.policy.limits.items_max

    def count(self) -> None:
        """Count an item, or a part of its texts; raise `LimitError` if the stream has too many."""
        self._items += 1
        if self._items > self._items_max:
            raise LimitError(FAULTS["upstream_response_too_large"])

    def next_branch(self) -> int:
        """Allocate the number of a new branch; the main branch is 0."""
        number, self._branches = self._branches, self._branches + 1
        return number

    def slot(self, wanted: int | None) -> int:
        """Allocate the wanted slot if it is free, otherwise the next one."""
        self.count()
        slot = self.next_slot if wanted is None or wanted in self._slots else wanted
        self._slots.add(slot)
        self.next_slot = max(self.next_slot, slot + 1)
        return slot

    def item_id(self, provider_id: str | None, slot: int) -> CleanText:
        """Allocate the public id of a slot: the provider's, unless another slot has it (D6)."""
        item_id = self._redactor.identifier(provider_id or f"item_{slot}")
        if item_id in self._item_ids:
            item_id = self._unused(self._item_ids, "item", slot)
        self._item_ids.add(item_id)
        return item_id

    def call_id(self, provider_id: str | None, item_id: CleanText, slot: int) -> CleanText:
        """Allocate the id of a call: the provider's, else the item's, made unique by the slot (D8)."""
        call_id = self._redactor.identifier(provider_id or item_id)
        if call_id in self._call_ids:
            call_id = self._unused(self._call_ids, call_id[-CALL_ID_ROOM:], slot)
        self._call_ids.add(call_id)
        return call_id

    def _unused(self, ids: set[str], start: str, slot: int) -> CleanText:
        """Return an id that no other is equal to: with the number of the slot, or the next one that is spare."""
        found = self._redactor.identifier(f"{start}_{slot}")
        while found in ids:
            self._spare_id = max(self._spare_id, slot) + 1
            found = self._redactor.identifier(f"{start}_{self._spare_id}")
        return found


class StreamState:
    """State that handlers read and write, of the main branch of a stream or of another branch.

    Args:
        redactor: the only source of clean values.
        context: context from the host.
        main: for a further branch, the state of the main one: run, slots and counts are shared with it.
        transitions: the lifecycle table of the branch.
        stage: position of the branch in the run; see `BranchContext`.
        is_optional: whether the run continues when the branch fails.
    """

    def __init__(
        self,
        redactor: Redactor,
        context: StreamContext,
        *,
        main: StreamState | None = None,
        transitions: Transitions = TRANSITIONS,
        stage: int | None = None,
        is_optional: bool = False,
    ) -> None:
        self.redactor = redactor
        self.policy = redactor.policy
        self.run: RunRecord = RunRecord() if main is None else main.run
        self.slots: SlotAllocator = SlotAllocator(redactor) if main is None else main.slots
        self.dropped: read.Drops = read.Drops() if main is None else main.dropped
        """Counts of input that was not emitted, by event type or reason."""
        self.count = self.dropped.note
        self.branch = self.slots.next_branch()
        self.transitions = transitions
        self.phase = Phase.IDLE
        self.stage = self.branch if stage is None else stage
        self.is_optional = is_optional
        self.response = Response(self.slots.next_slot, after=None)
        self._has_begun = False
        """Whether a response began, perhaps with the record that was created with the branch."""
        self.usage_so_far: Callable[[], Mapping[str, object]] | None = None
        """Returns usage of a response that is cut off which none of its events has."""
        self.fault: Fault | None = None
        """The error that the provider reported."""
        self.fault_notices: tuple[Notice, ...] = ()
        """Notices of its code."""
        self.fault_message: Cleaned[CleanText] | None = None
        """The message about it that may be shown; None: that of the fault."""
        self.calls: dict[str, Item] = {}
        """Items of tool calls, by every id under which the host or an output item may refer to them."""
        self.envelope: dict[str, object] = {}
        """Current context members (section 6.2)."""
        if main is not None:
            self._set_members({"conversation_id": self.run.conversation_id})
        self.set_context(
            {"conversation_id": context.conversation_id, "agent": context.agent, "workflow": context.workflow}
        )

    @property
    def is_over(self) -> bool:
        """Whether the branch has ended."""
        return self.phase is Phase.ENDED

    @property
    def end(self) -> ResponseEnd | None:
        """How the last response of the branch ended; None if none has."""
        return self.run.ends.get(self.branch)

    @property
    def position(self) -> tuple[object, ...]:
        """The position in the workflow, unique among open branches."""
        workflow = self.envelope.get("workflow")
        return tuple(workflow.get(name) for name in POSITION) if isinstance(workflow, Mapping) else (None,) * 3

    def set_context(self, members: Mapping[str, object]) -> None:
        """Set context members from the host; None removes one, others stay (D9).

        Agent and workflow may change. The conversation is set once: another conversation is another stream.
        """
        found: dict[str, object] = {}
        for name, value in members.items():
            if name == "conversation_id":
                if self.run.conversation_id is not None:
                    self.count("conversation_id is set")
                    continue
                self.run.conversation_id = found[name] = _identifier(self.redactor, value) if value else None
            else:
                found[name] = CONTEXT_READERS[name](self.redactor, value) if value else None
        self._set_members(found)

    def release(self) -> None:
        """Drop what the ended stream has emitted."""
        self.calls.clear()
        self.usage_so_far = None
        self.response.release()
        self.run.release()

    def begin_response(self) -> None:
        """Start a response after the slots already used."""
        if not self._has_begun and self.response.base_slot == self.slots.next_slot:
            self._has_begun = True
            return
        self._has_begun = True
        self.response = Response(self.slots.next_slot, after=self.response.id)
        self._set_members({"response_id": None})

    def set_response_id(self, provider_id: str | None) -> None:
        """Set the id of the response; the first one stays (D4)."""
        if provider_id and self.response.id is None:
            self.response.id = self.redactor.identifier(provider_id)
            self._set_members({"response_id": self.response.id})

    def find(self, index: int | None, provider_id: str | None) -> Item | None:
        """Return the item at the provider's index, or without an index the item with the provider's id.

        An item that was announced without an index is bound to the first index that comes with its id.
        """
        response = self.response
        if index is None or index in response.shared:
            return response.by_id.get(provider_id) if provider_id else None
        if index not in response.by_index and provider_id in response.without_index:
            response.by_index[index] = response.without_index.pop(provider_id)
        return response.by_index.get(index)

    def share(self, index: int | None, known: Item, provider_id: str | None) -> bool:
        """Let another item have the index of an open one; False if their ids cannot tell them apart."""
        response = self.response
        if index is None or not known.has_id or provider_id is None or response.by_id.get(provider_id) is known:
            return False
        response.shared.add(index)
        response.by_index.pop(index, None)
        return True

    def known_item(self, event: CanonicalEvent, item_type: str) -> Item | None:
        """Return the open item of an event if it is at the event's index, as nearly always; otherwise None."""
        at = event.get("output_index")
        item = self.response.by_index.get(at) if type(at) is int else None
        return item if item is not None and item.open and item.type == item_type else None

    def item_of(self, event: CanonicalEvent, item_type: str) -> tuple[Item, list[Frame]]:
        """Return the open item of an event; one that the provider never announced is announced first (D7).

        Raises:
            UnreadableEvent: the item is closed, or of another type.
        """
        known = self.known_item(event, item_type)
        if known is not None:
            return known, []
        index = read.index_or_none(event, "output_index")
        provider_id = read.text_or_none(event, "item_id")
        item = self.find(index, provider_id)
        if item is None and index is None and provider_id is None:
            item = self.response.last_open(item_type)
        if item is None:
            return self.announce(item_type, index=index, provider_id=provider_id)
        if not item.open:
            raise read.UnreadableEvent(f"`{event.get('type')}`: its item is closed")
        if family_of(item.type) != family_of(item_type):
            raise read.UnreadableEvent(f"`{event.get('type')}`: its item is of another type")
        return item, []

    def announce(
        self,
        item_type: str,
        *,
        index: int | None,
        provider_id: str | None,
        role: str | None = None,
        status: str = "in_progress",
    ) -> tuple[Item, list[Frame]]:
        """Create an item in a new slot and emit `output_item.added`. Its type and status are constants."""
        index = None if index in self.response.shared else index
        slot = self.slots.slot(None if index is None else self.response.base_slot + index)
        role = role or ROLES.get(item_type)
        clean_role = self.redactor.name(role) if role else None
        place = slot, self.slots.item_id(provider_id, slot)
        item = Item(place, compose.own_words(item_type), clean_role, has_id=bool(provider_id))
        self.response.add(item)
        if index is not None:
            self.response.by_index[index] = item
        if provider_id:
            self.response.by_id[provider_id] = item
        if provider_id and index is None:
            self.response.without_index[provider_id] = item
        clean_status = compose.own_words(status)
        return item, [frames.output_item("added", place, item.type, item.role, clean_status)]

    def _set_members(self, changed: Mapping[str, object]) -> None:
        """Set or remove members of the envelope; their order is that of section 6.2."""
        before = self.envelope
        for name, value in changed.items():
            if value or name in before:
                members = {**before, **changed}
                self.envelope = {known: found for known in CONTEXT_ORDER if (found := members.get(known))}
                return


def _identifier(redactor: Redactor, value: object) -> CleanText | None:
    return redactor.identifier(value) if isinstance(value, str) and value else None


def _name(redactor: Redactor, value: object) -> CleanText | None:
    return redactor.name(value) if isinstance(value, str) and value else None


def _workflow(redactor: Redactor, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not value:
        return {}
    texts = {name: _name(redactor, value.get(name)) for name in WORKFLOW_TEXTS}
    texts["workflow_run_id"] = _identifier(redactor, value.get("workflow_run_id"))
    numbers = {name: read.index_or_none(value, name) for name in WORKFLOW_NUMBERS}
    return {name: found for name, found in (texts | numbers).items() if found is not None}


CONTEXT_READERS: Final[Mapping[str, Callable[[Redactor, object], object]]] = {
    "agent": _name,
    "workflow": _workflow,
}
"""Context member from the host that may change -> its reader, which returns a clean value or None."""
