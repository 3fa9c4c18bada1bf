"""Recent streams: what the page is told in each store, to whom, and that nothing withheld can be reached from it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from projector.cli import main
from projector.contracts.stream_rules import check_stream
from projector.server.upstream.demo import DemoUpstream
from projector.server.upstream.protocol import ProviderRequest
from tests.asgi import in_process
from tests.asgi.callers import Server, Upstream, completed, event, keys, text
from tests.asgi.conftest import plays
from tests.asgi.in_process import Answer
from tests.rule_samples import MIXED
from tests.waiting import wait_until

KEY: Final = "a2V5LW9mLXRoaXJ0eS10d28tYnl0ZXMtZm9yLXRlc3Q="
PLANTED: Final = "sk-" + MIXED[:48]
DEMO_SECRETS: Final = ("hunter2", "example-bearer-000", "s3same", "AKIAIOSFODNN7EXAMPLE", "rt-example", "ter2-not")
PLAN: Final = "a plan that only the model may know"
SETTINGS: Final[dict[str, Any]] = {
    "demo_page": True,
    "auth": {"api_keys": keys("ann", "bob")},
    "admin": {"port": 0, "streams": True},
    "upstreams": {"one": {"base_url": "http://localhost/v1"}},
}
AGENT: Final = {"upstream": "one", "model": "m"}


class Site(Server):
    """A server with one agent, `helper`; both listeners."""

    async def get(self, path: str, key: str = "", *, is_admin: bool = False, method: str = "GET") -> Answer:
        headers = {"host": "localhost"} | ({"authorization": f"Bearer {key}"} if key else {})
        app = self.app.state.admin if is_admin else self.app
        return await in_process.ask(app, path, None, method=method, headers=headers)

    async def recent(self, key: str = "", *, is_admin: bool = False) -> list[dict[str, Any]]:
        answer = await self.get("/streams/recent", key, is_admin=is_admin)
        rows: list[dict[str, Any]] = answer.json()["streams"]
        assert answer.headers["cache-control"] == "no-cache"
        return rows


def replayed_case(folder: Path, answer: Answer) -> dict[str, str]:
    """Return the files of a case that was exported, after `projector replay` has taken it as it is."""
    assert (answer.status, answer.headers["content-type"]) == (200, "application/zip")
    name = answer.headers["content-disposition"].removeprefix('attachment; filename="').removesuffix('"')
    data = answer.text.encode(errors="surrogateescape")
    (folder / name).write_bytes(data)
    assert main(["replay", str(folder / name)]) == 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def site(upstream: Any, agent: dict[str, Any] | None = None, **settings: Any) -> Site:
    return Site({**SETTINGS, "agents": {"helper": {**AGENT, **(agent or {})}}, **settings}, upstream)


@pytest.fixture(params=["memory", "sqlite", "redis", "encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "memory":
        return {"kind": "memory"}
    if request.param == "sqlite":
        return {"kind": "sqlite", "path": str(tmp_path / "store.db")}
    url, prefix = request.getfixturevalue("redis_server").url, f"test-{os.urandom(4).hex()}:"
    is_encrypted = {"encryption_keys": (KEY,)} if request.param == "encrypted" else {}
    return {"kind": "redis", "url": url, "prefix": prefix, **is_encrypted}


async def test_callers_see_their_streams_and_operators_all(store: dict[str, Any], tmp_path: Path) -> None:
    one = site(DemoUpstream(pace_s=0), store=store)
    for key, message in (("ann", "secret"), ("bob", "hello"), ("ann", "fail")):
        await one.ask(key=key, body={"message": message})
        await asyncio.sleep(0.01)
    failed, told = await one.recent("ann")
    assert [row["caller"] for row in (failed, told)] == ["key:ann"] * 2
    assert (failed["outcome"], failed["code"], failed.get("output_tokens")) == ("error", "rate_limit_exceeded", None)
    assert (told["outcome"], told["agent"], told["model"], told["output_tokens"]) == ("completed", "helper", "m", 58)
    assert told["dropped"] == {"response.content_part.added": 1, "response.content_part.done": 1}
    assert told["withheld"]["redacted"] > 5
    assert 0 <= told["first_byte_s"] <= told["first_token_s"] <= told["duration_s"]
    assert told["created_ms"] <= told["ended_ms"]
    everyone = [row["caller"] for row in await one.recent(is_admin=True)]
    assert everyone == ["key:ann", "key:bob", "key:ann"]
    assert len(await one.recent("bob")) == 1
    assert (await one.get("/streams/recent")).status == 401
    seen = ""
    for row in (failed, told):
        for part in ("events", "provider", "case"):
            path = f"/streams/{row['stream_id']}/{part}"
            refused = [(await one.get(path, key)).status for key in ("", "bob")]
            assert refused == [401, 404]
            for_caller, for_operator = await one.get(path, "ann"), await one.get(path, is_admin=True)
            assert (for_caller.status, for_caller.text) == (200, for_operator.text)
            seen += for_caller.text
        files = replayed_case(tmp_path, for_caller)
        assert [name.partition("/")[0] for name in files] == ["cases.toml", "openai_responses", "public_sse_v1"]
        seen += "".join(files.values())
    assert "<redacted>" in seen
    seen += (await one.get("/streams/recent", is_admin=True)).text
    assert [secret for secret in DEMO_SECRETS if secret in seen] == []
    await one.app.state.aclose()


async def test_a_stream_of_a_key_that_was_removed_does_not_hide_the_others(tmp_path: Path) -> None:
    store = {"kind": "sqlite", "path": str(tmp_path / "store.db")}
    for key, rows in ((KEY, ["completed"]), (KEY[::-1].replace("=", "") + "=", ["completed", "unreadable"])):
        one = site(DemoUpstream(pace_s=0), store=store | {"encryption_keys": (key,)})
        await one.ask(key="ann", body={"message": "hello"})
        assert [row["outcome"] for row in await one.recent("ann")] == rows
        found = await one.recent(is_admin=True)
        assert [row["caller"] for row in found] == ["key:ann"] * len(rows)
        for row in found[1:]:
            path = f"/streams/{row['stream_id']}"
            assert (await one.get(f"/api/v1{path}", "ann", method="DELETE")).status == 503
            assert (await one.get(path, is_admin=True, method="DELETE")).status == 204
            assert len(await one.recent(is_admin=True)) == 1
        await one.app.state.logs.aclose()


@pytest.mark.parametrize(
    ("meta", "frame"),
    [
        (b"{}", b"{}"),
        (b"[]", b"{}"),
        (b"[1]", b"{}"),
        (b"", b"{}"),
        (b'{"policy": 7}', b"{}"),
        (None, b"{"),
        (None, b"[1]"),
        (None, b"{}"),
    ],
)
async def test_a_stream_of_another_version_does_not_hide_the_others(meta: bytes | None, frame: bytes) -> None:
    one = site(DemoUpstream(pace_s=0))
    await one.ask(key="ann", body={"message": "hello"})
    (row,) = await one.recent("ann")
    kept = one.app.state.logs.store
    head = (await kept.find(row["stream_id"])).head
    assert await kept.open(head._replace(stream_id="other", meta=head.meta if meta is None else meta))
    assert await kept.seal("other", first=1, frames=[frame])
    for part in ("", "/events"):
        answer = await one.get(f"/api/v1/streams/other{part}", "ann")
        assert (answer.status, answer.json()["code"]) == (503, "store_unavailable")
    outcome = "interrupted" if meta is None else "unreadable"  # frames are not read for a list
    outcomes = {found["stream_id"]: found["outcome"] for found in await one.recent(is_admin=True)}
    assert outcomes == {"other": outcome, row["stream_id"]: "completed"}
    assert (await one.get("/streams/other", is_admin=True, method="DELETE")).status == 204
    await one.app.state.aclose()


async def test_an_interrupted_stream_of_another_version_is_in_the_log(tmp_path: Path) -> None:
    one = site(DemoUpstream(pace_s=0), store={"kind": "sqlite", "path": str(tmp_path / "store.db")})
    await one.ask(key="ann", body={"message": "hello"})
    (row,) = await one.recent("ann")
    kept = one.app.state.logs.store
    assert await kept.open((await kept.find(row["stream_id"])).head._replace(stream_id="other", meta=b"[1]"))
    with capture_logs() as logs:
        await kept.seal("other", reason="stream_interrupted")
        await wait_until(lambda: "stream_interrupted" in {line["event"] for line in logs})
    await one.app.state.aclose()


async def test_a_stream_of_a_dialect_that_this_version_does_not_have() -> None:
    one = site(DemoUpstream(pace_s=0))
    await one.ask(key="ann", body={"message": "hello"})
    (row,) = await one.recent("ann")
    kept = one.app.state.logs.store
    head = (await kept.find(row["stream_id"])).head
    frames = (await kept.read(row["stream_id"], 0, 1_000_000)).frames
    meta = head.meta.replace(b'"dialect":"public_sse_v1"', b'"dialect":"public_sse_v9"')
    assert await kept.open(head._replace(stream_id="other", meta=meta))
    assert await kept.seal("other", first=1, frames=frames)
    answers = [await one.get(f"/api/v1/streams/other/events{query}", "ann") for query in ("", "?dialect=public_sse_v1")]
    assert [answer.status for answer in answers] == [503, 200]
    await one.app.state.aclose()


async def test_a_stream_that_runs_and_one_that_its_server_did_not_end(store: dict[str, Any], tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def script(_: ProviderRequest) -> AsyncGenerator[bytes, None]:
        yield text("Hello")
        await gate.wait()
        yield completed()

    one = site(Upstream(script), store=store)
    asked = asyncio.create_task(one.ask(key="ann"))
    while not (rows := await one.recent("ann")):  # noqa: ASYNC110 - the store has no event for it
        await asyncio.sleep(0.01)
    (row,) = rows
    assert (row["outcome"], row["has_recording"]) == ("in_progress", False)
    assert (await one.get(f"/streams/{row['stream_id']}/case", "ann")).status == 404
    reading = asyncio.create_task(one.get(f"/streams/{row['stream_id']}/events", is_admin=True))
    with capture_logs() as logs:
        await one.app.state.logs.store.seal(row["stream_id"], reason="stream_interrupted")
        (row,) = await one.recent("ann")
        if store["kind"] != "memory":  # which has no streams of other processes
            await wait_until(lambda: "stream_interrupted" in {line["event"] for line in logs})
    assert row["outcome"] == "interrupted"
    known = {name: row[name] for name in ("request_id", "route", "upstream", "model")}
    assert (known["request_id"][:4], known["upstream"], known["model"]) == ("req_", "one", "m")
    about = {"stream_id": row["stream_id"], "caller": "key:ann", "agent": "helper"}
    told = {"event": "stream_interrupted", "log_level": "warning", **about, **known}
    expected = [] if store["kind"] == "memory" else [told]
    assert [line for line in logs if line["event"] == "stream_interrupted"] == expected
    assert "withheld" not in row
    events = (await reading).text
    assert '"code":"stream_interrupted"' in events
    files = replayed_case(tmp_path, await one.get(f"/streams/{row['stream_id']}/case", "ann"))
    assert [name.partition("/")[0] for name in files] == ["cases.toml", "public_sse_v1_input", "public_sse_v1"]
    lines = [line[6:] for line in events.splitlines() if line.startswith("data: {")]
    assert [*files.values()][1].splitlines() == lines, "what a client got, and nothing else"
    gate.set()
    await asked
    await one.app.state.aclose()


@pytest.fixture
async def recorded(tmp_path: Path) -> AsyncIterator[Site]:
    """A server whose provider's side is recorded, and one stream of it with what must not be seen."""

    async def script(_: ProviderRequest) -> AsyncGenerator[bytes, None]:
        yield event("response.created", response={"id": "r", "status": "in_progress", "instructions": PLANTED})
        yield event("response.reasoning_text.delta", item_id="rs_1", output_index=0, content_index=0, delta=PLAN)
        yield text(f"The key is {PLANTED[:20]}") + text(f"{PLANTED[20:]}.")
        yield event("response.unheard_of." + PLANTED)
        yield completed("r", input_tokens=3, output_tokens=4, total_tokens=7)

    agent = {"record": {"folder": str(tmp_path)}, "dialects": ["ai_sdk"]}
    one = site(Upstream(script), agent)
    await one.ask(key="ann", body={"message": f"my key is {PLANTED}"})
    while not (await one.recent(is_admin=True))[0]["has_recording"]:  # noqa: ASYNC110 - another thread writes it
        await asyncio.sleep(0.01)
    yield one
    await one.app.state.aclose()


async def test_a_planted_secret_is_nowhere(recorded: Site, tmp_path: Path) -> None:
    (row,) = await recorded.recent(is_admin=True)
    assert (row["has_recording"], row["dropped"]["other"]) == (True, 1)
    found = {"recent": (await recorded.get("/streams/recent", is_admin=True)).text}
    for part in ("events", "provider"):
        answer = await recorded.get(f"/streams/{row['stream_id']}/{part}", is_admin=True)
        assert answer.status == 200
        found[part] = answer.text
    pieces = (PLANTED, PLANTED[:20], PLANTED[20:])
    files = replayed_case(tmp_path, await recorded.get(f"/streams/{row['stream_id']}/case", is_admin=True))
    assert [name.partition("/")[0] for name in files] == ["cases.toml", "openai_responses", "public_sse_v1", "ai_sdk"]
    found |= files
    assert [(name, piece) for name, seen in found.items() for piece in pieces if piece in seen] == []
    assert '"delta":"The key is <redacted>' in found["provider"]
    lines = [line.partition("data: ")[2] for line in found["events"].split("\n\n") if line]
    assert check_stream(lines) == [], "what the page saves is valid, in whatever dialect the stream was"
    kinds = [json.loads(line)["type"] for line in found["provider"].splitlines()]
    assert kinds[0] == "response.created"


async def test_what_a_provider_sent_is_for_operators(recorded: Site, tmp_path: Path) -> None:
    (row,) = await recorded.recent("ann")
    assert not row["has_recording"], "it has the reasoning, which callers never see"
    files = replayed_case(tmp_path, await recorded.get(f"/streams/{row['stream_id']}/case", "ann"))
    assert [
        piece for piece in (PLAN, "openai_responses/", PLANTED[:20]) if piece in "".join([*files, *files.values()])
    ] == []
    assert (await recorded.get(f"/streams/{row['stream_id']}/provider", "ann")).status == 404
    assert PLAN in (await recorded.get(f"/streams/{row['stream_id']}/provider", is_admin=True)).text
    assert PLAN not in (await recorded.get(f"/streams/{row['stream_id']}/events", is_admin=True)).text


ROUTES: Final[dict[str, dict[str, Any]]] = {
    "responses": {"input": "hi"},
    "chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
}


@pytest.mark.parametrize(("route", "model"), [*((route, "m") for route in ROUTES), ("responses", "chosen")])
async def test_streams_of_passthrough_routes_have_their_recording(tmp_path: Path, route: str, model: str) -> None:
    async def script(_: ProviderRequest) -> AsyncGenerator[bytes, None]:
        yield event("response.created", response={"id": "r", "status": "in_progress"})
        yield text(f"The key is {PLANTED[:20]}") + text(f"{PLANTED[20:]}.") + completed("r")

    name, secret = route.replace("/", "_"), PLANTED[:20]
    models = {"chosen": {"targets": [{"upstream": "one", "model": "m"}]}}
    one = site(Upstream(script), passthrough={name: "one", "record": {"folder": str(tmp_path)}}, models=models)
    await one.ask(f"/v1/{route}", {"model": model, "stream": True, **ROUTES[route]}, key="ann")
    while not (rows := await one.recent(is_admin=True))[0]["has_recording"]:  # noqa: ASYNC110 - a thread writes it
        await asyncio.sleep(0.01)
    (row,), (for_caller,) = rows, await one.recent("ann")
    assert (row["route"], row["caller"], row["outcome"]) == (f"/v1/{route}", "key:ann", "completed")
    assert not for_caller["has_recording"]
    path = f"/streams/{row['stream_id']}"
    assert (await one.get(f"{path}/provider", "ann")).status == 404
    sent, got = await one.get(f"{path}/provider", is_admin=True), await one.get(f"{path}/events", "ann")
    assert "The key is <redacted>" in sent.text
    files = replayed_case(tmp_path, await one.get(f"{path}/case", is_admin=True))
    assert [file.partition("/")[0] for file in files][:3] == ["cases.toml", "openai_responses", "public_sse_v1"]
    assert [part for part in (sent.text, got.text, *files.values()) if secret in part] == []
    await one.app.state.aclose()


def recorded_files(folder: Path) -> int:
    return len([*folder.glob("*/cases.toml"), *folder.glob("*/*/*.ndjson")])


async def test_a_workflow_has_the_recordings_of_its_agents(tmp_path: Path) -> None:
    async def script(request: ProviderRequest) -> AsyncGenerator[bytes, None]:
        yield text(f"{request.body['model']} says so.") + completed(f"resp_{request.body['model']}")

    agents = {name: {**AGENT, "model": name, "record": {"folder": str(tmp_path / name)}} for name in ("zoe", "adam")}
    steps = [{"name": name, "agent": name} for name in agents]
    stages = [{"name": name, "steps": [step]} for name, step in zip("ab", steps, strict=True)]
    one = Site({**SETTINGS, "agents": agents, "workflows": {"two": {"stages": stages}}}, Upstream(script))
    await one.run("/api/v1/workflows/two/run-stream", {"message": "hi"}, key="ann")
    await wait_until(lambda: recorded_files(tmp_path) >= 4)
    (row,) = await one.recent(is_admin=True)
    assert (row["workflow"], row["has_recording"]) == ("two", True)
    path = f"/streams/{row['stream_id']}"
    sent = (await one.get(f"{path}/provider", is_admin=True)).text
    assert 0 < sent.index("zoe says so.") < sent.index("adam says so.")
    replayed_case(tmp_path, await one.get(f"{path}/case", is_admin=True))
    assert (await one.get(f"{path}/provider", "ann")).status == 404
    await one.app.state.aclose()


async def test_the_demo_shows_what_it_sent_on_each_route() -> None:
    agents = {"helper": {"upstream": "default", "model": "demo"}}
    one = site(DemoUpstream(pace_s=0), agents=agents, upstreams={})
    for route, body in ROUTES.items():
        await one.ask(f"/v1/{route}", {"model": "demo", "stream": True, **body}, key="ann")
        (row, *_) = await one.recent("ann")
        assert (row["route"], row["has_recording"]) == (f"/v1/{route}", True)
        sent = (await one.get(f"/streams/{row['stream_id']}/provider", "ann")).text
        got = (await one.get(f"/streams/{row['stream_id']}/events", "ann")).text
        assert (sent.count("\n") > 3, '"kind":"message.delta"' in got) == (True, True)
    await one.app.state.aclose()


@pytest.mark.parametrize(
    ("change", "public", "internal"),
    [
        ({}, 200, 200),
        ({"demo_page": False}, 404, 200),
        ({"admin": {"port": 0}}, 200, 404),
        ({"demo_page": False, "admin": None}, 404, 404),
    ],
)
async def test_it_is_off_by_default(change: dict[str, Any], public: int, internal: int) -> None:
    one = site(Upstream(), **change)
    for path in ("/streams", "/streams/recent", "/demo/streams.js"):
        assert (await one.get(path, "ann")).status == public, path
        assert (await one.get(path, is_admin=True)).status == internal, path
    stream_id = "stream_" + "0" * 32
    assert (await one.get(f"/streams/{stream_id}/events", is_admin=True)).status == 404
    assert (await one.get("/streams/..%2f..%2fx/provider", is_admin=True)).status == 404


async def test_how_a_stream_ended_that_was_stopped(serve: Any, upstream: Any) -> None:
    await upstream(plays([{"type": "response.created", "response": {"id": "r", "status": "in_progress"}}], ends=False))
    one = serve(demo_page=True)
    ends = []
    for stop in ("leave", "cancel"):
        answer = await one.ask()
        await answer.chunk()
        if stop == "leave":
            answer.leave()
        else:
            await (await one.post(f"{answer.headers['location']}/cancel", {})).read_head()
        while True:
            (row, *_) = json.loads(await (await one.get("/streams/recent")).rest())["streams"]
            if row["outcome"] != "in_progress":
                break
            await asyncio.sleep(0.01)
        ends.append((row["outcome"], row["withheld"], row["dropped"], "first_token_s" in row))
    assert ends == [("client_left", {}, {}, False), ("cancelled", {}, {}, False)]


async def test_the_log_says_which_store_cannot_be_read(tmp_path: Path) -> None:
    store = {"kind": "sqlite", "path": str(tmp_path / "store.db")}
    one = site(DemoUpstream(pace_s=0), store={**store, "encryption_keys": (KEY,)})
    await one.ask(key="ann")
    (row,) = await one.recent("ann")
    await one.app.state.aclose()
    other = site(DemoUpstream(pace_s=0), store={**store, "encryption_keys": (f"{'b' * 43}=",)})
    with capture_logs() as logs:
        answer = await other.get(f"/api/v1/streams/{row['stream_id']}", "ann")
    assert (answer.status, answer.json()["code"]) == (503, "store_unavailable")
    [line] = [line for line in logs if line["event"] == "request"]
    assert line["reason"] == "the store has data of a key that is not configured"
    await other.app.state.aclose()


async def test_an_operator_deletes_any_stream(store: dict[str, Any]) -> None:
    one = site(DemoUpstream(pace_s=0), store=store)
    for key in ("ann", "bob"):
        await one.ask(key=key)
    (row,) = await one.recent("ann")
    path = f"/streams/{row['stream_id']}"
    headers = {"host": "localhost", "authorization": "Bearer bob"}
    refused = await in_process.ask(one.app, path, None, method="DELETE", headers=headers)
    assert refused.status == 404
    deleted = await in_process.ask(one.app.state.admin, path, None, method="DELETE", headers={"host": "localhost"})
    assert deleted.status == 204
    assert [other["caller"] for other in await one.recent(is_admin=True)] == ["key:bob"]
    await one.app.state.aclose()
