"""The store of a server, from its settings."""

from __future__ import annotations

from projector.server.config.settings import Settings
from projector.store.memory import MemoryStore
from projector.store.protocol import Store


def make_store(settings: Settings, process_id: str) -> Store:  # noqa: ARG001 - stores shared by processes need it
    """Return the store that the settings describe; `process_id` is the producer in the heads of its streams."""
    return MemoryStore(settings.store.limits(settings.limits.max_memory_bytes))
