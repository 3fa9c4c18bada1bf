"""Connections to Redis: time-outs, back-off, and errors of the project's own.

One client sends short commands over a small pool. Another one has a single connection that blocks, for all readers.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnectionError
from redis.exceptions import MaxConnectionsError, OutOfMemoryError, RedisError, ResponseError

from projector.store.protocol import StoreFullError, StoreUnavailableError

Command: TypeAlias = tuple[Any, ...]

COMMAND_S: Final = 2.0
"""Seconds until an answer. Redis answers within milliseconds; longer than this the server goes on without it."""
BLOCK_MS: Final = 1_000
"""Time of one blocking read; after it leases are checked. Below the time-out of the socket, or the read is repeated."""
_POOL: Final = 16
_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 2.0
"""After failures no connection is tried for this time, doubled with each: calls fail at once."""


class Connection:
    """The clients of one store.

    Args:
        url: `redis://` or `rediss://`, with credentials if they are needed.
        ca_file: certificates of authorities that are trusted instead of those of the system.
    """

    def __init__(self, url: str, ca_file: str | None = None) -> None:
        options: dict[str, Any] = {
            "protocol": 2,
            "decode_responses": False,
            "socket_connect_timeout": COMMAND_S,
            "health_check_interval": 0,
            # a pooled connection may be broken since its last use: commands are repeated once, and bear it
            "retry": Retry(NoBackoff(), 1, supported_errors=(NoConnectionError,)),
        }
        if ca_file is not None:
            options["ssl_ca_certs"] = ca_file
        pool = BlockingConnectionPool.from_url(
            url, max_connections=_POOL, timeout=COMMAND_S, socket_timeout=COMMAND_S, **options
        )
        self._client: Any = Redis(connection_pool=pool)
        waiting = BlockingConnectionPool.from_url(
            url, max_connections=1, timeout=COMMAND_S, socket_timeout=BLOCK_MS / 1_000 + COMMAND_S, **options
        )
        self._waiting: Any = Redis(connection_pool=waiting)
        for client in (self._client, self._waiting):
            client.response_callbacks.pop("SET")  # it makes a truth value of the present one
        self._backoff_s = _BACKOFF_S
        self._down_until_s = 0.0

    async def run(self, *command: Any) -> Any:
        """Send one command; return its answer.

        Raises:
            StoreUnavailableError: Redis is away, or refuses the command.
        """
        async with self._checked():
            return await self._client.execute_command(*command)

    async def run_all(self, commands: Sequence[Command], *, is_transaction: bool = False) -> list[Any]:
        """Send commands together; return their answers. Errors of single commands are among them."""
        if not commands:
            return []
        async with self._checked(), self._client.pipeline(transaction=is_transaction) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers = await pipeline.execute(raise_on_error=False)
        for answer in answers:
            if isinstance(answer, OutOfMemoryError):
                raise StoreFullError("Redis has reached its `maxmemory`")
            if isinstance(answer, RedisError) and not isinstance(answer, ResponseError):
                raise StoreUnavailableError(f"Redis failed: {type(answer).__name__}")
        return list(answers)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Return a pipeline for `watch` and `multi`."""
        async with self._checked(), self._client.pipeline(transaction=True) as pipeline:
            yield pipeline

    async def block(self, *command: Any) -> Any:
        """Send a command that blocks for at most `BLOCK_MS`. One at a time."""
        async with self._checked():
            return await self._waiting.execute_command(*command)

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (self._waiting, self._client):
            await client.aclose(close_connection_pool=True)

    @asynccontextmanager
    async def _checked(self) -> AsyncIterator[None]:
        if time.monotonic() < self._down_until_s:
            raise StoreUnavailableError("Redis did not answer lately")
        try:
            yield
        except MaxConnectionsError as error:
            raise StoreUnavailableError("all connections to Redis are in use") from error
        except OutOfMemoryError as error:
            raise StoreFullError("Redis has reached its `maxmemory`") from error
        except ResponseError as error:
            raise StoreUnavailableError(f"Redis refused a command: {_code(error)}") from error
        except (RedisError, OSError, TimeoutError) as error:
            self._down_until_s = time.monotonic() + self._backoff_s
            self._backoff_s = min(2 * self._backoff_s, _BACKOFF_MAX_S)
            raise StoreUnavailableError(f"Redis does not answer: {type(error).__name__}") from error
        else:
            self._backoff_s = _BACKOFF_S


def _code(error: ResponseError) -> str:
    """Return the first word of an answer, such as `NOAUTH`: the rest may repeat the command."""
    word = str(error).partition(" ")[0]
    return word if word.isupper() else type(error).__name__
