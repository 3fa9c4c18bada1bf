"""The terminal: progress of long work, and colour."""

from __future__ import annotations

import io
import sys
import time

import pytest

from projector.cli.terminal import Progress, paint, paint_diff, print_error


class Screen(io.StringIO):
    """A stream that is a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that returns the last of these times."""
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


def test_an_unknown_total(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
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


def test_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = shown(monkeypatch, out=True, err=True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("rule", "red") == "\x1b[31mrule\x1b[0m"
    assert paint_diff("--- a\n@@ -1 @@\n same\n+new\n") == (
        "\x1b[31m--- a\x1b[0m\n\x1b[36m@@ -1 @@\x1b[0m\n same\n\x1b[32m+new\x1b[0m\n"
    )
    print_error("x: not found")
    assert screen.getvalue() == "\x1b[31mprojector:\x1b[0m x: not found\n"


@pytest.mark.parametrize(
    ("out", "no_color", "term"),
    [
        pytest.param(False, "", "xterm", id="no-terminal"),
        pytest.param(True, "1", "xterm", id="NO_COLOR"),
        pytest.param(True, "", "dumb", id="dumb-terminal"),
    ],
)
def test_otherwise_no_colour(monkeypatch: pytest.MonkeyPatch, *, out: bool, no_color: str, term: str) -> None:
    shown(monkeypatch, out=out, err=True)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    assert paint_diff("+new") == "+new"
