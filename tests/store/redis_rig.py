"""A real Redis server for tests, and the store on it as two processes see it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis

from projector.store.protocol import Store, StoreLimits
from projector.store.redis_store import RedisStore
from tests.store.rigs import Clock, Rig


class RedisServer:
    """A process `redis-server` on a free port of the loopback address, with its files in a folder."""

    def __init__(self, program: str, folder: Path, options: Sequence[str] = ()) -> None:
        self._program = program
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start, with the same port as before."""
        for _ in range(9):
            port = self.port or _free_port()
            self._process = subprocess.Popen(
                [
                    self._program,
                    *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""),
                    *("--logfile", str(self._folder / "log"), *self._options),
                ],
                stdout=subprocess.DEVNULL,
            )
            if self._answers(port):
                self.port = port
                return
        raise AssertionError((self._folder / "log").read_text(encoding="utf-8")[-999:])

    def kill(self) -> None:
        """End at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self, port: int) -> bool:
        while self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(99).startswith(b"+PONG"):
                    return True
            time.sleep(0.01)
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@dataclass
class RedisRig:
    """The store in Redis. Time passes by shortening the time to live of all keys."""

    one: Store
    other: Store
    clock: Clock
    client: Any

    async def advance(self, seconds: float) -> None:
        self.clock.now_s += seconds
        for name in await self.client.keys("*"):
            left_ms = await self.client.pttl(name)
            if left_ms >= 0:
                await self.client.pexpire(name, max(0, left_ms - int(1_000 * seconds)))


@asynccontextmanager
async def redis(server: RedisServer, limits: StoreLimits) -> AsyncIterator[Rig]:
    """Return the store with an empty database."""
    clock, prefix = Clock(), f"test-{os.urandom(4).hex()}:"
    one, other = (RedisStore(server.url, name, limits, prefix=prefix, clock=clock) for name in ("one", "other"))
    client: Any = Redis.from_url(server.url)
    try:
        yield RedisRig(one, other, clock, client)
    finally:
        await one.aclose()
        await other.aclose()
        await client.flushdb()
        await client.aclose()
