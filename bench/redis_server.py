"""A Redis server of one's own, for benchmarks and tests."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self


class RedisServer:
    """A process `redis-server` on a free port of the loopback address, with its files in a folder."""

    def __init__(self, program: str, folder: Path, options: Sequence[str] = ()) -> None:
        self._program = program
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The address of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not killed."""
        return self._process is not None

    def start(self) -> None:
        """Start, with the same port as before."""
        for _ in range(9):
            port = self.port or free_port()
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [
                    self._program,
                    *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""),
                    *("--logfile", str(self._folder / "log"), *self._options),
                ],
                stdout=subprocess.DEVNULL,
            )
            if self._answers(port):
                self.port = port
                return
        raise AssertionError((self._folder / "log").read_text(encoding="utf-8")[-999:])

    def stop(self) -> None:
        """End as a platform ends it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop answering, and keep all connections and data."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self, port: int) -> bool:
        while self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(99).startswith(b"+PONG"):
                    return True
            time.sleep(0.01)
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on, and that the system gives to no other program."""
    return hold(0)


def hold(port: int) -> int:
    """Hold a port of the loopback address, any free one if it is 0, and return it.

    A socket holds it until this process ends. Servers set `SO_REUSEADDR`, as it does, and can listen beside it; what
    asks the system for any port, or connects from one, does not get it.

    Raises:
        OSError: it is in use.
    """
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind(("127.0.0.1", port))
        held: int = holding.getsockname()[1]
        holding.detach()
        return held
