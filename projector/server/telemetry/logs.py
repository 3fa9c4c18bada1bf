"""The log of the server: JSON, one object per line on standard error, without payloads.

Logging neither blocks nor raises: a thread of its own writes the lines, from a queue with a limit. What cannot be
written is counted.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import queue
import select
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partialmethod
from typing import Any, Final

import structlog

from projector._errors import UsageError
from projector.contracts import codec
from projector.conversation.model_request import UnsupportedRequestError

STDERR: Final = 2
QUEUE_MAX_LINES: Final = 4_096
"""Lines that may wait, about two megabytes: a pipe that is not read for a few seconds loses nothing."""
_PIPE_BYTES: Final = getattr(select, "PIPE_BUF", 4096)
"""Bytes of one write; a pipe does not mix them with those of other processes."""
_PAUSE_S: Final = 0.01
"""Seconds between two writes. Waking the thread for each line takes as long as to write it, and delays streams."""
CLOSE_S: Final = 1.0
"""Seconds at exit to write the lines that wait."""


class LogWriter:
    """Writes lines to a file descriptor in a thread of its own, bypassing Python's buffers and their locks.

    Lines that wait are written together, but no more than a pipe takes without mixing them with those of other
    processes.

    `on_lost` is called in that thread with a number of lost lines, once a line could be written again.
    """

    def __init__(self, on_lost: Callable[[int], None], fd: int = STDERR, *, max_lines: int = QUEUE_MAX_LINES) -> None:
        self.lost = 0
        """Number of lines that could not be written."""
        self._fd = fd
        self._on_lost = on_lost
        self._max_lines = max_lines
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # ten times cheaper than one with a limit
        self._reported = 0
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="projector-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Add a line; it is lost if too many wait."""
        if self._lines.qsize() < self._max_lines:
            self._lines.put(line)
        else:
            self._count(1)

    def flush(self) -> None:
        """Do nothing: the thread writes lines soon."""

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Write the lines that wait, for at most `timeout_s` seconds."""
        self._lines.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            data = _encoded(line)
            for _ in range(self._lines.qsize()):  # this thread alone takes lines
                if (line := self._lines.get()) is None:
                    self._write_and_report(data)
                    return
                more = _encoded(line)
                if len(data) + len(more) > _PIPE_BYTES:
                    self._write_and_report(data)
                    data = b""
                data += more
            self._write_and_report(data)
            time.sleep(_PAUSE_S)

    def _write_and_report(self, data: bytes) -> None:
        if self._write(data) and (lost := self.lost - self._reported):
            self._reported += lost
            self._on_lost(lost)

    def _write(self, data: bytes) -> bool:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            self._count(data.count(b"\n"))
            return False
        return True

    def _count(self, lines: int) -> None:
        with self._counting:
            self.lost += lines


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


class SafeLogger:
    """A structlog logger that never raises, whatever the host configured for structlog."""

    def __init__(self) -> None:
        self._logger = structlog.get_logger()

    def log(self, level: int, event: str, **fields: Any) -> None:
        """Log an event at a level of the standard library, without fields that are None.

        A failure of the configured logger is counted.
        """
        global _failed  # noqa: PLW0603 - one count for the process, as its log is one
        try:
            self._logger.log(level, event, **{name: value for name, value in fields.items() if value is not None})
        except Exception:  # noqa: BLE001 - a log must not change what is logged
            _failed += 1

    def bind(self) -> None:
        """Use the configuration of structlog as it is now. Otherwise each line looks it up."""
        self._logger = structlog.get_logger().bind()

    info = partialmethod(log, logging.INFO)
    """Log normal operation."""
    warning = partialmethod(log, logging.WARNING)
    """Log something that an operator should look at."""
    error = partialmethod(log, logging.ERROR)
    """Log a failure of the server."""


_failed = 0
_writers: Final[list[LogWriter]] = []


def lost_lines() -> int:
    """Return the number of lines of this process that could not be written."""
    return _failed + sum(writer.lost for writer in _writers)


_escaped: Final = structlog.processors.JSONRenderer()
"""Writes any value, and escapes what is not ASCII; takes ten times as long as `codec.dumps`."""


def _rendered(logger: object, name: str, fields: structlog.types.EventDict) -> str | bytes:
    """Return a line of JSON in ASCII: a terminal must not interpret what a client or a provider sent."""
    fields["level"], fields["timestamp"] = name, f"{datetime.now(UTC).isoformat()[:-6]}Z"
    try:
        line = codec.dumps(fields)
    except codec.CodecError:
        return _escaped(logger, name, fields)
    return line.decode() if line.isascii() else _escaped(logger, name, fields)


def configure_logs(fd: int = STDERR, *, level: str = "info", worker: int | None = None) -> LogWriter:
    """Configure JSON output for the logs of the server, and for warnings of libraries; return its writer.

    Args:
        fd: file descriptor that the lines are written to.
        level: name of a level of the standard library, in lower case; lines of lower levels are dropped.
        worker: number of this process among several, which each of its lines has.
    """

    def add_worker(_logger: object, _name: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
        return {**fields, "worker": worker}

    writer = LogWriter(lambda lost: log.warning("log_lines_lost", count=lost), fd)
    _writers.append(writer)
    atexit.register(writer.close)
    structlog.configure(
        processors=[
            *([] if worker is None else [add_worker]),
            _rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(writer),  # type: ignore[arg-type]  # it calls `write` and `flush`
        cache_logger_on_first_use=True,
    )
    log.bind()
    logging.getLogger().handlers = [_LibraryHandler(logging.WARNING)]
    return writer


_REPORTED: Final = frozenset({"Invalid HTTP request received."})
"""Messages of libraries that the server has a line of its own for: `malformed_http`."""


class _LibraryHandler(logging.Handler):
    """Logs the message templates of libraries, the type and position of an exception. Arguments may contain payload."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg) in _REPORTED:
            return
        error = record.exc_info[1] if record.exc_info else None
        fields = {"logger": record.name, "message": str(record.msg).partition("\n")[0]}
        if error is not None:
            place = traceback.extract_tb(error.__traceback__)[-1:]
            fields["error_type"] = type(error).__name__
            fields["place"] = "".join(f"{frame.filename}:{frame.lineno}" for frame in place)
        log.log(record.levelno, "library", **fields)


log: Final = SafeLogger()
"""The logger of the server's modules."""


def log_crash(event: str, error: BaseException, **ids: str | None) -> None:
    """Log the type and location of an internal error; its message may contain payload, unless it is one of ours.

    Of a group, which the task groups of a host raise, the first exception is logged.
    """
    raised_at = error.__traceback__
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        raised_at = error.__traceback__ or raised_at  # it may never have been raised by itself
    place = traceback.extract_tb(raised_at)[-1]
    detail = {"detail": str(error)} if isinstance(error, UsageError | UnsupportedRequestError) else {}
    log.error(event, **ids, error_type=type(error).__name__, **detail, place=f"{place.filename}:{place.lineno}")


REPORT_S: Final = 10.0
"""Seconds between two lines with the same reason: a flood of connections must not become a flood of lines."""


class JoinedLines:
    """Lines of one event, with a `reason` of a bounded set, and the `count` of what they stand for."""

    def __init__(self, event: str, levels: Mapping[str, int] | None = None) -> None:
        self._event = event
        self._levels = levels or {}
        self._unreported: Counter[str] = Counter()
        self._recent: set[str] = set()

    def add(self, reason: str) -> None:
        """Write a line now, or count it in the next one if the last is recent. Requires a running event loop."""
        self._unreported[reason] += 1
        if reason not in self._recent:
            self._write(reason)

    def flush(self) -> None:
        """Write the lines of what is counted: the event loop ends."""
        for reason in [*self._unreported]:
            self._write(reason)

    def _write(self, reason: str) -> None:
        self._recent.discard(reason)
        count = self._unreported.pop(reason, 0)
        if count:
            log.log(self._levels.get(reason, logging.INFO), self._event, reason=reason, count=count)
            self._recent.add(reason)
            asyncio.get_running_loop().call_later(REPORT_S, self._write, reason)
