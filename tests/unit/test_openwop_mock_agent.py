"""Plans of `core.conformance.mock-agent` and the supervisor hooks: order, names, thresholds, redaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from projector.openwop.conformance import mock_nodes
from projector.openwop.conformance.definitions import FIXTURES
from projector.openwop.conformance.mock_nodes import MockAgentConfig, PlannedNode, PlannedRun, Step, SupervisorConfig
from projector.openwop.contract.events import parse_event
from projector.openwop.event_log import EventLog
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

PLAIN = Redactor(Policy(text="off"))
NODE = PlannedNode("n", "the.agent")
SECRET = "hunter2-hunter2"
GUARDED = Redactor(Policy.load({"registered": [{"id": "key", "value": SECRET}]}))


def run(**changes: Any) -> PlannedRun:
    return PlannedRun("run_1", changes.pop("redactor", PLAIN), **changes)


def plan(config: Mapping[str, Any], node: PlannedNode = NODE, **changes: Any) -> list[Step]:
    return MockAgentConfig.model_validate(config).plan(node, run(**changes))


def types(steps: list[Step]) -> list[str]:
    return [step.type for step in steps]


EVERYTHING = {
    "mockReasoning": {"summary": "s", "streamChunks": ["a", "b"]},
    "mockToolCalls": [{"toolId": "t:1", "result": 1}, {"toolId": "t:2", "error": {"error": "e", "message": "m"}}],
    "mockHandoff": {"toAgentId": "the.other"},
    "mockDecision": {"decision": None, "confidence": 0.1},
}


def test_the_order_is_that_of_the_rfc() -> None:
    assert types(plan(EVERYTHING)) == [
        "agent.reasoning.delta", "agent.reasoning.delta", "agent.reasoned",
        "agent.toolCalled", "agent.toolReturned", "agent.toolCalled", "agent.toolReturned",
        "agent.handoff", "agent.decided", "node.suspended", "interrupt.requested",
    ]  # fmt: skip


def test_the_order_of_the_configuration_does_not_matter() -> None:
    assert plan(dict(reversed(EVERYTHING.items()))) == plan(EVERYTHING)


def test_every_step_is_a_valid_event() -> None:
    log = EventLog("run_1")
    said: list[dict[str, Any]] = []
    for step in plan(EVERYTHING):
        cause = None if step.cause is None else said[step.cause]["eventId"]
        event = log.event(
            step.type, step.payload, timestamp="2025-12-15T12:00:00.000Z", node_id=step.node_id, causation_id=cause
        )
        said.append(event)
        parse_event(event)
    returned = [event for event in said if event["type"] == "agent.toolReturned"]
    called = [event for event in said if event["type"] == "agent.toolCalled"]
    assert [event["causationId"] for event in returned] == [event["eventId"] for event in called]


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
    said = plan({} if config is None else {"mockReasoning": config})
    assert [step.payload["delta"] for step in said[:-1]] == deltas
    assert [step.payload["sequence"] for step in said[:-1]] == list(range(len(deltas)))
    assert [step.payload.get("reasoning") for step in said[-1:]] == ([] if whole is None else [whole])
    assert {step.payload["agentId"] for step in said} <= {"the.agent"}
    assert {step.payload["verbosity"] for step in said} <= {"full"}


def test_off_omits_reasoning_only() -> None:
    assert types(plan(EVERYTHING, verbosity="off"))[0] == "agent.toolCalled"
    assert types(plan(EVERYTHING, verbosity="off")) == types(plan(EVERYTHING))[3:]


def test_a_summary_is_truncated_with_its_deltas() -> None:
    limit = mock_nodes.SUMMARY_MAX_CHARS
    chunks = ["a" * (limit - 1), "bcd", "e"]
    said = plan({"mockReasoning": {"summary": "s", "streamChunks": chunks}}, verbosity="summary")
    assert [step.payload["delta"] for step in said[:-1]] == ["a" * (limit - 1), "b", ""]
    assert said[-1].payload["reasoning"] == "a" * (limit - 1) + "b"
    whole = plan({"mockReasoning": {"summary": "s", "streamChunks": chunks}})
    assert whole[-1].payload["reasoning"] == "".join(chunks)


@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_no_delta_shows_what_the_block_withholds(cut: int) -> None:
    chunks = ["see ", SECRET[:cut], SECRET[cut:], " there"]
    said = plan({"mockReasoning": {"summary": "s", "streamChunks": chunks}}, redactor=GUARDED)
    assert said[-1].payload["reasoning"] == "see [REDACTED:key] there"
    assert "".join(step.payload["delta"] for step in said[:-1]) == said[-1].payload["reasoning"]


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
    assert said[0].payload["inputs"] == {"password": "<redacted>", "x": "[REDACTED:key]"}
    assert said[3].payload["error"] == {
        "code": "[REDACTED:key]",
        "message": "[REDACTED:key]",
        "details": {"token": "<redacted>"},
    }


def test_an_error_replaces_the_outcome() -> None:
    call = {"toolId": "t", "result": 1, "error": {"error": "e", "message": "m"}, "durationMs": 3}
    called, returned = plan({"mockToolCalls": [call]})
    assert "inputs" not in called.payload
    assert returned.payload == {
        "agentId": "the.agent",
        "toolName": "t",
        "callId": "call_n_0",
        "durationMs": 3,
        "error": {"code": "e", "message": "m"},
    }


def test_calls_have_unique_ids() -> None:
    steps = plan({"mockToolCalls": [{"toolId": "t", "result": None}] * 3})
    ids = [step.payload["callId"] for step in steps]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 3
    assert [step.cause for step in steps] == [None, 0, None, 2, None, 4]


AGENT_IDS = [
    ("the configuration's", {"agentId": "of.config"}, "of.node", "of.config"),
    ("the node's", {}, "of.node", "of.node"),
    ("made of the node", {}, None, "host:mock-agent:n"),
]


@pytest.mark.parametrize(("name", "config", "pinned", "expected"), AGENT_IDS, ids=[row[0] for row in AGENT_IDS])
def test_agent_ids(name: str, config: dict[str, Any], pinned: str | None, expected: str) -> None:
    del name
    (said,) = plan({"mockReasoning": True, **config}, PlannedNode("n", pinned))
    assert said.payload["agentId"] == expected


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
    assert said[0].payload.get("confidence") == confidence
    if waits:
        assert said[2].cause == 1
        assert (
            said[1].payload.items()
            >= {
                "reason": "low-confidence",
                "kind": "low-confidence",
                "agentId": "the.agent",
                "nodeId": "n",
                "threshold": threshold,
                "observed": confidence,
            }.items()
        )


def test_a_confidence_applies_without_a_decision() -> None:
    (said,) = plan({"mockConfidence": 0.8})
    assert said.payload == {"agentId": "the.agent", "decision": mock_nodes.STUB_DECISION, "confidence": 0.8}
    (said,) = plan({"mockConfidence": 0.1, "mockDecision": {"decision": "d"}})
    assert said.payload == {"agentId": "the.agent", "decision": "d"}


DECISION = {"kind": "next-worker", "nextWorkerIds": ["w"], "confidence": 0.9}
HOOKS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("the decision", {"mockPendingDecision": DECISION}, {"decision": DECISION, "confidence": 0.9}),
    (
        "another confidence",
        {"mockPendingDecision": DECISION, "mockConfidence": 0.75},
        {"decision": DECISION, "confidence": 0.75},
    ),
    ("a confidence alone", {"mockConfidence": 0.75}, {"decision": {"kind": "terminate"}, "confidence": 0.75}),
    (
        "a question",
        {"mockPendingDecision": {"kind": "ask-user", "prompt": "?"}},
        {"decision": {"kind": "ask-user", "prompt": "?"}},
    ),
]


@pytest.mark.parametrize(("name", "config", "expected"), HOOKS, ids=[row[0] for row in HOOKS])
def test_a_supervisor_emits_the_configured_decision(
    name: str, config: dict[str, Any], expected: dict[str, Any]
) -> None:
    del name
    (said,) = SupervisorConfig.model_validate(config).plan(PlannedNode("n"), run())
    assert said.payload == {"agentId": "host:supervisor:n", **expected}


def test_a_supervisor_with_low_confidence_is_suspended() -> None:
    config = SupervisorConfig.model_validate({"mockPendingDecision": DECISION, "mockConfidence": 0.5})
    assert types(config.plan(PlannedNode("n"), run())) == ["agent.decided", "node.suspended", "interrupt.requested"]


def test_the_fixtures_have_the_ids_of_the_suite() -> None:
    assert sorted(FIXTURES) == [
        "conformance-agent-low-confidence",
        "conformance-agent-reasoning",
        "conformance-agent-reasoning-streaming",
    ]
