"""What commands share: files of the user, and the modules of the shell."""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from projector._errors import UsageError

STDIN: Final = "-"


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, or standard input for `-`."""
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as source:
        yield source


def size_of(source: BinaryIO) -> int | None:
    """Give the bytes of a file; None of a pipe."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def shell(name: str) -> Any:
    """Give a module of the shell, which needs the packages of the `server` extra."""
    try:
        return importlib.import_module(f"projector.server.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(f"`{error.name}` is missing; install `public-stream-projector[server]`") from None
