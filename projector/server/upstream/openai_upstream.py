"""The way to a provider that speaks the OpenAI API.

The `openai` SDK is the transport only: keys, addresses, the connection pool. Its retries, redirects, environment
proxies and event models are not used. The body of a failed answer is never read: its status is all that we tell.
"""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import aiohttp
import anyio
from openai import AsyncOpenAI, DefaultAioHttpClient, Omit, Timeout, omit

from projector.core.faults import FAULTS, Fault, http_status_fault
from projector.server.config.settings import UpstreamSettings, UpstreamTimeouts
from projector.server.upstream.protocol import ProviderRequest, UpstreamError

CLOSE_S: Final = 0.5
"""How long closing may take: half of the second in which a client that left must have freed its upstream."""

_READ_OUT_MAX_BYTES: Final = 65_536
_DIGITS_MAX: Final = 9
"""Of the seconds in a `Retry-After`: more than anybody waits, and Python refuses to read thousands of digits."""
_OK: Final = 200

_CAUSES: Final = (
    (aiohttp.ConnectionTimeoutError, "upstream_timeout_connect"),
    (aiohttp.ClientConnectorError, "upstream_unreachable"),
    (aiohttp.ClientResponseError, "upstream_malformed"),  # not HTTP
    (aiohttp.ClientPayloadError, "upstream_reset"),  # HTTP framing cut off
    (ConnectionError, "upstream_reset"),
    (aiohttp.ClientConnectionError, "upstream_reset"),
)
"""What an exception means, by the kinds it is made from; the first row that fits counts. The SDK's own kinds are of no
use here: it calls a refused connection a time-out."""


class OpenAIUpstream:
    """An upstream that speaks the OpenAI API."""

    providers = frozenset({"openai_responses", "openai_chat"})
    is_recording = False

    def __init__(self, settings: UpstreamSettings, timeouts: UpstreamTimeouts) -> None:
        self._client = _client(settings, timeouts)
        self._headers: dict[str, str | Omit] = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if settings.api_key is None:
            self._headers["Authorization"] = omit
        responses = self._client.responses.with_streaming_response
        chat = self._client.chat.completions.with_streaming_response
        # `extra_body` is merged over the arguments, so the body that we are given goes out as it is
        self._endpoints: Mapping[str, Callable[..., AbstractAsyncContextManager[Any]]] = {
            "openai_responses": partial(responses.create, stream=True),
            "openai_chat": partial(chat.create, stream=True, messages=[], model=""),
        }

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Give the bytes of the answer; see `Upstream`."""
        try:
            ask = self._endpoints[request.provider]
            headers = {**request.headers, **self._headers}
            response = await ask(extra_headers=headers, extra_body={**request.body, "stream": True}).__aenter__()
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
        """Close the connections that were kept."""
        await self._client.close()


def _client(settings: UpstreamSettings, timeouts: UpstreamTimeouts) -> AsyncOpenAI:
    http_client = DefaultAioHttpClient(
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        event_hooks={"response": [_refuse_failure]},
        timeout=Timeout(None, connect=timeouts.connect_s),  # the other limits are the relay's
    )
    # A session of our own, for one reason: aiohttp's keeps cookies, and would carry them from one user to another.
    transport: Any = http_client._transport  # noqa: SLF001 - there is no public way to the session
    transport.client = lambda: aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=transport.ssl_context, limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=settings.proxy.get_secret_value() if settings.proxy else None,
    )
    return AsyncOpenAI(
        api_key=settings.api_key.get_secret_value() if settings.api_key else "none",  # the SDK refuses to be without
        base_url=settings.base_url,
        max_retries=0,
        http_client=http_client,
    )


async def _refuse_failure(response: Any) -> None:
    """Stop an answer that is no stream at its headers, before the SDK reads a body of any size."""
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
    """Read the little that may follow the terminal: an answer read to its end leaves a connection to use again."""
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
    """Read `Retry-After`, seconds or a date; None where it is missing or neither."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return int(value.lstrip("0")[:_DIGITS_MAX] or "0")
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0, math.ceil(date.timestamp() - time.time()))
