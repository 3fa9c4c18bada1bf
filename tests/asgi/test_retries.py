"""Retries after a failure: only before the first byte, limited, with the provider's `Retry-After`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projector.core.faults import FAULTS, Fault
from projector.server.config.upstream_settings import Retries
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.targets import pause_before
from tests.waiting import wait_until

QUICK = {"initial_backoff_s": 0.05, "max_backoff_s": 1}
RETRIES = Retries(max=3, initial_backoff_s=1, max_backoff_s=3)


@pytest.mark.parametrize(
    ("fault", "retry_after_s", "attempt", "expected"),
    [
        (Fault.of_status(500), None, 1, 1),
        (Fault.of_status(500), None, 2, 2),
        (Fault.of_status(500), None, 3, 3),
        (Fault.of_status(500), None, 4, None),
        (Fault.of_status(429), 2, 1, 2),
        (Fault.of_status(429), 0, 1, 0),
        (Fault.of_status(429), 4, 1, None),
        (Fault.of_status(400), None, 1, None),
        (Fault.of_status(401), 1, 1, None),
        (Fault.of_status(302), None, 1, None),
        (FAULTS["upstream_unreachable"], None, 1, 1),
        (FAULTS["upstream_reset"], None, 1, 1),
        (FAULTS["upstream_timeout_connect"], None, 1, 1),
        (FAULTS["upstream_timeout_first_byte"], None, 1, None),
        (FAULTS["upstream_malformed"], None, 1, None),
    ],
)
def test_the_backoff(fault: Fault, retry_after_s: int | None, attempt: int, expected: float | None) -> None:
    assert pause_before(UpstreamError(fault, retry_after_s), attempt, RETRIES, chance=0) == expected


def test_a_quarter_of_the_backoff_is_jitter() -> None:
    error = UpstreamError(Fault.of_status(500))
    assert pause_before(error, 1, RETRIES, chance=1) == 0.75


def failing(times: int, failure: bytes, event: dict[str, Any]) -> Any:
    """Fail some times, then answer."""
    left = times

    async def script(peer: Any) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            await peer.send(failure)
            return
        await peer.start()
        await peer.event(event)
        await peer.end()

    return script


BUSY = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n"
HEAD_ONLY = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("failure", [BUSY + b"\r\n", BUSY + b"retry-after: 0\r\n\r\n", b"", HEAD_ONLY])
async def test_a_retried_failure_is_not_visible(serve: Any, upstream: Any, text_events: Any, failure: bytes) -> None:
    provider = await upstream(failing(2, failure, text_events[-1]))
    answer = await serve(retries=QUICK).ask()
    assert answer.status == 200
    assert [frame["kind"] for frame in await answer.frames()][-1] == "final"
    assert provider.peers.qsize() == 3


async def test_attempts_are_bounded(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(failing(9, BUSY + b"\r\n", text_events[-1]))
    answer = await serve(retries=QUICK).ask()
    assert (answer.status, (await answer.problem())["code"]) == (503, "upstream_http_503")
    assert provider.peers.qsize() == 3


async def test_a_long_retry_after_is_passed_to_the_client(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(failing(9, BUSY + b"retry-after: 30\r\n\r\n", text_events[-1]))
    answer = await serve(retries=QUICK).ask()
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")
    assert provider.peers.qsize() == 1


async def test_no_retry_after_the_first_byte(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(b":")
        await asyncio.sleep(0.05)
        peer.reset()

    provider = await upstream(script)
    answer = await serve(retries=QUICK).ask()
    assert (await answer.frames())[-1]["error"]["code"] == "upstream_reset"
    assert provider.peers.qsize() == 1


async def test_a_disconnect_between_attempts_ends_them(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(failing(9, BUSY + b"\r\n", text_events[-1]))
    site = serve(retries={"initial_backoff_s": 3})
    answer = await site.post()
    await provider.peers.get()
    await wait_until(lambda: not site.streams.upstream_open)
    assert site.streams.active == 1
    answer.leave()
    assert await site.is_quiet()


async def test_each_attempt_has_its_own_first_byte_limit(serve: Any, upstream: Any) -> None:
    asked = 0

    async def script(peer: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await peer.send(BUSY + b"\r\n")
        else:
            await peer.gone.wait()

    await upstream(script)
    answer = await serve(retries=QUICK, timeouts={"first_byte_s": 1.5}).ask()
    assert (answer.status, (await answer.problem())["code"]) == (504, "upstream_timeout_first_byte")
    assert asked == 2
