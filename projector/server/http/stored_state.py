"""State that a provider stores between requests: whose it is, and which upstream has it.

A response, an item, an approval or a conversation exists at one provider account. A request that refers to one is sent
there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from projector.conversation.entries import Entry
from projector.conversation.opaque import KeptCalls, Place, has_state, lacks_state, waiting_turn
from projector.providers import PROVIDERS
from projector.server.http.problems import problem
from projector.server.http.request_bodies import references
from projector.server.ownership import Ownership
from projector.server.upstream.targets import Target

_APPROVAL: Final = "mcp_approval_response"
_REASONING: Final = frozenset({"reasoning", "compaction"})
"""Types of items that the provider finds by their ID, or has encrypted."""


def home_targets(
    body: Mapping[str, Any], targets: Sequence[Target], configured: Sequence[Target], ownership: Ownership
) -> Sequence[Target]:
    """Return the targets that a request may be sent to: all of them, unless it refers to stored state.

    If the upstream of the state is not known, such as after a restart, it is the one of the first target configured.

    Raises:
        Problem: the state is at an upstream that is not a target, or at several upstreams.
    """
    places = set(_references(body, ownership))
    if not places:
        names = {target.provider.name for target in targets}
        places = {place for place in _readers(body, ownership) if place in names}
        if not places:
            return targets
    known = [place for place in places if place is not None]
    if len(known) > 1:
        raise problem("invalid_request", "The request refers to responses of different upstreams.")
    home = known[0] if known else configured[0].provider.name
    found = [target for target in targets if target.provider.name == home]
    if not found:
        raise problem("unknown_response", "The response is stored at an upstream that is not used here.")
    return found[:1]


class KeptState:
    """What is kept of the calls of a request, or is sealed in it, and the targets that it is valid at.

    Args:
        kept: the values.
        entries: returns the conversation, None if it cannot be read.
    """

    def __init__(self, kept: KeptCalls, entries: Callable[[], Sequence[Entry] | None]) -> None:
        self._kept = kept
        self._entries = entries
        self._place = max(kept.values(), key=lambda call: call.at).place if kept else None

    def first(self, targets: Sequence[Target]) -> Sequence[Target]:
        """Return the targets, the one with the latest value first."""
        if self._place is None or len(targets) == 1:
            return targets
        return sorted(targets, key=lambda target: target.place != self._place)

    def allowed(self, targets: Sequence[Target]) -> Sequence[Target]:
        """Return the targets that a request may be sent to: only the first, if it needs the values of that one."""
        place = self._place
        if place is None or len(targets) == 1 or targets[0].place != place:
            return targets
        wanting = self._wanting(place)
        return targets[:1] if wanting is None or has_state(wanting, self._kept, place) else targets

    def is_lost(self, target: Target) -> bool:
        """Return whether calls are sent to a target without what it may have sent with them."""
        wanting = self._wanting(target.place)
        return wanting is not None and lacks_state(wanting, self._kept, target.place)

    def _wanting(self, place: Place) -> Sequence[Entry] | None:
        """Return the entries of which the provider of a place wants values back."""
        entries = self._entries()
        is_short = entries is not None and PROVIDERS[place.provider].wants_state == "turn"
        return waiting_turn(entries) if entries is not None and is_short else entries


def conversation_of(body: Mapping[str, Any]) -> object:
    """Return the `conversation` of a request of the Responses API: an ID, or an object with one."""
    value = body.get("conversation")
    return value.get("id") if isinstance(value, dict) else value


def _references(body: Mapping[str, Any], ownership: Ownership) -> Iterator[str | None]:
    """Yield the upstream of each reference of a request, None for one that is not known."""
    if body.get("previous_response_id") is not None:
        yield ownership.upstream_of("response", body["previous_response_id"])
    if body.get("conversation") is not None:
        yield ownership.upstream_of("place", conversation_of(body))
    for item_id in references(body):
        yield ownership.upstream_of("item", item_id)


def _readers(body: Mapping[str, Any], ownership: Ownership) -> Iterator[str | None]:
    """Yield the upstream of each item that is sent whole, but that only this upstream can read."""
    items = body.get("input")
    for item in items if isinstance(items, list) else ():
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == _APPROVAL:
            yield ownership.approval_upstream(item.get("approval_request_id"))
        elif kind in _REASONING:
            yield ownership.upstream_of("item", item.get("id"))
