"""Requests to a provider over HTTP, by aiohttp: connections, headers, raw bytes, and failures as `UpstreamError`.

Redirects, cookies and environment proxies are not used, and no content encoding is accepted; a response that has one
nevertheless is inflated, piece by piece (CONTRACT D48). Certificates are checked against the certificate authorities of
the system, or those of the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, closing
from typing import Any, Final, Self

import aiohttp
import anyio

from projector import __version__
from projector._errors import UsageError
from projector.contracts import codec
from projector.contracts.limits import NAME_MAX_CHARS
from projector.core.faults import FAULTS, Fault
from projector.providers import PROVIDERS, profile_of
from projector.providers.descriptor import FramingError, Outgoing, Provider, ResponseCursor
from projector.server.config.upstream_settings import UpstreamSettings, UpstreamTimeouts, plain
from projector.server.telemetry.logs import log
from projector.server.upstream.connection_pool import Exchange, Pool
from projector.server.upstream.protocol import (
    CLOSE_S,
    Ask,
    Model,
    ProviderRequest,
    UpstreamError,
    provider_failure,
    read_out,
    retry_after_s,
    should_retry,
)

ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
PIECE_MAX_BYTES: Final = 65_536
"""Size of one inflated piece. The limits of events and of the response count the pieces, as they are read."""
_ANY_HEADER: Final = 47
"""`wbits` of zlib for both formats, told apart by their header."""


class Inflater:
    """Inflates a body, wherever its bytes are cut."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ANY_HEADER)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what some bytes inflate to, in pieces; raise `UpstreamError` if they are not compressed."""
        piece = b""
        try:
            while data or len(piece) == PIECE_MAX_BYTES:
                if self._stream.eof:  # a body may have several members
                    self._stream = zlib.decompressobj(_ANY_HEADER)
                piece = self._stream.decompress(data, PIECE_MAX_BYTES)
                data = self._stream.unused_data or self._stream.unconsumed_tail
                if piece:
                    yield piece
        except zlib.error:
            raise UpstreamError(FAULTS["upstream_malformed"]) from None


def inflater_of(headers: Mapping[str, str]) -> Inflater | None:
    """Return the inflater of a response; None if its body is not compressed, or in an encoding that is not read."""
    return Inflater() if headers.get("content-encoding", "").strip().lower() in ENCODINGS else None


CHUNK_MAX_BYTES: Final = 16_384
"""Size of one chunk: a few hundred small events, which take some milliseconds; their output is larger."""
ERROR_BODY_MAX_BYTES: Final = 65_536
"""Size of an error response that is read; those of providers have a few hundred bytes."""
ERROR_BODY_S: Final = 1.0
"""Seconds for the body of an error response, which providers send with its head."""

MODELS_MAX_BYTES: Final = 4 * 2**20
"""Size of a list of models; those of large routers have a megabyte."""

MODELS_MAX: Final = 2_000
"""Models of one upstream; large routers list some hundreds."""

_SECONDS: Final = range(2**53)
_ID: Final = re.compile(rf"[!-~](?:[ -~]{{0,{NAME_MAX_CHARS - 2}}}[!-~])?")
CONTINUED_MAX: Final = 3
"""How often a response is continued after its connection broke."""
_REQUEST_IDS: Final = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
"""Headers in which a provider names a request: OpenAI and what is compatible, Claude, Azure, Bedrock."""
_OK: Final = 200
_FAILURES: Final = (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError)
"""Exceptions of `Pool.send`, and of reading a response."""
_PROBLEMS: Final = (
    (aiohttp.ConnectionTimeoutError, "upstream_timeout_connect", "timeout"),
    (aiohttp.ClientConnectorDNSError, "upstream_unreachable", "dns"),
    (aiohttp.ClientConnectorCertificateError, "upstream_unreachable", "certificate"),
    (aiohttp.ClientSSLError, "upstream_unreachable", "tls"),
    ((aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError), "upstream_unreachable", "proxy"),
    (aiohttp.ClientConnectorError, "upstream_unreachable", "unreachable"),
    (aiohttp.ClientResponseError, "upstream_malformed", "not_http"),
    (aiohttp.http.HttpProcessingError, "upstream_malformed", "not_http"),
    ((aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError), "upstream_reset", "closed"),
    ((aiohttp.ClientError, OSError), "upstream_reset", "reset"),
)
"""Class of an exception -> fault code and reason; the first matching row counts."""

_TLS_CAUSES: Final[Mapping[str, type[OSError]]] = {
    "unreachable": ConnectionResetError,  # a connection of TCP cannot be reset before it exists
    "reset": ssl.SSLError,  # TLS 1.3 refuses a client after its handshake
}
"""Reason -> cause by which it is one of TLS."""

_NAME: Final = "projector.server.upstream.http_upstream:HTTPUpstream"


class HTTPUpstream:
    """An upstream with an HTTP API; the descriptor of the provider says how it is asked."""

    is_recording = False
    asks: Final[frozenset[Ask]] = frozenset({"count", "compact"})

    def __init__(self, settings: UpstreamSettings, timeouts: UpstreamTimeouts) -> None:
        self._base_url = settings.base_url.rstrip("/")
        self._proxy = settings.proxy.get_secret_value() if settings.proxy else None
        self._api = settings.api
        self._profile = profile_of(settings.api, settings.profile)
        self._connect_s = timeouts.connect_s  # the others: `deadlines`
        self._ssl = _ssl(settings)
        self._headers = _headers(settings)
        self._query = {name: plain(value) for name, value in settings.query.items()}
        self._pool: Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.providers = frozenset(_same_server(PROVIDERS[settings.api]))

    def open(self, request: ProviderRequest, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Return the bytes of the response; see `Upstream`."""
        provider, is_own = PROVIDERS[request.provider], request.provider == self._api
        profile = self._profile if is_own else profile_of(request.provider, {})
        if request.ask == "response":
            outgoing, headers = provider.request(request.body, profile, request.headers), request.headers
        else:
            outgoing, headers = _aside(provider, request, profile), {"Accept": "application/json", **request.headers}
        path, body, query = outgoing
        content = codec.dumps_exact(body)
        response = self._response(provider, "POST", path, query, headers, content, request.on_request_id)
        if provider.cursor is None or request.ask != "response" or (cursor := provider.cursor(profile)) is None:
            return response
        return self._followed(provider, response, cursor, request)

    @asynccontextmanager
    async def _followed(
        self,
        provider: Provider,
        response: AbstractAsyncContextManager[AsyncIterator[bytes]],
        cursor: ResponseCursor,
        request: ProviderRequest,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Return the bytes of a response, and of those that continue it if its connection breaks."""
        async with AsyncExitStack() as stack:
            chunks = await stack.enter_async_context(response)

            async def read() -> AsyncGenerator[bytes, None]:
                nonlocal chunks
                for attempt in range(CONTINUED_MAX + 1):
                    broken = None
                    try:
                        async for chunk in chunks:
                            yield cursor.feed(chunk)
                    except UpstreamError as error:
                        broken = error
                    is_cut_off = broken is None or broken.fault.code == "upstream_reset"
                    outgoing = cursor.outgoing() if is_cut_off and attempt < CONTINUED_MAX else None
                    if outgoing is not None:
                        path, _, query = outgoing
                        again = self._response(provider, "GET", path, query, request.headers)
                        with contextlib.suppress(UpstreamError):
                            chunks = await stack.enter_async_context(again)
                            log.warning("upstream_continued", stream_id=request.stream_id, path=path)
                            continue
                    if rest := cursor.rest():  # a response without any byte may be asked for again
                        yield rest
                    if broken is not None:
                        raise broken
                    return

            async with aclosing(read()) as followed:
                yield followed

    async def models(self) -> Sequence[Model]:
        """Return the models that the provider lists; raise `UpstreamError` if it fails."""
        provider = PROVIDERS[self._api]
        if provider.models is None:
            return ()
        path, query, entries = provider.models
        body = bytearray()
        async with self._response(provider, "GET", path, query, {"Accept": "application/json"}) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > MODELS_MAX_BYTES:
                    raise UpstreamError(FAULTS["upstream_malformed"])
        try:
            listed = codec.loads(bytes(body))
            return read_models(listed if entries is None else [*entries(listed)])
        except codec.CodecError:
            raise UpstreamError(FAULTS["upstream_malformed"]) from None

    def _response(
        self,
        provider: Provider,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | None = None,
        on_request_id: Callable[[str], object] = lambda _: None,
    ) -> _Response:
        """Return the response to a request, which is sent when the response is entered."""
        url, whole_query = self._base_url + path, {**query, **self._query}
        sending = self._open_pool().send(method, url, whole_query, headers, content)
        return _Response(provider, sending, on_request_id)

    async def aclose(self) -> None:
        """Close the pooled connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await pool.close()

    def _open_pool(self) -> Pool:
        """Return the connections of the running event loop; they are opened here because they belong to one loop."""
        loop = asyncio.get_running_loop()
        if self._pool is None or self._loop is not loop:
            self._loop = loop
            self._pool = Pool(self._base_url, self._headers, self._ssl, self._proxy, self._connect_s)
        return self._pool


class _Response:
    """The bytes of the response to a request that is sent when the block is entered.

    A body in a format that the provider has a reader for is read as an event stream.
    """

    def __init__(
        self, provider: Provider, sending: Awaitable[Exchange], on_request_id: Callable[[str], object]
    ) -> None:
        self._provider = provider
        self._sending = sending
        self._on_request_id = on_request_id
        self._pieces: Iterator[bytes] = iter(())
        """Rest of an inflated chunk."""

    async def __aenter__(self) -> AsyncIterator[bytes]:
        """Return the bytes of the response; raise `UpstreamError` for another status than 200."""
        try:
            self._exchange = exchange = await self._sending
            del self._sending  # it has the body of the request
        except _FAILURES as error:
            raise _failed(error) from error
        for name in _REQUEST_IDS:
            if request_id := exchange.headers.get(name):
                self._on_request_id(request_id)
                break
        if exchange.status != _OK:
            raise await _refused(exchange, self._provider)
        self._inflater = inflater_of(exchange.headers)
        media_type = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
        make_reader = self._provider.body_readers.get(media_type)
        self._reader = None if make_reader is None else make_reader()
        self._is_plain = self._inflater is None and self._reader is None
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Read a response that has ended to the end of its connection, and close it."""
        try:
            if kind is None and not self._exchange.is_received:
                await read_out(self)
        finally:
            self._exchange.close()

    def __aiter__(self) -> Self:
        """Return the bytes of the response."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes; raise `UpstreamError` if the response is broken off."""
        while (piece := next(self._pieces, None)) is None:
            try:
                chunk = await self._exchange.read(CHUNK_MAX_BYTES)
            except _FAILURES as error:
                raise _failed(error) from error
            if not chunk:
                raise StopAsyncIteration
            if self._is_plain:
                return chunk
            self._pieces = iter((chunk,)) if self._inflater is None else self._inflater.feed(chunk)
        try:
            return piece if self._reader is None else self._reader.feed(piece)
        except FramingError:
            raise UpstreamError(FAULTS["upstream_malformed"]) from None


def _aside(provider: Provider, request: ProviderRequest, profile: Any) -> Outgoing:
    """Return a request for something else than a response."""
    if request.ask == "compact" and provider.compact_path is not None:
        return Outgoing(provider.compact_path, request.body)
    if request.ask == "count" and provider.counting is not None:
        outgoing = provider.counting.outgoing(request.body, profile)
        if outgoing is not None:
            return outgoing
    raise UsageError(f"expected a provider that can be asked to {request.ask}")


def _ssl(settings: UpstreamSettings) -> ssl.SSLContext | None:
    """Return the context of an upstream with TLS settings; raise `SettingsError` if it cannot use them."""
    if settings.tls.is_default:
        return None
    from projector.server.tls import client_context  # noqa: PLC0415 - a start without it is faster

    return client_context(settings.tls)


def _same_server(provider: Provider) -> Iterator[str]:
    """Yield the names of the APIs that a server with one of them may have."""
    for name, row in PROVIDERS.items():
        if row is provider or (
            row.upstream == _NAME and row.base_url is not None and row.base_url == provider.base_url
        ):
            yield name


def _headers(settings: UpstreamSettings) -> Mapping[str, str]:
    """Return the headers of every request."""
    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    headers = {
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"public-stream-projector/{__version__}",
        **PROVIDERS[settings.api].headers(key, profile_of(settings.api, settings.profile)),
    }
    given = {name.lower() for name in settings.headers}
    own = {name: value for name, value in headers.items() if name.lower() not in given}
    return own | {name: plain(value) for name, value in settings.headers.items()}


def _failed(error: Exception) -> UpstreamError:
    """Return the error for an exception of aiohttp."""
    code, reason = next((code, reason) for kind, code, reason in _PROBLEMS if isinstance(error, kind))
    cause = error.__cause__
    if getattr(error, "errno", None) == errno.ECONNREFUSED:
        reason = "refused"
    elif isinstance(cause, _TLS_CAUSES.get(reason, ())):
        reason = "tls"
    return UpstreamError(FAULTS[code], reason=reason)


async def _refused(response: Exchange, provider: Provider) -> UpstreamError:
    """Close a failed response, and return its error; of its body a limited part is read, for a limited time."""
    body = bytearray()
    with closing(response), anyio.move_on_after(ERROR_BODY_S):
        try:
            while len(body) <= ERROR_BODY_MAX_BYTES and (chunk := await response.read(ERROR_BODY_MAX_BYTES)):
                body += chunk
        except _FAILURES:
            pass  # the status counts
    received = bytes(body[:ERROR_BODY_MAX_BYTES])
    if (inflater := inflater_of(response.headers)) is not None:
        with contextlib.suppress(UpstreamError):
            received = next(inflater.feed(received), b"")
    failure = provider_failure(response.status, received, provider.errors)
    wait_s = retry_after_s(response.headers)
    return UpstreamError(
        Fault.of_status(response.status),
        failure.retry_after_s if wait_s is None else wait_s,
        failure=failure,
        should_retry=should_retry(response.headers),
    )


def read_models(value: object) -> list[Model]:
    """Return the models of a provider's list; entries without a valid ID are left out."""
    entries = value.get("data") if isinstance(value, dict) else value
    found: dict[str, Model] = {}
    for entry in entries if isinstance(entries, list) else []:
        model_id = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(model_id, str) and _ID.fullmatch(model_id):
            owner, title = _name(entry.get("owned_by")), _name(entry.get("display_name"))
            model = Model(model_id, _seconds(entry.get("created")), owner or Model("").owned_by, title)
            found.setdefault(model_id, model)
        if len(found) == MODELS_MAX:
            break
    return list(found.values())


def _seconds(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _SECONDS else 0


def _name(value: object) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""
