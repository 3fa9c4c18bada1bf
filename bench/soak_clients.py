"""The clients of `bench/soak.py`, in a separate process, so that they do not delay the probes.

    python bench/soak_clients.py PORT SECONDS

Each client repeatedly makes a random visit of `VISITS`. At the end a line of JSON contains the number of visits by
expected end, as `wrong` the streams that did not end with exactly the expected terminal event, and what these were.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import uvloop

CLIENTS: Final = 100
PAUSE_S: Final = 1.0
"""Longest pause between two visits. Without pauses, the probes would only measure the server's queue."""
LEAVES_AFTER_S: Final = 2.0
"""Latest time at which a client disconnects or cancels; paced streams last five seconds."""
SLOW_BYTES: Final = 2_000_000
"""Size of a body of which half is sent."""
ENDS_S: Final = 60.0
"""Time limit of a stream."""
TERMINAL: Final = re.compile(rb'"kind":"(?:final|error)".*?"(?:status|code)":"(\w+)"')
STREAM_ID: Final = re.compile(rb"x-stream-id: (\w+)", re.IGNORECASE)


class Visit(NamedTuple):
    """One kind of visit."""

    load: bytes
    end: bytes
    """The status of `final`, or the code of `error`."""
    weight: int
    agent: bytes = b"default"


VISITS: Final = (
    Visit(b"one", b"completed", 45),
    Visit(b"one", b"completed", 5, b"twofold"),  # the first of its two targets dies
    Visit(b"burst", b"completed", 5),
    Visit(b"paced", b"completed", 15),
    Visit(b"large", b"completed", 3),
    Visit(b"broken", b"upstream_malformed", 12),
    Visit(b"paced", b"cancelled", 10),
    Visit(b"paced", b"", 10),  # the client disconnects
    Visit(b"items", b"upstream_response_too_large", 1),
    Visit(b"objects", b"upstream_event_too_large", 1),
    Visit(b"lines", b"upstream_event_too_large", 1),
    Visit(b"slow", b"", 1),  # the client sends half of a large body
)


class Clients:
    """All clients, and the counts of their visits."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._ends_at = time.monotonic() + seconds
        self._chance = random.Random(1)
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        """Make visits until the time is over."""
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def _client(self) -> None:
        weights = [visit.weight for visit in VISITS]
        while time.monotonic() < self._ends_at:
            await asyncio.sleep(self._chance.random() * PAUSE_S)
            visit = self._chance.choices(VISITS, weights)[0]
            self.seen["left" if not visit.end else visit.end.decode()] += 1
            try:
                async with asyncio.timeout(ENDS_S):
                    found = await self._visit(visit)
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                found = type(error).__name__
            if found != visit.end.decode():
                self.seen["wrong"] += 1
                self.seen[f"wrong: {visit.load.decode()}: {found}"] += 1

    async def _visit(self, visit: Visit) -> str:
        """Return the terminal events of a stream; without one the status of the answer."""
        size = SLOW_BYTES if visit.load == b"slow" else 0
        reader, writer = await self._ask(
            b"/api/v1/chat/stream", b'{"message": "%b", "agent": "%b"}' % (visit.load, visit.agent), missing_bytes=size
        )
        try:
            if not visit.end:
                await asyncio.sleep(self._chance.random() * LEAVES_AFTER_S)
                return ""
            data = await reader.readuntil(b"\r\n\r\n")
            if visit.end == b"cancelled":
                await asyncio.sleep(self._chance.random() * LEAVES_AFTER_S)
                answer = await self._cancel(STREAM_ID.search(data)[1])
                if answer != b"HTTP/1.1 204 No Content":
                    return f"cancel: {answer.decode('latin-1')}"
            ends = TERMINAL.findall(await reader.read())
            return ", ".join(end.decode() for end in ends) or data.partition(b"\r\n")[0].decode("latin-1")
        finally:
            writer.close()

    async def _cancel(self, stream_id: bytes) -> bytes:
        """Cancel a stream; return the status line of the answer."""
        reader, writer = await self._ask(b"/api/v1/streams/%b/cancel" % stream_id, b"")
        try:
            return (await reader.read()).partition(b"\r\n")[0]
        finally:
            writer.close()

    async def _ask(
        self, path: bytes, body: bytes, *, missing_bytes: int = 0
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        writer.write(
            b"POST %b HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (path, len(body) + missing_bytes, body + b" " * (missing_bytes // 2))
        )
        return reader, writer


if __name__ == "__main__":
    clients = Clients(int(sys.argv[1]), float(sys.argv[2]))
    run: Callable[[Awaitable[None]], None] = uvloop.run
    run(clients.run())
    sys.stdout.write(json.dumps(clients.seen) + "\n")
