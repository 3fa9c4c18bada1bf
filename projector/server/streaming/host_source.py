"""A host's own source as an upstream: bytes or events from any async iterator, its exceptions as `UpstreamError`.

A source may also be what returns the iterator: the coroutine of a call, so that an error response to it is reported
like one of the stream, or an async context manager, such as the stream helpers of the `openai` SDK.

Another source is a run of the OpenAI Agents SDK, which is not imported: any object with `stream_events` and `cancel`.
The bytes of a run hold events of the host, so a pipeline must be built with `run=True` and `takes_host_events=True`;
events of the model cannot pass for the host's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias, get_args, runtime_checkable

import anyio

from projector._errors import UsageError, check_argument, known_name
from projector.contracts import codec
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault
from projector.core.handlers import HOST_HANDLERS
from projector.core.sse import encode_sse
from projector.providers import DEFAULT_PROVIDER, PROVIDERS
from projector.providers.agents_sdk import RunStage, encode
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.providers.client_failures import client_failure
from projector.server.upstream.protocol import (
    CLOSE_S,
    ProviderRequest,
    UpstreamError,
    provider_failure,
    read_out,
    retry_after_s,
    should_retry,
)

Events: TypeAlias = AsyncIterable[object]
HostSource: TypeAlias = Events | Awaitable[Events] | AbstractAsyncContextManager[Events]

_EXPECTED: Final = (
    "`source`: expected an async iterable, or an awaitable or async context manager that returns one; "
    "streams of synchronous clients are not supported, and a request needs `stream=True`"
)
_EXPECTED_ITEMS: Final = (
    "`source`: expected items that are bytes, JSON texts, mappings or pydantic models; "
    "of a run of agents, the source is the result of `run_streamed`, not its events"
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
_SSE_STARTS: Final = ("data:", "event:", "id:", "retry:", ":")
"""Beginnings of the text of an event stream, as `aiter_text` and `aiter_lines` of `httpx` return it."""
_DERIVED_MEMBERS: Final = {"snapshot", "parsed", "parsed_arguments"}
"""Members that the SDK's stream helpers add to the provider's events; the snapshot grows with each event."""


def check_source(source: object) -> None:
    """Raise `UsageError` if an object is not a source, or a generator or coroutine that has ended."""
    if not (inspect.isawaitable(source) or hasattr(source, "__aiter__") or hasattr(source, "__aenter__")):
        raise UsageError(_EXPECTED)
    check_unused(is_used=any(getattr(source, frame, source) is None for frame in ("ag_frame", "cr_frame")))


def check_unused(*, is_used: bool) -> None:
    """Raise `UsageError` if a source was used before."""
    check_argument("source", "one that is not used yet: each stream needs its own", holds=not is_used)


class HostEvent(dict[str, Any]):
    """An event of the host as an item of a source, beside the provider's; the arguments are its members (CONTRACT D35).

    Raises:
        UsageError: `type` is not that of a host event.
    """

    def __init__(self, **members: Any) -> None:
        known_name("type", str(members.get("type")), HOST_HANDLERS)
        super().__init__(members)


class HostChunk(bytes):
    """A host event between the bytes of a source, which are the provider's and cannot pass for one."""

    event: HostEvent

    @classmethod
    def of(cls, event: HostEvent) -> Self:
        """Return the chunk of an event."""
        chunk = cls(codec.dumps_exact(event))
        chunk.event = event
        return chunk


class HostUpstream:
    """The upstream of one source, which it owns and closes, and reads to its end unless it is a run."""

    providers = frozenset(PROVIDERS)
    is_recording = False

    def __init__(self, source: HostSource, *, is_run: bool = False) -> None:
        check_source(source)
        self._source = source
        self._is_run = is_run

    @asynccontextmanager
    async def open(self, _request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Yield the bytes. Entering waits for the first of them, so that an earlier failure is a problem document."""
        async with closing_stack() as stack:
            stack.push_async_callback(_close, self._source)  # also if it was never read
            chunks = read_bytes(self._source, stack)
            stack.push_async_callback(chunks.aclose)
            first = await anext(chunks, b"")
            yield _joined(first, chunks)
            if not self._is_run:  # which ends when its stream does, unless that fails
                await read_out(chunks)

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""


@asynccontextmanager
async def closing_stack() -> AsyncGenerator[AsyncExitStack, None]:
    """Return a stack whose callbacks also run after a cancellation, for a limited time."""
    stack = AsyncExitStack()
    try:
        yield stack
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
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
        failure = client_failure(error, has_begun=has_begun)
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
    """Return an item as bytes of an event stream: everything but bytes is one event; None if it is derived.

    A host event is a `HostChunk`.
    """
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    if isinstance(item, str):
        if item.startswith(_SSE_STARTS):
            raise UsageError("`source`: expected JSON texts or bytes, not the text of an event stream: `aiter_bytes()`")
        return encode_sse(item.encode("utf-8", "surrogatepass"))
    if isinstance(item, HostEvent):
        return HostChunk.of(item)
    if isinstance(item, Mapping):
        return encode_sse(codec.dumps_exact(dict(item)))
    if hasattr(item, "model_dump_json"):
        kind: Any = type(item)
        form = _form(kind)
        return None if form.is_derived else encode_sse(_json(item.chunk if form.is_chunk else item, form.exclude))
    raise UsageError(_EXPECTED_ITEMS)


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


@runtime_checkable
class StreamedRun(Protocol):
    """The part of the SDK's `RunResultStreaming` that is used."""

    new_items: list[Any]
    interruptions: list[Any]
    final_output: Any

    def stream_events(self) -> AsyncIterator[Any]:
        """Return the events of the run; iterating raises what ended it."""

    def cancel(self) -> None:
        """Cancel the run."""


class AgentRun:
    """The bytes of what `Runner.run_streamed` returned; a run that is not read to its end is cancelled."""

    provider: Final = DEFAULT_PROVIDER
    """Provider name of a run's events for all models, because the SDK translates them."""

    def __init__(self, result: StreamedRun) -> None:
        self._result = result
        self._events: Any = result.stream_events()
        self._stage = RunStage(result.new_items, partial(_is_rejected, result))
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        """Bytes that the client has not taken; None at the end."""
        self._reading: asyncio.Task[None] | None = None
        self._has_begun = False
        self._is_over = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the events as bytes; raise `UpstreamError` if the run failed and its responses do not report it."""
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._chunks.put_nowait(None))
        try:
            while (data := await self._chunks.get()) is not None:
                yield data
                self._chunks.task_done()
            await self._reading
        finally:
            self._reading.cancel()

    async def _read(self) -> None:
        """Keep the events as bytes. A response is read as it comes: the SDK discards what is not read if a run fails.

        It goes on after a turn when the events were read, so those that follow a response wait for the client.
        """
        try:
            async for event in self._events:
                self._keep(self._stage.feed(event))
                if not self._stage.is_responding:
                    await self._chunks.join()
        except Exception as error:
            events, fault = self._stage.fail(error)
            # before the first byte a failure is a problem document, except for the ends that only a run has
            if self._has_begun or fault is None or fault.code in RUN_FAULTS:
                self._keep(events)
            if fault is None:
                return
            if fault is FAULTS["internal_error"]:
                raise  # the reader logs its type
            raise upstream_error(fault, getattr(error, "response", None)) from error
        else:
            self._is_over = True
            self._keep(self._stage.close(self._result.interruptions, is_cancelled=_is_cancelled(self._result)))

    async def aclose(self) -> None:
        """Cancel the run, and wait until its connections are closed."""
        if not self._is_over:
            self._result.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._events.aclose()

    def _keep(self, events: Iterable[CanonicalEvent]) -> None:
        if data := encode(events, self._stage.dropped):
            self._has_begun = True
            self._chunks.put_nowait(data)


def _is_rejected(result: StreamedRun, name: str, call_id: str) -> bool:
    """Return whether a person rejected a call: only the context of the run knows, under one of the tool's keys."""
    approval = getattr(getattr(result, "context_wrapper", None), "is_tool_approved", None)
    bare = name.rpartition(".")[2]
    keys = {name, bare, f"deferred_top_level:{bare}"}
    return approval is not None and any(approval(key, call_id) is False for key in keys)


def _is_cancelled(result: StreamedRun) -> bool:
    """Return whether the host cancelled the run: `cancel` leaves only its mode, and the run has no output."""
    has_ended_by_itself = result.final_output is not None or bool(result.interruptions)
    return getattr(result, "_cancel_mode", "none") != "none" and not has_ended_by_itself
