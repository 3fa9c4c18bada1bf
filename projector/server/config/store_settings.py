"""The table `store`: where streams are kept for clients that come back, and how much of them."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from projector.server.config.config_base import Table
from projector.store.protocol import StoreLimits

_DEFAULTS: Final = StoreLimits()


class StoreSettings(Table):
    """The store of streams."""

    kind: Literal["memory"] = "memory"
    """`memory`: in the memory of this process."""
    required: bool = False
    """Refuse new streams while the store is unavailable. By default they start, but cannot be resumed."""
    retention_s: float = Field(300, gt=0, le=604_800)
    """Seconds that a stream is kept after its end."""
    unread_s: float = Field(300, gt=0, le=86_400)
    """Seconds that a stream goes on without any reader, if `on_disconnect` is `continue`."""
    max_stream_bytes: int = Field(8 * 2**20, gt=0)
    """Size of one stream. The first events of a longer one are dropped: a client that needs them gets 410."""
    max_caller_bytes: int = Field(_DEFAULTS.owner_bytes, gt=0)
    """Size of all streams of one caller."""
    max_caller_streams: int = Field(_DEFAULTS.owner_streams, gt=0)
    """Streams of one caller."""
    max_bytes: int | None = Field(None, gt=0)
    """Size of all streams; in `memory` an eighth of `limits.max_memory_bytes` by default. At any of these limits, the
    streams that ended first are dropped first."""
    max_streams: int = Field(_DEFAULTS.total_streams, gt=0)
    """Number of all streams."""

    def limits(self, max_memory_bytes: int) -> StoreLimits:
        """Return the limits of the store of a server with a memory budget."""
        return StoreLimits(
            retention_s=self.retention_s,
            stream_bytes=self.max_stream_bytes,
            owner_bytes=self.max_caller_bytes,
            owner_streams=self.max_caller_streams,
            total_bytes=self.max_bytes or max_memory_bytes // 8,
            total_streams=self.max_streams,
        )
