"""Allocate IDs that are unique in a stream or thread, for dialects that write items or messages of their own."""

from __future__ import annotations

from collections.abc import Container, Iterable


class IdAllocator:
    """Allocator of unique IDs. Under an ID that exists, clients would append to an old message or item."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """Preferred ID -> the last number that was tried: each is tried once, not once per collision."""

    def allocate(self, preferred: str, others: Container[str] = ()) -> str:
        """Return the preferred ID, with a number appended if it is taken, here or in `others`."""
        allocated, number = preferred, self._numbers.get(preferred, 1)
        while allocated in self._taken or allocated in others:
            number += 1
            allocated = f"{preferred}.{number}"
        if number > 1:
            self._numbers[preferred] = number
        self._taken.add(allocated)
        return allocated
