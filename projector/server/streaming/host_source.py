"""A host's own source as an upstream: bytes or events from any async iterator, its exceptions as `UpstreamError`.

A source may also be what returns the iterator: the coroutine of a call, so that an error response to it is reported
like one of the stream, or an async context manager, such as the stream helpers of the `openai` SDK.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import anyio

from projector._errors import UsageError
from projector.contracts import codec
from projector.core.faults import Fault
from projector.core.sse import encode_sse
from projector.providers import PROVIDERS
from projector.providers.client_failures import client_failure
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from projector.server.upstream.provider_errors import provider_failure, retry_after_s, should_retry

Events: TypeAlias = AsyncIterable[object]
HostSource: TypeAlias = Events | Awaitable[Events] | AbstractAsyncContextManager[Events]

_CLOSE_S: Final = 0.5
_EXPECTED: Final = (
    "`source`: expected an async iterable, or an awaitable or async context manager that returns one; "
    "streams of synchronous clients are not supported, and a request needs `stream=True`"
)

CHUNK_EVENT: Final = "chunk"
"""Type of the event that contains a chunk, in the stream helper of the SDK for Chat Completions."""
DERIVED_EVENTS: Final = frozenset(
    {
        *("content.delta", "content.done", "refusal.delta", "refusal.done"),
        *("tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"),
        *("logprobs.content.delta", "logprobs.content.done", "logprobs.refusal.delta", "logprobs.refusal.done"),
    }
)
"""Types of its other events, which repeat parts of the chunk before them."""
_DERIVED_MEMBERS: Final = {"snapshot", "parsed", "parsed_arguments"}
"""Members that the SDK's stream helpers add to the provider's events; the snapshot grows with each event."""


def check_source(source: object) -> None:
    """Raise `UsageError` if an object is not a source."""
    if not (inspect.isawaitable(source) or hasattr(source, "__aiter__") or hasattr(source, "__aenter__")):
        raise UsageError(_EXPECTED)


class HostUpstream:
    """The upstream of one source, which it owns and closes."""

    providers = frozenset(PROVIDERS)
    is_recording = False

    def __init__(self, source: HostSource) -> None:
        check_source(source)
        self._source = source

    @asynccontextmanager
    async def open(self, _request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Yield the bytes. Entering waits for the first of them, so that an earlier failure is a problem document."""
        async with closing_stack() as stack:
            stack.push_async_callback(_close, self._source)  # also if it was never read
            chunks = read_bytes(self._source, stack)
            stack.push_async_callback(chunks.aclose)
            first = await anext(chunks, b"")
            yield _joined(first, chunks)

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""


@asynccontextmanager
async def closing_stack() -> AsyncGenerator[AsyncExitStack, None]:
    """Return a stack whose callbacks also run after a cancellation, for a limited time."""
    stack = AsyncExitStack()
    try:
        yield stack
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await stack.aclose()


async def read_bytes(source: HostSource, stack: AsyncExitStack) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a source, which the stack closes; raise `UpstreamError` if its provider failed."""
    has_begun = False
    try:
        async for item in await _opened(source, stack):
            data = _bytes(item)
            if data is not None:
                has_begun = has_begun or bool(data)
                yield data
    except Exception as error:
        failure = client_failure(error)
        if failure is None:
            raise
        if has_begun and failure.last is not None:
            yield encode_sse(codec.dumps_exact(dict(failure.last)))
        raise upstream_error(failure.fault, failure.response) from error


def upstream_error(fault: Fault, response: Any = None) -> UpstreamError:
    """Return a fault with what is known from the error response of a client."""
    status = getattr(response, "status_code", getattr(response, "status", None))
    if not isinstance(status, int):
        return UpstreamError(fault)
    headers = getattr(response, "headers", None) or {}
    failure = provider_failure(status, _content(response))
    return UpstreamError(fault, retry_after_s(headers), failure=failure, should_retry=should_retry(headers))


def _content(response: Any) -> bytes:
    """Return the body of an error response, empty if the client did not read it."""
    try:
        content = getattr(response, "content", b"")
    except RuntimeError:  # httpx
        return b""
    return content if isinstance(content, bytes) else b""


async def _opened(source: Any, stack: AsyncExitStack) -> Events:
    """Return what a source iterates over, to be closed by the stack."""
    if inspect.isawaitable(source):
        source = await source
    if not hasattr(source, "__aiter__"):
        check_source(source)
        source = await stack.enter_async_context(source)
    if not hasattr(source, "__aiter__"):
        raise UsageError(_EXPECTED)
    stack.push_async_callback(_close, source)
    events: Events = source
    return events


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for chunk in rest:
        yield chunk


def _bytes(item: Any) -> bytes | None:
    """Return an item as bytes of an event stream: everything but bytes is one event; None if it is derived."""
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    if isinstance(item, str):
        return encode_sse(item.encode("utf-8", "surrogatepass"))
    if isinstance(item, Mapping):
        return encode_sse(codec.dumps_exact(dict(item)))
    if hasattr(item, "model_dump_json"):
        kind: Any = type(item)
        form = _form(kind)
        return None if form.is_derived else encode_sse(_json(item.chunk if form.is_chunk else item, form.exclude))
    raise UsageError("`source`: expected items that are bytes, JSON texts, mappings or pydantic models")


class _Form(NamedTuple):
    """What of a class of events is the provider's."""

    is_chunk: bool
    is_derived: bool
    exclude: set[str] | None


@lru_cache(maxsize=256)
def _form(kind: Any) -> _Form:
    members = getattr(kind, "model_fields", {})
    types = set(get_args(members["type"].annotation)) if "type" in members else set()
    exclude = _DERIVED_MEMBERS & members.keys()
    return _Form(types == {CHUNK_EVENT}, bool(types) and types <= DERIVED_EVENTS, exclude or None)


def _json(model: Any, exclude: set[str] | None) -> bytes:
    try:
        text: str = model.model_dump_json(exclude_unset=True, by_alias=True, exclude=exclude, warnings=False)
    except ValueError:  # pydantic refuses lone surrogates, and SDKs parse some (D31)
        return codec.dumps_exact(model.model_dump(exclude_unset=True, by_alias=True, exclude=exclude, warnings=False))
    return text.encode()


async def _close(source: Any) -> None:
    """Close a source; generators and streams of SDKs name the method differently."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is not None:
        closing = close()
        if closing is not None:
            await closing
