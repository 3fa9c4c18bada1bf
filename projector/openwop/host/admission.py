"""The place of a run among the streams of its caller: it has one while an upstream is asked."""

from __future__ import annotations

from contextlib import ExitStack

from projector.server.streaming.memory import Account
from projector.server.streaming.registry import Running, Streams


class Admission:
    """One run's."""

    def __init__(self, streams: Streams, caller: str) -> None:
        self._streams = streams
        self._caller = caller
        self._held = ExitStack()
        self._account: Account | None = None

    @property
    def is_held(self) -> bool:
        """Whether the run has its place."""
        return self._account is not None

    @property
    def account(self) -> Account:
        """What it holds in memory is held here."""
        assert self._account is not None  # noqa: S101 - asked while it has its place
        return self._account

    def enter(self, stream: Running) -> None:
        """Take the place.

        Raises:
            Problem: the server ends, or has no room, or the caller has had its share.
        """
        self._account = self._held.enter_context(self._streams.admitted(self._caller))
        self._held.enter_context(self._streams.running(stream))

    def leave(self) -> None:
        """Give it back."""
        self._account = None
        self._held.close()
