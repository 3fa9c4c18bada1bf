"""Progress of long work: on a terminal only, and only when it takes long."""

from __future__ import annotations

import io
import sys
import time

import pytest

from projector.cli.terminal import Progress


class Screen(io.StringIO):
    """A stream that says what it is."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that shows the last of these."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[-1])
    return now


def shown(monkeypatch: pytest.MonkeyPatch, *, out: bool, err: bool) -> Screen:
    screen = Screen(is_terminal=err)
    monkeypatch.setattr(sys, "stdout", Screen(is_terminal=out))
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_long_work_is_shown_and_wiped_away(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    screen = shown(monkeypatch, out=False, err=True)
    with Progress("bytes", 4_000) as work:
        work.advance(1_000)
        assert screen.getvalue() == "", "quick work shows nothing"
        seconds.append(0.5)
        work.advance(1_000)
        seconds.append(0.55)
        work.advance(500)
        assert screen.getvalue() == "\r\x1b[K2,000 of 4,000 (50 %) bytes", "one line each tenth of a second"
    assert screen.getvalue().endswith("bytes\r\x1b[K")


def test_where_nobody_knows_the_total(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    screen = shown(monkeypatch, out=False, err=True)
    with Progress("cases") as work:
        seconds.append(1.0)
        work.advance(3)
    assert screen.getvalue() == "\r\x1b[K3 cases\r\x1b[K"


@pytest.mark.parametrize(
    ("out", "err"), [pytest.param(False, False, id="no-terminal"), pytest.param(True, True, id="the-output-is-there")]
)
def test_otherwise_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], *, out: bool, err: bool
) -> None:
    screen = shown(monkeypatch, out=out, err=err)
    with Progress("bytes", 10) as work:
        seconds.append(9.0)
        work.advance(10)
    assert screen.getvalue() == ""
