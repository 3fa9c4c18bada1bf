"""A run of the OpenAI Agents SDK as a source of bytes: `Runner.run_streamed(...)` behind `PublicSSEResponse`.

The SDK is not imported: a result is any object with `stream_events` and `cancel`. The bytes hold events of the host, so
a pipeline must be built with `run=True` and `takes_host_events=True`; events of the model cannot pass for the host's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS
from projector.providers import DEFAULT_PROVIDER
from projector.providers.agents_sdk import RunStage, encode
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.server.streaming.host_source import upstream_error


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
        self._has_begun = False
        self._is_over = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the events as bytes; raise `UpstreamError` if the run failed and its responses do not report it."""
        try:
            async for event in self._events:
                if data := self._encode(self._stage.feed(event)):
                    yield data
        except Exception as error:
            events, fault = self._stage.fail(error)
            # before the first byte a failure is a problem document, except for the ends that only a run has
            if (self._has_begun or fault is None or fault.code in RUN_FAULTS) and (data := self._encode(events)):
                yield data
            if fault is None:
                return
            if fault is FAULTS["internal_error"]:
                raise  # the reader logs its type
            raise upstream_error(fault, getattr(error, "response", None)) from error
        else:
            self._is_over = True
            last = self._stage.close(self._result.interruptions, is_cancelled=_is_cancelled(self._result))
            if data := self._encode(last):
                yield data

    async def aclose(self) -> None:
        """Cancel the run, and wait until its connections are closed."""
        if not self._is_over:
            self._result.cancel()
        await self._events.aclose()

    def _encode(self, events: Iterable[CanonicalEvent]) -> bytes:
        data = encode(events, self._stage.dropped)
        self._has_begun = self._has_begun or bool(data)
        return data


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
