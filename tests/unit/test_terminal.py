"""Colour on the terminal."""

from __future__ import annotations

import io
import sys

import pytest

from projector.cli.terminal import paint, paint_diff, print_error


class Screen(io.StringIO):
    """A stream that is a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, out: bool, err: bool) -> Screen:
    screen = Screen(is_terminal=err)
    monkeypatch.setattr(sys, "stdout", Screen(is_terminal=out))
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


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
