"""What a provider wants back unchanged in the next turn: kept by the IDs of calls, or carried by the client, sealed.

A client cannot read it in any dialect: it may contain what redaction removed, and a changed value is a 400 of the
provider. A call also keeps what belongs to the reasoning before it, because clients lose reasoning more often than
calls (docs/decisions/0047). Where the API of the client has a member for it, the client carries the value of reasoning
as text that only the server can open (docs/decisions/0043).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, TypeVar

from projector.conversation.entries import ASSISTANT, USER, Entry, Message, Opaque, Reasoning, ToolCall, ToolOutput
from projector.core.canonical import json_text

_Kept = TypeVar("_Kept")


class Place(NamedTuple):
    """Where kept values are valid: providers bind them to the model and the account."""

    provider: str
    """Row of `PROVIDERS`."""
    upstream: str
    model: str


SEALED: Final = "sealed."
"""Start of a sealed value. No base64 begins so, which encrypted reasoning of a provider is."""


class KeptCall(NamedTuple):
    """What is kept of a call, or carried by the client with reasoning."""

    place: Place
    at: float
    """Time at which it was kept."""
    own: Any = None
    """JSON that belongs to the call or the reasoning; None if nothing does."""
    before: tuple[Any, ...] = ()
    """JSON of reasoning and the provider's tools between the call before, or the start of the response, and this
    call."""


KeptCalls: TypeAlias = Mapping[str, KeptCall]
"""ID of a call, as the client knows it, or a sealed value -> what is kept of it, or was in it."""
NOTHING_KEPT: Final[KeptCalls] = {}
UNREADABLE: Final = KeptCall(Place("", "", ""), 0)
"""A sealed value that cannot be opened. No target has its place."""


def of_last_calls(kept: Mapping[str, _Kept], call_ids: Sequence[str | None]) -> Iterator[_Kept | None]:
    """Yield what is kept for each call, and None for one whose ID a later one has; IDs are None where there is no call.

    Servers repeat IDs, and what is kept is of the last call. A short body with one ID often would become a large one.
    """
    last = {call_id: at for at, call_id in enumerate(call_ids)}
    return (None if one is None or last[one] != at else kept.get(one) for at, one in enumerate(call_ids))


class Carried(NamedTuple):
    """A sealed value in a request."""

    param: str
    """Path of its member."""
    sealed: str
    is_needed: bool
    """Whether the provider needs it. Otherwise its reasoning may be left out."""
    call_id: str | None = None
    """ID of the call that it belongs to; None: it belongs to reasoning."""


SealedIn: TypeAlias = Iterable[tuple[str, str, str | None]]
"""Paths, texts and IDs of calls of sealed values."""


def is_sealed(value: object) -> TypeGuard[str]:
    """Return whether encrypted reasoning of a client is what this server has sealed."""
    return isinstance(value, str) and value.startswith(SEALED)


def carried_of(
    items: object,
    begins_turn: Callable[[Any], bool],
    sealed_in: Callable[[int, Any], SealedIn],
) -> list[Carried]:
    """Return the sealed values in the items of a conversation.

    Providers need reasoning of the turn that waits for the outputs of its calls, and go on without that of others.

    Args:
        items: the items, in any form; what is no list has none.
        begins_turn: whether an item begins a turn of the user.
        sealed_in: yields the sealed values in the item at a position.
    """
    listed = items if isinstance(items, list) else []
    last = max((at for at, item in enumerate(listed) if begins_turn(item)), default=-1)
    return [
        Carried(param, value, at > last, call_id)
        for at, item in enumerate(listed)
        for param, value, call_id in sealed_in(at, item)
    ]


def carried_in(entries: Sequence[Entry], param: str) -> list[Carried]:
    """Return the sealed values in a conversation, which is the member `param` of a request."""

    def sealed_in(_at: int, entry: Entry) -> SealedIn:
        sealed = entry.encrypted if isinstance(entry, Reasoning | ToolCall) else None
        return [(param, sealed, entry.id if isinstance(entry, ToolCall) else None)] if is_sealed(sealed) else []

    return carried_of([*entries], lambda entry: isinstance(entry, Message) and entry.role == USER, sealed_in)


def waiting_turn(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the end of a conversation that the model goes on with: after the message that begins the turn.

    What the user adds to the outputs of calls belongs to their turn.
    """
    start = 0
    has_outputs = False
    for at, entry in enumerate(entries):
        if isinstance(entry, Message) and entry.role == USER:
            start = start if has_outputs else at + 1
        else:
            has_outputs = isinstance(entry, ToolOutput)
    return entries[start:]


def has_state(entries: Iterable[Entry], kept: KeptCalls, place: Place) -> bool:
    """Return whether anything in a conversation has a value of this place."""
    return any(call.place == place for entry in entries if (call := kept.get(_key(entry))) is not None)


def lacks_state(entries: Iterable[Entry], kept: KeptCalls, place: Place) -> bool:
    """Return whether calls are answered of which nothing is known at this place, nor of the reasoning before them."""
    has_calls = has_value = False
    for entry in entries:
        if isinstance(entry, ToolCall | Reasoning):
            has_calls = has_calls or isinstance(entry, ToolCall)
            has_value = has_value or has_state([entry], kept, place)
        elif not isinstance(entry, Message) or entry.role == USER:
            if has_calls and not has_value:
                return True
            has_calls = has_value = False
    return False


def _key(entry: Entry) -> str:
    return entry.id if isinstance(entry, ToolCall) else (isinstance(entry, Reasoning) and entry.encrypted) or ""


class OpaqueCollector:
    """Collects the opaque values of one response.

    Args:
        keep: called with the ID of a call, its own value, and those before it; None: nothing is kept.
        seal: returns a value and those before it, sealed for the client, or None.
        carries: what the client carries: `reasoning`, `tools` of the provider, its own `calls`.
    """

    def __init__(
        self,
        keep: Callable[[str, Any, tuple[Any, ...]], None] | None,
        seal: Callable[[Any, tuple[Any, ...]], str | None],
        carries: Collection[str],
    ) -> None:
        self._keep = keep
        self._seal = seal
        self._carries = carries
        self._before: list[Any] = []
        self._begun: dict[str, tuple[Any, ...]] = {}
        """ID of a call that was sealed when it began -> values before it."""

    def add(self, item_type: str, call_id: str | None, value: Any, /, *, is_done: bool) -> str | None:
        """Add an item, and return its value as the client carries it, if it does.

        `call_id` is None unless it is a call that the client executes, `value` None without an opaque value. Only these
        calls come back, so values of the provider's tools belong to the next one, as those of reasoning do. A client
        that carries no reasoning carries its value with the call. A value that cannot be written as JSON is none.
        """
        value = value if value is not None and json_text([[[value]]]) else None  # what is kept is nested so much more
        if call_id is not None:
            is_sealed = call_id in self._begun
            before = self._begun.pop(call_id, tuple(self._before))
            self._before = self._before if is_sealed else []
            if not is_done:
                self._begun[call_id] = before
            elif self._keep is not None:
                self._keep(call_id, value, before)
            before = () if "reasoning" in self._carries else before
            is_carried = "calls" in self._carries and not is_sealed and (value is not None or before)
            return self._seal(value, before) if is_carried else None
        if item_type == "message" or value is None:
            return None
        self._before.append(value)
        is_carried = ("reasoning" if item_type == "reasoning" else "tools") in self._carries
        return self._seal(value, ()) if is_carried else None


def with_opaque(entries: Sequence[Entry], kept: KeptCalls, place: Place) -> list[Entry]:
    """Return a conversation with the values that are valid at a place.

    Reasoning before a call is added, unless the conversation has its opaque value already. It precedes the text of the
    model before the call, as it did in the response.
    """
    found: list[Entry] = []
    is_carried = False
    start = 0
    calls = of_last_calls(kept, [entry.id if isinstance(entry, ToolCall) else None for entry in entries])
    for given, one in zip(entries, calls, strict=True):
        entry = _opened(given, kept, place) if isinstance(given, Reasoning) else given
        if entry is None:
            continue
        if isinstance(entry, Reasoning):
            is_carried = is_carried or entry.opaque is not None or entry.encrypted is not None
        elif isinstance(entry, Message) and entry.role == USER:
            is_carried = False
        if one is not None and one.place == place and isinstance(entry, ToolCall):
            if not is_carried:
                found[start:start] = [Reasoning("", opaque=Opaque(place.provider, value)) for value in one.before]
            is_carried = False
            entry = entry if one.own is None else replace(entry, opaque=Opaque(place.provider, one.own))
        found.append(entry)
        if not isinstance(entry, Reasoning) and not (isinstance(entry, Message) and entry.role == ASSISTANT):
            start = len(found)
    return found


def _opened(entry: Reasoning, kept: KeptCalls, place: Place) -> Reasoning | None:
    """Return reasoning with the value that the client carried; None if it is not valid at the place."""
    carried = kept.get(entry.encrypted) if entry.encrypted is not None else None
    if carried is None:
        return entry
    if carried.place != place:
        return None
    return replace(entry, encrypted=None, opaque=Opaque(place.provider, carried.own))
