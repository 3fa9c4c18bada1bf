"""The subjects of `make bench-store` do what they claim to; otherwise its figures mean nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bench import inputs
from bench import store as bench
from projector.contracts.kinds import PrivateKind
from projector.store.memory import MemoryStore
from tests.store.rigs import read_all

SUBJECT = inputs.text(60)


class Kept(MemoryStore):
    """A store that keeps its logs when it is closed."""

    async def aclose(self) -> None:
        pass


async def test_each_stream_is_stored_whole() -> None:
    store = Kept()
    await bench.write(SUBJECT, 3, store)
    for number in range(3):
        page = await store.read(f"s{number}", 0, 10**9)
        assert page.seal is not None
        assert page.seal.reason == ""
        frames = [frame for frame in map(json.loads, page.frames) if frame["kind"] not in [*PrivateKind]]
        same = {"stream_id": "", "server_timestamp": ""}
        assert [one | same for one in frames] == [json.loads(one) | same for one in bench.encoded(SUBJECT)]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda kind: bench.write(SUBJECT, 3, kind.make()), id="write"),
        pytest.param(lambda kind: bench.read(SUBJECT, kind.make()), id="read"),
        pytest.param(lambda kind: bench.live(SUBJECT, kind.make(), 2), id="follow"),
        pytest.param(lambda kind: bench.kept(SUBJECT, kind), id="memory"),
    ],
)
async def test_each_store_is_measured(
    work: Callable[[bench.Kind], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"STREAMS": 3, "TICKS": 2}.items():
        monkeypatch.setattr(bench, name, value)
    with bench.kinds() as kinds:
        assert {"memory", "encrypted", "sqlite"} <= kinds.keys()
        for kind in kinds.values():
            await work(kind)


async def test_a_log_that_is_filled_is_read_to_its_end() -> None:
    store = Kept()
    frames = bench.encoded(SUBJECT)
    await bench.fill(store, frames)
    assert await read_all(store, "s7", max_bytes=5_000) == frames
