"""Exceptions of clients (`openai`, `anthropic`, `google-genai`, `httpx`, `aiohttp`) as faults (CONTRACT D12, D14).

No client is imported: a class is known by the package and the name of itself or of a base class. Built-in exceptions
count only as the cause of a client's exception, or if a client raised them: a host's own database also raises
`TimeoutError`. The text of an exception is never published, except the error that a provider itself reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple

from projector.core.faults import FAULTS, Fault
from projector.core.reported_errors import is_retryable

SAME_CLIENTS: Final[Mapping[str, str]] = {"anthropic": "openai", "httpx2": "httpx"}
"""Package whose exceptions have the names of another one."""
CLIENTS: Final = frozenset({"openai", "anthropic", "httpx", "httpx2", "aiohttp"})
"""Packages that also let built-in exceptions pass."""


class ClientFailure(NamedTuple):
    """The failure of a request to a provider, or of its stream."""

    fault: Fault
    last: Mapping[str, object] | None = None
    """The last object of the provider's stream, if the client raised an exception instead of returning it."""
    response: Any = None
    """The client's error response, with `headers` and perhaps a body; None without one."""


_CAUSES: Final[Mapping[str, str]] = {
    "upstream_timeout_connect": "httpx.ConnectTimeout httpx.PoolTimeout aiohttp.ConnectionTimeoutError",
    "upstream_timeout_idle": "httpx.TimeoutException aiohttp.ServerTimeoutError",
    "upstream_unreachable": "httpx.ConnectError httpx.ProxyError aiohttp.ClientConnectorError"
    " builtins.ConnectionRefusedError",
    "upstream_reset": "httpx.ReadError httpx.WriteError httpx.CloseError httpx.RemoteProtocolError"
    " aiohttp.ClientPayloadError aiohttp.ClientConnectionError anyio.EndOfStream builtins.ConnectionError",
}
CAUSES: Final[Mapping[str, str]] = {name: code for code, names in _CAUSES.items() for name in names.split()}
"""Class in the causes of a failed connection -> fault code; the innermost that is listed counts."""


def _connection(error: BaseException) -> ClientFailure:
    is_timeout = "openai.APITimeoutError" in _names(error)
    code = "upstream_timeout_idle" if is_timeout else "upstream_unreachable"
    for cause in _causes(error):
        code = next((CAUSES[name] for name in _names(cause) if name in CAUSES), code)
    return ClientFailure(FAULTS[code])


_OK: Final = 200


def _status(error: BaseException) -> ClientFailure:
    """Read the status from the exception, or from its response; aiohttp's exception is itself the response.

    `anthropic` raises an error in the stream with the status of the stream, and the event as the body.
    """
    response, body = getattr(error, "response", error), getattr(error, "body", None)
    if isinstance(body, Mapping) and getattr(error, "status_code", None) == _OK:
        return ClientFailure(FAULTS["provider_error"], body)
    for holder, name in ((error, "status_code"), (response, "status_code"), (error, "status")):
        status = getattr(holder, name, None)
        if isinstance(status, int):
            return ClientFailure(Fault.of_status(status), response=response)
    return ClientFailure(FAULTS["provider_error"], response=response)


def _google(error: Any) -> ClientFailure:
    """Distinguish an error response from an error in the stream, which has the response of the stream."""
    is_in_stream = getattr(error.response, "status_code", getattr(error.response, "status", None)) == _OK
    if is_in_stream and isinstance(error.details, Mapping):
        return ClientFailure(FAULTS["provider_error"], error.details)
    fault = Fault.of_status(error.code) if isinstance(error.code, int) else FAULTS["provider_error"]
    return ClientFailure(fault, response=error.response)


def _response(error: BaseException) -> ClientFailure:
    """Distinguish an error response from one that is no HTTP, which aiohttp reports with the same class."""
    is_unreadable = isinstance(error.__cause__, Exception) or getattr(error, "status", 0) < 400  # noqa: PLR2004 - HTTP
    return _unreadable(error) if is_unreadable else _status(error)


def _provider_error(error: Any) -> ClientFailure:
    names = ("code", "type", "param", "message")
    reported = {name: text for name in names if isinstance(text := getattr(error, name, None), str) and text}
    may_succeed = any(is_retryable(reported[name]) for name in ("code", "type") if name in reported)
    fault = FAULTS["provider_error"]._replace(is_retryable=may_succeed)
    return ClientFailure(fault, {"error": reported})


def _unreadable(_error: BaseException) -> ClientFailure:
    return ClientFailure(FAULTS["upstream_malformed"])


def _finish(reason: str) -> Callable[[BaseException], ClientFailure]:
    """Return the chunk that the client's own stream helper replaces with an exception."""
    chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return lambda _error: ClientFailure(FAULTS["upstream_truncated"], chunk)


KINDS: Final[Mapping[str, Callable[[BaseException], ClientFailure]]] = {
    "openai.APIStatusError": _status,
    "openai.APIConnectionError": _connection,
    "openai.APIResponseValidationError": _unreadable,
    "openai.APIError": _provider_error,
    "google.APIError": _google,
    "openai.LengthFinishReasonError": _finish("length"),
    "openai.ContentFilterFinishReasonError": _finish("content_filter"),
    "httpx.HTTPStatusError": _status,
    "httpx.DecodingError": _unreadable,
    "httpx.TooManyRedirects": _unreadable,
    "httpx.TransportError": _connection,
    "aiohttp.ClientResponseError": _response,
    "aiohttp.ClientPayloadError": _connection,
    "aiohttp.ClientConnectionError": _connection,
}
"""Class of an exception, or its first listed base class -> its failure."""

RAISED_BY_CLIENTS: Final[Mapping[str, Callable[[BaseException], ClientFailure]]] = {
    "json.JSONDecodeError": _unreadable,
    "builtins.TimeoutError": lambda _error: ClientFailure(FAULTS["upstream_timeout_total"]),
    "builtins.ConnectionError": _connection,
}
"""The same for exceptions that count only if they passed through a client."""


def client_failure(error: BaseException, *, has_begun: bool) -> ClientFailure | None:
    """Return the failure that an exception of a client means; None for any other exception.

    Args:
        error: the exception.
        has_begun: whether anything of the response was received: clients have one exception for both time-outs.
    """
    names = list(_names(error))
    found = next((KINDS[name] for name in names if name in KINDS), None)
    if found is None and _is_from_client(error.__traceback__):
        found = next((RAISED_BY_CLIENTS[name] for name in names if name in RAISED_BY_CLIENTS), None)
    failure = None if found is None else found(error)
    if failure is not None and failure.fault.code == "upstream_timeout_idle" and not has_begun:
        return failure._replace(fault=FAULTS["upstream_timeout_first_byte"])
    return failure


def _names(error: BaseException) -> Iterator[str]:
    """Yield package and name of the classes of an exception."""
    for kind in type(error).__mro__:
        package = kind.__module__.partition(".")[0]
        yield f"{SAME_CLIENTS.get(package, package)}.{kind.__name__}"


def _is_from_client(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        if str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0] in CLIENTS:
            return True
        traceback = traceback.tb_next
    return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
