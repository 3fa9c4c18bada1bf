"""Log output of the server process: one JSON object per line on standard error, without payloads."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Final

import structlog

log: Final = structlog.get_logger()


def configure() -> None:
    """Configure JSON output for the logs of the server, and for warnings of libraries."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(sort_keys=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers = [LibraryHandler(logging.WARNING)]


class LibraryHandler(logging.Handler):
    """A handler for the logs of libraries.

    It writes the message template, and the type and position of an exception: arguments may contain payload.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        error = record.exc_info[1] if record.exc_info else None
        fields = {"logger": record.name, "message": str(record.msg).partition("\n")[0]}
        if error is not None:
            place = traceback.extract_tb(error.__traceback__)[-1:]
            fields["error_type"] = type(error).__name__
            fields["place"] = "".join(f"{frame.filename}:{frame.lineno}" for frame in place)
        log.log(record.levelno, "library", **fields)
