from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from projector.server.config.settings import Limits
from projector.server.http.problems import Problem
from projector.server.streaming.registry import _ENDED_MAX, Streams


def stream(stream_id: str) -> Any:
    stats = SimpleNamespace(stream_id=stream_id, caller="me")
    return SimpleNamespace(stats=stats, is_upstream_open=True, cancel=lambda: None, fail=lambda _fault: None)


def test_streams_are_counted_while_they_run() -> None:
    streams = Streams(Limits())
    with streams.running(stream("a")), streams.running(stream("b")):
        assert (streams.active, streams.upstream_open) == (2, 2)
    assert (streams.active, streams.upstream_open) == (0, 0)


def test_ended_streams_are_remembered_for_a_while() -> None:
    streams = Streams(Limits())
    for number in range(_ENDED_MAX + 1):
        with streams.running(stream(f"stream_{number}")):
            pass
    assert not streams.cancel("stream_0", "me")
    assert streams.cancel("stream_1", "me")
    assert streams.cancel(f"stream_{_ENDED_MAX}", "me")


def test_only_its_caller_can_cancel_a_stream() -> None:
    streams = Streams(Limits())
    with streams.running(stream("a")):
        assert streams.cancel("a", "me")
        assert not streams.cancel("a", "you")
    assert streams.cancel("a", "me")
    assert not streams.cancel("a", "you")


async def test_a_draining_server_starts_no_stream() -> None:
    streams = Streams(Limits())
    await streams.drain(0, lambda: False)
    with pytest.raises(Problem), streams.running(stream("a")):
        pass


async def test_a_draining_server_admits_no_request() -> None:
    streams = Streams(Limits())
    await streams.drain(0, lambda: False)
    with pytest.raises(Problem) as caught, streams.admitted("a"):
        pass
    assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "5"})


def test_requests_are_admitted_up_to_the_limits() -> None:
    streams = Streams(Limits(max_streams=3, max_streams_per_caller=2))
    with streams.admitted("a"), streams.admitted("a"):
        with pytest.raises(Problem) as caught, streams.admitted("a"):
            pass
        assert (caught.value.status, caught.value.code) == (429, "too_many_streams")
        with streams.admitted("b"):
            with pytest.raises(Problem) as caught, streams.admitted("c"):
                pass
            assert (caught.value.status, caught.value.code) == (503, "overloaded")
    with streams.admitted("a"):
        pass


def test_no_request_is_admitted_while_memory_is_spent() -> None:
    streams = Streams(Limits(max_memory_bytes=10))
    with streams.admitted("a") as account:
        account.hold(10)
        with pytest.raises(Problem), streams.admitted("b"):
            pass
    assert streams.held_bytes == 0
    with streams.admitted("b"):
        pass
