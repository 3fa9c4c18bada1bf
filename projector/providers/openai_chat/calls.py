"""Which call a fragment belongs to (CONTRACT D34).

Servers number calls from 0 or 1 or not at all, send all of a chunk's calls at index 0, repeat an id with each fragment
or blank it out after the first.
"""

from __future__ import annotations

from typing import Final

from projector.providers.openai_chat.items import CALL_SHAPES, Call

LEGACY: Final = -1
"""The index under which the one call of the old `function_call` is kept; no provider's index is negative."""


class Calls:
    """The calls of one response, by index and id."""

    def __init__(self) -> None:
        self.all: list[Call] = []
        self._latest: Call | None = None
        self._latest_at: dict[int, Call] = {}
        self._by_place: dict[tuple[int | None, str], Call] = {}

    def find(self, index: int | None, call_id: str, name: str, kind: str) -> Call:
        """Give the call that a fragment continues, or the new one that it begins; what it lacks is None or empty."""
        call = self._known(index, call_id, name)
        if call is None:
            call = Call(call_id, CALL_SHAPES[kind])
            self.all.append(call)
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        self._latest = call
        if index is not None:
            self._latest_at[index] = call
        if call_id:
            self._by_place[index, call_id] = call
            self._by_place.setdefault((None, call_id), call)
        return call

    def _known(self, index: int | None, call_id: str, name: str) -> Call | None:
        latest = self._latest if index is None else self._latest_at.get(index)
        if call_id and (known := self._by_place.get((index, call_id))) is not None:
            return known
        if latest is None:
            return None
        if call_id:
            is_named_twice = bool(name and latest.name)
            return None if latest.call_id or is_named_twice else latest  # else the call learns its id late
        is_another = index is None and bool(name and latest.name) and name != latest.name
        return None if is_another else latest
