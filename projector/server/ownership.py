"""Ownership of responses, their items, and conversations: only the caller that created one can see it.

An approval belongs to the response that requests it. Ownership is kept in the memory of this process, newest first:
after a restart, or at another replica, every id is answered with 404.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from projector.server.http.problems import problem

_KEPT_MAX: Final = 100_000
"""Maximum entries of each kind; about 20 MB when full."""


class _Owner(NamedTuple):
    """The caller that created something, and the upstream that stores it."""

    caller: str
    upstream: str = ""


class Ownership:
    """The callers that created responses and conversations."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._responses: OrderedDict[str, _Owner] = OrderedDict()  # a dict takes linear time to find its first key
        self._items: OrderedDict[str, _Owner] = OrderedDict()
        self._conversations: OrderedDict[str, _Owner] = OrderedDict()
        self._places: OrderedDict[str, _Owner] = OrderedDict()
        self._approvals: OrderedDict[str, str] = OrderedDict()

    def add_response(self, response_id: str, caller: str, upstream: str = "") -> None:
        """Record the caller that created a response; if an id is repeated, the first caller keeps it."""
        self._keep(self._responses, response_id, _Owner(caller, upstream))

    def check_response(self, response_id: str, caller: str) -> None:
        """Raise `Problem` if a response does not exist or belongs to another caller."""
        owner = self._responses.get(response_id)
        if owner is None or owner.caller != caller:
            raise problem("unknown_response")

    def response_upstream(self, response_id: object) -> str | None:
        """Return the upstream that stores a response, None if it is not known."""
        return _upstream(self._responses, response_id)

    def add_item(self, item_id: str, caller: str, upstream: str = "") -> None:
        """Record the caller whose response has an item; if an id is repeated, the first caller keeps it."""
        self._keep(self._items, item_id, _Owner(caller, upstream))

    def check_item(self, item_id: object, caller: str) -> None:
        """Raise `Problem` if an item does not exist or belongs to the response of another caller."""
        owner = self._items.get(item_id) if isinstance(item_id, str) else None
        if owner is None or owner.caller != caller:
            raise problem("unknown_response", "A referenced item was not found.", param="input")

    def item_upstream(self, item_id: object) -> str | None:
        """Return the upstream that stores an item, None if it is not known."""
        return _upstream(self._items, item_id)

    def add_approval(self, approval_id: str, response_id: str) -> None:
        """Record the response that requests an approval; the newest, if a provider repeats its ids."""
        self._approvals.pop(approval_id, None)
        self._approvals[approval_id] = response_id
        self._limit(self._approvals)

    def approval_response(self, approval_id: str) -> str:
        """Return the response that requested an approval, which may be another caller's; raise `Problem` without one.

        The error is that of `check_response`, so that existence is not revealed.
        """
        if approval_id not in self._approvals:
            raise problem("unknown_response")
        return self._approvals[approval_id]

    def approval_upstream(self, approval_id: object) -> str | None:
        """Return the upstream whose response requested an approval, None if it is not known."""
        response_id = self._approvals.get(approval_id) if isinstance(approval_id, str) else None
        return self.response_upstream(response_id)

    def enter_conversation(self, conversation_id: str, caller: str) -> None:
        """Raise `Problem` if a conversation belongs to another caller; an unknown one becomes this caller's."""
        owner = self._conversations.get(conversation_id)
        if owner is not None and owner.caller != caller:
            raise problem("unknown_conversation")
        self._keep(self._conversations, conversation_id, _Owner(caller))

    def place_conversation(self, conversation_id: str, upstream: str) -> None:
        """Record the upstream that stores a conversation of the provider's API."""
        self._keep(self._places, conversation_id, _Owner("", upstream))

    def conversation_upstream(self, conversation_id: object) -> str | None:
        """Return the upstream that stores a conversation, None if it is not known."""
        return _upstream(self._places, conversation_id)

    def _keep(self, owners: OrderedDict[str, _Owner], key: str, owner: _Owner) -> None:
        known = owners.pop(key, owner)
        owners[key] = owner if known.caller == owner.caller else known  # LRU: move to the end
        self._limit(owners)

    def _limit(self, kept: OrderedDict[str, _Owner] | OrderedDict[str, str]) -> None:
        if len(kept) > self._kept_max:
            kept.popitem(last=False)


def _upstream(owners: Mapping[str, _Owner], key: object) -> str | None:
    owner = owners.get(key) if isinstance(key, str) else None
    return owner.upstream or None if owner is not None else None
