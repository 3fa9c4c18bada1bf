"""What a client was sent is in the log, and a log that another process has closed has the end of the stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.asgi.conftest import frames_of
from tests.asgi.test_resume import Provider, agents, events_of, until

pytestmark = pytest.mark.timeout(120)


async def test_an_event_is_sent_when_the_store_has_it(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, tmp_path: Path
) -> None:
    await upstream(Provider(text_events, len(text_events)))
    path = tmp_path / "streams.db"
    site = serve(**agents(upstream_port), store={"kind": "sqlite", "path": str(path)})
    answer = await site.ask()
    stream_id, data = answer.headers["x-stream-id"], b""
    with contextlib.closing(sqlite3.connect(path)) as file:
        while b'"kind":"final"' not in data:
            data += await answer.chunk()
            last, sealed_s = file.execute("SELECT last, sealed_s FROM streams WHERE id = ?", (stream_id,)).fetchone()
            frames = frames_of(data[: data.rfind(b"\n\n") + 2])
            assert not frames or frames[-1]["event_id"] <= last
    assert sealed_s is not None


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_log_that_was_closed_elsewhere_has_the_end(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, tmp_path: Path, kind: str
) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    path = tmp_path / "streams.db"
    store = {"kind": kind} | ({"path": str(path)} if kind == "sqlite" else {})
    site = serve(**agents(upstream_port), store=store)
    answer = await site.ask()
    begin = await until(answer, b"message.delta")
    if kind == "memory":
        await site.state.logs.store.seal(answer.headers["x-stream-id"], reason="stream_interrupted")
    else:
        with contextlib.closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE streams SET reason = 'stream_interrupted', sealed_s = ?", (time.time(),))
    provider.gate.set()
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            begin += await answer.chunk()
    frames = frames_of(begin)
    whole = await (await events_of(site, answer)).frames()
    assert frames == whole[: len(frames)]
    assert [frame["kind"] for frame in whole].count("error") == 1
    assert whole[-1]["error"]["code"] == "stream_interrupted"
    assert await (await events_of(site, answer, len(frames))).frames() == whole[len(frames) :]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_response_is_found_when_its_id_was_sent(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, tmp_path: Path, kind: str
) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    store = {"kind": kind} | ({"path": str(tmp_path / "streams.db")} if kind == "sqlite" else {})
    tables = agents(upstream_port) | {"passthrough": {"responses": "one"}}
    site = serve(**tables, store=store)
    answer = await site.ask("/v1/responses", {"model": "m", "input": "hi", "stream": True})
    begin = await until(answer, b"response.created")
    created = json.loads(begin.split(b"data: ")[1].partition(b"\n")[0])
    found = await site.get(f"/v1/responses/{created['response']['id']}")
    assert (found.status, json.loads(await found.rest())["status"]) == (200, "in_progress")
    provider.gate.set()
    await answer.rest()
