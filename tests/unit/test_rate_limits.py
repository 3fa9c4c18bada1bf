"""Rate limits: durations in headers, and the names that limits are kept by."""

from __future__ import annotations

from typing import Any

import pytest

from projector.server.config.caller_settings import RateLimits
from projector.server.control.rate_limits import RateLimiter, duration_text, limits_of, owner_of
from projector.server.control.token_meter import TokenMeter
from projector.server.telemetry.request_facts import facts_of
from projector.store.budgets import MemoryBudgets


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0004, "1ms"),
        (0.12, "120ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (8.64, "8.64s"),
        (59.9999, "1m0s"),
        (60, "1m0s"),
        (172.8, "2m52.8s"),
        (360, "6m0s"),
        (3600, "1h0m0s"),
        (86_400, "24h0m0s"),
        (90_061.5, "25h1m1.5s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("caller", "owner"),
    [
        ("key:web", "key:web"),
        ("token:ann", "token:ann"),
        ("token:address:2001:db8::1", "token:address:2001:db8::1"),
        ("token:2001:db8::1", "token:2001:db8::1"),
        ("token:\r\nx-evil: 1\0\u2028", "token:\r\nx-evil: 1\0\u2028"),
        ("address:", "address:"),
        ("address:192.0.2.1", "address:192.0.2.1"),
        ("address:::ffff:192.0.2.1", "address:192.0.2.1"),
        ("address:2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
        ("address:2001:db8:1:2::", "address:2001:db8:1:2::/64"),
        ("address:2001:db8:1:3::", "address:2001:db8:1:3::/64"),
        ("address:fe80::1%eth0", "address:fe80::/64"),
        ("address:not:an:address", "address:not:an:address"),
    ],
)
def test_the_owner_of_limits(caller: str, owner: str) -> None:
    assert owner_of(caller) == owner


async def test_a_running_stream_is_settled_with_more_only() -> None:
    limiter = RateLimiter(MemoryBudgets(lambda: 0.0), {})
    limits = limits_of(RateLimits(tokens_per_day=100_000))

    async def used() -> int:
        scope: dict[str, Any] = {}
        await limiter.enter(scope, "key:a", limits)
        return 100_000 - int(dict(facts_of(scope).headers)[b"x-ratelimit-remaining-tokens"])

    admission = await limiter.enter({}, "key:a", limits)
    meter = TokenMeter(["a"], {"max_output_tokens": 1_000})
    await admission.take_stream(meter)
    reserved = await used()
    assert reserved > 1_000
    meter.on_request({})
    found = []
    for chars in (400, 40_000, 40_000):
        meter.on_frame({"kind": "message.delta", "delta": "x" * chars})
        await admission.settle(is_running=True)
        found.append(await used())
    meter.on_frame({"kind": "response.usage", "usage": {"total_tokens": 3}})
    await admission.settle(is_running=True)
    found.append(await used())
    for _ in range(2):
        await admission.close()
        found.append(await used())
    assert found == [reserved, 10_101, 20_101, 20_101, 3, 3]
