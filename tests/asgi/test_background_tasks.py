"""Tasks beside the streams go on after an exception that nobody expected, and log it once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.server.app import Generations, create_app
from projector.server.config.settings import Settings
from projector.server.control.rate_limits import FallbackBudgets
from projector.server.http.stored_streams import KIND, Claim
from projector.server.ownership import Ownership
from projector.server.streaming import clock, local_logs, stream_logs
from projector.server.streaming.local_logs import LocalLogs
from projector.server.streaming.stream_logs import StreamLogs
from projector.store.budgets import Limit
from projector.store.memory import MemoryStore
from projector.store.protocol import StreamHead, UnreadableError

HEAD = StreamHead("s", "owner", "one", 0, b"{}")
FAILURES = 3


class Fails:
    """A method that raises the first few times."""

    def __init__(self, method: Callable[..., Any], failures: int = FAILURES, error: type[Exception] = KeyError) -> None:
        self._method = method
        self._left = failures
        self._error = error
        self.worked = asyncio.Event()

    def __call__(self, *arguments: Any) -> Any:
        if self._left:
            self._left -= 1
            raise self._error("unexpected")
        self.worked.set()
        return self._method(*arguments)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (stream_logs, "RENEWAL_S", 0.001),
        (local_logs, "RENEWAL_S", 0.001),
        (stream_logs, "_RETRY_S", (0.001,)),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("name", ["renew", "append"])
async def test_logs_go_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    store = MemoryStore()
    method = Fails(getattr(store, name))
    monkeypatch.setattr(store, name, method)
    logs = StreamLogs(store, unread_s=300)
    one = logs.begin(HEAD, lambda: None, lambda _: None)
    with capture_logs() as lines:
        one.notify()
        while one.is_pending:
            await one.stored()
        one.add([{"kind": "output_text.delta"}], [b"{}"])
        one.notify()
        async with asyncio.timeout(10):
            await method.worked.wait()
    assert [line["error_type"] for line in lines if line["event"] == "task_crashed"] == ["KeyError"]
    await logs.aclose()


async def test_a_log_that_cannot_be_read_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "find", Fails(store.find, error=UnreadableError))
    lost: asyncio.Queue[str] = asyncio.Queue()
    logs = StreamLogs(store, unread_s=300)
    await store.open(HEAD)
    logs.begin(HEAD._replace(producer="two"), lambda: None, lost.put_nowait).notify()
    assert await lost.get() == "sealed"
    assert logs.is_available
    await logs.aclose()


async def test_logs_in_memory_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    store = MemoryStore()
    method = Fails(store.renew_now)
    monkeypatch.setattr(store, "renew_now", method)
    logs = LocalLogs(store, unread_s=300)
    logs.begin(HEAD, lambda: None, lambda _: None).notify()
    async with asyncio.timeout(10):
        await method.worked.wait()
    await logs.aclose()


@pytest.mark.parametrize("error", [KeyError, UnreadableError])
async def test_values_that_cannot_be_written_do_not_hold_up_others(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "claim", Fails(store.claim, 1, error))
    ownership = Ownership(store)
    with capture_logs() as lines:
        for name in ("resp_1", "resp_2"):
            ownership.add("response", name, "ann")
            ownership.write()
            await asyncio.sleep(0)
        await ownership.aclose()
    assert [line["error_type"] for line in lines] == [error.__name__]
    assert [found is not None for found in await store.get("response", ["resp_1", "resp_2"])] == [False, True]


async def test_a_value_that_cannot_be_written_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    claim = store.claim

    async def refuse(kind: str, values: dict[str, bytes], kept_s: float) -> Any:
        if "bad" in values:
            raise KeyError
        return await claim(kind, values, kept_s)

    monkeypatch.setattr(store, "claim", refuse)
    ownership = Ownership(store)
    names = ["a", "bad", "b"]
    for name in names:
        ownership.add("response", name, "ann")
    with capture_logs() as lines:
        await ownership.aclose()
    assert [found is not None for found in await store.get("response", names)] == [True, False, True]
    assert len(lines) == 1


async def test_an_unreadable_budget_is_counted_here_and_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    logs = StreamLogs(store, unread_s=300)
    monkeypatch.setattr(store.budgets, "take", Fails(store.budgets.take, 1, UnreadableError))
    limit = Limit("requests", 60.0, 5)
    (level,), receipts = await FallbackBudgets(store.budgets, logs).take("ann", [(limit, 1.0)])
    assert (level.remaining, len(receipts), logs.is_available) == (4, 1, True)


async def test_repeated_work_goes_on() -> None:
    worked = asyncio.Event()

    async def work() -> None:
        method()

    method = Fails(worked.set)
    with capture_logs() as lines:
        task = asyncio.create_task(clock.repeat(work, 0))
        async with asyncio.timeout(10):
            await worked.wait()
        task.cancel()
        await asyncio.wait([task])
    assert [line["event"] for line in lines] == ["task_crashed"]


async def test_a_reload_that_crashes_is_refused() -> None:
    app = Generations(create_app(Settings()))
    with capture_logs() as lines:
        assert await app.reload(Fails(Settings)) is None
    assert [(line["event"], line["reason"]) for line in lines] == [("reload_refused", "KeyError")]
    await app.state.aclose()


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_lapsed_idempotency_key_belongs_to_the_next_request(*, has_begun: bool) -> None:
    store = MemoryStore()
    scope = {"path": "/api/v1/chat/stream", "query_string": b""}
    claim = Claim(store, scope, "ann", "key", {})
    assert await claim.enter("stream_1") is None
    async with claim.held("stream_1", lambda: has_begun):
        ((key, _),) = store._values[KIND].items()
        store.put_now(KIND, key, b"of another", 60)
    assert await store.get(KIND, [key]) == [b"of another"]
