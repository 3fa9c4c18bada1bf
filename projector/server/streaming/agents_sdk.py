"""A run of the OpenAI Agents SDK as a source of bytes: `Runner.run_streamed(...)` behind `PublicSSEResponse`.

The SDK is imported nowhere: a result is what has `stream_events` and `cancel`. Its bytes hold what the host says, so a
pipeline must take them with `run=True` and `takes_host_events=True`; events of the model cannot pass for the host's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any, Final, Protocol, runtime_checkable

from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS
from projector.providers.agents_sdk import RunStage, encode
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.server.upstream.protocol import UpstreamError


@runtime_checkable
class StreamedRun(Protocol):
    """What is used of the SDK's `RunResultStreaming`."""

    new_items: list[Any]
    interruptions: list[Any]
    final_output: Any

    def stream_events(self) -> AsyncIterator[Any]:
        """Give the events of the run; raises what ended it."""
        ...

    def cancel(self) -> None:
        """End the run at once."""
        ...


class AgentRun:
    """The bytes of one run, which is cancelled when nobody reads it to its end.

    Args:
        result: what `Runner.run_streamed` gave.
    """

    provider: Final = "openai_responses"
    """Whose events a run streams, whatever its models are: the SDK makes them so."""

    def __init__(self, result: StreamedRun) -> None:
        self._result = result
        self._events: Any = result.stream_events()
        self._stage = RunStage(result.new_items)
        self._has_begun = False
        self._is_over = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Give what the run says, as it comes.

        Raises:
            UpstreamError: the run failed, and its responses do not say how it ended.
        """
        try:
            async for event in self._events:
                if data := self._write(self._stage.feed(event)):
                    yield data
        except Exception as error:
            said, fault = self._stage.fail(error)
            # what nothing was said of yet is a problem document, except for the ends that only a run has
            is_said = self._has_begun or fault is None or fault.code in RUN_FAULTS
            if is_said and (data := self._write(said)):
                yield data
            if fault is None:
                return
            if fault is FAULTS["internal_error"]:
                raise  # who reads this logs what it was
            raise UpstreamError(fault, _retry_after_s(error)) from error
        else:
            self._is_over = True
            ended = self._stage.close(self._result.interruptions, is_cancelled=_is_cancelled(self._result))
            if data := self._write(ended):
                yield data

    async def aclose(self) -> None:
        """End the run, and wait until its connections are closed."""
        if not self._is_over:
            self._result.cancel()
        await self._events.aclose()

    def _write(self, said: Iterable[CanonicalEvent]) -> bytes:
        data = encode(said, self._stage.dropped)
        self._has_begun = self._has_begun or bool(data)
        return data


def _is_cancelled(result: StreamedRun) -> bool:
    """Say whether the host ended the run: `cancel` leaves nothing behind but its mode, and no output of the run."""
    has_ended_by_itself = result.final_output is not None or bool(result.interruptions)
    return getattr(result, "_cancel_mode", "none") != "none" and not has_ended_by_itself


def _retry_after_s(error: Exception) -> int | None:
    """Give what a provider asked for in seconds, where it refused the request and did."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    asked = headers.get("retry-after", "")
    return int(asked) if asked.isascii() and asked.isdigit() else None
