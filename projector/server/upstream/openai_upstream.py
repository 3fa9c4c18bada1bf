"""Connections to upstreams with an OpenAI API: Responses, Chat Completions, and others with the same transport.

The `openai` SDK is only the transport: keys, URLs, the connection pool. Its retries, redirects, environment proxies
and event models are not used. The body of a failed response is never read: only its status is reported.
"""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import aiohttp
import anyio
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit, Timeout, omit

from projector.core.faults import FAULTS, Fault, http_status_fault
from projector.providers import PROVIDERS
from projector.server.config.settings import UpstreamSettings, UpstreamTimeouts
from projector.server.upstream.protocol import ProviderRequest, UpstreamError

CLOSE_S: Final = 0.5
"""Time limit for closing: half of the second after which a disconnected client must have freed its upstream."""

_READ_OUT_MAX_BYTES: Final = 65_536
_DIGITS_MAX: Final = 9
"""Digits of the seconds in `Retry-After` that are read: Python refuses to parse thousands of them."""
_OK: Final = 200

_CAUSES: Final = (
    (aiohttp.ConnectionTimeoutError, "upstream_timeout_connect"),
    (aiohttp.ClientConnectorError, "upstream_unreachable"),
    (aiohttp.ClientResponseError, "upstream_malformed"),  # not HTTP
    (aiohttp.ClientPayloadError, "upstream_reset"),  # HTTP framing cut off
    (ConnectionError, "upstream_reset"),
    (aiohttp.ClientConnectionError, "upstream_reset"),
)
"""Class of an exception or of one of its causes -> fault code; the first matching row counts. The SDK's own classes are
no help: it reports a refused connection as a timeout."""

_NAME: Final = "projector.server.upstream.openai_upstream:OpenAIUpstream"
_RAW_RESPONSE: Final = "X-Stainless-Raw-Response"
"""Header by which the SDK's own `with_streaming_response` asks the SDK for an unread response."""


class OpenAIUpstream:
    """An upstream with an OpenAI API; the descriptor of the provider has the path of the requests."""

    is_recording = False

    def __init__(self, settings: UpstreamSettings, timeouts: UpstreamTimeouts) -> None:
        self._client = _client(settings, timeouts)
        self._headers: dict[str, str | Omit] = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            _RAW_RESPONSE: "stream",
        }
        if settings.api_key is None:
            self._headers["Authorization"] = omit
        self.providers = frozenset(name for name, provider in PROVIDERS.items() if provider.upstream == _NAME)

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Return the bytes of the response; see `Upstream`."""
        try:
            response: Any = await self._client.post(
                PROVIDERS[request.provider].request_path,
                cast_to=object,
                body={**request.body, "stream": True},
                options={"headers": {**request.headers, **self._headers}, "security": {"bearer_auth": True}},
                stream=True,
                stream_cls=AsyncStream[object],
            )
        except UpstreamError:
            raise
        except Exception as error:
            raise UpstreamError(_fault(error, otherwise="upstream_unreachable")) from error
        chunks = _read(response.http_response.aiter_raw())
        try:
            yield chunks
            await _read_out(chunks)
        finally:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await chunks.aclose()
                await response.close()

    async def aclose(self) -> None:
        """Close the pooled connections."""
        await self._client.close()


def _client(settings: UpstreamSettings, timeouts: UpstreamTimeouts) -> AsyncOpenAI:
    http_client = DefaultAioHttpClient(
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        event_hooks={"response": [_refuse_failure]},
        timeout=Timeout(None, connect=timeouts.connect_s),  # `streaming.deadlines` enforces the other limits
    )
    # A session of our own, because aiohttp's default session would carry cookies from one user to another.
    transport: Any = http_client._transport  # noqa: SLF001 - there is no public way to the session
    transport.client = lambda: aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=transport.ssl_context, limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=settings.proxy.get_secret_value() if settings.proxy else None,
    )
    return AsyncOpenAI(
        api_key=settings.api_key.get_secret_value() if settings.api_key else "none",  # the SDK requires one
        base_url=settings.base_url,
        max_retries=0,
        http_client=http_client,
    )


async def _refuse_failure(response: Any) -> None:
    """Raise the fault of a failed response at its headers, before the SDK reads a body of any size."""
    if response.status_code != _OK:
        raise UpstreamError(http_status_fault(response.status_code), _retry_after_s(response.headers))


async def _read(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as error:
        raise UpstreamError(_fault(error, otherwise="upstream_reset")) from error
    finally:
        await chunks.aclose()


async def _read_out(chunks: AsyncIterator[bytes]) -> None:
    """Read what may follow the terminal event: a connection can be reused only if its response was read to the end."""
    left = _READ_OUT_MAX_BYTES
    with anyio.move_on_after(CLOSE_S):
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                return


def _fault(error: Exception, *, otherwise: str) -> Fault:
    causes = list(_causes(error))
    for kind, code in _CAUSES:
        if any(isinstance(cause, kind) for cause in causes):
            return FAULTS[code]
    return FAULTS[otherwise]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Return the seconds of `Retry-After`, a number or a date; None if it is missing or invalid."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return int(value.lstrip("0")[:_DIGITS_MAX] or "0")
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0, math.ceil(date.timestamp() - time.time()))
