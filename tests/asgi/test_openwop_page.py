"""docs/openwop.md: its settings and paths exist, and its command starts a host for the seven tests of the suite."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from projector.contracts import codec
from projector.openwop.settings import FIXTURES
from projector.server.config.loading import load
from tests.conftest import SHARED

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "openwop.md").read_text(encoding="utf-8")
(COMMAND,) = re.findall(r"\$ (PROJECTOR_OPENWOP\S+ .*)", PAGE)
(AGENT,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
(BODY,) = re.findall(r"-d '(.*?)'", PAGE)
(KEY,) = re.findall(r"the key `(\S+)`", PAGE)

REASONING: Final = "conformance-agent-reasoning"
STREAMING: Final = "conformance-agent-reasoning-streaming"
LOW_CONFIDENCE: Final = "conformance-agent-low-confidence"
AGENT_EVENTS: Final = {"agent.reasoned", "agent.toolCalled", "agent.toolReturned", "agent.handoff", "agent.decided"}
PATIENCE_S: Final = 60.0

Event = dict[str, Any]


def test_the_agent_of_the_page_can_be_run(tmp_path: Path) -> None:
    file = tmp_path / "projector.toml"
    file.write_text(AGENT, encoding="utf-8")
    settings = load({"OPENAI_API_KEY": "sk-test"}, config=file)
    assert "openwop" in settings.agents[json.loads(BODY)["workflowId"]].dialects
    assert settings.openwop is not None


@pytest.mark.parametrize("path", re.findall(r"^- `(?:GET|POST) (\S+)`: ", PAGE, re.MULTILINE))
def test_every_path_of_the_page_is_one_of_the_host(path: str) -> None:
    paths = codec.loads((files("projector.openwop") / "openapi.json").read_bytes())["paths"]
    assert re.sub(r"\{\w+\}", "{}", path) in {re.sub(r"\{\w+\}", "{}", known) for known in paths}


# the scenarios of RFC 0023 and RFC 0024, against the command of the page


class Suite:
    """What the suite knows of a host: its address and a key."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder

    def get(self, path: str, *, key: str | None = KEY, body: object = None) -> tuple[int, Any]:
        headers = {"accept": "application/json", "content-type": "application/json"}
        headers |= {} if key is None else {"authorization": f"Bearer {key}"}
        data = None if body is None else json.dumps(body).encode()
        asked = Request(self._address + path, data, headers)  # noqa: S310 - a server on loopback
        with urlopen(asked, timeout=PATIENCE_S) as answer:  # noqa: S310 - the same
            return answer.status, json.loads(answer.read())

    def config(self, workflow_id: str) -> dict[str, Any]:
        """Return the configuration of the only node of a fixture, which the suite compares with the events."""
        (node,) = json.loads((self._folder / f"{workflow_id}.json").read_bytes())["nodes"]
        config: dict[str, Any] = node["config"]
        return config

    def run(self, workflow_id: str, *statuses: str) -> list[Event]:
        """Run a workflow until it has one of these statuses, and return its events."""
        status, created = self.get("/v1/runs", body={"workflowId": workflow_id})
        assert status == 201
        path, deadline = f"/v1/runs/{created['runId']}", time.monotonic() + PATIENCE_S
        while (snapshot := self.get(path)[1])["status"] not in statuses:
            assert time.monotonic() < deadline, snapshot
            time.sleep(0.05)
        assert snapshot["workflowId"] == workflow_id
        events: list[Event] = self.get(f"{path}/events")[1]["events"]
        return events


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    """Start the host with the command of the page, on a free port, with the fixtures of the suite where they exist."""
    *assignments, program, command = shlex.split(COMMAND)
    assert (program, command) == ("projector", "demo")
    folder = SHARED / "openwop" / "fixtures"
    if not folder.is_dir():
        folder = FIXTURES
    environ = dict(one.split("=", 1) for one in assignments)
    assert hashlib.sha256(KEY.encode()).hexdigest() in environ["PROJECTOR_AUTH__API_KEYS"]
    environ = {**os.environ, **environ, "PROJECTOR_OPENWOP__FIXTURES_DIR": str(folder), "PROJECTOR_PORT": "0"}
    arguments = [sys.executable, "-m", "projector", command]
    with subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as host:
        assert host.stdout is not None
        try:
            found = next(match for line in host.stdout if (match := re.search(r"127\.0\.0\.1:(\d+)", line)))
            yield Suite(f"http://127.0.0.1:{found[1]}", folder)
        finally:
            host.terminate()
            host.stdout.read()


def of(events: list[Event], *types: str) -> list[Event]:
    return [event for event in events if event["type"] in types]


def test_the_gates_of_all_scenarios_are_open(suite: Suite) -> None:
    said = suite.get("/.well-known/openwop", key=None)[1]
    assert said["agents"]["supported"] is True
    assert said["agents"]["reasoning"] == {"verbosity": "full", "tokenLimit": 512, "streaming": True}
    assert said["conformance"] == {"mockAgent": True}
    assert {REASONING, STREAMING, LOW_CONFIDENCE} <= set(said["fixtures"])
    with pytest.raises(OSError, match="401"):
        suite.get("/v1/runs", key=None, body={"workflowId": REASONING})


def test_reasoning_events_1_each_agent_event_names_an_agent(suite: Suite) -> None:
    said = of(suite.run(REASONING, "completed"), *AGENT_EVENTS)
    assert {event["type"] for event in said} == AGENT_EVENTS
    for event in said:
        assert event["payload"]["fromAgentId" if event["type"] == "agent.handoff" else "agentId"]


def test_reasoning_events_2_a_result_has_its_call_as_cause(suite: Suite) -> None:
    said = suite.run(REASONING, "completed")
    (called,), (returned,) = of(said, "agent.toolCalled"), of(said, "agent.toolReturned")
    assert returned["causationId"] == called["eventId"]
    assert returned["payload"]["callId"] == called["payload"]["callId"]


def test_reasoning_events_3_the_payloads_are_those_of_the_fixture(suite: Suite) -> None:
    said, config = suite.run(REASONING, "completed"), suite.config(REASONING)
    (call,) = config["mockToolCalls"]
    payloads = {event["type"]: event["payload"] for event in said}
    assert payloads["agent.reasoned"]["reasoning"] == config["mockReasoning"]["summary"]
    assert payloads["agent.toolCalled"]["inputs"] == call["arguments"]
    assert payloads["agent.toolReturned"]["outcome"] == call["result"]
    assert payloads["agent.handoff"]["toAgentId"] == config["mockHandoff"]["toAgentId"]
    assert payloads["agent.decided"]["decision"] == config["mockDecision"]["decision"]


def test_reasoning_streaming_1_deltas_count_from_zero(suite: Suite) -> None:
    deltas = of(suite.run(STREAMING, "completed"), "agent.reasoning.delta")
    assert [delta["payload"]["sequence"] for delta in deltas] == [0, 1, 2]
    assert [delta["payload"]["delta"] for delta in deltas] == suite.config(STREAMING)["mockReasoning"]["streamChunks"]


def test_reasoning_streaming_2_one_closing_event_has_the_whole_text(suite: Suite) -> None:
    (closing,) = of(suite.run(STREAMING, "completed"), "agent.reasoned")
    chunks = suite.config(STREAMING)["mockReasoning"]["streamChunks"]
    assert closing["payload"]["reasoning"] == "".join(chunks)


def test_reasoning_streaming_3_a_block_has_one_agent_and_its_order(suite: Suite) -> None:
    said = of(suite.run(STREAMING, "completed"), "agent.reasoning.delta", "agent.reasoned")
    assert [event["type"] for event in said] == ["agent.reasoning.delta"] * 3 + ["agent.reasoned"]
    assert len({event["payload"]["agentId"] for event in said}) == 1


def test_confidence_escalation_suspends_the_run(suite: Suite) -> None:
    said = suite.run(LOW_CONFIDENCE, "waiting-approval", "failed", "completed")
    (payload,) = [event["payload"] for event in of(said, "node.suspended")]
    assert payload["reason"] == "low-confidence"
    assert payload["agentId"]
    assert payload["observed"] < payload["threshold"]
    assert payload["observed"] == suite.config(LOW_CONFIDENCE)["mockDecision"]["confidence"]
