"""Several worker processes of one server (`projector serve --workers N`), which share a listening socket and a store.

The parent process serves no request. It opens the socket, starts the workers, starts one again that has died, and
forwards signals: SIGHUP reloads all workers, SIGTERM and SIGINT drain them. Others are ignored. A worker whose parent
has died drains too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from projector._errors import UsageError
from projector.server.config.settings import Settings
from projector.server.listening import listen, url_of
from projector.server.telemetry.logs import configure_logs, log

ENVIRONMENT: Final = "_PROJECTOR_WORKER"
"""Variable that makes a process a worker: its number, its parent, and the descriptor of the socket."""
WORKERS_MAX: Final = 64
RELOAD: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)
"""Signal that requests a reload; None on Windows."""
IGNORED: Final = tuple(
    number
    for name in ("SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR")
    if (number := getattr(signal, name, None)) is not None
)
"""Signals without a meaning here. By default they end the process at once, and with it all streams."""
_POLL_S: Final = 0.1
_RESTART_S: Final = 1.0
"""Seconds between two starts of a worker, so that one that cannot start does not use up the machine."""
_EARLY_S: Final = 5.0
"""A worker that ends sooner after its first start has a reason that the others have too."""


class WorkerPlace(NamedTuple):
    """What a worker process has been told."""

    number: int
    """From 0. The admin listener of a worker has the configured port plus this number."""
    parent: int
    descriptor: int

    @property
    def is_orphan(self) -> bool:
        """Whether the parent has died."""
        return os.getppid() != self.parent


def take_place() -> WorkerPlace | None:
    """Return the place of this process among workers; None if it is no worker."""
    told = os.environ.pop(ENVIRONMENT, None)
    return None if told is None else WorkerPlace(*map(int, told.split(",")))


def check_workers(count: int, settings: Settings) -> None:
    """Raise `UsageError` if so many workers cannot serve with these settings."""
    if not 1 <= count <= WORKERS_MAX:
        raise UsageError(f"--workers must be a number from 1 to {WORKERS_MAX}")
    if count == 1:
        return
    if os.name != "posix":
        raise UsageError("--workers must be 1 on this system: processes cannot share a listening socket")
    if settings.store.kind != "redis":
        raise UsageError(
            '--workers needs `store.kind = "redis"` for more than 1: with another store, running streams, their owners '
            "and their limits are known to one process only (docs/operations.md)"
        )


def run_workers(settings: Settings, arguments: Sequence[str], count: int) -> int:
    """Run workers until SIGTERM or SIGINT; return 0, or the status of a worker that could not start.

    Args:
        settings: as `load_settings` returns them; each worker reads them again.
        arguments: arguments of the command line of a worker.
        count: number of workers.
    """
    writer = configure_logs(level=settings.log_level)
    with contextlib.closing(listen(settings)) as listener:
        announce(f"Serving on {url_of(listener, is_tls=settings.tls is not None)} with {count} workers\n")
        status = _Workers(listener, arguments, count).run()
    writer.close()
    return status


def announce(text: str) -> None:
    """Write what a person reads at the start. On a full disk, or without a reader, a server serves all the same."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else it fails again at exit


class _Worker:
    """A worker process, which is started again when it has died."""

    def __init__(self, number: int, listener: socket.socket, arguments: Sequence[str]) -> None:
        self.number = number
        self._listener = listener
        self._command = [sys.executable, "-m", "projector", *arguments]
        self._is_first = True
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started_at = time.monotonic()
        descriptor = self._listener.fileno()
        return subprocess.Popen(  # noqa: S603 - this program
            self._command,
            env={**os.environ, ENVIRONMENT: f"{self.number},{os.getpid()},{descriptor}"},
            pass_fds=[descriptor],
            start_new_session=True,  # a Ctrl-C of the terminal is forwarded once
        )

    def restart(self, status: int) -> bool:
        """Start the worker again; return False if it could not even start the first time."""
        lived_s = time.monotonic() - self._started_at
        if self._is_first and status > 0 and lived_s < _EARLY_S:
            return False
        if lived_s >= _RESTART_S:
            log.error("worker_died", worker=self.number, exit_code=status)
            self._is_first = False
            self.process = self._start()
        return True


class _Workers:
    def __init__(self, listener: socket.socket, arguments: Sequence[str], count: int) -> None:
        self._stops: list[int] = []
        self._reloads: list[int] = []
        self._ignored: list[int] = []
        self._workers = [_Worker(number, listener, arguments) for number in range(count)]

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _frame: self._stops.append(received))
        for number in IGNORED:
            signal.signal(number, lambda received, _frame: self._ignored.append(received))
        if RELOAD is not None:
            signal.signal(RELOAD, lambda received, _frame: self._reloads.append(received))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {RELOAD})
        while not self._stops:
            time.sleep(_POLL_S)
            if self._reloads and RELOAD is not None:
                self._reloads.clear()  # before it is sent: a signal from now on is the next reload
                self._send(RELOAD)
            while self._ignored:
                log.warning("signal_ignored", signal=signal.Signals(self._ignored.pop()).name)
            for worker in self._workers:
                status = worker.process.poll()
                if status is not None and not self._stops and not worker.restart(status):
                    self._end()
                    return status
        self._end()
        return 0

    def _end(self) -> None:
        """Forward the signal, and later ones, until every worker has drained."""
        forwarded = 0
        while any(worker.process.poll() is None for worker in self._workers):
            received = max(1, len(self._stops))  # at least one: a worker may have ended by itself
            for _ in range(received - forwarded):
                self._send(signal.SIGTERM)
            forwarded = received
            time.sleep(_POLL_S)

    def _send(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.send_signal(number)
