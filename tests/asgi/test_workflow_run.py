"""A run of a workflow without HTTP: its output, however its upstreams and its consumer behave."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import cache
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from projector import UsageError
from projector.contracts.stream_rules import check_stream
from projector.core.faults import FAULTS
from projector.server import HeadlessWorkflow, workflow
from projector.server.catalog import Catalog, WorkflowBinding
from projector.server.config.settings import Settings
from projector.server.config.upstream_settings import Timeouts
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.session import StreamSession
from projector.server.streaming.workflow_source import workflow_source
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from tests.waiting import wait_until

Play = Callable[[], AsyncGenerator[bytes, None]]


def event(event_type: str, **members: object) -> bytes:
    return b"data: " + json.dumps({"type": event_type, **members}).encode() + b"\n\n"


def delta(text: str) -> bytes:
    return event("response.output_text.delta", item_id="m", output_index=0, content_index=0, delta=text)


DONE = event("response.completed", response={"id": "r", "status": "completed"})


async def whole() -> AsyncGenerator[bytes, None]:
    yield delta("a")
    yield DONE


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield delta("a")


async def text_then_silence() -> AsyncGenerator[bytes, None]:
    yield delta("a")
    await anyio.sleep_forever()


async def broken() -> AsyncGenerator[bytes, None]:
    yield delta("a")
    raise UpstreamError(FAULTS["upstream_reset"])


async def crashing() -> AsyncGenerator[bytes, None]:
    yield delta("a")
    raise ZeroDivisionError


async def awaiting_what_was_cancelled() -> AsyncGenerator[bytes, None]:
    yield delta("a")
    over = asyncio.get_running_loop().create_future()
    over.cancel()
    await over


async def refused() -> AsyncGenerator[bytes, None]:
    raise UpstreamError(FAULTS["upstream_unreachable"])
    yield b""


class Upstream:
    """Yields the output of a function for each model, and records what is open and what was read."""

    providers = frozenset({"openai_responses"})
    is_recording = False

    def __init__(self, plays: dict[str, Play]) -> None:
        self._plays = plays
        self.open_now: Counter[str] = Counter()
        self.most_open = 0
        self.reads: Counter[str] = Counter()

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        model = str(request.body["model"])
        chunks = self._read(model)
        self.open_now[model] += 1
        self.most_open = max(self.most_open, self.open_now.total())
        try:
            if self._plays[model] is refused:
                await anext(chunks)
            yield chunks
        finally:
            self.open_now[model] -= 1
            await chunks.aclose()

    async def _read(self, model: str) -> AsyncGenerator[bytes, None]:
        async for chunk in self._plays[model]():
            self.reads[model] += 1
            yield chunk

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


class Consumer:
    """The callable of a run."""

    def __init__(self) -> None:
        self.data = b""
        self.gate = anyio.Event()
        self.gate.set()

    async def write(self, data: bytes) -> None:
        await self.gate.wait()
        self.data += data

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data.splitlines()]

    def ended(self) -> dict[str, Any]:
        assert check_stream(self.data.splitlines()) == []
        return self.frames[-1]


class Switch:
    """Forwards to the upstream of the current test, so that the server is created only once."""

    providers = frozenset({"openai_responses"})
    is_recording = False
    now: Upstream

    def open(self, request: ProviderRequest, /) -> Any:
        return self.now.open(request)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


@cache
def made(
    names: tuple[str, ...], on_failure: str, max_parallel: int, first_byte_s: float
) -> tuple[WorkflowBinding, Switch]:
    steps = [{"name": f"step-{name}", "agent": name, "on_failure": on_failure} for name in names]
    settings = Settings.model_validate(
        {
            "agents": {name: {"upstream": "default", "model": name, "policy": {"text": "off"}} for name in names},
            "workflows": {"w": {"stages": [{"name": "s", "steps": steps}], "max_parallel": max_parallel}},
            "timeouts": {"first_byte_s": first_byte_s},
            "retries": {"max": 0},
        }
    )
    switch = Switch()
    return Catalog(settings, lambda *_: switch).workflows["w"], switch


def a_run(
    upstream: Upstream, *, on_failure: str = "fail", max_parallel: int = 8, first_byte_s: float = 60
) -> StreamSession:
    offer, switch = made(tuple(upstream._plays), on_failure, max_parallel, first_byte_s)
    switch.now = upstream
    stats = StreamStats(stream_id="stream_1", request_id="", dialect="public_sse_v1")
    account = Account(Memory(10**9))
    source = workflow_source(offer, "hello", stats, account, output_format="ndjson")
    return StreamSession(stats, source, account, timeouts=Timeouts())


async def test_a_whole_run() -> None:
    upstream, consumer = Upstream({"a": whole, "b": whole}), Consumer()
    await a_run(upstream).run_without_http(consumer.write)
    assert consumer.ended()["final"] == {"status": "completed", "response_text": "a\n\na"}
    assert upstream.open_now.total() == 0


@pytest.mark.parametrize(
    ("play", "code"),
    [
        (broken, "upstream_reset"),
        (refused, "upstream_unreachable"),
        (crashing, "internal_error"),
        (awaiting_what_was_cancelled, "internal_error"),
    ],
)
async def test_a_step_fails(play: Play, code: str) -> None:
    upstream, consumer = Upstream({"a": play, "b": text_then_silence}), Consumer()
    await a_run(upstream).run_without_http(consumer.write)
    assert consumer.ended()["error"]["code"] == code
    assert upstream.open_now.total() == 0
    upstream, consumer = Upstream({"a": play, "b": whole}), Consumer()
    await a_run(upstream, on_failure="continue").run_without_http(consumer.write)
    assert consumer.ended()["final"]["status"] == "incomplete"
    reasons = [frame["reason"] for frame in consumer.frames if frame.get("reason")]
    assert reasons == [code]


async def test_all_steps_fail_and_the_run_goes_on() -> None:
    upstream, consumer = Upstream({"a": refused, "b": refused}), Consumer()
    await a_run(upstream, on_failure="continue").run_without_http(consumer.write)
    assert consumer.ended()["final"] == {"status": "incomplete"}


@pytest.mark.parametrize("play", [text_then_silence, endless])
@pytest.mark.parametrize("moment", range(0, 40, 5))
async def test_cancelling_at_any_moment(play: Play, moment: int) -> None:
    upstream, consumer = Upstream({"a": play, "b": play}), Consumer()
    run = a_run(upstream)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run_without_http, consumer.write)
        for _ in range(moment):
            await anyio.lowlevel.checkpoint()
        run.cancel()
        run.cancel()
        run.fail(FAULTS["server_shutdown"])
    assert consumer.ended()["final"]["status"] == "cancelled"
    assert upstream.open_now.total() == 0


async def test_failing_from_outside() -> None:
    upstream, consumer = Upstream({"a": text_then_silence, "b": text_then_silence}), Consumer()
    run = a_run(upstream)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run_without_http, consumer.write)
        await wait_until(lambda: len(consumer.frames) >= 4)
        run.fail(FAULTS["server_shutdown"])
    assert consumer.ended()["error"]["code"] == "server_shutdown"


async def test_a_blocked_consumer_stops_every_branch() -> None:
    upstream, consumer = Upstream({"a": endless, "b": endless, "c": endless}), Consumer()
    run = a_run(upstream)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run_without_http, consumer.write)
        await wait_until(lambda: len(upstream.reads) == 3)
        consumer.gate = anyio.Event()
        before = upstream.reads.copy()
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        ahead = upstream.reads - before
        assert max(ahead.values(), default=0) <= 2, "one read in hand, and the one that was under way"
        consumer.gate.set()
        run.cancel()
    assert consumer.ended()["final"]["status"] == "cancelled"


class LateUpstream(Upstream):
    """Answers for `b` on a signal."""

    def __init__(self, plays: dict[str, Play]) -> None:
        super().__init__(plays)
        self.may_answer = anyio.Event()

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        if request.body["model"] == "b":
            await self.may_answer.wait()
        async with super().open(request) as chunks:
            yield chunks


async def test_a_blocked_consumer_does_not_time_out_a_branch() -> None:
    """The upstream answers in time while the client has not yet received the output of another branch."""
    upstream, consumer = LateUpstream({"a": whole, "b": whole}), Consumer()
    run = a_run(upstream, first_byte_s=2)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run_without_http, consumer.write)
        await wait_until(lambda: consumer.data != b"")
        consumer.gate = anyio.Event()
        upstream.may_answer.set()
        await anyio.sleep(2.5)
        consumer.gate.set()
    assert consumer.ended()["final"]["status"] == "completed"


async def test_branches_take_turns() -> None:
    upstream, consumer = Upstream({"a": endless, "b": endless}), Consumer()
    run = a_run(upstream)
    async with anyio.create_task_group() as group:
        group.start_soon(run.run_without_http, consumer.write)
        while upstream.reads.total() < 400:
            await anyio.lowlevel.checkpoint()
        run.cancel()
    received = Counter(f["workflow"]["step_name"] for f in consumer.frames if f["kind"] == "message.delta")
    assert received.keys() == {"step-a", "step-b"}
    assert min(received.values()) > 0.2 * max(received.values()), "none waits while another one floods"


async def test_max_parallel_limits_open_upstreams() -> None:
    upstream, consumer = Upstream(dict.fromkeys("abcdef", whole)), Consumer()
    await a_run(upstream, max_parallel=2).run_without_http(consumer.write)
    assert upstream.most_open <= 2
    assert consumer.ended()["final"]["response_text"] == "\n\n".join("aaaaaa")


def headless(upstream: Upstream) -> HeadlessWorkflow:
    settings = Settings.model_validate(
        {
            "agents": {
                name: {"upstream": "default", "model": name, "policy": {"text": "off"}} for name in upstream._plays
            },
            "workflows": {
                "w": {
                    "stages": [
                        {"name": f"s-{name}", "steps": [{"name": name, "agent": name}]} for name in upstream._plays
                    ]
                }
            },
        }
    )
    return workflow(settings, "w", lambda *_: upstream)


async def test_a_run_as_an_iterator() -> None:
    upstream = Upstream({"a": whole, "b": whole})
    data = b"".join([data async for data in headless(upstream).stream("hello", output_format="ndjson")])
    assert check_stream(data.splitlines()) == []
    assert json.loads(data.splitlines()[-1])["final"]["response_text"] == "a"
    assert upstream.open_now.total() == 0


async def test_a_failed_run_as_an_iterator_has_its_terminal() -> None:
    data = [data async for data in headless(Upstream({"a": refused})).stream("hello", output_format="ndjson")]
    assert json.loads(data[-1])["error"]["code"] == "upstream_unreachable"


async def test_closing_the_iterator_closes_the_upstreams() -> None:
    upstream = Upstream({"a": endless})
    async with aclosing(headless(upstream).stream("hello")) as stream:
        async for _ in stream:
            assert upstream.open_now.total() == 1
            break
    assert upstream.open_now.total() == 0


async def test_unknown_names_of_a_run_without_http() -> None:
    upstream = Upstream({"a": whole})
    with pytest.raises(UsageError, match="unknown workflow `w`; known: none"):
        workflow(Settings(), "w")
    with pytest.raises(UsageError, match="unknown dialect `nonsense`"):
        await anext(headless(upstream).stream("hello", dialect="nonsense"))


async def test_a_callable_that_fails_closes_the_upstreams() -> None:
    upstream = Upstream({"a": text_then_silence, "b": text_then_silence})

    async def write(data: bytes) -> None:
        if data:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await a_run(upstream).run_without_http(write)
    assert upstream.open_now.total() == 0
