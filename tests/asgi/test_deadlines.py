from __future__ import annotations

import pytest

from projector.server.config.settings import Timeouts
from projector.server.streaming.clock import Deadlines

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
        deadlines.on_wait(now)
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
