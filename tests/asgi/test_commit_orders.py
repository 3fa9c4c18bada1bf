"""All orders of what ends a response: commit, heartbeat, time limit, cancel, disconnect, drain, end of the upstream.

The real session runs behind the real router and error handlers, with a scripted upstream, `send` and `receive`, and a
clock that only the test moves. Signals arrive in one turn of the event loop, one or two turns apart, or after
everything came to rest. In every order the client receives one error response, or a stream with one terminal as its
last event, or, after it disconnected, nothing more; and the application never raises.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import anyio
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector import build_pipeline
from projector.core.faults import FAULTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.config.settings import Settings
from projector.server.http.problems import Problem, respond
from projector.server.streaming import memory, response_writer
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.session import ProviderSource, StreamSession
from projector.server.telemetry import logs
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from projector.server.upstream.targets import UpstreamBinding, attempts_of
from tests.dialect_checks import checker_of, violations_of

TEXT: Final = (
    b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"a"}\n\n'
)
DONE: Final = b'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n'

REDACTOR: Final = Redactor(Policy())

TURNS_MAX: Final = 200
TICKS_MAX: Final = 20


class ManualTime:
    """A clock in place of `time.monotonic`, also for the event loop."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedUpstream:
    """Does what the test tells it, when the test tells it."""

    providers = frozenset({"openai_responses"})
    is_recording = False

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.has_head = False
        self.failure: Exception | None = None
        self.chunks: deque[bytes] = deque()
        self.is_over = False
        self._changed = asyncio.Event()

    def notify(self) -> None:
        self._changed.set()

    @asynccontextmanager
    async def open(self, _request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        self.opened += 1
        try:
            await self._until(lambda: self.has_head)
            yield self._read()
        finally:
            self.closed += 1

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    async def _read(self) -> AsyncIterator[bytes]:
        while True:
            await self._until(lambda: bool(self.chunks) or self.is_over)
            if not self.chunks:
                return
            yield self.chunks.popleft()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self.failure is not None:
                raise self.failure
            self._changed.clear()
            await self._changed.wait()


class ScriptedClient:
    """`send` and `receive` of one request; it notes every violation of ASGI."""

    def __init__(self, *, is_slow: bool) -> None:
        self.messages: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.left = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._is_slow = is_slow
        self._knows_left = False
        self._is_complete = False

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        self._knows_left = True
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self._check(message)
        if self._is_slow:  # as behind a middleware that awaits
            await asyncio.sleep(0)
        if not self.reads.is_set():
            await self.reads.wait()
        if self.left.is_set() and not self._is_slow:
            raise OSError
        self.messages.append(message)
        if self._is_slow:
            await asyncio.sleep(0)

    async def write(self, data: bytes) -> None:
        """Receive a part of a stream without HTTP."""
        if self._is_complete:
            self.violations.append("written after a failure")
        await self.reads.wait()
        if self.left.is_set():
            self._is_complete = True
            raise ClientLeftError
        self.messages.append({"body": data})

    def _check(self, message: dict[str, Any]) -> None:
        """Check a message when it is handed over, before it is received."""
        is_start = message["type"] == "http.response.start"
        if self._knows_left:
            self.violations.append("sent after the disconnect was reported")
        if is_start != (not self.messages):
            self.violations.append(f"{message['type']} at position {len(self.messages)}")
        if self._is_complete:
            self.violations.append("sent after the end")
        self._is_complete = not is_start and not message.get("more_body", False)

    @property
    def is_complete(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def content_type(self) -> bytes:
        headers: dict[bytes, bytes] = dict(self.messages[0]["headers"])
        return headers[b"content-type"].partition(b";")[0]


class ClientLeftError(Exception):
    """The receiver of a stream without HTTP failed."""


class Mode(NamedTuple):
    """A kind of response."""

    dialect: str
    is_json: bool = False
    is_headless: bool = False

    def __str__(self) -> str:
        return f"{self.dialect}-{'json' if self.is_json else 'stream'}"


class Timing(NamedTuple):
    """Seconds of silence before a heartbeat, and before the upstream is too slow."""

    heartbeat_s: float
    limit_s: float


@cache
def settings_of(timing: Timing) -> Settings:
    """Return the settings of a session, which are validated once for thousands of orders."""
    limits = {"first_byte_s": timing.limit_s, "idle_s": timing.limit_s, "total_s": 9}
    return Settings.model_validate({"timeouts": limits, "retries": {"max": 0}})


class Scene:
    """One request to one session."""

    def __init__(self, mode: Mode, timing: Timing, clock: ManualTime, *, is_slow: bool) -> None:
        self.mode, self.clock = mode, clock
        self.upstream, self.client = ScriptedUpstream(), ScriptedClient(is_slow=is_slow)
        given = settings_of(timing)
        self.stats = StreamStats(stream_id="stream_1", request_id="req_1", dialect=mode.dialect)
        pipeline = build_pipeline(
            provider="openai_responses",
            dialect=mode.dialect,
            on_frame=self.stats.on_frame,
            output_format="ndjson" if mode.is_json else "sse",
        )
        account = Account(Memory(10**9))
        binding = UpstreamBinding("", "openai_responses", self.upstream, given.timeouts, given.retries, {}, ("", 0))
        attempts = attempts_of(binding, lambda _: {}, self.stats)
        self.session = StreamSession(
            self.stats,
            ProviderSource(lambda: pipeline, attempts, self.stats, account, REDACTOR),
            account,
            timeouts=given.timeouts,
            heartbeat_s=timing.heartbeat_s,
            is_json=mode.is_json,
        )

    async def settle(self) -> None:
        """Run the event loop until only the test is left."""
        loop: Any = asyncio.get_running_loop()
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if not loop._ready:
                return
        raise AssertionError("the event loop does not come to rest")

    async def play(self, app: Starlette, signals: tuple[str, ...], turns: tuple[int | None, ...]) -> None:
        """Send signals, each followed by a number of turns of the event loop; None: until it is at rest."""
        prefix = "/v1" if self.mode.dialect in OPENAI_DIALECTS else "/api/v1"
        scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": f"{prefix}/x", "headers": []}
        scope |= {"query_string": b"", "root_path": "", "state": {"request_id": "req_1"}, "scene": self}
        if self.mode.is_headless:
            task = asyncio.create_task(self._run_without_http())
        else:
            task = asyncio.create_task(app(scope, self.client.receive, self.client.send))  # type: ignore[arg-type]
        await self.settle()
        for signal, pause in zip(signals, turns, strict=True):
            SIGNALS[signal](self)
            if pause is None:
                await self.settle()
            for _ in range(pause or 0):
                await asyncio.sleep(0)
        self.client.reads.set()
        await self.settle()
        for _ in range(TICKS_MAX):
            if task.done():
                break
            self.clock.now += 1
            await self.settle()
        assert task.done(), "the response does not end"
        await task

    async def _run_without_http(self) -> None:
        try:
            await self.session.run_without_http(self.client.write)
        except ClientLeftError:
            assert self.client.left.is_set()

    def check(self) -> None:
        """Check what the client received."""
        client = self.client
        assert client.violations == []
        assert self.upstream.opened == self.upstream.closed
        if self.mode.is_headless:
            self._check_stream(is_complete=not client.left.is_set())
            return
        assert client.is_complete or client.left.is_set()
        if not client.messages:
            return
        if client.content_type == b"text/event-stream":
            self._check_stream(is_complete=client.is_complete)
        elif client.is_complete:
            self._check_document()

    def _check_stream(self, *, is_complete: bool) -> None:
        assert not self.mode.is_json
        assert self.mode.is_headless or self.client.messages[0]["status"] == 200
        lines = [line[6:] for line in self.client.body.split(b"\n") if line.startswith(b"data: ")]
        if is_complete:
            assert violations_of(self.mode.dialect, lines) == []
            last = self.client.body[:-2].rpartition(b"\n\n")[2]
            assert b"data: " in last, "a comment after the terminal"
        else:
            checker = checker_of(self.mode.dialect)
            assert [one for number, line in enumerate(lines, 1) for one in checker.feed(number, line)] == []

    def _check_document(self) -> None:
        body, status = json.loads(self.client.body), self.client.messages[0]["status"]
        if self.client.content_type == b"application/problem+json":
            assert (body["status"], bool(body["code"])) == (status, True)
        elif "error" in body and status != 200:
            assert set(body["error"]) == {"message", "type", "param", "code"} or self.mode.dialect == "openresponses"
        else:
            assert self.mode.is_json
            assert (status, body["object"]) == (200, OBJECTS[self.mode.dialect])


OPENAI_DIALECTS: Final = frozenset({"responses", "chat_completions"})
OBJECTS: Final = {"responses": "response", "openresponses": "response", "chat_completions": "chat.completion"}


def _tick(scene: Scene) -> None:
    scene.clock.now += 1


def _upstream(change: Callable[[ScriptedUpstream], object]) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        change(scene.upstream)
        scene.upstream.notify()

    return act


SIGNALS: Final[Mapping[str, Callable[[Scene], None]]] = {
    "tick": _tick,  # heartbeats and time limits
    "head": _upstream(lambda upstream: setattr(upstream, "has_head", True)),  # commits the status of a stream
    "text": _upstream(lambda upstream: upstream.chunks.append(TEXT)),
    "done": _upstream(lambda upstream: upstream.chunks.append(DONE)),
    "eof": _upstream(lambda upstream: setattr(upstream, "is_over", True)),
    "reset": _upstream(lambda upstream: setattr(upstream, "failure", UpstreamError(FAULTS["upstream_reset"]))),
    "crash": _upstream(lambda upstream: setattr(upstream, "failure", KeyError("a mistake in the source"))),
    "cancel": lambda scene: scene.session.cancel(),
    "drain": lambda scene: scene.session.fail(FAULTS["server_shutdown"]),
    "leave": lambda scene: scene.client.left.set(),
    "stall": lambda scene: scene.client.reads.clear(),
    "read": lambda scene: scene.client.reads.set(),
}
PREFIXES: Final = ((), ("head",), ("head", "text"), ("stall", "head"), ("tick",), ("head", "text", "stall", "text"))
"""What happened before; then the event loop came to rest."""
PAUSES: Final = (0, 1, 2, None)
TIMINGS: Final = (Timing(1, 1), Timing(1, 2), Timing(2, 1))
MODES: Final = (
    Mode("public_sse_v1"),
    Mode("responses", is_json=True),
    Mode("ag_ui"),
    Mode("responses"),
    Mode("openresponses"),
    Mode("chat_completions"),
    Mode("openresponses", is_json=True),
    Mode("chat_completions", is_json=True),
)
"""The first two are explored most: the writers of the others differ only in the dialect."""

Orders: TypeAlias = Iterator[tuple[tuple[str, ...], tuple[int | None, ...]]]
"""Signals, and the turns of the event loop after each; None: until it is at rest."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualTime:
    manual = ManualTime()
    monkeypatch.setattr(time, "monotonic", manual)
    return manual


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Starlette:
    """Return an application that runs the session of a request, with the error handlers of the server."""
    monkeypatch.setattr(logs.log, "error", lambda *_args, **_fields: None)

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        await scope["scene"].session.run(scope, receive, send)

    return Starlette(
        routes=[Route("/{path:path}", _Endpoint(endpoint), methods=["POST"])],
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), respond),
    )


class _Endpoint:
    """An ASGI application that is no function, so that the router calls it as one."""

    def __init__(self, run: Callable[[Scope, Receive, Send], Any]) -> None:
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._run(scope, receive, send)


class Client(NamedTuple):
    """A kind of client, and the timings of the session."""

    timing: Timing
    is_slow: bool


ALL_CLIENTS: Final = tuple(Client(timing, is_slow) for timing in TIMINGS for is_slow in (False, True))
FAST_CLIENTS: Final = tuple(Client(timing, is_slow=False) for timing in TIMINGS)


async def explore(app: Starlette, clock: ManualTime, mode: Mode, orders: Orders, clients: Sequence[Client]) -> None:
    """Play each order with each client; only with one timing if no time passes."""
    failed: list[str] = []
    for signals, pauses in orders:
        for client in clients:
            if "tick" not in signals and client.timing != clients[0].timing:
                continue
            scene = Scene(mode, client.timing, clock, is_slow=client.is_slow)
            try:
                await scene.play(app, signals, pauses)
                scene.check()
            except Exception as error:  # noqa: BLE001 - all failing orders are reported
                failed.append(f"{signals} {pauses} {client}: {error!r:.300}")
    assert failed == [], f"{len(failed)} orders, such as {failed[:5]}"


def orders_of(
    length: int, pauses: tuple[int | None, ...], prefixes: Sequence[tuple[str, ...]], names: Iterable[str] = SIGNALS
) -> Orders:
    """Yield every order of some signals after each prefix, with every pause between them."""
    for prefix, signals in itertools.product(prefixes, itertools.product(tuple(names), repeat=length)):
        for between in itertools.product(pauses, repeat=length - 1):
            yield (*prefix, *signals), (*[None] * len(prefix), *between, None)


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda prefix: "-".join(prefix) or "start")
@pytest.mark.parametrize("mode", MODES[:2], ids=str)
async def test_every_order_of_two_signals(
    app: Starlette, clock: ManualTime, mode: Mode, prefix: tuple[str, ...]
) -> None:
    await explore(app, clock, mode, orders_of(2, PAUSES, [prefix]), ALL_CLIENTS)


@pytest.mark.parametrize("mode", MODES[2:], ids=str)
async def test_every_order_of_two_signals_in_the_other_dialects(app: Starlette, clock: ManualTime, mode: Mode) -> None:
    await explore(app, clock, mode, orders_of(2, (0, None), PREFIXES[:3]), FAST_CLIENTS[:1])


HEADLESS: Final = Mode("public_sse_v1", is_headless=True)


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda prefix: "-".join(prefix) or "start")
async def test_every_order_of_two_signals_without_http(
    app: Starlette, clock: ManualTime, prefix: tuple[str, ...]
) -> None:
    """A stream without a status, whose receiver waits or fails instead of a client."""
    await explore(app, clock, HEADLESS, orders_of(2, (0, 1, None), [prefix]), FAST_CLIENTS[:1])


@pytest.mark.parametrize("mode", MODES[:2], ids=str)
async def test_every_order_of_three_signals(app: Starlette, clock: ManualTime, mode: Mode) -> None:
    names = ("tick", "head", "done", "reset", "cancel", "drain", "leave", "stall")
    await explore(app, clock, mode, orders_of(3, (0, 1), [()], names), FAST_CLIENTS)


@pytest.mark.parametrize("mode", MODES[:2], ids=str)
async def test_every_order_while_large_events_are_parsed_in_threads(
    app: Starlette, clock: ManualTime, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events and JSON documents are processed while other signals arrive, and the processing is not cancelled."""
    monkeypatch.setattr(memory, "LARGE_EVENT_BYTES", 0)
    monkeypatch.setattr(memory, "HEAVY_BYTES", -1)
    monkeypatch.setattr(response_writer, "LARGE_EVENT_BYTES", 0)
    monkeypatch.setattr(memory, "to_thread", SlowThreads)
    await explore(app, clock, mode, orders_of(2, (0, 1, 2), [("head",), ("head", "text")]), FAST_CLIENTS[:1])


class SlowThreads:
    """Threads in place of `anyio.to_thread`, each of which takes four turns of the event loop."""

    @staticmethod
    async def run_sync(work: Callable[..., Any], *arguments: object, limiter: anyio.CapacityLimiter) -> Any:
        async with limiter:
            return await SlowThreads._run(work, *arguments)

    @staticmethod
    async def _run(work: Callable[..., Any], *arguments: object) -> Any:
        with anyio.CancelScope(shield=True):
            for _ in range(2):
                await asyncio.sleep(0)
            result = work(*arguments)
            for _ in range(2):
                await asyncio.sleep(0)
        return result
