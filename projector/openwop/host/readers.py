"""How many read at once: each reader holds a connection for as long as its run lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from projector.server.http.problems import problem


class Readers:
    """Those who follow a run or wait for what is new in it."""

    def __init__(self, max_readers: int) -> None:
        self._max_readers = max_readers
        self._active = 0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Let a reader in.

        Raises:
            Problem: the server has no room for another.
        """
        if self._active >= self._max_readers:
            raise problem("overloaded")
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1
