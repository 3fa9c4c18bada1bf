"""Several targets of an agent or model, over sockets: order, failover, circuits, and state at one provider."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from structlog.testing import capture_logs

from projector.core.sse import encode_sse
from projector.server.upstream.failover import REMEDIES
from tests.asgi.conftest import SSE_HEAD, Answer, Site, abort

pytestmark = pytest.mark.timeout(20)

NAMES: Final = ("one", "two", "three")
FRESH: Final = iter(range(10**6))
"""Numbers of models: each test has targets of its own, which nothing has cooled."""
TLS: Final = b"\x16"
"""First byte of a client that expects TLS."""
MAX_RETRIES: Final = 2
CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"


class Call(NamedTuple):
    """A request that a provider received."""

    head: str
    body: dict[str, Any]


class Wire:
    """A connection, from the provider's side."""

    def __init__(self, provider: Provider, call: Call, writer: asyncio.StreamWriter, closed: asyncio.Event) -> None:
        self.provider = provider
        self.call = call
        self.writer = writer
        self.closed = closed

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def events(self, *events: dict[str, Any]) -> None:
        data = b"".join(encode_sse(json.dumps(event).encode()) for event in events)
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))


Play: TypeAlias = Callable[[Wire], Awaitable[None]]


class Provider:
    """A provider that plays its behaviours one after another, then answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plays: deque[Play] = deque()
        self.calls: list[Call] = []
        self.called = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (first := await reader.readexactly(1)) == TLS:
            writer.write(b"no TLS here")
            return
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r")[0] or 0)
        call = Call(head, json.loads(await reader.readexactly(length)) if length else {})
        self.calls.append(call)
        self.called.set()
        closed = asyncio.Event()
        watching = asyncio.create_task(_watch(reader, closed))
        try:
            await (self.plays.popleft() if self.plays else answers)(Wire(self, call, writer, closed))
        finally:
            watching.cancel()


async def _watch(reader: asyncio.StreamReader, closed: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        await reader.read()
    closed.set()


def events_of(name: str, number: int, call: Call) -> list[dict[str, Any]]:
    """Return an answer that consists of the provider's name."""
    ids = f"{name}_{number}"
    if "messages" in call.body:
        chunk = {"id": f"c_{ids}", "object": "chat.completion.chunk", "created": 1, "model": call.body["model"]}
        return [
            {**chunk, "choices": [{"index": 0, "delta": {"content": name}, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
    response = {"id": f"resp_{ids}", "status": "in_progress"}
    item = {"id": f"msg_{ids}", "type": "message", "role": "assistant", "content": []}
    delta = {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": name}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", **delta},
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    ]


async def answers(wire: Wire) -> None:
    """Answer with the provider's name."""
    await wire.send(SSE_HEAD)
    await wire.events(*events_of(wire.provider.name, len(wire.provider.calls), wire.call))
    await wire.send(b"0\r\n\r\n")


async def breaks_off(wire: Wire) -> None:
    """Begin to answer, then reset the connection."""
    await wire.send(SSE_HEAD)
    await wire.events(*events_of(wire.provider.name, len(wire.provider.calls), wire.call)[:1])
    await asyncio.sleep(0.02)
    abort(wire.writer)


async def closes(_wire: Wire) -> None:
    """Close without a response."""


async def resets(wire: Wire) -> None:
    """Reset the connection."""
    abort(wire.writer)


async def head_only(wire: Wire) -> None:
    """Send the head of a response, and close."""
    await wire.send(SSE_HEAD)


async def silent(wire: Wire) -> None:
    """Send nothing."""
    await wire.closed.wait()


async def silent_after_head(wire: Wire) -> None:
    """Send the head of a response, and nothing else."""
    await wire.send(SSE_HEAD)
    await wire.closed.wait()


async def not_http(wire: Wire) -> None:
    """Send something that is not HTTP."""
    await wire.send(b"SSH-2.0-x\r\n\r\n")


def status(code: int, *lines: str) -> Play:
    """Return a behaviour that answers with an error."""
    body = b'{"error": {"message": "No."}}'
    head = [f"HTTP/1.1 {code} X", f"content-length: {len(body)}", "connection: close", *lines, "", ""]

    async def play(wire: Wire) -> None:
        await wire.send("\r\n".join(head).encode() + body)

    return play


class Row(NamedTuple):
    """A failure: the code, what may follow (`again`: the same target, `over`: another one), and how it is made."""

    code: str
    remedy: str
    play: Play


ROWS: Final[Mapping[str, Row]] = {
    "closes": Row("upstream_reset", "again over", closes),
    "resets": Row("upstream_reset", "again over", resets),
    "head only": Row("upstream_reset", "again over", head_only),
    "silent": Row("upstream_timeout_first_byte", "over", silent),
    "silent after the head": Row("upstream_timeout_first_byte", "over", silent_after_head),
    "not http": Row("upstream_malformed", "over", not_http),
    **{
        str(code): Row(f"upstream_http_{code}", remedy, status(code))
        for remedy, codes in {
            "again over": (408, 429, 500, 502, 503, 504, 529, 599),
            "over": (401, 402, 403, 404, 410),
            "again": (409, 425),
            "": (307, 400, 413, 418, 422, 501, 505),
        }.items()
        for code in codes
    },
    "429 wait": Row("upstream_http_429", "over", status(429, "retry-after: 60")),
    "503 wait": Row("upstream_http_503", "over", status(503, "retry-after: 60")),
    "500 final": Row("upstream_http_500", "over", status(500, "x-should-retry: false")),
}


class Farm:
    """Three providers, and a server with agents for them."""

    def __init__(self, site: Site, providers: Mapping[str, Provider]) -> None:
        self.site = site
        self.providers = providers

    async def ask(self, agent: str, **body: Any) -> Answer:
        return await self.site.ask(body={"agent": agent, "message": "hello", **body})

    @property
    def calls(self) -> dict[str, int]:
        """The number of requests that each provider received, without those that received none."""
        return {name: len(one.calls) for name, one in self.providers.items() if one.calls}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in (*NAMES, "refused")}


@pytest.fixture
async def providers(ports: dict[str, int]) -> AsyncIterator[dict[str, Provider]]:
    found = {name: Provider(name) for name in NAMES}
    async with contextlib.AsyncExitStack() as stack:
        for name, one in found.items():
            listening = await asyncio.start_server(one.on_connection, "127.0.0.1", ports[name])
            stack.callback(listening.close)
        yield found
        tasks = [task for one in found.values() for task in one.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


AGENTS: Final = 120


def settings_of(ports: dict[str, int], **more: Any) -> dict[str, Any]:
    """Return settings with many agents, each with targets of its own."""
    urls = {name: f"http://127.0.0.1:{port}/v1" for name, port in ports.items()}
    urls["tls"] = urls["one"].replace("http:", "https:")
    chains = {
        "two": ("one", "two"),
        "three": NAMES,
        "alone": ("one",),
        "tls": ("tls", "two"),
        "refused": ("refused", "two"),
    }
    agents = {
        f"{kind}-{number}": {"targets": [{"upstream": name, "model": f"m{number}"} for name in chain]}
        for kind, chain in chains.items()
        for number in range(AGENTS)
    }
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {name: {"base_url": url, "timeouts": {"first_byte_s": 0.25}} for name, url in urls.items()},
        "agents": agents,
        "retries": {"max": MAX_RETRIES, "initial_backoff_s": 0.01, "budget_share": 10},
        **more,
    }


@pytest.fixture
def farm(serve: Any, ports: dict[str, int], providers: dict[str, Provider]) -> Farm:
    return Farm(serve(**settings_of(ports)), providers)


def fresh(kind: str) -> str:
    """Return an agent that no test has used."""
    return f"{kind}-{next(FRESH) % AGENTS}"


async def outcome_of(answer: Answer) -> tuple[str, str]:
    """Return who answered, and the code of the failure."""
    if answer.status != 200:
        return "", (await answer.problem())["code"]
    frames = await answer.frames()
    assert sum(frame["kind"] in {"final", "error"} for frame in frames) == 1
    last = frames[-1]
    return last.get("final", {}).get("response_text", ""), last.get("error", {}).get("code", "")


# one row for each failure


@pytest.mark.parametrize("name", ROWS)
async def test_what_follows_a_failure(farm: Farm, name: str) -> None:
    row = ROWS[name]
    farm.providers["one"].plays.append(row.play)
    with capture_logs() as logs:
        found = await outcome_of(await farm.ask(fresh("two")))
    failovers = [(line["upstream"], line["to"], line["code"]) for line in logs if line["event"] == "upstream_failover"]
    if "over" in row.remedy:
        assert (found, farm.calls) == (("two", ""), {"one": 1, "two": 1})
        assert failovers == [("one", "two", row.code)]
    elif row.remedy == "again":
        assert (found, farm.calls, failovers) == (("one", ""), {"one": 2}, [])
    else:
        assert (found, farm.calls, failovers) == (("", row.code), {"one": 1}, [])


@pytest.mark.parametrize("name", ROWS)
async def test_what_follows_if_every_request_fails(farm: Farm, name: str) -> None:
    row = ROWS[name]
    for one in farm.providers.values():
        one.plays.extend([row.play] * 9)
    assert await outcome_of(await farm.ask(fresh("two"))) == ("", row.code)
    expected = {
        "again over": {"one": 2, "two": 2},  # a request to each, and as many repetitions as there may be
        "over": {"one": 1, "two": 1},
        "again": {"one": 1 + MAX_RETRIES},
        "": {"one": 1},
    }
    assert farm.calls == expected[row.remedy]


@pytest.mark.parametrize("name", ROWS)
async def test_a_single_target_keeps_its_retries(farm: Farm, name: str) -> None:
    row = ROWS[name]
    farm.providers["one"].plays.extend([row.play] * 9)
    assert await outcome_of(await farm.ask(fresh("alone"))) == ("", row.code)
    assert farm.calls == {"one": 1 + MAX_RETRIES * ("again" in row.remedy)}


@pytest.mark.parametrize(("kind", "reason"), [("refused", "refused"), ("tls", "tls")])
async def test_a_target_that_cannot_be_connected_to(farm: Farm, kind: str, reason: str) -> None:
    with capture_logs() as logs:
        assert await outcome_of(await farm.ask(fresh(kind))) == ("two", "")
    [line] = [line for line in logs if line["event"] == "upstream_failover"]
    assert (line["code"], line["reason"]) == ("upstream_unreachable", reason)


def test_every_remedy_is_tested() -> None:
    tested = {row.code for row in ROWS.values()} | {"upstream_unreachable", "upstream_timeout_connect"}
    assert {code for code in REMEDIES if not code.startswith("upstream_http_5")} <= tested


# sequences of failures


@pytest.mark.parametrize("seed", range(12))
async def test_sequences_of_failures(farm: Farm, seed: int) -> None:
    """One end, no more calls than allowed, and never the bytes of two targets."""
    draw = random.Random(seed)
    for one in farm.providers.values():
        names = draw.choices([*ROWS, "answers", "breaks off"], k=draw.randrange(4))
        plays = {"answers": answers, "breaks off": breaks_off} | {name: row.play for name, row in ROWS.items()}
        one.plays.extend(plays[name] for name in names)
    text, code = await outcome_of(await farm.ask(fresh("three")))
    assert (text in NAMES) != (code != "")
    assert sum(farm.calls.values()) <= MAX_RETRIES + len(NAMES)
    assert await farm.site.is_quiet()


async def test_no_failover_once_a_byte_was_used(farm: Farm) -> None:
    farm.providers["one"].plays.append(breaks_off)
    assert await outcome_of(await farm.ask(fresh("two"))) == ("", "upstream_reset")
    assert farm.calls == {"one": 1}


async def test_failover_after_a_heartbeat(serve: Any, ports: dict[str, int], providers: dict[str, Provider]) -> None:
    """The status was committed by a heartbeat, but no byte of a target was used."""
    farm = Farm(serve(**settings_of(ports, heartbeat_s=0.05)), providers)
    farm.providers["one"].plays.append(silent)
    answer = await farm.ask(fresh("two"))
    data = await answer.rest()
    assert answer.status == 200
    assert data.startswith(b": heartbeat")
    assert b'"response_text":"two"' in data


async def test_a_disconnect_during_an_attempt_ends_them(farm: Farm) -> None:
    farm.providers["one"].plays.append(silent)
    answer = await farm.site.post(body={"agent": fresh("two"), "message": "hello"})
    await asyncio.wait_for(farm.providers["one"].called.wait(), 5)
    answer.leave()
    assert await farm.site.is_quiet()
    assert farm.calls == {"one": 1}


async def test_a_target_that_asked_to_wait_is_tried_last(farm: Farm) -> None:
    agent = fresh("two")
    farm.providers["one"].plays.append(status(429, "retry-after: 60"))
    for _ in range(3):
        assert await outcome_of(await farm.ask(agent)) == ("two", "")
    assert farm.calls == {"one": 1, "two": 3}
    farm.providers["two"].plays.append(status(503))
    assert await outcome_of(await farm.ask(agent)) == ("one", "")


# what depends on the target


async def test_everything_follows_the_target(serve: Any, ports: dict[str, int], providers: dict[str, Provider]) -> None:
    chat = {"api": "openai_chat"}
    upstreams = {
        "one": {**chat, "headers": {"x-tenant": "a"}, "profile": {"takes_stream_options": False}},
        "two": {**chat, "headers": {"x-tenant": "b"}, "profile": {"think_mode": "off"}},
    }
    targets = [{"upstream": "one", "model": "m-one"}, {"upstream": "two", "model": "m-two"}]
    for name, one in upstreams.items():
        one["base_url"] = f"http://127.0.0.1:{ports[name]}/v1"
    given = {
        "upstreams": upstreams,
        "agents": {"default": {"targets": targets}},
        "models": {"fast": {"targets": targets}},
    }
    site = serve(api_key=None, base_url=None, **given)
    thoughts = {"choices": [{"index": 0, "delta": {"content": "<think>a</think>b"}, "finish_reason": "stop"}]}

    async def thinks(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        await wire.events({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **thoughts})
        await wire.send(b"0\r\n\r\n")

    async def text() -> str:
        return (await outcome_of(await site.ask()))[0]

    providers["one"].plays.extend([thinks, status(503)])
    providers["two"].plays.append(thinks)
    assert await text() == "b"
    with capture_logs() as logs:
        assert await text() == "<think>a</think>b"
        assert await site.is_quiet()
    line = [line for line in logs if line["event"] == "stream_end"][-1]
    assert (line["upstream"], line["model"]) == ("two", "m-two")
    for name, tenant, has_options in (("one", "a", False), ("two", "b", True)):
        call = providers[name].calls[-1]
        assert (call.body["model"], "stream_options" in call.body) == (f"m-{name}", has_options)
        assert f"x-tenant: {tenant}" in call.head

    # a model of a passthrough route
    providers["one"].plays.append(status(500))
    answer = await site.ask(CHAT, {"model": "fast", "messages": [{"role": "user", "content": "a"}]})
    assert json.loads(await answer.rest())["choices"][0]["message"]["content"] == "two"
    assert providers["two"].calls[-1].body["model"] == "m-two"
    answer = await site.ask(CHAT, {"model": "m-one", "messages": []})
    assert (answer.status, await answer.error_code()) == (404, "model_not_found")
    listed = json.loads(await (await site.get("/v1/models")).rest())
    assert [model["id"] for model in listed["data"]] == ["fast"]


async def test_weights(serve: Any, ports: dict[str, int], providers: dict[str, Provider]) -> None:
    targets = [{"upstream": "one", "model": "m", "weight": 3}, {"upstream": "two", "model": "m"}]
    agents = {"default": {"targets": targets, "balance": "weight"}}
    farm = Farm(serve(**settings_of(ports) | {"agents": agents}), providers)
    found = [(await outcome_of(await farm.site.ask()))[0] for _ in range(8)]
    assert found == ["one", "one", "two", "one"] * 2
    farm.providers["one"].plays.append(status(500))
    assert (await outcome_of(await farm.site.ask()))[0] == "two"


# state at one provider


@pytest.fixture
def stateful(serve: Any, ports: dict[str, int], providers: dict[str, Provider]) -> Farm:
    targets = [{"upstream": name, "model": "m"} for name in ("one", "two")]
    models = {"fast": {"targets": targets}, "other": {"targets": [{"upstream": "three", "model": "m"}]}}
    agents = {"default": {"targets": targets}, "alone": {"upstream": "three", "model": "m"}}
    return Farm(serve(**settings_of(ports) | {"agents": agents, "models": models}), providers)


async def first_at_two(farm: Farm) -> str:
    """Get a response of the second target; return its ID."""
    farm.providers["one"].plays.append(status(500))
    frames = await (await farm.site.ask()).frames()
    assert frames[-1]["final"]["response_text"] == "two"
    response_id: str = frames[-1]["response_id"]
    return response_id


async def test_a_response_is_continued_where_it_is(stateful: Farm) -> None:
    response_id = await first_at_two(stateful)
    for one in stateful.providers.values():
        one.calls.clear()
    body = {"message": "more", "previous_response_id": response_id}
    assert await outcome_of(await stateful.site.ask(body=body)) == ("two", "")
    stateful.providers["two"].plays.extend([status(503)] * 9)
    assert await outcome_of(await stateful.site.ask(body=body)) == ("", "upstream_http_503")
    assert stateful.calls == {"two": 1 + 1 + MAX_RETRIES}
    answer = await stateful.site.ask(body={**body, "agent": "alone"})
    assert (answer.status, (await answer.problem())["code"]) == (404, "unknown_response")
    assert stateful.calls == {"two": 1 + 1 + MAX_RETRIES}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"previous_response_id": "resp_two_1"}, "two"),
        ({"input": [{"type": "item_reference", "id": "msg_two_1"}]}, "two"),
        ({"input": [{"id": "msg_two_1"}]}, "two"),
        ({"input": [{"type": "reasoning", "id": "msg_two_1", "summary": [], "encrypted_content": "x"}]}, "two"),
        # where it is not known, it is the first target
        ({"input": [{"type": "item_reference", "id": "msg_old"}]}, "one"),
        ({"conversation": "conv_1"}, "one"),
        ({"conversation": {"id": "conv_2"}}, "one"),
    ],
)
async def test_a_reference_decides_the_target(stateful: Farm, change: dict[str, Any], expected: str) -> None:
    await first_at_two(stateful)
    body = {"model": "fast", "input": "hello", "store": True, **change}
    answer = await stateful.site.ask(RESPONSES, body)
    assert json.loads(await answer.rest())["output"][0]["content"][0]["text"] == expected
    calls = stateful.calls
    other = next(name for name in ("one", "two") if name != expected)
    stateful.providers[expected].plays.extend([status(500)] * 9)
    answer = await stateful.site.ask(RESPONSES, body)
    assert answer.status == 500
    assert stateful.calls == {**calls, expected: calls[expected] + 1 + MAX_RETRIES, other: calls[other]}


async def test_references_to_several_upstreams(stateful: Farm) -> None:
    await first_at_two(stateful)
    answer = await stateful.site.ask(RESPONSES, {"model": "other", "input": "hello"})
    other = json.loads(await answer.rest())["id"]
    refers = [{"type": "item_reference", "id": "msg_two_1"}]
    answer = await stateful.site.ask(RESPONSES, {"model": "fast", "previous_response_id": other, "input": refers})
    assert (answer.status, await answer.error_code()) == (400, "invalid_request")
    answer = await stateful.site.ask(RESPONSES, {"model": "fast", "previous_response_id": other, "input": "more"})
    assert (answer.status, await answer.error_code()) == (404, "unknown_response")


# circuits and budgets


@pytest.fixture
def circuit(serve: Any, ports: dict[str, int], providers: dict[str, Provider]) -> Iterator[Callable[..., Farm]]:
    """Return a function that starts a server with a circuit breaker, which no other test uses."""

    def start(open_s: float, **more: Any) -> Farm:
        limits = {"failures": 2, "open_s": open_s}
        return Farm(serve(**settings_of(ports, circuit_breaker=limits, **more)), providers)

    return start


async def metric(site: Site, sample: str) -> float | None:
    lines = (await (await site.get("/metrics")).rest()).decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample + " ")), None)


async def test_a_circuit_opens_and_closes(circuit: Callable[..., Farm]) -> None:
    farm, agent = circuit(0.3), "two-1"
    state = 'projector_upstream_circuit_state{model="m1",upstream="one"}'
    farm.providers["one"].plays.extend([status(500)] * 3)
    with capture_logs() as logs:
        for _ in range(4):
            assert await outcome_of(await farm.ask(agent)) == ("two", "")
        assert farm.calls == {"one": 2, "two": 4}
        assert await metric(farm.site, state) == 2
        await asyncio.sleep(0.35)
        for _ in range(2):  # the probe fails
            assert await outcome_of(await farm.ask(agent)) == ("two", "")
        assert farm.calls == {"one": 3, "two": 6}
        await asyncio.sleep(0.35)
        for _ in range(2):  # the probe succeeds
            assert await outcome_of(await farm.ask(agent)) == ("one", "")
    assert await metric(farm.site, state) == 0
    events = [(line["event"], line["upstream"]) for line in logs if line["event"].startswith("upstream_circuit")]
    assert events == [
        ("upstream_circuit_opened", "one"),
        ("upstream_circuit_opened", "one"),
        ("upstream_circuit_closed", "one"),
    ]
    failovers = await metric(farm.site, 'projector_upstream_failovers_total{code="upstream_http_500",upstream="one"}')
    assert failovers == 3


async def test_all_circuits_are_open(circuit: Callable[..., Farm]) -> None:
    farm, agent = circuit(60), "two-2"
    for one in farm.providers.values():
        one.plays.extend([status(500)] * 99)
    for _ in range(2):
        assert await outcome_of(await farm.ask(agent)) == ("", "upstream_http_500")
    calls = farm.calls
    with capture_logs() as logs:
        answer = await farm.ask(agent)
        problem = await answer.problem()
        assert await farm.site.is_quiet()
    assert (answer.status, problem["code"], problem["is_retryable"]) == (503, "upstream_unavailable", True)
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert farm.calls == calls
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert line["reason"] == "circuit_open"
    ready = await farm.site.get("/readyz")
    assert ready.status == 200


async def test_refusals_open_no_circuit(circuit: Callable[..., Farm]) -> None:
    """A caller could otherwise shut out all others with requests that the provider refuses."""
    farm, agent = circuit(61), "alone-3"
    for code in (400, 401, 403, 404, 422, 429, 501):
        farm.providers["one"].plays.extend([status(code, "retry-after: 60")] * 3)
        for _ in range(3):
            assert (await farm.ask(agent)).status != 200
    assert await outcome_of(await farm.ask(agent)) == ("one", "")


async def test_a_budget_bounds_the_retries_of_all_requests(
    serve: Any, ports: dict[str, int], providers: dict[str, Provider]
) -> None:
    retries = {"max": 2, "initial_backoff_s": 0.001, "budget_share": 0}
    farm = Farm(serve(**settings_of(ports, retries=retries)), providers)
    farm.providers["one"].plays.extend([status(500)] * 999)
    answers_ = [await farm.ask("alone-4") for _ in range(30)]
    assert {answer.status for answer in answers_} == {502}
    refused = await metric(farm.site, 'projector_upstream_retries_refused_total{upstream="one"}')
    assert refused is not None
    assert refused >= 1
    assert farm.calls["one"] < 30 * 3
