"""`core.conformance.mock-agent` and the supervisor hooks: order, names, thresholds, redaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from projector.openwop import mock_nodes
from projector.openwop.event_log import EventLog
from projector.openwop.events import EVENT_ADAPTER
from projector.openwop.mock_nodes import (
    Emitter,
    MockAgentConfig,
    MockAgentNode,
    SupervisorConfig,
    SupervisorNode,
    WorkflowNode,
)
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

PLAIN = Redactor(Policy(text="off"))
SECRET = "hunter2-hunter2"
GUARDED = Redactor(Policy.load({"registered": [{"id": "key", "value": SECRET}]}))

Event = dict[str, Any]


def emitted(
    config: MockAgentConfig | SupervisorConfig,
    pinned: str | None = "the.agent",
    *,
    redactor: Redactor = PLAIN,
    verbosity: Any = "full",
    threshold: float = 0.7,
) -> list[Event]:
    """Return the events of a node; each is valid."""
    log, said = EventLog("run_1"), list[Event]()

    def emit(name: str, payload: Mapping[str, Any], **members: Any) -> str:
        said.append(log.event(name, payload, timestamp="2025-12-15T12:00:00.000Z", **members))
        EVENT_ADAPTER.validate_python(said[-1])
        return str(said[-1]["eventId"])

    members = {"id": "n", "config": config} | ({} if pinned is None else {"agent": {"agentId": pinned}})
    if isinstance(config, MockAgentConfig):
        node: WorkflowNode = MockAgentNode.model_validate({"typeId": "core.conformance.mock-agent", **members})
    else:
        node = SupervisorNode.model_validate({"typeId": "core.orchestrator.supervisor", **members})
    emitter = Emitter(node, redactor, verbosity, emit)
    agent = emitter.agent()
    if config.decided is not None:
        emitter.decision(config.decided, agent, "run_1", threshold)
    return said


def plan(config: Mapping[str, Any], pinned: str | None = "the.agent", **changes: Any) -> list[Event]:
    return emitted(MockAgentConfig.model_validate(config), pinned, **changes)


def types(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


EVERYTHING = {
    "mockReasoning": {"summary": "s", "streamChunks": ["a", "b"]},
    "mockToolCalls": [{"toolId": "t:1", "result": 1}, {"toolId": "t:2", "error": {"error": "e", "message": "m"}}],
    "mockHandoff": {"toAgentId": "the.other"},
    "mockDecision": {"decision": None, "confidence": 0.1},
}


@pytest.mark.parametrize("config", [EVERYTHING, dict(reversed(EVERYTHING.items()))])
def test_the_order_is_that_of_the_rfc(config: dict[str, Any]) -> None:
    said = plan(config)
    assert types(said) == [
        "agent.reasoning.delta", "agent.reasoning.delta", "agent.reasoned",
        "agent.toolCalled", "agent.toolReturned", "agent.toolCalled", "agent.toolReturned",
        "agent.handoff", "agent.decided", "node.suspended", "interrupt.requested",
    ]  # fmt: skip
    causes = {event["eventId"]: event.get("causationId") for event in said}
    ids = list(causes)
    assert [causes[ids[at]] for at in (4, 6, 10)] == [ids[3], ids[5], ids[9]]
    assert len({event["payload"]["callId"] for event in said[3:7]}) == 2


REASONING: list[tuple[str, object, list[str], str | None]] = [
    ("nothing", None, [], None),
    ("false", False, [], None),
    ("true", True, [], mock_nodes.STUB_REASONING),
    ("a summary", {"summary": "s"}, [], "s"),
    ("an empty summary", {"summary": ""}, [], ""),
    ("a trace is not said", {"summary": "s", "trace": "t"}, [], "s"),
    ("chunks", {"summary": "s", "streamChunks": ["a", "", "b"]}, ["a", "", "b"], "ab"),
    ("no chunks", {"summary": "s", "streamChunks": []}, [], "s"),
]


@pytest.mark.parametrize(("name", "config", "deltas", "whole"), REASONING, ids=[row[0] for row in REASONING])
def test_reasoning(name: str, config: object, deltas: list[str], whole: str | None) -> None:
    del name
    said = [event["payload"] for event in plan({} if config is None else {"mockReasoning": config})]
    assert [one["delta"] for one in said[:-1]] == deltas
    assert [one["sequence"] for one in said[:-1]] == list(range(len(deltas)))
    assert [one.get("reasoning") for one in said[-1:]] == ([] if whole is None else [whole])
    assert {(one["agentId"], one["verbosity"]) for one in said} <= {("the.agent", "full")}


def test_off_omits_reasoning_only() -> None:
    assert types(plan(EVERYTHING, verbosity="off")) == types(plan(EVERYTHING))[3:]


def test_a_summary_is_truncated_with_its_deltas() -> None:
    limit = mock_nodes.SUMMARY_MAX_CHARS
    chunks = ["a" * (limit - 1), "bcd", "e"]
    config = {"mockReasoning": {"summary": "s", "streamChunks": chunks}}
    said = [event["payload"] for event in plan(config, verbosity="summary")]
    assert [one["delta"] for one in said[:-1]] == ["a" * (limit - 1), "b", ""]
    assert said[-1]["reasoning"] == "a" * (limit - 1) + "b"
    assert plan(config)[-1]["payload"]["reasoning"] == "".join(chunks)


@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_no_delta_shows_what_the_block_withholds(cut: int) -> None:
    chunks = ["see ", SECRET[:cut], SECRET[cut:], " there"]
    said = [e["payload"] for e in plan({"mockReasoning": {"summary": "s", "streamChunks": chunks}}, redactor=GUARDED)]
    assert said[-1]["reasoning"] == "see [REDACTED:key] there"
    assert "".join(one["delta"] for one in said[:-1]) == said[-1]["reasoning"]


def test_tools_and_decisions_are_redacted() -> None:
    config = {
        "mockToolCalls": [
            {"toolId": SECRET, "arguments": {"password": "p", "x": SECRET}, "result": [SECRET]},
            {"toolId": "t", "error": {"error": SECRET, "message": SECRET, "details": {"token": "t"}}},
        ],
        "mockHandoff": {"toAgentId": SECRET, "reason": SECRET, "context": SECRET},
        "mockDecision": {"decision": {"x": SECRET}, "confidence": 0.1, "reasoning": SECRET},
    }
    said = plan(config, redactor=GUARDED)
    assert SECRET not in repr(said)
    assert said[0]["payload"]["inputs"] == {"password": "<redacted>", "x": "[REDACTED:key]"}
    assert said[3]["payload"]["error"] == {
        "code": "[REDACTED:key]",
        "message": "[REDACTED:key]",
        "details": {"token": "<redacted>"},
    }


def test_an_error_replaces_the_outcome() -> None:
    call = {"toolId": "t", "result": 1, "error": {"error": "e", "message": "m"}, "durationMs": 3}
    called, returned = plan({"mockToolCalls": [call]})
    assert "inputs" not in called["payload"]
    assert returned["payload"] == {
        "agentId": "the.agent",
        "toolName": "t",
        "callId": "call_n_0",
        "durationMs": 3,
        "error": {"code": "e", "message": "m"},
    }


@pytest.mark.parametrize(
    ("config", "pinned", "expected"),
    [
        ({"agentId": "of.config"}, "of.node", "of.config"),
        ({}, "of.node", "of.node"),
        ({}, None, "host:mock-agent:n"),
    ],
)
def test_agent_ids(config: dict[str, Any], pinned: str | None, expected: str) -> None:
    (said,) = plan({"mockReasoning": True, **config}, pinned)
    assert said["payload"]["agentId"] == expected


THRESHOLDS: list[tuple[float | None, float, bool]] = [
    (0.69, 0.7, True),
    (0.7, 0.7, False),
    (0.71, 0.7, False),
    (0, 0.7, True),
    (0, 0, False),
    (1, 1, False),
    (0.99, 1, True),
    (None, 1, False),
]


@pytest.mark.parametrize(("confidence", "threshold", "waits"), THRESHOLDS)
def test_a_decision_below_the_threshold_is_suspended(
    confidence: float | None, threshold: float, *, waits: bool
) -> None:
    decision = {"decision": 1} | ({} if confidence is None else {"confidence": confidence})
    said = plan({"mockDecision": decision}, threshold=threshold)
    assert types(said) == ["agent.decided"] + ["node.suspended", "interrupt.requested"] * waits
    assert said[0]["payload"].get("confidence") == confidence
    if waits:
        expected = {"reason": "low-confidence", "kind": "low-confidence", "agentId": "the.agent", "nodeId": "n"}
        expected |= {"threshold": threshold, "observed": confidence}
        assert said[1]["payload"].items() >= expected.items()


def test_a_confidence_applies_without_a_decision() -> None:
    (said,) = plan({"mockConfidence": 0.8})
    assert said["payload"] == {"agentId": "the.agent", "decision": {"kind": "mock"}, "confidence": 0.8}
    (said,) = plan({"mockConfidence": 0.1, "mockDecision": {"decision": "d"}})
    assert said["payload"] == {"agentId": "the.agent", "decision": "d"}


DECISION = {"kind": "next-worker", "nextWorkerIds": ["w"], "confidence": 0.9}
ASKED = {"kind": "ask-user", "prompt": "?"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"mockPendingDecision": DECISION}, {"decision": DECISION, "confidence": 0.9}),
        ({"mockPendingDecision": DECISION, "mockConfidence": 0.75}, {"decision": DECISION, "confidence": 0.75}),
        ({"mockConfidence": 0.75}, {"decision": {"kind": "terminate"}, "confidence": 0.75}),
        ({"mockPendingDecision": ASKED}, {"decision": ASKED}),
    ],
)
def test_a_supervisor_emits_the_configured_decision(config: dict[str, Any], expected: dict[str, Any]) -> None:
    (said,) = emitted(SupervisorConfig.model_validate(config), None)
    assert said["payload"] == {"agentId": "host:supervisor:n", **expected}


def test_a_supervisor_with_low_confidence_is_suspended() -> None:
    config = SupervisorConfig.model_validate({"mockPendingDecision": DECISION, "mockConfidence": 0.5})
    assert types(emitted(config)) == ["agent.decided", "node.suspended", "interrupt.requested"]
