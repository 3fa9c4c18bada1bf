"""Logs at the places of a store: of a Redis Cluster, a server that is away holds up its own streams only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from projector.server.streaming.stream_logs import OnLoss, StreamLog, StreamLogs
from projector.store.protocol import Store, StreamHead, new_stream_id

_DRAWS: Final = 512
"""Most IDs that are drawn for one at home: of 32 places, one in ten million streams has none then."""
_COUNT_S: Final = 86_400.0
_GOLDEN: Final = 0.618_033_988_75
"""The fractions of its multiples lie evenly, however many there are."""


class PlacedLogs(StreamLogs):
    """The logs that this process produces: those of each place are written apart from the others.

    New streams are at the home of the process. Otherwise each write would go to all servers of a cluster, and cost as
    much in each as if it were the only one.
    """

    def __init__(self, store: Store, *, unread_s: float) -> None:
        self._places: dict[str, StreamLogs] = {}
        self._home = ""
        super().__init__(store, unread_s=unread_s)

    def new_id(self) -> str:
        """Return the ID of a new stream: at home, unless the store is away there."""
        found = new_stream_id()
        place = self._places.get(self._home)
        if self._home and (place is None or place.is_available):
            for _ in range(_DRAWS):
                if self.store.place_of(found) == self._home:
                    break
                found = new_stream_id()
        return found

    def begin(self, head: StreamHead, on_cancel: Callable[[], None], on_loss: OnLoss) -> StreamLog:
        """Return a log for a new stream."""
        return StreamLog(self._at(head.stream_id), head, on_cancel, on_loss)

    def is_available_for(self, stream_id: str) -> bool:
        """Return whether the place of a stream worked when it was used last."""
        return self._at(stream_id).is_available

    @property
    def is_sound(self) -> bool:
        """Whether all of the store worked when it was used last."""
        return self.is_available and all(one.is_available for one in self._places.values())

    @property
    def open(self) -> int:
        """The number of logs that this process writes."""
        return len(self._open) + sum(one.open for one in self._places.values())

    async def stop(self) -> None:
        """Write what waits, within a limit of time."""
        for one in self._places.values():
            await one.stop()
        await super().stop()

    def cancel(self, stream_id: str) -> None:
        """Cancel a stream, if its log is written here."""
        super().cancel(stream_id)
        if (place := self._at(stream_id)) is not self:
            place.cancel(stream_id)

    async def _settle(self) -> None:
        """Use the store once, and choose a home: the processes that have started last are spread evenly."""
        await super()._settle()
        if places := self.store.places():
            count = 0

            def counted(stored: Sequence[bytes | None]) -> Sequence[bytes]:
                nonlocal count
                count = int(stored[0] or 0)
                return [b"%d" % (count + 1)]

            await self.store.update("places", ["count"], counted, _COUNT_S)
            self._home = places[int(len(places) * (count * _GOLDEN % 1))]

    def _at(self, stream_id: str) -> StreamLogs:
        place = self.store.place_of(stream_id)
        if not place:
            return self
        if place not in self._places:
            self._places[place] = StreamLogs(self.store, unread_s=self.unread_s, whole=self, place=place)
        return self._places[place]
