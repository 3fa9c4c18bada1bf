"""The store of a server, from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projector._errors import UsageError, missing_package
from projector.server.config.settings import Settings
from projector.server.config.store_settings import StoreSettings, decoded_key
from projector.store.memory import MemoryStore
from projector.store.protocol import Store, StoreLimits

if TYPE_CHECKING:
    from projector.store.redis_store import RedisStore


def make_store(settings: Settings, process_id: str) -> Store:
    """Return the store that the settings describe; connections are opened when they are first needed.

    Args:
        settings: the settings of the server.
        process_id: ID of this process, the producer of its streams.

    Raises:
        UsageError: a package that the store needs is not installed.
    """
    table = settings.store
    store: Store = _store(table, table.limits(settings.limits.max_memory_bytes), process_id)
    if table.encryption_keys:
        from projector.store.encryption import EncryptedStore  # noqa: PLC0415 - a start without it is faster

        store = EncryptedStore(store, [decoded_key(key) for key in table.encryption_keys])
    return store


async def describe_store(settings: Settings) -> str | None:
    """Return what `store.url` leads to, None if there is no URL; raise `StoreUnavailableError` if nothing answers."""
    if settings.store.url is None:
        return None
    store = _redis(settings.store, StoreLimits(), "check")
    try:
        return await store.describe()
    finally:
        await store.aclose()


def _store(table: StoreSettings, limits: StoreLimits, process_id: str) -> Store:
    if table.path is not None:
        from projector.store.sqlite import SqliteStore  # noqa: PLC0415 - a start without it is faster

        return SqliteStore(table.path, limits)
    if table.url is not None:
        return _redis(table, limits, process_id)
    return MemoryStore(limits)


def _redis(table: StoreSettings, limits: StoreLimits, process_id: str) -> RedisStore:
    try:
        from projector.store.redis_store import RedisStore  # noqa: PLC0415 - the `redis` extra
    except ModuleNotFoundError as error:
        raise UsageError(missing_package(error.name, "server,redis")) from None
    ca_file = None if table.ca_file is None else str(table.ca_file)
    url = "" if table.url is None else table.url.get_secret_value()
    return RedisStore(url, process_id, limits, prefix=table.prefix, ca_file=ca_file)
