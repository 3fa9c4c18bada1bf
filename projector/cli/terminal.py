"""Standard streams and the terminal: input files, colour, error messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, Literal, TextIO, TypeAlias

from projector._errors import UsageError

STDIN: Final = "-"
READ_BYTES: Final = 65_536

Colour: TypeAlias = Literal["bold", "red", "green", "cyan"]
_CODES: Final[dict[Colour, int]] = {"bold": 1, "red": 31, "green": 32, "cyan": 36}
_DIFF: Final[dict[str, Colour]] = {"+": "green", "-": "red", "@": "cyan"}


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, or standard input for `-`; raise `UsageError` if the shell closed it, as by `<&-`."""
    if name == STDIN and sys.stdin is None:
        raise UsageError("standard input is closed; expected a file, or input from a pipe")
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with open(name, "rb") as source:  # noqa: PTH123 - `pathlib` takes milliseconds to import
        yield source


def reads(source: BinaryIO) -> Iterator[bytes]:
    """Return the bytes of a file as they arrive."""
    return iter(lambda: source.read1(READ_BYTES), b"")  # type: ignore[attr-defined]  # buffered readers have it


def write_out(data: bytes) -> None:
    """Write to standard output at once."""
    if data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


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
