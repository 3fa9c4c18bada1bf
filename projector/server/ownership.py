"""Whose is what: responses and conversations belong to the caller who made them, for everybody else they are not there.

An approval belongs to the response that asked for it.

Kept in this process, and only the newest: a restart or another replica knows none of them, and says so with 404.
"""

from __future__ import annotations

from typing import Final

from projector.server.http.problems import problem

_KEPT_MAX: Final = 100_000
"""Of each kind; some 20 MB when full."""


class Ownership:
    """Who made which response and began which conversation."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._responses: dict[str, str] = {}
        self._conversations: dict[str, str] = {}
        self._approvals: dict[str, str] = {}

    def made(self, response_id: str, caller: str) -> None:
        """Note whose a response is; the first to get an id keeps it."""
        self._keep(self._responses, response_id, caller)

    def check_response(self, response_id: str, caller: str) -> None:
        """Let the maker of a response go on from it.

        Raises:
            Problem: it is another's, or not known.
        """
        if self._responses.get(response_id) != caller:
            raise problem("unknown_response")

    def asked(self, approval_id: str, response_id: str) -> None:
        """Note which response asks for an approval; the newest, where a provider repeats its ids."""
        self._approvals.pop(approval_id, None)
        self._keep(self._approvals, approval_id, response_id)

    def response_of(self, approval_id: str) -> str:
        """Give the response that asked for an approval; whose that is, `check_response` says.

        Raises:
            Problem: none did, in the words that another caller's gets.
        """
        if approval_id not in self._approvals:
            raise problem("unknown_response")
        return self._approvals[approval_id]

    def enter(self, conversation_id: str, caller: str) -> None:
        """Let a caller into its conversation; whoever comes first began it.

        Raises:
            Problem: it is another's.
        """
        if self._conversations.get(conversation_id, caller) != caller:
            raise problem("unknown_conversation")
        self._keep(self._conversations, conversation_id, caller)

    def _keep(self, owners: dict[str, str], one: str, caller: str) -> None:
        owners[one] = owners.pop(one, caller)  # what is used is not forgotten before what is not
        if len(owners) > self._kept_max:
            del owners[next(iter(owners))]
