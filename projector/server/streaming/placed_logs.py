"""Logs at the places of a store: of a Redis Cluster, a server that is away holds up its own streams only."""

from __future__ import annotations

from collections.abc import Callable

from projector.server.streaming.stream_logs import OnLoss, StreamLog, StreamLogs
from projector.store.protocol import Store, StreamHead


class PlacedLogs(StreamLogs):
    """The logs that this process produces: those of each place are written apart from the others."""

    def __init__(self, store: Store, *, unread_s: float) -> None:
        self._places: dict[str, StreamLogs] = {}
        super().__init__(store, unread_s=unread_s)

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

    def _at(self, stream_id: str) -> StreamLogs:
        place = self.store.place_of(stream_id)
        if not place:
            return self
        if place not in self._places:
            self._places[place] = StreamLogs(self.store, unread_s=self.unread_s, whole=self, place=place)
        return self._places[place]
