"""Ownership of responses, their items, and conversations: only the caller that created one can see it.

An approval belongs to the response that requests it. Ownership is kept in the memory of this process, newest first.
With a store that outlasts the process or is shared by several, it is also kept there: it is written in the background,
and what a request refers to is loaded before it is checked. Without one, every ID is answered with 404 after a restart
or at another server. A text that is not valid Unicode is the ID of nothing: no store could keep it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeGuard, TypeVar

from projector.contracts import codec
from projector.contracts.limits import ID_MAX_CHARS
from projector.dialects.ag_ui.tool_writer import INTERRUPT_PREFIX
from projector.server.http.problems import problem
from projector.server.telemetry.logs import log_crash
from projector.store.protocol import Store, StoreUnavailableError, UnreadableError, reading

_KEPT_MAX: Final = 100_000
"""Maximum entries of each kind in memory; about 20 MB when full."""
_KEPT_S: Final = 2_592_000.0
"""Seconds that ownership is kept in the store: thirty days, as long as providers keep responses."""
_LOADED_MAX: Final = 20_000
"""IDs of one request that are looked up in the store: those of a conversation of 10,000 items."""
_BATCH: Final = 1_000
"""IDs that are looked up at once: others wait for the store meanwhile."""
_LATE_S: Final = (0.05, 0.2)
"""Pauses before a response is looked up again: it may have ended at another server a moment ago."""

LATE: Final = "This request for approval is not known any more: it is too old, or the server was restarted. Ask again."
"""For the person who answers it: pages show it as it is."""
Kind: TypeAlias = Literal["response", "item", "conversation", "place", "approval"]
_LOADED: Final[Sequence[Kind]] = ("response", "item", "conversation", "place", "approval")


_RETRY_S: Final = 1.0
_LAST_S: Final = 2.0
"""Seconds for the last values at shutdown."""

K = TypeVar("K")
V = TypeVar("V")


async def stored(store: Store, kind: str, keys: Sequence[str]) -> list[bytes | None]:
    """Return the values of many keys."""
    found: list[bytes | None] = []
    for start in range(0, len(keys), _BATCH):
        found += await store.get(kind, keys[start : start + _BATCH])
    return found


class BackgroundWrites(ABC, Generic[K, V]):
    """Values on their way to a store: they are written in the background, and again while the store is away.

    They may be added to `_waiting` in any thread, so adding one starts nothing.
    """

    def __init__(self) -> None:
        self._waiting: dict[K, V] = {}
        self._task: asyncio.Task[None] | None = None

    def write(self) -> None:
        """Begin to write what waits."""
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write_all())

    async def aclose(self) -> None:
        """Write what waits, for a moment."""
        self.write()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LAST_S)
            self._task.cancel()

    @abstractmethod
    async def _put(self, batch: dict[K, V]) -> None:
        """Write a batch; raise `StoreUnavailableError` if the store is away."""

    def _is_wanted(self, _key: K, /) -> bool:
        """Return whether the value of a key is written again after the store was away."""
        return True

    async def _write_all(self) -> None:
        alone: list[dict[K, V]] = []
        while self._waiting or alone:
            if alone:
                batch = alone.pop()
            else:
                batch, self._waiting = self._waiting, {}
            try:
                await self._put(batch)
            except Exception as error:  # noqa: BLE001 - the next values are to be written all the same
                if isinstance(error, StoreUnavailableError) and not isinstance(error, UnreadableError):
                    self._waiting = {key: value for key, value in batch.items() if self._is_wanted(key)} | self._waiting
                    await asyncio.sleep(_RETRY_S)
                elif len(batch) > 1:  # one that cannot be written costs no other
                    alone = [{key: value} for key, value in batch.items()]
                else:
                    log_crash("task_crashed", error)


class _Owner(NamedTuple):
    """The caller that created something, and the upstream that stores it; of an approval, the response."""

    caller: str
    upstream: str = ""
    tokens: int = 0
    """Tokens of a response, 0 if they are not known."""


class Ownership(BackgroundWrites[tuple[Kind, str], _Owner]):
    """The callers that created responses and conversations.

    Args:
        store: where ownership is kept besides this process.
        kept_max: maximum entries of each kind in this process.
    """

    def __init__(self, store: Store | None = None, *, kept_max: int = _KEPT_MAX) -> None:
        super().__init__()
        self._store = store
        self._kept_max = kept_max
        # a dict takes linear time to find its first key
        self._kept: Mapping[Kind, OrderedDict[str, _Owner]] = {kind: OrderedDict() for kind in _LOADED}

    # the store

    async def load(self, body: Mapping[str, Any]) -> None:
        """Load the owners of everything that a request may refer to by its ID.

        Raises:
            Problem: `input` has too many IDs. Items that are sent whole may be unknown, so none is left unchecked.
        """
        if self._store is None or not (ids := ids_of(body)):
            return
        if len(ids) >= _LOADED_MAX and len(ids_of({"input": body.get("input")})) >= _LOADED_MAX:
            raise problem("invalid_request", f"`input` must have fewer than {_LOADED_MAX} IDs.", param="input")
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

    async def _load(self, ids: Sequence[str]) -> None:
        if self._store is None:
            return
        self.write()
        for kind in _LOADED:
            missing = [one for one in ids if one not in self._kept[kind]]
            found = await stored(self._store, kind, missing)
            for key, value in zip(missing, found, strict=True):
                if value is not None:
                    self._keep(kind, key, _read(value), is_loaded=True)
        approvals = (self._kept["approval"].get(one) for one in ids)
        responses = [one.caller for one in approvals if one is not None and one.caller not in self._kept["response"]]
        for key, value in zip(responses, await stored(self._store, "response", responses), strict=True):
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

    def add(self, kind: Kind, key: str, caller: str, upstream: str = "", tokens: int = 0) -> None:
        """Record the caller that created something, and the upstream that stores it; of a response, its tokens.

        If an ID is repeated, the first caller keeps it. The place of a conversation has no caller.
        """
        self._keep(kind, key, _Owner(caller, upstream, tokens))

    def upstream_of(self, kind: Kind, key: object) -> str | None:
        """Return the upstream that stores something, None if it is not known."""
        owner = self._kept[kind].get(key) if isinstance(key, str) else None
        return owner.upstream or None if owner is not None else None

    def tokens_of(self, response_id: object) -> int:
        """Return the tokens of a response, 0 if they are not known."""
        owner = self._kept["response"].get(response_id) if isinstance(response_id, str) else None
        return 0 if owner is None else owner.tokens

    def check_response(self, response_id: str, caller: str, *, is_approval: bool = False) -> None:
        """Raise `Problem` if a response does not exist or belongs to another caller."""
        owner = self._kept["response"].get(response_id)
        if owner is None or owner.caller != caller:
            name = "previous_response_id"
            raise problem("unknown_response", LATE if is_approval else f"`{name}`: response not found.", param=name)

    def check_item(self, item_id: object, caller: str, *, param: str = "input", is_whole: bool = False) -> None:
        """Raise `Problem` if an item or a container belongs to another caller, or does not exist.

        `param` is the member of the request that has the ID. An item that is sent whole need not be known.
        """
        owner = self._kept["item"].get(item_id) if isinstance(item_id, str) else None
        is_allowed = is_whole if owner is None else owner.caller == caller
        if not is_allowed:
            raise problem("unknown_response", "A referenced item was not found.", param=param)

    def add_approval(self, approval_id: str, response_id: str) -> None:
        """Record the response that requests an approval; the newest, if a provider repeats its ids."""
        self._kept["approval"].pop(approval_id, None)
        self._keep("approval", approval_id, _Owner(response_id))

    def approval_response(self, approval_id: object, caller: str, member: str) -> str:
        """Return the response that requested an approval; raise `Problem` if there is none of this caller.

        `member` is the member of the request that answers the approval.
        """
        found = self._kept["approval"].get(approval_id) if isinstance(approval_id, str) else None
        owner = None if found is None else self._kept["response"].get(found.caller)
        if found is None or owner is None or owner.caller != caller:
            raise problem("unknown_response", LATE, param=member)
        return found.caller

    def approval_upstream(self, approval_id: object) -> str | None:
        """Return the upstream whose response requested an approval, None if it is not known."""
        found = self._kept["approval"].get(approval_id) if isinstance(approval_id, str) else None
        return None if found is None else self.upstream_of("response", found.caller)

    def enter_conversation(self, conversation_id: str, caller: str) -> None:
        """Raise `Problem` if a conversation belongs to another caller; an unknown one becomes this caller's."""
        owner = self._kept["conversation"].get(conversation_id)
        if owner is not None and owner.caller != caller:
            raise problem("unknown_conversation")
        self._keep("conversation", conversation_id, _Owner(caller))

    def _keep(self, kind: Kind, key: str, owner: _Owner, *, is_loaded: bool = False) -> None:
        if not _is_unicode(key):
            return
        kept = self._kept[kind]
        known = kept.pop(key, owner)
        kept[key] = owner if known.caller == owner.caller else known  # LRU: move to the end
        if len(kept) > self._kept_max:
            kept.popitem(last=False)
        if self._store is not None and not is_loaded:
            self._waiting[kind, key] = owner
            if len(self._waiting) > self._kept_max:  # the store has been away for long
                del self._waiting[next(iter(self._waiting))]


def _written(owner: _Owner) -> bytes:
    return codec.dumps([*owner])


def _read(value: bytes) -> _Owner:
    with reading():
        return _Owner(*codec.loads(value))


def is_id(value: object) -> TypeGuard[str]:
    """Return whether a value of a request may be an ID: a text of valid Unicode that is not too long."""
    return isinstance(value, str) and len(value) <= ID_MAX_CHARS and _is_unicode(value)


def _is_unicode(text: str) -> bool:
    return codec.scrub(text) == text


def ids_of(body: Mapping[str, Any]) -> list[str]:
    """Return the values of all members that are named like IDs, also without the prefix of an interrupt.

    Those of `input` come first, because there are at most about `_LOADED_MAX`.
    """
    found: dict[str, None] = {}
    waiting: list[tuple[str, object]] = sorted(body.items(), key=lambda member: member[0] == "input")
    while waiting and len(found) < _LOADED_MAX:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, one) for one in value]
        elif name.lower().endswith(("id", "conversation", "container")) and value and is_id(value):
            found[value] = found[value.removeprefix(INTERRUPT_PREFIX)] = None
    return [*found]
