"""Runs of configured agents on the OpenWOP host, over real sockets: approvals, ends, independent readers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.asgi.conftest import Peer, Script, ScriptedUpstream
from tests.asgi.openwop_peer import (
    PATIENCE_S,
    Check,
    OpenWopPeer,
    document,
    error,
    hold,
    messages,
    schema_check,
    types,
)

Start = Callable[[Script], Awaitable[ScriptedUpstream]]
Serve = Callable[..., Any]


@pytest.fixture(scope="session")
def check(openwop: Path) -> Check:
    return schema_check(openwop)


@pytest.fixture
def host(serve: Serve, upstream_port: int) -> OpenWopPeer:
    return hosting(serve, upstream_port)


def hosting(serve: Serve, upstream_port: int, policy: dict[str, Any] | None = None, **settings: Any) -> OpenWopPeer:
    base_url = f"http://localhost:{upstream_port}/v1"
    agent = {
        "upstream": "model",
        "model": "m",
        "dialects": ["openwop"],
        "policy": {"text": "off", **(policy or {"reasoning": "full"})},
        "allowed_params": ["temperature", "previous_response_id"],
    }
    upstreams = {"model": {"base_url": base_url, **settings.pop("upstream", {})}}
    openwop = settings.pop("openwop", {})
    agents = {"helper": agent, "plain": agent | {"dialects": ["public_sse_v1"]}}
    return OpenWopPeer(
        serve(api_key=None, base_url=None, upstreams=upstreams, agents=agents, openwop=openwop, **settings)
    )


def created(response_id: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response_id, "status": "in_progress", "model": "m-1"}}


def completed(response_id: str) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
    return {
        "type": "response.completed",
        "response": {"id": response_id, "status": "completed", "usage": usage},
    }


def text(delta: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "delta": delta}


def thought(delta: str) -> dict[str, Any]:
    return {"type": "response.reasoning_text.delta", "item_id": "rs_1", "output_index": 0, "delta": delta}


def thought_whole(whole: str) -> dict[str, Any]:
    item = {"id": "rs_1", "type": "reasoning", "content": [{"type": "reasoning_text", "text": whole}]}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def approval(item_id: str, index: int = 0) -> list[dict[str, Any]]:
    item = {
        "id": item_id,
        "type": "mcp_approval_request",
        "name": "wipe",
        "server_label": "disk",
        "arguments": '{"disk":"sda"}',
    }
    return [{"type": f"response.output_item.{step}", "output_index": index, "item": item} for step in ("added", "done")]


def says(*answers: list[dict[str, Any]]) -> Script:
    """Return a script that answers each request with the next list of events."""
    left = iter(answers)

    async def script(peer: Peer) -> None:
        await peer.start()
        for event in next(left):
            await peer.event(event)
        await peer.end()

    return script


async def test_an_agents_run_is_logged(host: OpenWopPeer, upstream: Start, check: Check) -> None:
    model = await upstream(
        says([created("r"), thought("hm"), thought("m"), thought_whole("hmm"), text("Hi"), completed("r")])
    )
    run_id = await host.say("hello")
    snapshot = await host.until(run_id, "completed")
    log = await host.log(run_id)
    assert types(log) == [
        "run.started", "node.started", "agent.reasoning.delta", "agent.reasoning.delta", "agent.reasoned",
        "output.chunk", "provider.usage", "output.chunk", "node.completed", "run.completed",
    ]  # fmt: skip
    for event in log:
        hold(check, event)
    check("run-snapshot.schema.json", snapshot)
    assert log[0]["payload"]["workflowId"] == snapshot["workflowId"] == "helper"
    assert log[1]["payload"] == {"nodeId": "agent", "typeId": "vendor.public-sse.agent"}
    assert [event["sequence"] for event in log] == list(range(len(log)))
    assert model.peers.get_nowait().body["input"] == "hello"
    check("workflow-definition.schema.json", await document(await host.get("/v1/workflows/helper")))


async def test_only_agents_with_the_dialect_are_workflows(host: OpenWopPeer) -> None:
    answer = await host.post("/v1/runs", {"workflowId": "plain", "inputs": {"message": "m"}})
    assert (await error(answer, 404))["error"] == "workflow_not_found"


async def test_a_run_continues_after_its_reader_disconnects(host: OpenWopPeer, upstream: Start) -> None:
    may_end = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.event(created("r"))
        await peer.event(text("a"))
        await may_end.wait()
        await peer.event(completed("r"))
        await peer.end()

    await upstream(script)
    run_id = await host.say("hello")
    reader = await host.stream(run_id, "?streamMode=debug")
    assert b"event: run.started" in await reader.chunk()
    reader.reset()
    late = await host.stream(run_id, "?streamMode=debug", last_event_id="0")
    may_end.set()
    said = await messages(late)
    assert types(said)[0] == "node.started"
    assert types(said)[-1] == "run.completed"
    assert [int(message.id or "") for message in said] == list(range(1, len(said) + 1))


async def test_a_slow_reader_does_not_slow_the_run(host: OpenWopPeer, upstream: Start) -> None:
    await upstream(says([created("r"), *[text("x" * 30_000)] * 300, completed("r")]))
    run_id = await host.say("hello")
    reader = await host.stream(run_id, "?streamMode=debug")
    reader.stop_reading()
    await host.until(run_id, "completed")
    reader.reset()
    whole = await host.log(run_id)
    assert sum(len(event["payload"]["chunk"]) for event in whole if event["type"] == "output.chunk") == 9_000_000


async def test_a_reader_that_does_not_read_is_disconnected(serve: Serve, upstream_port: int, upstream: Start) -> None:
    await upstream(says([created("r"), *[text("x" * 30_000)] * 300, completed("r")]))
    timeouts = {"client_stall_timeout_s": 1}
    host = hosting(serve, upstream_port, limits={"max_streams": 1}, timeouts=timeouts)
    run_id = await host.say("hello")
    await host.until(run_id, "completed")
    began_s = time.monotonic()
    reader = await host.stream(run_id, "?streamMode=debug")
    reader.stop_reading()
    path = f"/v1/runs/{run_id}/events/poll"
    answer = await host.get(path)
    if time.monotonic() - began_s < timeouts["client_stall_timeout_s"]:  # otherwise it may be disconnected already
        assert (await error(answer, 503))["error"] == "overloaded"
    async with asyncio.timeout(PATIENCE_S):
        while (await host.get(path)).status == 503:  # noqa: ASYNC110 - a limit sets no event
            await asyncio.sleep(0.1)
    reader.reset()


ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"action": "accept"}, "accept"),
    ({"action": "reject"}, "reject"),
    ({"decision": "approved"}, "accept"),
    ({"decision": "approve"}, "accept"),
    ({"decision": "rejected"}, "reject"),
]


@pytest.mark.parametrize(("value", "action"), ANSWERS)
async def test_an_approval_resumes_the_agent(
    host: OpenWopPeer, upstream: Start, check: Check, value: dict[str, Any], action: str
) -> None:
    model = await upstream(
        says([created("r1"), *approval("mcpr_1"), completed("r1")], [created("r2"), text("Done"), completed("r2")])
    )
    run_id = await host.say("wipe the disk")
    snapshot = await host.until(run_id, "waiting-approval")
    assert snapshot["currentNodeId"] == "agent"
    assert await host.site.is_quiet()  # a run that waits for approval does not count as a stream
    (suspended,) = [event for event in await host.log(run_id) if event["type"] == "node.suspended"]
    assert suspended["payload"]["data"]["artifactId"] == "mcpr_1"
    answered = await host.post(f"/v1/runs/{run_id}/interrupts/agent", {"resumeValue": value})
    assert (await document(answered))["status"] == "running"
    await host.until(run_id, "completed")
    first, second = model.peers.get_nowait(), model.peers.get_nowait()
    assert second.body["previous_response_id"] == "r1"
    assert second.body["input"] == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": action == "accept"}
    ]
    assert second.body["model"] == first.body["model"]
    log = await host.log(run_id)
    assert [kind for kind in types(log) if kind.startswith(("interrupt", "node.", "run."))] == [
        "run.started", "node.started", "node.suspended", "interrupt.requested", "interrupt.resolved", "node.resumed",
        "node.completed", "run.completed",
    ]  # fmt: skip
    (received,) = [event["payload"] for event in log if event["type"] == "approval.received"]
    (resolved,) = [event["payload"] for event in log if event["type"] == "interrupt.resolved"]
    assert (received["action"], received["decidedBy"]) == (action, "anonymous")
    assert (resolved["resumeValue"], resolved["resolvedBy"]) == (value, "anonymous")
    assert [event["sequence"] for event in log] == list(range(len(log)))
    assert len({event["eventId"] for event in log}) == len(log)
    for event in log:
        hold(check, event)


REFINED = {"action": "refine", "refineFeedback": {"scope": "whole", "text": "Keep a copy."}}
EDITED = {"action": "edit-accept", "editedArtifactData": {"disk": "sdb"}}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (REFINED, "Keep a copy."),
        ({"action": "refine", "feedback": "Not now."}, "Not now."),
        ({"action": "reject", "comment": "Never."}, "Never."),
        ({"action": "reject"}, None),
        (EDITED, 'Call the tool again with these arguments instead: {"disk":"sdb"}'),
    ],
)
async def test_what_a_person_wants_instead_is_said_to_the_model(
    host: OpenWopPeer, upstream: Start, check: Check, value: dict[str, Any], reason: str | None
) -> None:
    model = await upstream(
        says([created("r1"), *approval("mcpr_1"), completed("r1")], [created("r2"), completed("r2")])
    )
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    await document(await host.post(f"/v1/runs/{run_id}/interrupts/agent", {"resumeValue": value}))
    await host.until(run_id, "completed")
    model.peers.get_nowait()
    (given,) = model.peers.get_nowait().body["input"]
    assert (given["approve"], given.get("reason")) == (False, reason)
    log = await host.log(run_id)
    (received,) = [event["payload"] for event in log if event["type"] == "approval.received"]
    assert {name: received[name] for name in value} == value
    for event in log:
        hold(check, event)


async def test_what_a_person_says_is_redacted_in_the_log(serve: Serve, upstream_port: int, upstream: Start) -> None:
    policy = {"registered": [{"id": "dock", "value": "harbour-master-7781"}]}
    host = hosting(serve, upstream_port, policy)
    await upstream(says([created("r1"), *approval("mcpr_1"), completed("r1")], [created("r2"), completed("r2")]))
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    value = {"action": "reject", "comment": "harbour-master-7781", "password": "hunter2!"}
    await document(await host.post(f"/v1/runs/{run_id}/interrupts/agent", {"resumeValue": value}))
    await host.until(run_id, "completed")
    said = json.dumps(await host.log(run_id))
    assert "[REDACTED:dock]" in said
    assert "7781" not in said
    assert "hunter2" not in said


async def test_a_token_answers_its_interrupt_without_a_key(host: OpenWopPeer, upstream: Start, check: Check) -> None:
    await upstream(says([created("r1"), *approval("mcpr_1"), completed("r1")], [created("r2"), completed("r2")]))
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    events = {event["type"]: event["payload"] for event in await host.log(run_id)}
    path = f"/v1/interrupts/{events['node.suspended']['token']}"
    question = await document(await host.get(path))
    check("suspend-request.schema.json", question)
    assert question == events["interrupt.requested"]
    for wrong in (path[:-1], path + "A", f"{path}.A", "/v1/interrupts/A.B", "/v1/interrupts/%E2%98%83"):
        assert (await error(await host.get(wrong), 404))["error"] == "interrupt_not_found"
    assert (await error(await host.post(path, {"resumeValue": 7}), 400))["error"] == "validation_error"
    assert (await document(await host.post(path, {"resumeValue": {"action": "accept"}})))["runId"] == run_id
    await host.until(run_id, "completed")
    (received,) = [e["payload"] for e in await host.log(run_id) if e["type"] == "approval.received"]
    assert received["decidedBy"] == "token"
    for answer in (await host.get(path), await host.post(path, {"resumeValue": {"action": "accept"}})):
        assert (await error(answer, 409))["error"] == "interrupt_already_resolved"


async def test_several_approvals_are_answered_by_interrupt_id(host: OpenWopPeer, upstream: Start) -> None:
    model = await upstream(
        says(
            [created("r1"), *approval("mcpr_1"), *approval("mcpr_2", 1), completed("r1")],
            [created("r2"), completed("r2")],
        )
    )
    run_id = await host.say("wipe both")
    await host.until(run_id, "waiting-approval")
    ids = [e["payload"]["interruptId"] for e in await host.log(run_id) if e["type"] == "node.suspended"]
    answer = await host.resolve(run_id, "agent", "reject", interruptId=ids[1])
    assert (await document(answer))["status"] == "waiting-approval"
    gone = await error(await host.resolve(run_id, "agent", "reject", interruptId=ids[1]), 409)
    assert gone["error"] == "interrupt_already_resolved"
    assert (await document(await host.resolve(run_id, "agent", "accept")))["status"] == "running"
    await host.until(run_id, "completed")
    model.peers.get_nowait()
    given = {one["approval_request_id"]: one["approve"] for one in model.peers.get_nowait().body["input"]}
    assert given == {"mcpr_1": True, "mcpr_2": False}


async def test_the_oldest_of_several_approvals_is_answered_first(host: OpenWopPeer, upstream: Start) -> None:
    model = await upstream(
        says(
            [created("r1"), *approval("mcpr_1"), *approval("mcpr_2", 1), completed("r1")],
            [created("r2"), completed("r2")],
        )
    )
    run_id = await host.say("wipe both")
    await host.until(run_id, "waiting-approval")
    assert (await document(await host.resolve(run_id, "agent", "accept")))["status"] == "waiting-approval"
    assert (await document(await host.resolve(run_id, "agent", "reject")))["status"] == "running"
    await host.until(run_id, "completed")
    model.peers.get_nowait()
    given = {one["approval_request_id"]: one["approve"] for one in model.peers.get_nowait().body["input"]}
    assert given == {"mcpr_1": True, "mcpr_2": False}


async def test_an_invalid_answer_leaves_the_run_suspended(host: OpenWopPeer, upstream: Start) -> None:
    await upstream(says([created("r1"), *approval("mcpr_1"), completed("r1")]))
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    for value in ("accept", True, {}, {"action": "ask"}, {"action": "refine"}, {"action": ["accept"]}, None):
        answer = await host.post(f"/v1/runs/{run_id}/interrupts/agent", {"resumeValue": value})
        assert (await error(answer, 400))["error"] == "validation_error"
    assert (await error(await host.resolve(run_id, "other", "accept"), 404))["error"] == "interrupt_not_found"
    assert (await host.snapshot(run_id))["status"] == "waiting-approval"
    await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
    await host.until(run_id, "cancelled")
    late = await error(await host.resolve(run_id, "agent", "accept"), 409)
    assert late["error"] == "interrupt_already_resolved"


async def test_the_key_of_the_upstream_is_withheld_from_the_log(
    serve: Serve, upstream_port: int, upstream: Start
) -> None:
    host = hosting(serve, upstream_port, upstream={"api_key": "key-of-the-provider-5512"})
    pieces = ("the key-of-the-pro", "vider-5512 was used")
    await upstream(says([created("r"), *map(thought, pieces), *map(text, pieces), completed("r")]))
    run_id = await host.say("hello")
    await host.until(run_id, "completed")
    said = json.dumps(await host.log(run_id))
    assert "was used" in said
    assert "key-of-the" not in said
    assert "5512" not in said


async def test_an_approval_times_out(serve: Serve, upstream_port: int, upstream: Start) -> None:
    await upstream(says([created("r1"), *approval("mcpr_1"), completed("r1")]))
    host = hosting(serve, upstream_port, openwop={"approval_timeout_s": 0.2})
    run_id = await host.say("wipe the disk")
    snapshot = await host.until(run_id, "failed")
    assert snapshot["error"]["code"] == "interrupt_timeout"
    *_, received, _, _ = log = await host.log(run_id)
    assert types(log)[-3:] == ["approval.received", "node.failed", "run.failed"]
    assert received["payload"]["action"] == "timeout"


async def hang(peer: Peer) -> None:
    await peer.start()
    await peer.event(created("r"))
    await peer.event(text("a"))
    await peer.gone.wait()


async def test_a_run_is_cancelled(host: OpenWopPeer, upstream: Start) -> None:
    model = await upstream(hang)
    run_id = await host.say("hello")
    reader = await host.stream(run_id, "?streamMode=debug")
    while b"output.chunk" not in await reader.chunk():
        pass
    answered = await document(await host.post(f"/v1/runs/{run_id}/cancel", {"reason": "enough"}))
    assert answered == {"runId": run_id, "status": "cancelling"}
    assert (await messages(reader))[-1].event == "run.cancelled"
    await asyncio.wait_for((await model.peers.get()).gone.wait(), PATIENCE_S)
    assert (await host.snapshot(run_id))["status"] == "cancelled"
    again = await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
    assert again["status"] == "cancelled"


async def test_a_run_that_has_ended_cannot_be_cancelled(host: OpenWopPeer, upstream: Start) -> None:
    await upstream(says([created("r"), completed("r")]))
    run_id = await host.say("hello")
    await host.until(run_id, "completed")
    answer = await host.post(f"/v1/runs/{run_id}/cancel", {})
    assert (await error(answer, 409))["error"] == "run_already_terminal"


async def refuse(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


async def break_off(peer: Peer) -> None:
    await peer.start()
    await peer.event(created("r"))
    await peer.event(thought("a"))
    await peer.end()


async def reset(peer: Peer) -> None:
    await peer.start()
    await peer.event(created("r"))
    peer.reset()


FAILURES: list[tuple[str, Script, str]] = [
    ("the provider refuses", refuse, "upstream_http_401"),
    ("the provider breaks off", break_off, "upstream_truncated"),
    ("the connection breaks", reset, "upstream_reset"),
    ("the provider falls silent", hang, "upstream_timeout_idle"),
]


@pytest.mark.parametrize(("name", "script", "code"), FAILURES, ids=[row[0] for row in FAILURES])
async def test_a_run_fails(
    serve: Serve, upstream_port: int, upstream: Start, check: Check, name: str, script: Script, code: str
) -> None:
    del name
    await upstream(script)
    host = hosting(serve, upstream_port, upstream={"timeouts": {"idle_s": 1.5}}, retries={"max": 0})
    run_id = await host.say("hello")
    snapshot = await host.until(run_id, "failed")
    assert snapshot["error"]["code"] == code
    log = await host.log(run_id)
    assert types(log)[0] == "run.started"
    assert types(log)[-1] == "run.failed"
    assert types(log).count("agent.reasoned") == (1 if "agent.reasoning.delta" in types(log) else 0)
    for event in log:
        hold(check, event)


async def test_a_request_is_retried_before_the_first_byte(serve: Serve, upstream_port: int, upstream: Start) -> None:
    answers = iter([500, 200])

    async def script(peer: Peer) -> None:
        if next(answers) == 200:
            await says([created("r"), completed("r")])(peer)
        else:
            await peer.send(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    await upstream(script)
    host = hosting(serve, upstream_port, retries={"max": 1, "initial_backoff_s": 0.01})
    await host.until(await host.say("hello"), "completed")


VERBOSITIES: list[tuple[str, str | None, list[str]]] = [
    ("full", None, ["agent.reasoning.delta", "agent.reasoned"]),
    ("full", "off", []),
    ("full", "summary", ["agent.reasoned"]),
    ("summary", "full", ["agent.reasoned"]),
    ("off", "full", []),
]


@pytest.mark.parametrize(("policy", "asked", "said"), VERBOSITIES)
async def test_a_run_can_reduce_reasoning(
    serve: Serve, upstream_port: int, upstream: Start, policy: str, asked: str | None, said: list[str]
) -> None:
    await upstream(says([created("r"), thought("hm"), text("Hi"), completed("r")]))
    host = hosting(serve, upstream_port, policy={"reasoning": policy})
    configurable = {} if asked is None else {"reasoningVerbosity": asked}
    run_id = await host.say("hello", configurable=configurable)
    await host.until(run_id, "completed")
    assert [kind for kind in types(await host.log(run_id)) if kind.startswith("agent.")] == said


async def test_no_event_contains_a_secret_of_the_host(serve: Serve, upstream_port: int, upstream: Start) -> None:
    secret = "hunter2-hunter2"
    pieces = [thought(secret[:4]), thought(secret[4:]), text("is " + secret[:6]), text(secret[6:])]
    await upstream(says([created("r"), *pieces, completed("r")]))
    policy = {"reasoning": "full", "registered": [{"id": "key", "value": secret}]}
    host = hosting(serve, upstream_port, policy=policy)
    run_id = await host.say("hello")
    await host.until(run_id, "completed")
    whole = json.dumps(await host.log(run_id))
    assert secret not in whole
    assert whole.count("[REDACTED:key]") >= 3


async def test_a_run_sets_only_allowed_parameters(host: OpenWopPeer, upstream: Start) -> None:
    model = await upstream(says([created("r"), completed("r")]))
    inputs = {"message": "hello", "parameters": {"temperature": 0.25}}
    run_id = await host.create("helper", inputs=inputs, configurable={"unknown": 1})
    await host.until(run_id, "completed")
    assert model.peers.get_nowait().body["temperature"] == 0.25
    refused: list[dict[str, Any]] = [
        {"configurable": {"maxTokens": 5}},
        {"configurable": {"temperature": 0.25}},
        {"inputs": {"message": "m", "parameters": {"max_output_tokens": 5}}},
        {"configurable": {"model": "another"}},
        {"configurable": {"promptOverrides": {"a": "b"}}},
        {"inputs": {"message": "m", "agent": "helper"}},
        {"inputs": {"message": "m", "instructions": "obey me"}},
        {"inputs": {}},
        {"configurable": {"reasoningVerbosity": "all"}},
    ]
    for members in refused:
        body = {"workflowId": "helper", "inputs": {"message": "m"}, **members}
        assert (await error(await host.post("/v1/runs", body), 400))["error"] == "validation_error"


async def test_a_response_of_another_caller_cannot_be_continued(host: OpenWopPeer, upstream: Start) -> None:
    model = await upstream(says([created("r_mine"), completed("r_mine")], [created("r2"), completed("r2")]))
    answer = await host.post(
        "/v1/runs", {"workflowId": "helper", "inputs": {"message": "m", "previous_response_id": "r_theirs"}}
    )
    assert (await error(answer, 404))["error"] == "not_found"
    await host.until(await host.say("hello"), "completed")
    inputs = {"message": "m", "previous_response_id": "r_mine"}
    await host.until(await host.create("helper", inputs=inputs), "completed")
    model.peers.get_nowait()
    assert model.peers.get_nowait().body["previous_response_id"] == "r_mine"


async def test_an_answer_may_arrive_before_the_upstream_closes(host: OpenWopPeer, upstream: Start) -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        is_first = "previous_response_id" not in peer.body
        for event in (
            [created("r1"), *approval("mcpr_1"), completed("r1")] if is_first else [created("r2"), completed("r2")]
        ):
            await peer.event(event)
        await peer.gone.wait()  # it never ends its answer

    await upstream(script)
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    await document(await host.resolve(run_id, "agent", "accept"))
    await host.until(run_id, "completed")
