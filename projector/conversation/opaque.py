"""What a provider wants back unchanged in the next turn, kept by the IDs of the calls that it belongs to.

A client does not see it in any dialect: it may contain what redaction removed, and a changed value is a 400 of the
provider. A call also keeps what belongs to the reasoning before it, because clients lose reasoning more often than
calls (docs/decisions/0057).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from projector.conversation.entries import USER, Entry, Message, Opaque, Reasoning, ToolCall


class Place(NamedTuple):
    """Where kept values are valid: providers bind them to the model and the account."""

    provider: str
    """Row of `PROVIDERS`."""
    upstream: str
    model: str


class KeptCall(NamedTuple):
    """What is kept of a call."""

    place: Place
    at: float
    """Time at which it was kept."""
    own: Any = None
    """JSON that belongs to the call; None if nothing does."""
    before: tuple[Any, ...] = ()
    """JSON of the reasoning between the call before, or the start of the response, and this call."""


KeptCalls: TypeAlias = Mapping[str, KeptCall]
"""ID of a call, as the client knows it -> what is kept of it."""
NOTHING_KEPT: Final[KeptCalls] = {}


class OpaqueCollector:
    """Collects the opaque values of one response.

    Args:
        keep: called with the ID of a call, its own value, and those of the reasoning before it.
    """

    def __init__(self, keep: Callable[[str, Any, tuple[Any, ...]], None]) -> None:
        self._keep = keep
        self._before: list[Any] = []

    def add(self, item_type: str, call_id: str | None, value: Any) -> None:
        """Add a finished item; `call_id` is None unless it is a call, `value` None without an opaque value."""
        if call_id is not None:
            before, self._before = tuple(self._before), []
            self._keep(call_id, value, before)
        elif item_type == "reasoning" and value is not None:
            self._before.append(value)


def with_opaque(entries: Iterable[Entry], kept: KeptCalls, place: Place) -> list[Entry]:
    """Return a conversation with the values that are valid at a place.

    Reasoning before a call is added, unless the conversation has its opaque value already.
    """
    found: list[Entry] = []
    is_carried = False
    for entry in entries:
        one = kept.get(entry.id) if isinstance(entry, ToolCall) else None
        if isinstance(entry, Reasoning):
            is_carried = is_carried or entry.opaque is not None
        elif isinstance(entry, Message) and entry.role == USER:
            is_carried = False
        if one is None or one.place != place or not isinstance(entry, ToolCall):
            found.append(entry)
            continue
        if not is_carried:
            found += [Reasoning("", opaque=Opaque(place.provider, value)) for value in one.before]
        is_carried = False
        found.append(entry if one.own is None else replace(entry, opaque=Opaque(place.provider, one.own)))
    return found
