"""Connections to providers: one request, its raw bytes, every failure as a `Fault`, and what error responses say."""

from __future__ import annotations

import contextlib
import email.utils
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from projector.contracts import codec
from projector.core.faults import Fault, check_fault
from projector.core.reported_errors import refused_with
from projector.providers.error_shapes import ReportedError, members_of

Ask: TypeAlias = Literal["response", "count", "compact"]
"""What a body is sent for: a response to it, the number of its tokens, or its conversation compacted."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A request to a provider, by its name in `projector.providers.PROVIDERS`."""

    provider: str
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers, in addition to those of the upstream."""
    stream_id: str = ""
    """ID of the stream that the response belongs to; empty without one."""
    ask: Ask = "response"
    on_request_id: Callable[[str], object] = lambda _: None
    """Is called with the provider's own ID of the request, untrusted, if the response names one."""


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """An HTTP error response of a provider: untrusted text, None where the body has none."""

    status: int
    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    retry_after_s: int | None = None
    """The wait that the body asks for, in seconds."""


class UpstreamError(Exception):
    """A provider failed.

    Args:
        fault: the failure, without any text of the provider. What `failure` names decides its message and whether a
            retry may help, if it says more than the status.
        retry_after_s: the provider's `Retry-After` in seconds, if there was one.
        failure: the provider's error response, if there was one.
        should_retry: the provider's `x-should-retry`, None without one.
        reason: why there was no response, as one of a few words (`dns`, `refused`, `certificate`, ...), for the log.

    Raises:
        UsageError: the fault is no `Fault`.
    """

    def __init__(
        self,
        fault: Fault,
        retry_after_s: int | None = None,
        *,
        failure: ProviderFailure | None = None,
        should_retry: bool | None = None,
        reason: str | None = None,
    ) -> None:
        check_fault(fault)
        super().__init__(fault.code)
        self.fault = fault if failure is None else refused_with(fault, failure.code, failure.type)
        self.retry_after_s = retry_after_s
        self.failure = failure
        self.should_retry = should_retry
        self.reason = reason


CLOSE_S: Final = 0.5
"""Time limit for closing: half of the second after which a disconnected client must have freed its upstream."""
_READ_OUT_MAX_BYTES: Final = 65_536


async def read_out(chunks: AsyncIterator[bytes]) -> None:
    """Read what may follow the terminal event: a connection can be reused only if its response was read to the end."""
    left = _READ_OUT_MAX_BYTES
    with contextlib.suppress(UpstreamError), anyio.move_on_after(CLOSE_S):
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                return
            await checkpoint()  # or the limit is not kept: chunks without a pause, a source that goes on


class Model(NamedTuple):
    """A model that a provider lists."""

    id: str
    created: int = 0
    """Seconds since 1970; 0 if it is not known."""
    owned_by: str = "system"
    title: str = ""
    """Name for people; empty if there is none."""


class Upstream(Protocol):
    """Sends requests to a provider. The descriptor of the provider names the class.

    It may also have a method `models`, without parameters: it returns the models of the provider as a sequence of
    `Model`, and raises `UpstreamError`. An attribute `asks` has the values of `ProviderRequest.ask` that it accepts
    besides `response`; the bytes are then the JSON answer of the provider.
    """

    providers: frozenset[str]
    """Names of the supported providers."""
    is_recording: bool
    """Whether its bytes also contain host events (CONTRACT D35). Never true for a provider."""

    def open(self, request: ProviderRequest, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Return the bytes of the response; entering and iterating raise `UpstreamError`.

        Entering waits for the headers of the response; leaving always closes it.
        """

    async def aclose(self) -> None:
        """Close the connections that are kept between requests."""


_SECONDS: Final = re.compile(r"0*([0-9]{1,9})[0-9]*(?:\.([0-9]*))?")
"""Nine digits are read: Python refuses to parse thousands of them."""
_SHOULD_RETRY: Final[Mapping[str, bool]] = {"true": True, "false": False}


def provider_failure(
    status: int, body: bytes, errors: Callable[[object], ReportedError] = members_of
) -> ProviderFailure:
    """Return an error response; a body that is not JSON, such as the HTML page of a proxy, has no message.

    Args:
        status: the HTTP status.
        body: the beginning of the body.
        errors: the reader of the provider.
    """
    try:
        value: object = codec.loads(body)
    except codec.CodecError:
        return ProviderFailure(status)
    error = errors(value) if isinstance(value, dict | list) else ReportedError()
    wait_s = None if error.retry_after is None else _number(error.retry_after.removesuffix("s"))
    return ProviderFailure(
        status,
        error.message,
        type=error.type,
        code=error.code,
        param=error.param,
        retry_after_s=None if wait_s is None else math.ceil(wait_s),
    )


def retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Return the wait that a provider asks for in whole seconds, rounded up; None if it is missing or invalid.

    `retry-after-ms` takes precedence, as in the OpenAI clients; `Retry-After` is a number of seconds or a date.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return math.ceil(milliseconds / 1000)
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return _seconds_until(value) if seconds is None else math.ceil(seconds)


def _number(value: str) -> float | None:
    match = _SECONDS.fullmatch(value.strip())
    return float(f"{match[1]}.{match[2] or '0'}") if match else None


def _seconds_until(date: str) -> int | None:
    try:
        return max(0, math.ceil(email.utils.parsedate_to_datetime(date).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the provider's `x-should-retry`; None if it is missing or invalid."""
    return _SHOULD_RETRY.get(headers.get("x-should-retry", "").strip().lower())
