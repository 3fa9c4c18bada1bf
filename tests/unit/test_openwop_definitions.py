"""Definitions that a host rejects (RFC 0023 section B.1), and the plan of a registered workflow."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from projector.openwop.conformance.definitions import FIXTURES, DefinitionError, register
from projector.openwop.conformance.mock_nodes import PlannedRun
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

RUN = PlannedRun("run_1", Redactor(Policy()))
MOCK = "core.conformance.mock-agent"
SUPERVISOR = "core.orchestrator.supervisor"


def workflow(config: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    node = {"id": "n", "typeId": changes.pop("type_id", MOCK), "config": dict(config or {})} | changes.pop("node", {})
    return {"id": "conformance-x", "nodes": [node], **changes}


def registered(document: Mapping[str, Any], **switches: bool) -> Any:
    return register(document, **({"is_on": True, "has_role": False} | switches))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "the RFC's own example",
        workflow({"mockConfidence": 1.7, "extra": "stray"}),
        "`nodes[0].config.extra` is unknown",
    ),
    ("a stray key", workflow({"extra": "stray"}), "`nodes[0].config.extra` is unknown"),
    ("a stray key within", workflow({"mockReasoning": {"summary": "s", "x": 1}}), "`nodes[0].config.mockReasoning"),
    ("a confidence below", workflow({"mockConfidence": -0.1}), "`nodes[0].config.mockConfidence"),
    ("a confidence that is text", workflow({"mockConfidence": "1"}), "`nodes[0].config.mockConfidence"),
    ("a confidence that is none", workflow({"mockConfidence": float("nan")}), "`nodes[0].config.mockConfidence"),
    ("an agent id of two characters", workflow({"agentId": "ab"}), "`nodes[0].config.agentId"),
    ("reasoning without a summary", workflow({"mockReasoning": {"trace": "t"}}), "`nodes[0].config.mockReasoning"),
    ("a negative count", workflow({"mockReasoning": {"summary": "s", "tokenCount": -1}}), "mockReasoning"),
    ("a call without an end", workflow({"mockToolCalls": [{"toolId": "t"}]}), "mockToolCalls[0]`: expected `result`"),
    ("a decision without a decision", workflow({"mockDecision": {"confidence": 1}}), "mockDecision.decision"),
    ("a handoff to nobody", workflow({"mockHandoff": {}}), "mockHandoff.toAgentId"),
    ("an unknown type", workflow(type_id="core.identity"), "`nodes[0].typeId`: expected one of"),
    ("an id that is none", workflow(id="Conformance"), "`id` must match"),
    ("no node", workflow(nodes=[]), "`nodes` must not be empty"),
    ("a member that is unknown", workflow(stray=1), "`stray` is unknown"),
    ("a disabled node", workflow(node={"disabled": True}), "`nodes[0].disabled` is unknown"),
    ("a variable", workflow(variables=[{"name": "x", "type": "string"}]), "`variables` must be empty"),
    ("an edge to nowhere", workflow(edges=[{"id": "e", "sourceNodeId": "n", "targetNodeId": "x"}]), "`edges[0]`: "),
    ("an edge back", workflow(edges=[{"id": "e", "sourceNodeId": "n", "targetNodeId": "n"}]), "`edges[0]`: "),
    ("an id twice", workflow(nodes=workflow()["nodes"] * 2), "`nodes`: expected unique ids"),
    ("a supervisor without a hook", workflow(type_id=SUPERVISOR), "expected `mockConfidence` or"),
    (
        "a supervisor with a stray key",
        workflow({"model": "m"}, type_id=SUPERVISOR),
        "`nodes[0].config.model` is unknown",
    ),
    (
        "a decision of another kind",
        workflow({"mockPendingDecision": {"kind": "x"}}, type_id=SUPERVISOR),
        "mockPendingDecision",
    ),
    (
        "no worker",
        workflow({"mockPendingDecision": {"kind": "next-worker", "nextWorkerIds": []}}, type_id=SUPERVISOR),
        "nextWorkerIds",
    ),
]


@pytest.mark.parametrize(("name", "document", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_invalid_definitions_are_rejected(name: str, document: dict[str, Any], message: str) -> None:
    del name
    with pytest.raises(DefinitionError) as refused:
        registered(document)
    assert message in str(refused.value)
    assert "stray:" in message or "'stray'" not in str(refused.value)


HOOK = {"mockConfidence": 0.5}
GATE: list[tuple[str, str, str, bool, bool, bool]] = [
    ("switched off", "conformance-x", MOCK, False, False, False),
    ("switched off, with a role", "mine", MOCK, False, True, False),
    ("the prefix", "conformance-x", MOCK, True, False, True),
    ("another name without a role", "mine", MOCK, True, False, False),
    ("another name with a role", "mine", MOCK, True, True, True),
    ("hooks switched off", "conformance-x", SUPERVISOR, False, True, False),
    ("hooks", "conformance-x", SUPERVISOR, True, False, True),
    ("hooks without a role", "mine", SUPERVISOR, True, False, False),
]


@pytest.mark.parametrize(
    ("name", "workflow_id", "type_id", "is_on", "has_role", "is_taken"), GATE, ids=[row[0] for row in GATE]
)
def test_conformance_node_types_are_gated(
    name: str, workflow_id: str, type_id: str, *, is_on: bool, has_role: bool, is_taken: bool
) -> None:
    del name
    document = workflow(HOOK, id=workflow_id, type_id=type_id)
    if is_taken:
        registered(document, is_on=is_on, has_role=has_role)
    else:
        with pytest.raises(DefinitionError, match=r"nodes\[0\]\.typeId"):
            registered(document, is_on=is_on, has_role=has_role)


def test_a_workflow_is_planned_from_start_to_end() -> None:
    one = workflow({"mockReasoning": True, "mockToolCalls": [{"toolId": "t", "result": 1}]})["nodes"][0]
    steps = registered(workflow(nodes=[one, one | {"id": "m"}])).steps(RUN)
    assert [step.type for step in steps] == [
        "run.started",
        *["node.started", "agent.reasoned", "agent.toolCalled", "agent.toolReturned", "node.completed"] * 2,
        "run.completed",
    ]
    assert [steps[step.cause].payload["callId"] for step in steps if step.cause is not None] == [
        "call_n_0",
        "call_m_0",
    ]


def test_plans_are_deterministic() -> None:
    for document in FIXTURES.values():
        assert registered(document).steps(RUN) == registered(copy.deepcopy(dict(document))).steps(RUN)


@pytest.mark.parametrize("workflow_id", FIXTURES)
def test_fixtures_equal_those_of_the_suite_except_for_texts(openwop: Path, workflow_id: str) -> None:
    theirs = json.loads((openwop / "fixtures" / f"{workflow_id}.json").read_text(encoding="utf-8"))
    assert _without_words(theirs) == _without_words(FIXTURES[workflow_id])
    registered(theirs)
    with warnings.catch_warnings(action="ignore"):
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - it warns when it is imported
        from referencing import Registry, Resource  # noqa: PLC0415 - the same
    schemas = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in openwop.glob("schemas/*.json")}
    registry = Registry().with_resources(
        [(schema["$id"], Resource.from_contents(schema)) for schema in schemas.values()]
    )
    Draft202012Validator(schemas["workflow-definition.schema.json"], registry=registry).validate(
        dict(FIXTURES[workflow_id])
    )


def _without_words(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without its texts."""
    bare = copy.deepcopy({key: value for key, value in document.items() if key not in {"name", "description"}})
    bare["metadata"] = {}
    for node in bare["nodes"]:
        del node["name"]
        reasoning = node["config"].get("mockReasoning", {})
        reasoning.pop("summary", None)
        if "streamChunks" in reasoning:
            reasoning["streamChunks"] = len(reasoning["streamChunks"])
    return bare
