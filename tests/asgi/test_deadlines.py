from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from math import inf
from typing import Any

import anyio
import pytest

from projector import UsageError
from projector.server import Settings, create_app
from projector.server.config.upstream_settings import Timeouts
from projector.server.streaming.clock import TICK_S, Deadlines, Timer, Watch
from tests.asgi.in_process import ask

TIMEOUTS = Timeouts(first_byte_s=10, idle_s=5, total_s=100)


@pytest.mark.parametrize(
    ("name", "waits", "expected"),
    [
        ("nothing came", [], (10, "upstream_timeout_first_byte")),
        ("bytes came", [3], (8, "upstream_timeout_idle")),
        ("each wait is a new one", [3, 7], (12, "upstream_timeout_idle")),
        ("near the end", [97], (100, "upstream_timeout_total")),
    ],
)
def test_the_earliest_deadline_counts(name: str, waits: list[float], expected: tuple[float, str]) -> None:
    deadlines = Deadlines(TIMEOUTS, 0)
    deadlines.on_attempt(0)
    for now in waits:
        deadlines.pause()
        deadlines.idle_at = now + TIMEOUTS.idle_s
    assert deadlines.next() == expected, name


def test_idle_does_not_run_while_the_client_is_awaited() -> None:
    deadlines = Deadlines(TIMEOUTS, 0)
    deadlines.on_attempt(0)
    deadlines.pause()
    assert deadlines.next() == (100, "upstream_timeout_total")


def test_each_attempt_has_its_own_first_byte() -> None:
    deadlines = Deadlines(TIMEOUTS, 0)
    deadlines.on_attempt(0)
    deadlines.pause()
    assert deadlines.next() == (100, "upstream_timeout_total")
    deadlines.on_attempt(20)
    assert deadlines.next() == (30, "upstream_timeout_first_byte")


async def test_a_timer_that_is_added_wakes_the_ticker() -> None:
    due = anyio.Event()
    asleep, added = Timer(lambda: inf, due.set), Timer(lambda: 0.0, due.set)
    with Watch(asleep), Watch(added), anyio.fail_after(60):
        await due.wait()


async def test_the_timers_of_all_streams_are_one_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, handles = asyncio.get_running_loop(), []
    call_later = loop.call_later

    def counted(*arguments: Any) -> Any:
        handles.append(call_later(*arguments))
        return handles[-1]

    monkeypatch.setattr(loop, "call_later", counted)
    due_at = time.monotonic() + 3_600
    with ExitStack() as streams:
        for _ in range(1_000):
            streams.enter_context(Watch(Timer(lambda: due_at, list)))
        assert [handle.cancelled() for handle in handles] == [False]
    assert [handle.cancelled() for handle in handles] == [True]


async def test_a_timer_that_moves_is_checked_again_when_it_may_be_due() -> None:
    due_at, called = inf, anyio.Event()
    with Watch(Timer(lambda: due_at, called.set, 2 * TICK_S)), anyio.fail_after(60):
        await asyncio.sleep(TICK_S)
        due_at = time.monotonic()
        await called.wait()


async def test_a_timer_of_a_stream_that_another_one_has_ended_is_not_called() -> None:
    called: list[str] = []
    other, ended = ExitStack(), anyio.Event()

    def end() -> None:
        called.append("first")
        other.close()
        ended.set()

    with Watch(Timer(lambda: 0.0, end)):
        other.enter_context(Watch(Timer(lambda: 0.0, lambda: called.append("second"))))
        with anyio.fail_after(60):
            await ended.wait()
        await asyncio.sleep(3 * TICK_S)
    assert called == ["first"]


def test_timers_need_asyncio() -> None:
    with pytest.raises(UsageError, match="expected an event loop of asyncio"), Watch():
        raise AssertionError("there is none, as in a task of trio")


def test_the_server_needs_asyncio() -> None:
    tables = {"upstreams": {"one": {"api_key": "k"}}, "agents": {"helper": {"upstream": "one", "model": "m"}}}
    asking = ask(create_app(Settings.model_validate(tables)), "/api/v1/chat/stream", {"message": "Hi"})
    with pytest.raises(UsageError, match="expected an event loop of asyncio"):
        asking.send(None)  # without a loop, as in a task of trio
