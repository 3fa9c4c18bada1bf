"""Rate limits of callers and agents, on every kind of route, and however a stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
from starlette.routing import Route
from structlog.testing import capture_logs

from projector.openwop.host import OPEN_PATHS
from projector.server.app import rebuild
from projector.server.config.settings import Settings
from projector.server.control.token_meter import OUTPUT_DEFAULT, TokenMeter
from projector.server.telemetry import reports as telemetry_reports
from projector.store.budgets import MemoryBudgets
from tests.asgi.callers import REFUSED, Clock, Server, Upstream, completed, event, keys, text
from tests.asgi.in_process import Client
from tests.waiting import wait_until

CHAT: Final = "/api/v1/chat/stream"
RESPONSES: Final = "/v1/responses"
PASSTHROUGH: Final = (RESPONSES, "/v1/chat/completions")
ASKED: Final = {"model": "m", "input": "hi"}

ACCEPTED: Final = {"resumeValue": {"action": "accept"}}

STEPS: Final = {"stages": [{"name": "one", "steps": [{"name": "s", "agent": "a"}, {"name": "t", "agent": "b"}]}]}
BASE: Final[dict[str, Any]] = {
    "upstreams": {"one": {}, "chat": {"api": "openai_chat"}},
    "agents": {
        name: {"upstream": "one", "model": "m", "dialects": ["public_sse_v1", "ag_ui", "openwop"]} for name in "ab"
    },
    "workflows": {"w": STEPS},
    "passthrough": {"responses": "one", "chat_completions": "chat"},
    "auth": {"api_keys": keys("alice", "bob")},
    "openwop": {},
}
AG_UI: Final = {
    "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
    "messages": [{"id": "m", "role": "user", "content": "hi"}],
}  # fmt: skip
ROUTES: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("a stream", CHAT, {"message": "hi", "agent": "a"}),
    ("AG-UI", "/api/v1/ag-ui/a", AG_UI),
    ("a workflow", "/api/v1/workflows/w/run-stream", {"message": "hi"}),
    ("JSON", RESPONSES, ASKED),
    ("a stream of the OpenAI API", RESPONSES, ASKED | {"stream": True}),
    ("chat completions", "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
    ("a run of an agent", "/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}}),
]


def limited(agents: dict[str, Any] | None = None, **limits: int) -> dict[str, Any]:
    """Return settings with limits of every caller, and of agents."""
    found = {name: one | {"rate_limits": (agents or {}).get(name, {})} for name, one in BASE["agents"].items()}
    return {**BASE, "agents": found, "callers": {"default": {"rate_limits": limits}}}


def server(settings: dict[str, Any], upstream: Upstream | None = None) -> tuple[Server, Clock]:
    clock = Clock()
    return Server(settings, upstream, budgets=MemoryBudgets(clock)), clock


def is_accepted(answer: Any) -> bool:
    return answer.status in {200, 201}


@pytest.mark.parametrize(("name", "path", "body"), ROUTES)
async def test_requests_are_counted_on_every_route(name: str, path: str, body: Any) -> None:
    site, clock = server(limited(requests_per_minute=2))
    answers = [await site.run(path, body) for _ in range(3)]
    assert [answer.status // 100 for answer in answers] == [2, 2, 4], name
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers] == ["1", "0", "0"]
    assert [answer.headers["x-ratelimit-reset-requests"] for answer in answers] == ["30s", "1m0s", "1m0s"]
    assert {answer.headers["x-ratelimit-limit-requests"] for answer in answers} == {"2"}
    assert "x-ratelimit-limit-tokens" not in answers[0].headers
    assert (answers[2].status, answers[2].headers["retry-after"]) == (429, "30")
    assert (await site.run(path, body, key="bob")).status != 429
    clock.now_s += 30
    assert is_accepted(await site.run(path, body))


@pytest.mark.parametrize(("name", "path", "body"), ROUTES)
async def test_tokens_are_counted_on_every_route(name: str, path: str, body: Any) -> None:
    """The provider reports 500 tokens for each response; a workflow has two."""
    site, clock = server(limited(tokens_per_minute=600))
    first, second = [await site.run(path, body) for _ in range(2)]
    is_workflow = "w" in path.split("/")
    assert is_accepted(first), name
    assert first.headers["x-ratelimit-remaining-tokens"] == "0"  # reserved
    if is_workflow:
        assert (second.status, second.headers["retry-after"]) == (429, "41")  # 401 of 10 per second
        clock.now_s += 41
    else:
        assert second.status // 100 == 2  # the rest of the reservation was returned
        assert (await site.run(path, body)).headers["retry-after"] == "41"
        clock.now_s += 41
    assert is_accepted(await site.run(path, body))


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        (CHAT, "requests", {"code": "request_limit_exceeded", "is_retryable": True, "status": 429}),
        (CHAT, "tokens", {"code": "token_limit_exceeded", "is_retryable": True, "status": 429}),
        (RESPONSES, "requests", {"code": "rate_limit_exceeded", "type": "requests", "param": None}),
        (RESPONSES, "tokens", {"code": "rate_limit_exceeded", "type": "tokens", "param": None}),
        ("/v1/runs", "requests", {"error": "rate_limited", "details": {"retryAfter": 60}}),
        ("/v1/runs", "tokens", {"error": "rate_limited", "details": {"retryAfter": 60}}),
    ],
)
async def test_a_refusal_has_the_form_of_its_route(path: str, kind: str, expected: dict[str, Any]) -> None:
    site, _ = server(limited(**{f"{kind}_per_minute": 1}), Upstream(reports(total_tokens=1)))
    bodies = {path: body for _, path, body in reversed(ROUTES)}
    with capture_logs() as lines:
        refused = [await site.run(path, bodies[path]) for _ in range(2)][1]
    document = refused.json()
    document = document["error"] if path == RESPONSES else document
    assert {name: document.get(name) for name in expected} == expected
    message = document["detail" if path == CHAT else "message"]
    assert message == f"Rate limit reached: 1 {kind.removesuffix('s')} per minute for this caller. Try again in 1m0s."
    assert refused.headers["retry-after"] == "60"
    assert refused.headers.get("x-should-retry") == ("true" if path == RESPONSES else None)
    code = {"requests": "request_limit_exceeded", "tokens": "token_limit_exceeded"}[kind]
    found = [line for line in lines if line["event"] == "request" and line["status"] == refused.status]
    assert [(line["code"], line["reason"]) for line in found] == [(code, "minute")]
    text = site.app.state.metrics.text().decode()
    assert f'projector_refusals_total{{code="{code}",route="{path}"}} 1.0' in text


async def test_a_client_should_not_retry_after_a_long_wait() -> None:
    site, _ = server(limited(requests_per_day=1))
    with capture_logs() as lines:
        refused = [await site.ask(RESPONSES, ASKED) for _ in range(2)][1]
    assert [line["reason"] for line in lines if line["event"] == "request"] == ["day"]
    assert refused.headers["retry-after"] == "86400"
    assert refused.headers["x-should-retry"] == "false"


async def test_the_limit_with_the_least_remaining_is_reported() -> None:
    site, _ = server(limited({"a": {"requests_per_day": 3}}, requests_per_minute=10, requests_per_day=100))
    answer = await site.ask(CHAT, {"message": "hi", "agent": "a"})
    limit, remaining, reset = (answer.headers[f"x-ratelimit-{one}-requests"] for one in ("limit", "remaining", "reset"))
    assert (limit, remaining, reset) == ("3", "2", "8h0m0s")
    other = await site.ask(CHAT, {"message": "hi", "agent": "b"})
    assert other.headers["x-ratelimit-limit-requests"] == "10"


async def test_a_limit_of_an_agent_is_one_of_each_caller() -> None:
    site, _ = server(limited({"a": {"requests_per_minute": 1}}, requests_per_minute=3))

    async def status(agent: str, key: str = "alice") -> int:
        return (await site.ask(CHAT, {"message": "hi", "agent": agent}, key=key)).status

    assert [await status("a") for _ in range(5)] == [200, 429, 429, 429, 429]
    assert await status("a", "bob") == 200
    assert [await status("b") for _ in range(3)] == [200, 200, 429]  # refused requests were returned
    assert (await site.ask("/api/v1/workflows/w/run-stream", {"message": "hi"}, key="bob")).status == 429


@pytest.mark.parametrize(("name", "path", "body"), [row for row in ROUTES if row[1] not in PASSTHROUGH])
async def test_a_refused_stream_has_no_span(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str, body: dict[str, Any]
) -> None:
    """A span that is not ended is never exported."""
    calls: list[str] = []
    monkeypatch.setattr(telemetry_reports.telemetry, "begin", lambda *_: calls.append("begin"))
    monkeypatch.setattr(telemetry_reports.telemetry, "end", lambda _: calls.append("end"))
    site, _ = server(limited({"a": {"requests_per_minute": 1}}))
    assert [is_accepted(await site.run(path, body)) for _ in range(2)] == [True, False], name
    assert calls == ["begin", "end"]


async def test_tokens_of_steps_count_for_their_agents() -> None:
    site, _ = server(limited({"b": {"tokens_per_minute": 400}}))
    assert (await site.run("/api/v1/workflows/w/run-stream", {"message": "hi"})).status == 200
    statuses = [(await site.run(CHAT, {"message": "hi", "agent": agent})).status for agent in "ab"]
    assert statuses == [200, 429]


async def test_a_table_of_a_caller_replaces_single_limits() -> None:
    settings = limited(requests_per_minute=1, tokens_per_minute=7)
    settings["callers"]["key:bob"] = {"rate_limits": {"requests_per_minute": 9}}
    site, _ = server(settings)
    limits = [
        [(await site.ask(key=key, body={"message": "hi", "agent": "a"})).headers[f"x-ratelimit-limit-{unit}"]]
        for key in ("alice", "bob")
        for unit in ("requests", "tokens")
    ]
    assert limits == [["1"], ["7"], ["9"], ["7"]]


async def test_exactly_as_many_as_the_limit_pass_at_once() -> None:
    site, _ = server(limited(requests_per_minute=7))
    answers = await asyncio.gather(*(site.ask(body={"message": "hi", "agent": "a"}) for _ in range(100)))
    assert sorted(answer.status for answer in answers) == [200] * 7 + [429] * 93


async def test_reserved_tokens_keep_other_requests_waiting() -> None:
    """Otherwise a hundred requests could begin with the last token."""
    are_asked = asyncio.Event()

    async def waits(_request: Any) -> AsyncGenerator[bytes, None]:
        await are_asked.wait()
        yield completed(total_tokens=5)

    site, _ = server(limited(tokens_per_minute=3 * OUTPUT_DEFAULT), Upstream(waits))
    asking = [asyncio.create_task(site.ask(body={"message": "hi", "agent": "a"})) for _ in range(100)]
    for _, refused in zip(range(97), asyncio.as_completed(asking), strict=False):
        assert (await refused).status == 429
    are_asked.set()
    assert sum(answer.status == 200 for answer in await asyncio.gather(*asking)) == 3
    assert (await site.ask(body={"message": "hi", "agent": "a"})).status == 200


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [("an invalid body", {"message": 1}, 422), ("an unknown agent", {"message": "hi", "agent": "nobody"}, 404)],
)
async def test_requests_that_are_refused_for_another_reason_count(name: str, body: Any, status: int) -> None:
    site, _ = server(limited(requests_per_minute=2))
    assert [(await site.ask(CHAT, body)).status for _ in range(3)] == [status, status, 429], name


async def test_other_routes_are_not_limited() -> None:
    site, _ = server(limited(requests_per_minute=1))
    await site.ask(body={"message": "hi", "agent": "a"})
    for _ in range(3):
        assert (await site.ask("/v1/models", method="GET")).status == 200
        assert (await site.ask("/api/v1/streams/none/cancel")).status == 404


async def test_without_limits_there_are_no_headers() -> None:
    site, _ = server(BASE)
    answer = await site.ask(body={"message": "hi", "agent": "a"})
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


# however a stream ends


async def fails_at_once(_request: Any) -> AsyncGenerator[bytes, None]:
    raise REFUSED
    yield b""


async def fails_later(_request: Any) -> AsyncGenerator[bytes, None]:
    yield text("x" * 400)
    raise REFUSED


async def reports_nothing(_request: Any) -> AsyncGenerator[bytes, None]:
    yield text("x" * 400) + completed()


async def is_cut_off(_request: Any) -> AsyncGenerator[bytes, None]:
    yield text("x" * 400)


def reports(**usage: Any) -> Any:
    async def script(_request: Any) -> AsyncGenerator[bytes, None]:
        yield text("x" * 400) + completed(**usage)

    return script


@pytest.mark.parametrize(
    ("name", "script", "least", "most"),
    [
        ("refused", fails_at_once, 0, 0),
        ("failed after some text", fails_later, 100, 200),
        ("nothing reported", reports_nothing, 100, 200),
        ("cut off", is_cut_off, 100, 200),
        ("reported", reports(input_tokens=11, output_tokens=22, total_tokens=33), 33, 33),
        ("reported in part", reports(output_tokens=22), 22, 22),
        ("negative", reports(input_tokens=-5_000, output_tokens=-5_000, total_tokens=-10_000), 100, 200),
        ("text", reports(total_tokens="33"), 100, 200),
        ("a fraction", reports(total_tokens=3.3e300), 100, 200),
        ("absurd", reports(total_tokens=2**60), 100, 200),
        ("large", reports(input_tokens=2_000, total_tokens=2_500), 2_500, 2_500),
    ],
)
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_tokens_of_every_end(name: str, script: Any, least: int, most: int, path: str) -> None:
    settings = limited(tokens_per_day=86_400) | {"retries": {"max": 0}}
    site, _ = server(settings, Upstream(script))
    body = {CHAT: {"message": "hi " * 20, "agent": "a"}, RESPONSES: ASKED | {"input": "hi " * 20}}[path]
    await site.run(path, body)
    invalid = await site.ask(path, {"message": 1})  # it reserves nothing
    assert least <= 86_400 - int(invalid.headers["x-ratelimit-remaining-tokens"]) <= most, name


async def test_a_client_that_leaves_pays_for_what_was_made(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(text("x" * 4_000))
        await peer.gone.wait()

    await upstream(script)
    site = serve(callers={"default": {"rate_limits": {"tokens_per_day": 86_400}}})
    answer = await site.ask()
    await answer.chunk()
    answer.leave()
    assert await site.is_quiet()
    again = await site.ask()
    used = 86_400 - int(again.headers["x-ratelimit-remaining-tokens"]) - OUTPUT_DEFAULT
    assert 1_000 <= used <= 1_100
    again.leave()


async def test_a_client_that_leaves_before_the_answer_pays_for_its_request(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.gone.wait()

    provider = await upstream(script)
    site = serve(callers={"default": {"rate_limits": {"tokens_per_day": 90_000}}})
    answer = await site.post(body={"message": "x" * 4_000})
    await provider.peers.get()
    answer.leave()
    assert await site.is_quiet()
    again = await site.post(body={"message": "x"})
    await provider.peers.get()
    again.leave()
    assert await site.is_quiet()
    third = await site.post(body={"message": 1})
    await third.read_head()
    assert 1_000 <= 90_000 - int(third.headers["x-ratelimit-remaining-tokens"]) <= 1_100


async def reports_the_first(request: Any) -> AsyncGenerator[bytes, None]:
    """Report the tokens of a response that begins a conversation, and none of those that continue it."""
    previous = request.body.get("previous_response_id")
    yield completed("r1", total_tokens=50_000) if previous is None else completed(f"{previous}1")


async def test_a_response_that_is_not_reported_pays_for_what_it_continues() -> None:
    """The provider reads the conversation again, whatever the client sends or how soon it leaves."""
    many = 10_000_000
    site, _ = server(limited(tokens_per_day=many), Upstream(reports_the_first))

    async def used(path: str, body: Any) -> int:
        before, answer, after = [await site.run(*one) for one in ((CHAT, {}), (path, body), (CHAT, {}))]
        assert is_accepted(answer)
        return sum(int(one.headers["x-ratelimit-remaining-tokens"]) * by for one, by in ((before, 1), (after, -1)))

    run = {"workflowId": "a", "inputs": {"message": "hi", "previous_response_id": "r11"}}
    assert await used(RESPONSES, ASKED) == 50_000
    assert 50_000 < await used(RESPONSES, ASKED | {"previous_response_id": "r1"}) < 50_100
    assert 50_000 < await used("/v1/runs", run) < 50_200
    assert 50_000 < await used(RESPONSES, ASKED | {"previous_response_id": "r111"}) < 50_300


async def test_a_large_request_that_is_not_reported_pays_for_all_of_it() -> None:
    many = 10_000_000
    site, _ = server(limited(tokens_per_day=many), Upstream(reports_nothing))
    await site.run(RESPONSES, {"model": "m", "input": "Some words. " * 250_000})
    answer = await site.ask(RESPONSES, {"model": "m"})
    assert 749_000 <= many - int(answer.headers["x-ratelimit-remaining-tokens"]) <= 751_000


async def asks_first(request: Any) -> AsyncGenerator[bytes, None]:
    """Ask for an approval in the first response."""
    if "previous_response_id" not in request.body:
        item = {"id": "mcpr_1", "type": "mcp_approval_request", "name": "t", "arguments": "{}", "server_label": "s"}
        yield event("response.created", response={"id": "r1", "status": "in_progress"})
        yield event("response.output_item.added", output_index=0, item=item)
        yield event("response.output_item.done", output_index=0, item=item)
    yield completed("r1", total_tokens=500)


@pytest.mark.parametrize("way", ["key", "token"])
async def test_a_run_that_waits_for_approval_has_paid_for_what_it_used(way: str) -> None:
    site, _ = server(limited(tokens_per_day=86_400, requests_per_day=4), Upstream(asks_first))
    started = (await site.run("/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}})).json()

    async def used() -> int:
        answer = await site.ask(CHAT, {"message": 1})
        return 86_400 - int(answer.headers["x-ratelimit-remaining-tokens"])

    assert await used() == 500
    path = (await site.interrupts(started["runId"]))[way]
    answer = await site.run(path, ACCEPTED, key="alice" if way == "key" else "")
    assert (answer.status, answer.headers["x-ratelimit-remaining-requests"]) == (200, "1")
    assert await used() == 1_000
    await site.app.state.aclose()


@pytest.mark.parametrize("way", ["key", "token"])
async def test_an_answer_is_a_request_of_the_caller_of_the_run(way: str) -> None:
    site, _ = server(limited(requests_per_minute=1), Upstream(asks_first))
    started = (await site.run("/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}})).json()
    path = (await site.interrupts(started["runId"]))[way]
    answer = await site.run(path, ACCEPTED, key="alice" if way == "key" else "")
    assert (answer.status, answer.json()["error"], len(site.upstream.requests)) == (429, "rate_limited", 1)
    await site.app.state.aclose()


async def test_a_token_that_was_used_takes_nothing_from_the_caller_of_the_run() -> None:
    site, _ = server(limited(requests_per_minute=3), Upstream(asks_first))
    started = (await site.run("/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}})).json()
    path = (await site.interrupts(started["runId"]))["token"]
    statuses = [(await site.run(path, ACCEPTED, key="")).status for _ in range(5)]
    assert statuses == [200, *[409] * 4]
    answer = await site.run("/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}})
    assert (answer.status, answer.headers["x-ratelimit-remaining-requests"]) == (201, "0")
    await site.app.state.aclose()


async def test_a_meter_keeps_no_request() -> None:
    """A run may wait for a person longer than its input is needed."""
    meter = TokenMeter(["a"], {"input": "x" * 4_000})
    meter.estimate()
    assert "x" * 4_000 not in [value for one in vars(meter).values() if isinstance(one, dict) for value in one.values()]


# streams


UNKNOWN: Final[dict[str, Any]] = {
    "headers": [(b"content-type", b"application/json")],
    "client": ("1.1.1.1", 1),
    "root_path": "",
    "scheme": "http",
}
"""A request without a key."""


async def test_no_route_reads_the_body_of_a_request_without_a_key() -> None:
    """A body that never ends would hold a stream."""
    site, _ = server(BASE | {"demo_page": True})
    paths = {route.path for route in site.app.routes if isinstance(route, Route)}
    assert paths > {CHAT, *PASSTHROUGH, *OPEN_PATHS}
    for path in sorted(paths):
        for method in ("GET", "POST"):
            asking = Client()
            asking.scope |= {"method": method, "path": path} | UNKNOWN
            async with asyncio.timeout(5):
                await asking.call(site.app)
            assert asking.status != 503, (method, path)


async def test_an_answer_with_a_token_holds_a_stream_of_the_caller_of_the_run() -> None:
    """One at a time: a token is no key."""
    settings = limited() | {"limits": {"max_streams": 2}}
    site, _ = server(settings, Upstream(asks_first))
    started = (await site.run("/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}})).json()
    path = (await site.interrupts(started["runId"]))["token"]
    slow = [Client() for _ in range(3)]
    for asking in slow:
        asking.scope |= {"method": "POST", "path": path} | UNKNOWN
    tasks = [asyncio.create_task(asking.call(site.app)) for asking in slow]
    await wait_until(lambda: site.app.state.streams.held_bytes > 0)
    await asyncio.sleep(0.05)
    assert (await site.ask(CHAT, {"message": "hi", "agent": "b"}, key="bob")).status == 200
    for asking in slow:
        asking.left.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    answer = await site.ask(path, ACCEPTED, key="")
    assert answer.status == 200
    await wait_until(lambda: not site.app.state.streams.active)
    await site.app.state.aclose()


# settings


async def test_a_reload_keeps_the_use_and_changes_the_limits() -> None:
    site, _ = server(limited(requests_per_minute=2, requests_per_day=100))
    asked = {"message": "hi", "agent": "a"}
    assert [(await site.ask(body=asked)).status for _ in range(3)] == [200, 200, 429]
    site.app = rebuild(site.app, Settings.model_validate(limited(requests_per_minute=3, requests_per_day=100)))
    site.app.state.activate()
    assert [(await site.ask(body=asked)).status for _ in range(2)] == [200, 429]
    site.app = rebuild(site.app, Settings.model_validate(limited(requests_per_day=100)))
    site.app.state.activate()
    assert (await site.ask(body=asked)).headers["x-ratelimit-remaining-requests"] == "96"


@pytest.mark.parametrize(
    ("name", "clients", "statuses"),
    [
        ("one network of IPv6", ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"], [200, 429, 200]),
        ("IPv4", ["192.0.2.1", "192.0.2.2", "192.0.2.1"], [200, 200, 429]),
        ("two spellings", ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1"], [200, 429, 200]),
    ],
)
async def test_addresses_without_authentication(name: str, clients: list[str], statuses: list[int]) -> None:
    site, _ = server({"callers": {"default": {"rate_limits": {"requests_per_minute": 1}}}})
    assert [(await site.ask(client=client)).status for client in clients] == statuses, name


async def test_a_page_may_read_the_headers() -> None:
    site, _ = server(limited(requests_per_minute=1) | {"cors_origins": ["https://a.example"]})
    for _ in range(2):
        answer = await site.ask(body={"message": "hi", "agent": "a"}, headers={"origin": "https://a.example"})
        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {name for name in answer.headers if name.startswith("x-ratelimit")} <= exposed
    assert answer.status == 429
