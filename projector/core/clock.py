"""Times: ISO 8601 in, seconds within, the form of the contract out (seed section 6.1, CONTRACT D2)."""

from __future__ import annotations

from datetime import UTC, datetime

from projector._errors import UsageError


def parse(text: str, where: str) -> float:
    """Give a time of ISO 8601 as seconds since 1970-01-01 UTC; without an offset it is UTC.

    Raises:
        UsageError: the text is no such time; the message says `where` it was expected.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{where}: expected a time of ISO 8601, such as 2025-12-15T12:00:00.000Z") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class Timestamps:
    """Writes times as `2025-12-15T12:00:00.000Z`.

    Times of one stream never go back, whatever the host's clock does. Each second is written out once, because a time
    is said per token.
    """

    __slots__ = ("_last", "_second", "_written", "_written_second")

    def __init__(self) -> None:
        self._last = -1
        self._second = -1
        self._written_second = ""
        self._written = ""

    def write(self, seconds: float) -> str:
        """Give a time in UTC with milliseconds."""
        milliseconds = int(seconds * 1000 + 0.5)
        if milliseconds > self._last:
            self._last = milliseconds
            second, rest = divmod(milliseconds, 1000)
            if second != self._second:
                self._second = second
                self._written_second = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._written = f"{self._written_second}.{rest:03d}Z"
        return self._written
