"""Ownership of responses, their items, and conversations: only the caller that created one can see it.

An approval belongs to the response that requests it. Ownership is kept in the memory of this process, newest first.
With a store that outlasts the process or is shared by several, it is also kept there: it is written in the background,
and what a request refers to is loaded before it is checked. Without one, every ID is answered with 404 after a restart
or at another server.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.contracts.limits import ID_MAX_CHARS
from projector.dialects.ag_ui.tool_writer import INTERRUPT_PREFIX
from projector.server.background_writes import BackgroundWrites
from projector.server.http.problems import problem
from projector.store.protocol import Store

_KEPT_MAX: Final = 100_000
"""Maximum entries of each kind in memory; about 20 MB when full."""
_KEPT_S: Final = 2_592_000.0
"""Seconds that ownership is kept in the store: thirty days, as long as providers keep responses."""
_LOADED_MAX: Final = 1_000
"""IDs of one request that are looked up in the store."""
_LATE_S: Final = (0.05, 0.2)
"""Pauses before a response is looked up again: it may have ended at another server a moment ago."""

LATE: Final = "This request for approval is not known any more: it is too old, or the server was restarted. Ask again."
"""For the person who answers it: pages show it as it is."""
Kind: TypeAlias = Literal["response", "item", "conversation", "place", "approval"]
_LOADED: Final[Sequence[Kind]] = ("response", "item", "conversation", "place", "approval")


class _Owner(NamedTuple):
    """The caller that created something, and the upstream that stores it; of an approval, the response."""

    caller: str
    upstream: str = ""


class Ownership:
    """The callers that created responses and conversations.

    Args:
        store: where ownership is kept besides this process.
        kept_max: maximum entries of each kind in this process.
    """

    def __init__(self, store: Store | None = None, *, kept_max: int = _KEPT_MAX) -> None:
        self._store = store
        self._kept_max = kept_max
        # a dict takes linear time to find its first key
        self._kept: Mapping[Kind, OrderedDict[str, _Owner]] = {kind: OrderedDict() for kind in _LOADED}
        self._unwritten = BackgroundWrites[tuple[Kind, str], _Owner](self._put)

    # the store

    async def load(self, body: Mapping[str, Any]) -> None:
        """Load the owners of everything that a request may refer to by its ID."""
        if self._store is None:
            return
        ids = list(dict.fromkeys(ids_of(body)))[:_LOADED_MAX]
        if not ids:
            return
        await self._load(ids)
        previous = body.get("previous_response_id")
        for pause_s in _LATE_S:
            if not isinstance(previous, str) or previous in self._kept["response"]:
                break
            await asyncio.sleep(pause_s)
            await self._load([previous])

    async def confirm(self, conversation_id: str | None, caller: str) -> None:
        """Raise `Problem` if a conversation that the caller has entered became another caller's at another server."""
        if self._store is None or conversation_id is None:
            return
        claimed = await self._store.claim("conversation", {conversation_id: _written(_Owner(caller))}, _KEPT_S)
        found = _read(claimed[conversation_id])
        if found.caller != caller:
            self._kept["conversation"][conversation_id] = found
            raise problem("unknown_conversation")

    def write(self) -> None:
        """Write what is new to the store, in the background. Entries are added in threads too, so they only wait."""
        self._unwritten.start()

    async def aclose(self) -> None:
        """Write what is new, for a moment."""
        await self._unwritten.aclose()

    async def _load(self, ids: Sequence[str]) -> None:
        if self._store is None:
            return
        self.write()
        for kind in _LOADED:
            missing = [one for one in ids if one not in self._kept[kind]]
            found = await self._store.get(kind, missing) if missing else []
            for key, value in zip(missing, found, strict=True):
                if value is not None:
                    self._keep(kind, key, _read(value), is_loaded=True)
        approvals = (self._kept["approval"].get(one) for one in ids)
        responses = [one.caller for one in approvals if one is not None and one.caller not in self._kept["response"]]
        for key, value in zip(responses, await self._store.get("response", responses), strict=True):
            if value is not None:
                self._keep("response", key, _read(value), is_loaded=True)

    async def _put(self, batch: dict[tuple[Kind, str], _Owner]) -> None:
        """Write a batch. The first owner of an ID keeps it, but of an approval the newest."""
        if self._store is None:
            return
        for kind in _LOADED:
            values = {key: _written(owner) for (one, key), owner in batch.items() if one == kind}
            write = self._store.put if kind == "approval" else self._store.claim
            if values:
                await write(kind, values, _KEPT_S)

    # responses, items, approvals, conversations

    def add_response(self, response_id: str, caller: str, upstream: str = "") -> None:
        """Record the caller that created a response; if an id is repeated, the first caller keeps it."""
        self._keep("response", response_id, _Owner(caller, upstream))

    def check_response(self, response_id: str, caller: str, *, is_approval: bool = False) -> None:
        """Raise `Problem` if a response does not exist or belongs to another caller."""
        owner = self._kept["response"].get(response_id)
        if owner is None or owner.caller != caller:
            name = "previous_response_id"
            raise problem("unknown_response", LATE if is_approval else f"`{name}`: response not found.", param=name)

    def response_upstream(self, response_id: object) -> str | None:
        """Return the upstream that stores a response, None if it is not known."""
        return self._upstream("response", response_id)

    def add_item(self, item_id: str, caller: str, upstream: str = "") -> None:
        """Record the caller whose response has an item; if an id is repeated, the first caller keeps it."""
        self._keep("item", item_id, _Owner(caller, upstream))

    def check_item(self, item_id: object, caller: str) -> None:
        """Raise `Problem` if an item does not exist or belongs to the response of another caller."""
        owner = self._kept["item"].get(item_id) if isinstance(item_id, str) else None
        if owner is None or owner.caller != caller:
            raise problem("unknown_response", "A referenced item was not found.", param="input")

    def item_upstream(self, item_id: object) -> str | None:
        """Return the upstream that stores an item, None if it is not known."""
        return self._upstream("item", item_id)

    def add_approval(self, approval_id: str, response_id: str) -> None:
        """Record the response that requests an approval; the newest, if a provider repeats its ids."""
        self._kept["approval"].pop(approval_id, None)
        self._keep("approval", approval_id, _Owner(response_id))

    def approval_response(self, approval_id: str, caller: str, member: str) -> str:
        """Return the response that requested an approval; raise `Problem` if there is none of this caller.

        `member` is the member of the request that answers the approval.
        """
        found = self._kept["approval"].get(approval_id)
        owner = None if found is None else self._kept["response"].get(found.caller)
        if found is None or owner is None or owner.caller != caller:
            raise problem("unknown_response", LATE, param=member)
        return found.caller

    def approval_upstream(self, approval_id: object) -> str | None:
        """Return the upstream whose response requested an approval, None if it is not known."""
        found = self._kept["approval"].get(approval_id) if isinstance(approval_id, str) else None
        return None if found is None else self.response_upstream(found.caller)

    def enter_conversation(self, conversation_id: str, caller: str) -> None:
        """Raise `Problem` if a conversation belongs to another caller; an unknown one becomes this caller's."""
        owner = self._kept["conversation"].get(conversation_id)
        if owner is not None and owner.caller != caller:
            raise problem("unknown_conversation")
        self._keep("conversation", conversation_id, _Owner(caller))

    def place_conversation(self, conversation_id: str, upstream: str) -> None:
        """Record the upstream that stores a conversation of the provider's API."""
        self._keep("place", conversation_id, _Owner("", upstream))

    def conversation_upstream(self, conversation_id: object) -> str | None:
        """Return the upstream that stores a conversation, None if it is not known."""
        return self._upstream("place", conversation_id)

    def _keep(self, kind: Kind, key: str, owner: _Owner, *, is_loaded: bool = False) -> None:
        kept = self._kept[kind]
        known = kept.pop(key, owner)
        kept[key] = owner if known.caller == owner.caller else known  # LRU: move to the end
        if len(kept) > self._kept_max:
            kept.popitem(last=False)
        if self._store is not None and not is_loaded:
            self._unwritten.waiting[kind, key] = owner
            if len(self._unwritten.waiting) > self._kept_max:  # the store has been away for long
                del self._unwritten.waiting[next(iter(self._unwritten.waiting))]

    def _upstream(self, kind: Kind, key: object) -> str | None:
        owner = self._kept[kind].get(key) if isinstance(key, str) else None
        return owner.upstream or None if owner is not None else None


def _written(owner: _Owner) -> bytes:
    return codec.dumps([*owner])


def _read(value: bytes) -> _Owner:
    return _Owner(*codec.loads(value))


def ids_of(value: object, name: str = "") -> Iterator[str]:
    """Yield the values of all members that are named like IDs, also without the prefix of an interrupt."""
    waiting = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, one) for one in value]
        elif (
            isinstance(value, str) and 0 < len(value) <= ID_MAX_CHARS and name.lower().endswith(("id", "conversation"))
        ):
            yield value
            if value.startswith(INTERRUPT_PREFIX):
                yield value.removeprefix(INTERRUPT_PREFIX)
