"""Ownership of responses, their items, and conversations: only the caller that created one can see it.

An approval belongs to the response that requests it. Ownership is kept in the memory of this process, newest first:
after a restart, or at another replica, every id is answered with 404.
"""

from __future__ import annotations

from typing import Final

from projector.server.http.problems import problem

_KEPT_MAX: Final = 100_000
"""Maximum entries of each kind; about 20 MB when full."""


class Ownership:
    """The callers that created responses and conversations."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._responses: dict[str, str] = {}
        self._items: dict[str, str] = {}
        self._conversations: dict[str, str] = {}
        self._approvals: dict[str, str] = {}

    def add_response(self, response_id: str, caller: str) -> None:
        """Record the caller that created a response; if an id is repeated, the first caller keeps it."""
        self._keep(self._responses, response_id, caller)

    def check_response(self, response_id: str, caller: str) -> None:
        """Raise `Problem` if a response does not exist or belongs to another caller."""
        if self._responses.get(response_id) != caller:
            raise problem("unknown_response")

    def add_item(self, item_id: str, caller: str) -> None:
        """Record the caller whose response has an item; if an id is repeated, the first caller keeps it."""
        self._keep(self._items, item_id, caller)

    def check_item(self, item_id: object, caller: str) -> None:
        """Raise `Problem` if an item does not exist or belongs to the response of another caller."""
        if not isinstance(item_id, str) or self._items.get(item_id) != caller:
            raise problem("unknown_response", "A referenced item was not found.", param="input")

    def add_approval(self, approval_id: str, response_id: str) -> None:
        """Record the response that requests an approval; the newest, if a provider repeats its ids."""
        self._approvals.pop(approval_id, None)
        self._keep(self._approvals, approval_id, response_id)

    def approval_response(self, approval_id: str) -> str:
        """Return the response that requested an approval, which may be another caller's; raise `Problem` without one.

        The error is that of `check_response`, so that existence is not revealed.
        """
        if approval_id not in self._approvals:
            raise problem("unknown_response")
        return self._approvals[approval_id]

    def enter_conversation(self, conversation_id: str, caller: str) -> None:
        """Raise `Problem` if a conversation belongs to another caller; an unknown one becomes this caller's."""
        if self._conversations.get(conversation_id, caller) != caller:
            raise problem("unknown_conversation")
        self._keep(self._conversations, conversation_id, caller)

    def _keep(self, owners: dict[str, str], key: str, owner: str) -> None:
        owners[key] = owners.pop(key, owner)  # LRU: move to the end
        if len(owners) > self._kept_max:
            del owners[next(iter(owners))]
