"""Workflows over real sockets: branches interleave, fail, are cancelled; no resource stays open."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.contracts.stream_rules import check_stream
from projector.server.config.settings import Settings
from tests.asgi.conftest import SSE_HEAD

Event = dict[str, Any]

AGENTS = {
    name: {"upstream": "default", "model": name, "instructions": f"You are {name}.", "policy": {"text": "off"}}
    for name in ("cost", "crew", "writer")
}
CONCLUDE = {
    "name": "conclude",
    "steps": [
        {
            "name": "conclusion",
            "agent": "writer",
            "input": "{{request.message}}: {{steps.costs.text}} ({{steps.costs.status}}), {{steps.shifts.text}}",
        }
    ],
}


def review(on_failure: str) -> dict[str, Any]:
    steps = [
        {"name": "costs", "agent": "cost", "input": "Costs of {{request.message}}", "on_failure": on_failure},
        {"name": "shifts", "agent": "crew", "input": "Shifts of {{request.message}}", "on_failure": on_failure},
    ]
    return {"name": "review", "steps": steps}


WORKFLOWS = {
    "sequence": {
        "stages": [
            {"name": "gather", "steps": [{"name": "facts", "agent": "crew"}]},
            {"name": "write", "steps": [{"name": "text", "agent": "writer", "input": "Use {{steps.facts.text}}"}]},
        ],
        "dialects": ["public_sse_v1", "ag_ui"],
    },
    "strict": {"stages": [review("fail"), CONCLUDE]},
    "lenient": {"stages": [review("continue"), CONCLUDE]},
    "narrow": {"stages": [review("fail"), CONCLUDE], "max_parallel": 1},
    "brief": {"stages": [review("fail"), CONCLUDE], "total_s": 2},
}
MESSAGE = {"message": "the ferry"}
CREATED = {"type": "response.created", "response": {"status": "in_progress"}}


def path(workflow: str) -> str:
    return f"/api/v1/workflows/{workflow}/run-stream"


def delta(text: str) -> Event:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **place, "delta": text}


def ended(model: str, status: str = "completed") -> Event:
    usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    name = {"completed": "completed", "failed": "failed"}[status]
    return {"type": f"response.{name}", "response": {"id": f"resp_{model}", "status": status, "usage": usage}}


def created(model: str) -> Event:
    return {"type": "response.created", "response": {"id": f"resp_{model}", "status": "in_progress"}}


class Conductor:
    """An upstream with scripted answers, selected by model name."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Event]] = defaultdict(list)
        self.peers: dict[str, Any] = {}
        self.met: asyncio.Queue[str] = asyncio.Queue()
        self._orders: dict[str, asyncio.Queue[Event | str | None]] = defaultdict(asyncio.Queue)

    def tell(self, model: str, *events: Event | str | None) -> None:
        """Queue events of a response; a text names a way to break off, None is the end."""
        for event in events:
            self._orders[model].put_nowait(event)

    def answer(self, model: str, *texts: str, status: str = "completed") -> None:
        self.tell(model, created(model), *map(delta, texts), ended(model, status), None)

    async def script(self, peer: Any) -> None:
        model = peer.body["model"]
        self.asked[model].append(peer.body)
        self.peers[model] = peer
        self.met.put_nowait(model)
        first = await self._order(model, peer)
        if first == "refuse":
            await peer.send(b"HTTP/1.1 503 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        await peer.send(SSE_HEAD.removesuffix(b"\r\n") + f"x-request-id: req_{model}\r\n\r\n".encode())
        order = first
        while isinstance(order, dict):
            await peer.event(order)
            order = await self._order(model, peer)
        if order == "reset":
            peer.reset()
        elif order is None:
            await peer.end()

    async def _order(self, model: str, peer: Any) -> Event | str | None:
        order = asyncio.create_task(self._orders[model].get())
        gone = asyncio.create_task(peer.gone.wait())
        await asyncio.wait({order, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if order.done():
            return order.result()
        order.cancel()
        return "gone"


class Reader:
    """Reads the frames of an answer as they come."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._rest = b""
        self.frames: list[Event] = []

    async def until(self, condition: Callable[[list[Event]], bool]) -> None:
        while not condition(self.frames):
            part = await asyncio.wait_for(self._answer.chunk(), 60)
            assert part, self.frames
            *messages, self._rest = (self._rest + part).split(b"\n\n")
            self.frames += [json.loads(m.removeprefix(b"data: ")) for m in messages if not m.startswith(b":")]

    async def hears(self, text: str) -> None:
        await self.until(lambda frames: any(frame.get("delta") == text for frame in frames))

    async def to_the_end(self) -> list[Event]:
        await self.until(lambda frames: bool(frames) and frames[-1]["kind"] in {"final", "error"})
        assert await self._answer.chunk() == b""
        assert check_stream([json.dumps(frame) for frame in self.frames]) == []
        return self.frames


@pytest.fixture
async def conductor(upstream: Callable[..., Awaitable[Any]]) -> Conductor:
    one = Conductor()
    await upstream(one.script)
    return one


@pytest.fixture
def site(serve: Any) -> Any:
    return serve(agents=AGENTS, workflows=WORKFLOWS, retries={"initial_backoff_s": 0.01})


def texts(frames: list[Event]) -> dict[str, str]:
    said: dict[str, str] = defaultdict(str)
    for frame in frames:
        if frame["kind"] == "message.delta":
            said[frame["workflow"]["step_name"]] += frame["delta"]
    return said


async def test_a_sequence(site: Any, conductor: Conductor) -> None:
    conductor.answer("crew", "Two ", "shifts")
    conductor.answer("writer", "Part them")
    frames = await Reader(await site.ask(path("sequence"), MESSAGE)).to_the_end()
    (asked,) = conductor.asked["writer"]
    assert (asked["input"], asked["instructions"], asked["stream"]) == ("Use Two shifts", "You are writer.", True)
    assert conductor.asked["crew"][0]["input"] == "the ferry"
    assert texts(frames) == {"facts": "Two shifts", "text": "Part them"}
    final = frames[-1]
    assert final["final"] == {
        "status": "completed",
        "response_text": "Part them",
        "usage": {"input_tokens": 20, "output_tokens": 2, "total_tokens": 22},
    }
    run_id = final["workflow"]["workflow_run_id"]
    assert final["workflow"] == {"workflow_key": "sequence", "workflow_run_id": run_id}
    first = frames[0]
    assert (first["agent"], first["response_id"]) == ("crew", "resp_crew")
    assert first["workflow"] == {
        **final["workflow"],
        "stage_name": "gather",
        "step_name": "facts",
        "step_agent": "crew",
    }


async def test_the_hook_receives_the_end(site: Any, conductor: Conductor) -> None:
    conductor.answer("crew", "Two shifts")
    conductor.answer("writer", "Part them")
    with capture_logs() as logs:
        frames = await Reader(await site.ask(path("sequence"), MESSAGE)).to_the_end()
        assert await site.is_quiet()
    (line,) = [line for line in logs if line["event"] == "stream_end"]
    assert (line["workflow"], line["outcome"], line["total_tokens"]) == ("sequence", "completed", 22)
    assert line["workflow_run_id"] == frames[-1]["workflow"]["workflow_run_id"]
    assert {"agent", "upstream"}.isdisjoint(line)


async def test_branches_interleave_as_they_arrive(site: Any, conductor: Conductor) -> None:
    reader = Reader(await site.post(path("strict"), MESSAGE))
    assert {await conductor.met.get(), await conductor.met.get()} == {"cost", "crew"}
    conductor.tell("crew", created("crew"), delta("a"))
    await reader._answer.read_head()
    await reader.hears("a")
    for model, text in (("cost", "b"), ("crew", "c"), ("cost", "d"), ("crew", "e")):
        conductor.tell(model, *([created("cost")] if text == "b" else []), delta(text))
        await reader.hears(text)
    assert conductor.asked["writer"] == []
    conductor.tell("cost", ended("cost"), None)
    await reader.until(lambda frames: frames[-1].get("status") == "completed")
    assert conductor.asked["writer"] == [], "a stage waits for all branches of the one before"
    conductor.tell("crew", ended("crew"), None)
    conductor.answer("writer", "done")
    frames = await reader.to_the_end()
    assert [frame["delta"] for frame in frames if frame["kind"] == "message.delta"] == ["a", "b", "c", "d", "e", "done"]
    places = {(f["workflow"]["step_name"], f["workflow"].get("branch_index"), f["response_id"]) for f in frames[:-1]}
    assert places == {("costs", 0, "resp_cost"), ("shifts", 1, "resp_crew"), ("conclusion", None, "resp_writer")}
    assert {f["workflow"].get("parallel_group") for f in frames if "branch_index" in f["workflow"]} == {"review"}
    slots = {(frame["output_index"], frame["item_id"]) for frame in frames if "item_id" in frame}
    assert len(slots) == len({slot for slot, _ in slots}) == 3, "slots are unique over all branches"
    assert conductor.asked["writer"][0]["input"] == "the ferry: bd (completed), ace"
    assert frames[-1]["final"]["usage"]["total_tokens"] == 33


async def test_max_parallel_limits_a_group(site: Any, conductor: Conductor) -> None:
    reader = Reader(await site.post(path("narrow"), MESSAGE))
    first = await conductor.met.get()
    conductor.tell(first, created(first), delta("x"))
    await reader._answer.read_head()
    await reader.hears("x")
    assert conductor.met.empty()
    conductor.tell(first, ended(first), None)
    conductor.answer({"cost": "crew", "crew": "cost"}[first], "y")
    conductor.answer("writer", "z")
    assert (await reader.to_the_end())[-1]["final"]["response_text"] == "z"


@pytest.mark.parametrize("how", ["reset", "truncated", "refuse", "failed", "error"])
async def test_an_optional_branch_fails(site: Any, conductor: Conductor, how: str) -> None:
    orders: dict[str, list[Any]] = {
        "reset": [created("cost"), delta("Fu"), "reset"],
        "truncated": [created("cost"), delta("Fu"), None],
        "refuse": ["refuse"] * 3,
        "failed": [created("cost"), delta("Fu"), ended("cost", "failed"), None],
        "error": [created("cost"), delta("Fu"), {"type": "error", "code": "server_error", "message": "x"}],
    }
    conductor.tell("cost", *orders[how])
    conductor.answer("crew", "Two shifts")
    conductor.answer("writer", "done")
    frames = await Reader(await site.ask(path("lenient"), MESSAGE)).to_the_end()
    assert frames[-1]["final"]["status"] == "incomplete"
    assert frames[-1]["final"]["response_text"] == "done"
    assert conductor.asked["writer"][0]["input"] == "the ferry:  (failed), Two shifts"
    (failed,) = [frame for frame in frames if frame.get("status") == "failed" and frame["kind"] == "lifecycle"]
    assert failed["workflow"]["step_name"] == "costs"
    codes = {"reset": "upstream_reset", "truncated": "upstream_truncated", "refuse": "upstream_http_503"}
    assert failed.get("reason") == (codes | {"error": "server_error"}).get(how)
    assert len(conductor.asked["cost"]) == (3 if how == "refuse" else 1), "retries are those of any upstream"


async def test_a_failing_branch_ends_the_run(site: Any, conductor: Conductor) -> None:
    reader = Reader(await site.post(path("strict"), MESSAGE))
    conductor.tell("crew", created("crew"), delta("a"))
    await reader._answer.read_head()
    await reader.hears("a")
    conductor.tell("cost", created("cost"), delta("b"))
    await reader.hears("b")
    conductor.tell("cost", "reset")
    frames = await reader.to_the_end()
    assert frames[-1]["error"]["code"] == "upstream_reset"
    assert frames[-1]["workflow"]["step_name"] == "costs"
    closed = {f["workflow"]["step_name"]: f["status"] for f in frames if f["kind"] == "output_item.done"}
    assert closed == {"costs": "incomplete", "shifts": "incomplete"}
    await asyncio.wait_for(conductor.peers["crew"].gone.wait(), 60)
    assert conductor.asked["writer"] == []


async def test_an_error_of_a_branch_has_no_id_of_another_request(site: Any, conductor: Conductor) -> None:
    with capture_logs() as logs:
        reader = Reader(await site.post(path("strict"), MESSAGE))
        conductor.tell("cost", created("cost"), delta("a"))
        await reader._answer.read_head()
        await reader.hears("a")
        conductor.tell("crew", created("crew"), delta("b"))
        await reader.hears("b")
        conductor.tell("cost", {"type": "error", "code": "server_error", "message": "x"})
        await reader.to_the_end()
        assert await site.is_quiet()
    found = [one.get("provider_request_id") for one in logs if one["event"] in {"provider_error", "stream_end"}]
    assert found == [None, None]


async def test_a_response_that_failed_ends_the_run(site: Any, conductor: Conductor) -> None:
    reader = Reader(await site.post(path("strict"), MESSAGE))
    conductor.tell("crew", created("crew"), delta("a"))
    await reader._answer.read_head()
    await reader.hears("a")
    conductor.tell("cost", created("cost"), ended("cost", "failed"), None)
    frames = await reader.to_the_end()
    assert frames[-1]["final"]["status"] == "failed"
    await asyncio.wait_for(conductor.peers["crew"].gone.wait(), 60)
    assert conductor.asked["writer"] == []


async def test_a_run_that_fails_before_the_status_is_a_problem(site: Any, conductor: Conductor) -> None:
    answer = await site.post(path("strict"), MESSAGE)
    assert {await conductor.met.get(), await conductor.met.get()} == {"cost", "crew"}
    conductor.tell("cost", *["refuse"] * 3)
    await answer.read_head()
    assert answer.status == 503
    assert (await answer.problem())["code"] == "upstream_http_503"
    await asyncio.wait_for(conductor.peers["crew"].gone.wait(), 60)


async def test_cancelling_reaches_every_branch(site: Any, conductor: Conductor) -> None:
    answer = await site.post(path("strict"), MESSAGE)
    reader = Reader(answer)
    conductor.tell("crew", created("crew"), delta("a"))
    await answer.read_head()
    await reader.hears("a")
    conductor.tell("cost", created("cost"), delta("b"))
    await reader.hears("b")
    cancelled = await site.ask(f"/api/v1/streams/{answer.headers['x-stream-id']}/cancel", {})
    assert cancelled.status == 204
    frames = await reader.to_the_end()
    assert frames[-1]["final"] == {"status": "cancelled", "response_text": "b\n\na"}
    for model in ("cost", "crew"):
        await asyncio.wait_for(conductor.peers[model].gone.wait(), 60)
    assert conductor.asked["writer"] == []


async def test_a_disconnect_closes_every_upstream(site: Any, conductor: Conductor) -> None:
    answer = await site.post(path("strict"), MESSAGE)
    conductor.tell("crew", created("crew"), delta("a"))
    await answer.read_head()
    await Reader(answer).hears("a")
    while len(conductor.peers) < 2:
        await conductor.met.get()
    answer.leave()
    for model in ("cost", "crew"):
        await asyncio.wait_for(conductor.peers[model].gone.wait(), 60)


async def test_a_slow_client_slows_every_branch(serve: Any, upstream: Any) -> None:
    sent: dict[str, int] = defaultdict(int)

    async def script(peer: Any) -> None:
        await peer.start()
        while True:
            await peer.event(delta("a" * 8_000))
            sent[peer.body["model"]] += 1

    provider = await upstream(script)
    site = serve(agents=AGENTS, workflows=WORKFLOWS, timeouts={"client_stall_timeout_s": 1})
    answer = await site.post(path("strict"), MESSAGE)
    answer.stop_reading()
    peers = [await provider.peers.get(), await provider.peers.get()]
    for peer in peers:
        await asyncio.wait_for(peer.gone.wait(), 60)
    assert sent.keys() == {"cost", "crew"}
    assert await site.is_quiet(), "and the memory is released"


async def test_a_silent_branch_fails_alone(serve: Any, conductor: Conductor) -> None:
    site = serve(agents=AGENTS, workflows=WORKFLOWS, timeouts={"idle_s": 1.5})
    conductor.tell("cost", created("cost"), delta("b"))
    conductor.answer("crew", "Two shifts")
    conductor.answer("writer", "done")
    frames = await Reader(await site.ask(path("lenient"), MESSAGE)).to_the_end()
    reasons = [frame.get("reason") for frame in frames if frame["kind"] == "lifecycle" and frame["status"] == "failed"]
    assert reasons == ["upstream_timeout_idle"]
    assert frames[-1]["final"]["response_text"] == "done"
    await asyncio.wait_for(conductor.peers["cost"].gone.wait(), 60)


async def test_a_run_has_its_own_time_limit(site: Any, conductor: Conductor) -> None:
    conductor.tell("cost", created("cost"), delta("b"))
    conductor.tell("crew", created("crew"), delta("a"))
    frames = await Reader(await site.ask(path("brief"), MESSAGE)).to_the_end()
    assert frames[-1]["error"]["code"] == "upstream_timeout_total"
    assert {frame["kind"] for frame in frames} >= {"output_item.done"}


async def test_heartbeats_during_silence(serve: Any, conductor: Conductor) -> None:
    site = serve(agents=AGENTS, workflows=WORKFLOWS, heartbeat_s=0.2, retries={"max": 0})
    answer = await site.ask(path("strict"), MESSAGE)
    assert (answer.status, (await answer.chunk())[:11]) == (200, b": heartbeat"), "before any upstream answered"
    conductor.tell("crew", created("crew"), delta("a"))
    reader = Reader(answer)
    await reader.hears("a")
    while not (await answer.chunk()).startswith(b": heartbeat"):
        pass
    conductor.tell("cost", "refuse")
    frames = await reader.to_the_end()
    assert frames[-1]["error"]["code"] == "upstream_http_503", "too late for a problem document"
    await asyncio.wait_for(conductor.peers["crew"].gone.wait(), 60)


async def test_a_run_that_fails_after_a_heartbeat_has_its_terminal(serve: Any, conductor: Conductor) -> None:
    site = serve(agents=AGENTS, workflows=WORKFLOWS, heartbeat_s=0.2, retries={"max": 0})
    answer = await site.ask(path("sequence"), MESSAGE)
    conductor.tell("crew", "refuse")
    frames = await Reader(answer).to_the_end()
    assert [frame["kind"] for frame in frames] == ["error"]
    assert frames[0]["error"]["code"] == "upstream_http_503"


async def test_shutdown_ends_the_run(site: Any, conductor: Conductor, upstream_port: int) -> None:
    base = {"port": 0, "drain_timeout_s": 0, "base_url": f"http://localhost:{upstream_port}/v1"}
    ending = type(site)(Settings.model_validate(base | {"agents": AGENTS, "workflows": WORKFLOWS}), demo=False)
    answer = await ending.post(path("strict"), MESSAGE)
    reader = Reader(answer)
    conductor.tell("crew", created("crew"), delta("a"))
    await answer.read_head()
    await reader.hears("a")
    end = asyncio.create_task(asyncio.to_thread(ending.stop))
    frames = await reader.to_the_end()
    assert frames[-1]["error"]["code"] == "server_shutdown"
    assert "step_name" not in frames[-1]["workflow"], "it is the run's, not that of a step"
    await answer.closed()
    await end


async def test_another_dialect(site: Any, conductor: Conductor) -> None:
    conductor.answer("crew", "Two shifts")
    conductor.answer("writer", "Part them")
    answer = await site.ask(f"{path('sequence')}?dialect=ag_ui", MESSAGE)
    events = await answer.frames()
    steps = [(event["type"], event["stepName"]) for event in events if event["type"].startswith("STEP")]
    assert steps == [
        ("STEP_STARTED", "gather/facts"),
        ("STEP_FINISHED", "gather/facts"),
        ("STEP_STARTED", "write/text"),
        ("STEP_FINISHED", "write/text"),
    ]
    assert events[-1]["outcome"] == {"type": "success"}


@pytest.mark.parametrize(
    ("workflow", "body", "status", "code"),
    [
        ("nothing", MESSAGE, 404, "unknown_workflow"),
        ("strict", {}, 422, "invalid_request"),
        ("strict", {"message": ""}, 422, "invalid_request"),
        ("strict", {"message": "x", "agent": "cost"}, 422, "invalid_request"),
        ("strict?dialect=ag_ui", MESSAGE, 422, "unknown_dialect"),
    ],
)
async def test_invalid_requests(site: Any, workflow: str, body: Event, status: int, code: str) -> None:
    name, _, query = workflow.partition("?")
    answer = await site.ask(path(name) + (f"?{query}" if query else ""), body)
    assert (answer.status, (await answer.problem())["code"]) == (status, code)
