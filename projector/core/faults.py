"""Faults, the failures that end a stream, as data: code, source, message, and whether a retry may help.

A `Fault` is the last item that a stage ever returns. `FAULTS` is the complete list (CONTRACT D12, D14), except
`upstream_http_<status>`, which `Fault.of_status` creates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, final

from projector._errors import UsageError, check_argument, known_name
from projector.contracts.kinds import ErrorSource


@final
class Fault(NamedTuple):
    """A failure that ends a stream, with the members of the terminal `error`."""

    code: str
    source: ErrorSource
    message: str
    is_retryable: bool

    @classmethod
    def of_status(cls, status: int) -> Fault:
        """Return the fault of an upstream that answered with an HTTP status other than 200 (D12, D14).

        Raises:
            UsageError: the status is no whole number.
        """
        if not isinstance(status, int):
            raise UsageError("`status`: expected a whole number, such as 429")
        message = f"The provider answered with HTTP status {status}{_HTTP_CAUSES.get(status, '')}."
        return cls(f"upstream_http_{status}", "provider", message, is_retryable_status(status))


@final
class _Faults(dict[str, Fault]):
    """Faults by their codes; an unknown code raises `UsageError`."""

    def __missing__(self, code: object) -> Fault:
        if str(code).startswith("upstream_http_"):
            raise UsageError("faults of HTTP statuses are not listed; expected for example `Fault.of_status(429)`")
        return self[known_name("fault", code, self)]


_ROWS: Final = (
    # provider
    Fault("upstream_truncated", "provider", "The provider's stream ended before it was complete.", True),
    Fault("upstream_empty", "provider", "The provider's stream ended before it began.", True),
    Fault("upstream_unreachable", "provider", "The provider could not be reached.", True),
    Fault("upstream_unavailable", "provider", "The provider has failed too often to be asked now.", True),
    Fault("upstream_reset", "provider", "The connection to the provider broke.", True),
    Fault("upstream_timeout_connect", "provider", "The provider did not accept a connection in time.", True),
    Fault("upstream_timeout_first_byte", "provider", "The provider did not begin to answer in time.", True),
    Fault("upstream_timeout_idle", "provider", "The provider fell silent for too long.", True),
    Fault("upstream_timeout_total", "provider", "The provider did not finish in time.", True),
    Fault("upstream_malformed", "provider", "The provider sent something that is not an event stream.", False),
    Fault("upstream_event_too_large", "provider", "The provider sent an event that is too large.", False),
    Fault("upstream_response_too_large", "provider", "The provider sent a response that is too large.", False),
    Fault("provider_error", "provider", "The provider reported an error.", False),
    # server
    Fault("internal_error", "server", "Something went wrong on the server.", False),
    Fault("redaction_failed", "server", "The stream could not be made safe to show.", False),
    Fault("content_blocked", "server", "The answer contained data that must not be shown.", False),
    Fault("server_shutdown", "server", "The server is shutting down.", True),
    Fault("stream_interrupted", "server", "The server that produced the stream has stopped.", True),
)
FAULTS: Final[Mapping[str, Fault]] = _Faults((row.code, row) for row in _ROWS)


OTHER_API: Final = FAULTS["upstream_malformed"]._replace(message="The provider sent no event of the configured API.")
"""The fault of a response of another API, of which no event can be read (D45)."""


def check_fault(fault: object) -> None:
    """Raise `UsageError` if an argument is no fault."""
    check_argument("fault", 'a `Fault`, for example `FAULTS["upstream_reset"]`', holds=isinstance(fault, Fault))


_RETRYABLE_HTTP: Final = frozenset({408, 409, 425, 429})
_SERVER_ERRORS: Final = range(500, 600)
_HTTP_CAUSES: Final = {401: " (the server's key for it is missing or not accepted)"}
"""Status -> what an operator should look at, which a developer in front of a page does not see in the status."""


class LimitError(Exception):
    """A limit is exceeded while an event is handled; it ends the stream with a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


def is_retryable_status(status: int) -> bool:
    """Check whether a request answered with this HTTP status may succeed later (D14)."""
    return status in _RETRYABLE_HTTP or status in _SERVER_ERRORS
