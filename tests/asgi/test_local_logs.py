"""Logs in the memory of the process: what a step adds is stored when it is announced, without another turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from projector.contracts import codec
from projector.server.streaming.local_logs import LocalLogs
from projector.server.streaming.stream_logs import Loss, StreamLog, StreamLogs
from projector.store.memory import MemoryStore
from projector.store.protocol import LEASE_S, StoreLimits, StreamHead

DELTA: Final[dict[str, Any]] = {"kind": "output_text.delta", "delta": "a"}
FINAL: Final[dict[str, Any]] = {"kind": "final", "final": {}}
TINY: Final = StoreLimits(total_streams=1)


class Site:
    """A store, its logs, the log of one stream, and what happened to it."""

    def __init__(self, limits: StoreLimits | None = None) -> None:
        self.now_s = 0.0
        self.store = MemoryStore(limits, lambda: self.now_s)
        self.logs: StreamLogs = LocalLogs(self.store, unread_s=60)
        self.lost: list[Loss] = []
        self.cancelled: list[str] = []

    def begin(self, stream_id: str = "s") -> StreamLog:
        head = StreamHead(stream_id, "caller", "process", 0, b"{}")
        return self.logs.begin(head, lambda: self.cancelled.append(stream_id), self.lost.append)


def add(log: StreamLog, *frames: dict[str, Any]) -> None:
    log.add(list(frames), [None] * len(frames))
    log.notify()


async def test_a_frame_can_be_read_at_once() -> None:
    site = Site()
    log = site.begin()
    add(log, DELTA)
    add(log, DELTA, DELTA)
    page = await site.store.read("s", 1, 10_000)
    assert [codec.loads(frame) for frame in page.frames] == [DELTA, DELTA]
    assert (page.seal, site.logs.open) == (None, 1)
    add(log, FINAL)
    page = await site.store.read("s", 3, 10_000)
    assert [codec.loads(frame) for frame in page.frames] == [FINAL]
    assert page.seal is not None
    assert page.seal.reason == ""
    assert (site.logs.open, site.logs.waiting_bytes, site.lost) == (0, 0, [])
    add(log, DELTA)  # nothing follows the terminal
    assert (await site.store.read("s", 4, 10_000)).frames == []
    await site.logs.aclose()


async def fill(site: Site) -> None:
    add(site.begin("other"), DELTA)


async def lapse(site: Site) -> None:
    site.now_s += LEASE_S + 1
    await site.store.find("s")


async def remove(site: Site) -> None:
    await site.store.delete("s")


async def repeat(site: Site) -> None:
    await site.store.open(StreamHead("s", "caller", "process", 0, b"{}"))


LOSSES: Final[list[tuple[str, StoreLimits | None, int, Callable[[Site], Any], Loss]]] = [
    ("the store is full", TINY, 0, fill, "full"),
    ("the ID is taken", None, 0, repeat, "sealed"),
    ("the lease has lapsed", None, 1, lapse, "sealed"),
    ("the log was deleted", None, 1, remove, "unknown"),
]
"""Name, limits, frames before, what happens then, and why the log is lost."""


@pytest.mark.parametrize(("limits", "frames", "act", "loss"), [row[1:] for row in LOSSES], ids=[r[0] for r in LOSSES])
async def test_a_stream_goes_on_without_a_lost_log(
    limits: StoreLimits | None, frames: int, act: Callable[[Site], Any], loss: Loss
) -> None:
    site = Site(limits)
    log = site.begin()
    for _ in range(frames):
        add(log, DELTA)
    await act(site)
    add(log, DELTA)
    add(log, FINAL)
    log.end()
    assert site.lost == [loss]
    assert site.logs.lost == {loss: 1}
    await site.logs.aclose()


@pytest.mark.parametrize("make", [LocalLogs, StreamLogs])
async def test_a_store_that_forgot_a_stream_has_not_ended_it(make: Callable[..., StreamLogs]) -> None:
    """As a Redis that comes back empty just before the terminal."""
    site = Site()
    site.logs = make(site.store, unread_s=60)
    log = site.begin()
    add(log, DELTA)
    while log.is_pending:
        await log.stored()
    await site.store.delete("s")
    add(log, FINAL)
    log.end()
    await site.logs.aclose()
    assert site.lost == ["unknown"]


async def test_a_request_to_cancel_reaches_the_stream() -> None:
    site = Site()
    add(site.begin(), DELTA)
    assert await site.store.request_cancel("s")
    assert site.cancelled == ["s"]
    await site.logs.aclose()
