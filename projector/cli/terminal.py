"""Standard streams and the terminal: input files, progress, colour, error messages."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, Literal, Self, TextIO, TypeAlias

STDIN: Final = "-"
QUIET_S: Final = 0.5
"""Seconds of work before progress is shown."""
STEP_S: Final = 0.1

Colour: TypeAlias = Literal["bold", "red", "green", "cyan"]
_CODES: Final[dict[Colour, int]] = {"bold": 1, "red": 31, "green": 32, "cyan": 36}
_DIFF: Final[dict[str, Colour]] = {"+": "green", "-": "red", "@": "cyan"}


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, or standard input for `-`."""
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with open(name, "rb") as source:  # noqa: PTH123 - `pathlib` takes milliseconds to import
        yield source


def write_out(data: bytes) -> None:
    """Write to standard output at once."""
    if data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def size_of(source: BinaryIO) -> int | None:
    """Return the size of a file in bytes, None for a pipe."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def paint(text: str, colour: Colour, stream: TextIO | None = None) -> str:
    """Colour a text for standard output or `stream`; unchanged if that is no terminal or `NO_COLOR` is set."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def paint_diff(diff: str) -> str:
    """Colour the lines of a unified diff."""
    return "\n".join(paint(line, _DIFF[line[0]]) if line[:1] in _DIFF else line for line in diff.split("\n"))


def print_error(message: str) -> None:
    """Print an error or a warning on standard error."""
    print(f"{paint('projector:', 'red', sys.stderr)} {message}", file=sys.stderr)


class Progress:
    """Progress in `unit`, a plural such as bytes; shown on standard error if only that is a terminal."""

    def __init__(self, unit: str, total: int | None = None) -> None:
        self._unit = unit
        self._total = total
        self._done = 0
        # if both are one terminal, progress lines would mix with the output
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._next_at = time.monotonic() + QUIET_S
        self._has_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, amount: int) -> None:
        """Count some work, and update the display at most ten times a second."""
        self._done += amount
        if not self._is_shown or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + STEP_S
        self._has_shown = True
        share = f" of {self._total:,} ({self._done * 100 // self._total} %)" if self._total else ""
        sys.stderr.write(f"\r\x1b[K{self._done:,}{share} {self._unit}")
        sys.stderr.flush()
