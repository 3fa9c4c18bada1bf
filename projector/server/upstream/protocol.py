"""The way to a provider, as the relay sees it: one request out, raw bytes back, every failure as a `Fault`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from projector.core.faults import Fault


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """What is asked of a provider: a row of `projector.providers.PROVIDERS`, the JSON body, headers beside our own.

    `stream_id` is the stream that asks, where one does.
    """

    provider: str
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    stream_id: str = ""


class UpstreamError(Exception):
    """A provider failed; `retry_after_s` is what it asked for, in seconds, where it did."""

    def __init__(self, fault: Fault, retry_after_s: int | None = None) -> None:
        super().__init__(fault.code)
        self.fault = fault
        self.retry_after_s = retry_after_s


class Upstream(Protocol):
    """Something that answers a `ProviderRequest` with a provider's bytes."""

    providers: frozenset[str]
    """The providers whose requests it can answer."""
    is_recording: bool
    """Whether its bytes hold what the host said, too (CONTRACT D35); never true of a provider."""

    def open(self, request: ProviderRequest, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Give the bytes of the answer; entered when its headers are there, closed on leaving, always.

        Raises:
            UpstreamError: on entering or while iterating.
        """
        ...

    async def aclose(self) -> None:
        """Close what is kept between requests."""
        ...
