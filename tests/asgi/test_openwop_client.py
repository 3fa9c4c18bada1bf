"""The protocol's own Python client against the host in a real process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import openwop_client as wop
import pytest

from tests.asgi.process import DEMO

KEY = "key-of-suite"
AUTH = json.dumps({"suite": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()})
STREAMING = "conformance-agent-reasoning-streaming"
LOW_CONFIDENCE = "conformance-agent-low-confidence"


@contextlib.contextmanager
def serving() -> Iterator[tuple[subprocess.Popen[str], wop.OpenwopClient]]:
    """Start a host in a process of its own; yield a client of it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PROJECTOR_", "OPENAI_"))}
    environ |= {"PROJECTOR_OPENWOP__CONFORMANCE": "true", "PROJECTOR_AUTH__API_KEYS": AUTH}
    environ["PROJECTOR_DRAIN_TIMEOUT_S"] = "0.2"
    process = subprocess.Popen([sys.executable, "-u", "-c", DEMO], env=environ, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        port = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert port is not None
        try:
            yield process, wop.OpenwopClient(base_url=port[0], api_key=KEY)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def client() -> Iterator[wop.OpenwopClient]:
    with serving() as (_, client):
        yield client


def create(client: wop.OpenwopClient, workflow_id: str, **members: Any) -> str:
    created = client.runs_create(wop.CreateRunRequest(workflowId=workflow_id, **members))
    assert created.status == "pending"
    assert created.eventsUrl == f"/v1/runs/{created.runId}/events"
    run_id: str = created.runId
    return run_id


def follow(client: wop.OpenwopClient, run_id: str) -> list[Any]:
    """Poll a run until it ends or waits for an answer."""
    said: list[Any] = []
    is_over = False
    while not is_over:
        polled = client.runs_poll_events(run_id, last_sequence=len(said) - 1, timeout_seconds=5)
        said += polled.events
        is_over = polled.isComplete or said[-1].type == "interrupt.requested"
    return said


def test_the_client_reads_the_capabilities(client: wop.OpenwopClient) -> None:
    said = client.discovery_capabilities()
    assert said.protocolVersion == "1.0"
    assert said.supportedTransports == ["rest"]
    assert said.limits.envelopesPerTurn == 0
    assert "/v1/runs/{run_id}/events" in client.discovery_openapi()["paths"]
    assert client.workflows_get(STREAMING)["nodes"][0]["typeId"] == "core.conformance.mock-agent"


def test_the_client_streams_reasoning(client: wop.OpenwopClient) -> None:
    run_id = create(client, STREAMING)
    said = list(client.runs_events(run_id, stream_mode="updates"))
    deltas = [payload for event in said if (payload := wop.agent_reasoning_delta_payload(event)) is not None]
    (closing,) = [payload for event in said if (payload := wop.agent_reasoned_payload(event)) is not None]
    assert [delta["sequence"] for delta in deltas] == [0, 1, 2]
    assert "".join(delta["delta"] for delta in deltas) == closing["reasoning"]
    assert said[-1].type == "run.completed"
    assert client.runs_get(run_id).status == "completed"
    assert list(client.runs_events(run_id, stream_mode="updates", buffer_ms=50)) == said
    assert list(client.runs_events(run_id, stream_mode=("updates", "messages"), last_event_id="3")) == said[4:]
    assert follow(client, run_id) == list(client.runs_events(run_id, stream_mode="debug"))


def test_the_client_answers_a_decision(client: wop.OpenwopClient) -> None:
    run_id = create(client, LOW_CONFIDENCE)
    suspended, requested = follow(client, run_id)[-2:]
    assert requested.payload["data"]["observed"] == 0.5
    assert suspended.payload["reason"] == "low-confidence"
    assert client.runs_get(run_id).status == "waiting-approval"
    body = wop.ResolveInterruptRequest(resumeValue={"action": "accept"})
    assert client.interrupts_resolve_by_run(run_id, suspended.nodeId, body).status == "running"
    assert list(client.runs_events(run_id))[-1].type == "run.completed"


def test_the_client_reads_and_cancels_an_agents_run(client: wop.OpenwopClient) -> None:
    run_id = create(client, "default", inputs={"message": "Search the news"})
    said = list(client.runs_events(run_id, stream_mode="debug"))
    chunks = [payload["chunk"] for event in said if (payload := wop.output_chunk_payload(event)) is not None]
    assert "".join(chunks) == said[-1].payload["outputs"]["text"]
    other = create(client, "default", inputs={"message": "think"})
    assert client.runs_cancel(other).status in {"cancelling", "cancelled"}
    assert list(client.runs_events(other))[-1].type == "run.cancelled"


def test_the_client_parses_errors(client: wop.OpenwopClient) -> None:
    for attempt, status, code in (
        (lambda: client.runs_get("run_x"), 404, "not_found"),
        (lambda: create(client, "nothing"), 404, "workflow_not_found"),
        (lambda: create(client, STREAMING, callbackUrl="https://example.com"), 400, "capability_not_provided"),
        (lambda: create(wop.OpenwopClient(client._base_url, "nobody"), STREAMING), 401, "unauthenticated"),
    ):
        with pytest.raises(wop.WopError) as refused:
            attempt()
        assert (refused.value.status, refused.value.envelope.error) == (status, code)


def test_a_shutdown_ends_the_streams_of_readers() -> None:
    with serving() as (process, client):
        run_id = create(client, LOW_CONFIDENCE)
        reading = client.runs_events(run_id)
        while next(reading).type != "node.suspended":
            pass
        process.terminate()
        last = list(reading)[-1]
        assert (last.type, last.payload["error"]["code"]) == ("run.failed", "server_shutdown")
        assert process.wait(timeout=30) == 0
