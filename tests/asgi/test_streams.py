from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from projector.asgi.problems import Problem
from projector.asgi.streams import _ENDED_MAX, Streams


def relay(stream_id: str) -> Any:
    return SimpleNamespace(stream_id=stream_id, is_upstream_open=True, cancel=lambda: None, fail=lambda _fault: None)


def test_streams_are_counted_while_they_run() -> None:
    streams = Streams()
    with streams.running(relay("a")), streams.running(relay("b")):
        assert (streams.active, streams.upstream_open) == (2, 2)
    assert (streams.active, streams.upstream_open) == (0, 0)


def test_ended_streams_are_remembered_for_a_while() -> None:
    streams = Streams()
    for number in range(_ENDED_MAX + 1):
        with streams.running(relay(f"stream_{number}")):
            pass
    assert not streams.cancel("stream_0")
    assert streams.cancel("stream_1")
    assert streams.cancel(f"stream_{_ENDED_MAX}")


async def test_a_draining_server_starts_no_stream() -> None:
    streams = Streams()
    await streams.drain(0, lambda: False)
    with pytest.raises(Problem), streams.running(relay("a")):
        pass
