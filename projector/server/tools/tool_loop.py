"""The loop "the model calls a tool, the server runs it, the model goes on" as one public stream.

    loop = ToolLoop(ask, tools={"get_weather": get_weather}, input=[...])
    return PublicSSEResponse(loop)

The bytes of a loop hold events of the host between the responses, so a pipeline must be built for
`ToolLoop.output_provider`, with `run=True` and `takes_host_events=True`; `PublicSSEResponse` and `public_stream` do so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import anyio

from projector._errors import UsageError, check_argument, check_positive, known_name
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, OTHER_API
from projector.providers import DEFAULT_PROVIDER, PROVIDERS, profile_of
from projector.providers.agents_sdk import encode
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.providers.agents_sdk.run_stage import NEXT
from projector.server.streaming.host_source import HostChunk, HostSource, check_unused, closing_stack, read_bytes
from projector.server.tools.turns import Call, Item, Result, Tool, ToolRunner, Turn, TurnReader, failed
from projector.server.upstream.protocol import UpstreamError

_BEAT_S: Final = 1.0
"""How often a loop yields nothing while tools run, so that this is not taken for a silent provider."""
_STOP_S: Final = 0.5
"""Time that a cancelled tool has to end."""


class ToolLoop:
    """Asks a model, runs the tools that it calls, and asks again until it calls none.

    Args:
        ask: is called with each `Turn`, and returns the stream of the provider: what `PublicSSEResponse` accepts as a
            source, except a run.
        tools: name of a tool -> the function that is called with the arguments of the model as keyword arguments, of
            the types of its parameters if pydantic knows them, or with the text of a custom tool. It returns a JSON
            value, a pydantic model or a dataclass; the model reads a list of parts `input_text`, `input_image` and
            `input_file` as such.
        input: the conversation so far: a message of the user, or items of the Responses API.
        provider: API of the streams, a name of `PROVIDERS`.
        profile: differences of the provider's server from others with the same API.
        client_tools: names of tools that the client runs: the loop ends when the model calls one. A call of any other
            unknown tool fails, and the model is told so.
        max_turns: requests to the model; the terminal is the error `run_max_turns` if it then still calls tools.
        tool_timeout_s: time limit of one call.
        max_parallel: calls of one response that run at the same time.

    Raises:
        UsageError: an unknown provider, an invalid profile or limit, something else than a function or a conversation,
            or a tool that is also in `client_tools`.
    """

    output_provider: Final = DEFAULT_PROVIDER
    """Provider name of the bytes of a loop, whatever API its streams have."""

    def __init__(
        self,
        ask: Callable[[Turn], HostSource],
        tools: Mapping[str, Tool],
        *,
        input: str | Sequence[Item],  # noqa: A002 - the name of both APIs
        provider: str = DEFAULT_PROVIDER,
        profile: Mapping[str, object] | None = None,
        client_tools: Collection[str] = (),
        max_turns: int = 10,
        tool_timeout_s: float = 60,
        max_parallel: int = 8,
    ) -> None:
        known_name("provider", provider, PROVIDERS)
        for name, limit in (
            ("max_turns", max_turns),
            ("tool_timeout_s", tool_timeout_s),
            ("max_parallel", max_parallel),
        ):
            check_positive(name, limit)
        check_argument("ask", "a function", holds=callable(ask))
        expected = 'a mapping of names to functions, such as {"lookup": lookup}'
        check_argument("tools", expected, holds=isinstance(tools, Mapping))
        for name, tool in tools.items():
            check_argument(f"tools.{name}", "a function", holds=callable(tool))
        expected, is_list = 'a list of names, such as ["pick_colour"]', not isinstance(client_tools, str)
        check_argument("client_tools", expected, holds=is_list and all(isinstance(one, str) for one in client_tools))
        for name in sorted(tools.keys() & set(client_tools)):
            raise UsageError(f"`client_tools`: `{name}` is also in `tools`")
        expected = "a text, or a list of items"
        is_bytes = isinstance(input, bytes | bytearray | memoryview)
        check_argument("input", expected, holds=not is_bytes and isinstance(input, Sequence))
        items: list[Item] = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        are_items = not any(isinstance(one, str | int) for one in items)
        check_argument("input", expected, holds=are_items)
        self._ask = ask
        self.provider = provider
        """API of the streams."""
        self._profile = profile_of(provider, profile or {})
        self._runner = ToolRunner(tools, timeout_s=tool_timeout_s, max_parallel=max_parallel)
        self._client_tools = frozenset(client_tools)
        self._max_turns = max_turns
        self._items = items
        self._dropped: Counter[str] = Counter()
        self._bytes = self._run()
        self._is_used = False

    @property
    def items(self) -> list[Item]:
        """The conversation so far, with answers, calls and outputs: the `input` of a later loop.

        A call of a loop that was stopped has an output, unless it is of `client_tools`: its result, or an error.
        The items are the provider's, unredacted: do not send them to a client.
        """
        return list(self._items)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the bytes; iterating raises `UpstreamError` if a provider fails, or at the end of `max_turns`.

        Raises:
            UsageError: the loop was used before.
        """
        check_unused(is_used=self._is_used)
        self._is_used = True
        return self._bytes

    async def aclose(self) -> None:
        """Stop the request to the model and the running tools. Idempotent."""
        await self._bytes.aclose()

    async def _run(self) -> AsyncGenerator[bytes, None]:
        turn = self._turn(1, self._items, None)
        while True:
            reader = TurnReader(PROVIDERS[self.provider], self._profile)
            async with closing_stack() as stack:
                chunks = self._read(turn, reader)
                stack.push_async_callback(chunks.aclose)
                async for data in chunks:
                    yield data
            self._items = answered = [*self._items, *reader.items]
            calls = [call for call in reader.calls if call.name not in self._client_tools]
            results = {call.call_id: failed(call, "stopped") for call in calls}
            try:
                if reader.end != "completed" or not calls:
                    return
                if turn.number == self._max_turns:
                    raise UpstreamError(RUN_FAULTS["run_max_turns"])
                async with closing_stack() as stack:
                    running = self._run_tools(calls, results)
                    stack.push_async_callback(running.aclose)
                    async for data in running:
                        yield data
            finally:  # providers refuse a conversation with a call without an output
                outputs = [result.item for result in results.values()]
                self._items = [*answered, *outputs]
            if len(calls) < len(reader.calls) or reader.asks_for_approval:
                return
            turn = self._turn(turn.number + 1, outputs, reader.response_id)

    def _turn(self, number: int, new_items: list[Any], previous_response_id: str | None) -> Turn:
        return Turn(number, self._items, new_items, previous_response_id, self.provider, self._profile)

    async def _read(self, turn: Turn, reader: TurnReader) -> AsyncGenerator[bytes, None]:
        """Yield the response of a turn; raise `UpstreamError` if it did not end."""
        if turn.number > 1:
            yield self._encode([NEXT])
        failure: UpstreamError | None = None
        async with closing_stack() as stack:
            chunks = read_bytes(self._ask(turn), stack)
            stack.push_async_callback(chunks.aclose)
            try:
                async for data in chunks:
                    events = [data.event] if isinstance(data, HostChunk) else reader.feed(data)
                    if output := self._encode(events):
                        yield output
                    if reader.fault is not None:
                        break
            except UpstreamError as error:
                failure = error
            if output := self._encode(reader.close()):
                yield output
        self._dropped += reader.dropped
        if reader.end is None:
            missing = FAULTS["upstream_empty" if reader.is_empty else "upstream_truncated"]
            raise failure or UpstreamError(reader.fault or (OTHER_API if reader.is_unread else missing))

    async def _run_tools(self, calls: Sequence[Call], results: dict[str, Result]) -> AsyncGenerator[bytes, None]:
        """Run calls, yield each output when it is known, and add it to the results."""
        tasks = [asyncio.create_task(self._runner.run(call)) for call in calls]
        waiting = set(tasks)
        try:
            while waiting:
                ended, waiting = await asyncio.wait(waiting, timeout=_BEAT_S, return_when=asyncio.FIRST_COMPLETED)
                known = [task.result() for task in tasks if task in ended]
                results.update((result.call.call_id, result) for result in known)
                yield self._encode(result.event for result in known)
        finally:
            for task in waiting:
                task.cancel()
            if waiting:
                with anyio.move_on_after(_STOP_S, shield=True):
                    await asyncio.wait(waiting)
            for task in tasks:  # also those that ended while an output was being sent, or as they were cancelled
                if task.done() and not task.cancelled() and task.exception() is None:
                    results[task.result().call.call_id] = task.result()

    def _encode(self, events: Iterable[CanonicalEvent]) -> bytes:
        return encode(events, self._dropped)
