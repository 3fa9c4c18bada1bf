"""Definitions that a host rejects (RFC 0023 section B.1), and those of the suite."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from projector.openwop.mock_nodes import read_workflows, register
from projector.openwop.settings import FIXTURES as FIXTURES_DIR

FIXTURES = {name: one.document for name, one in read_workflows(FIXTURES_DIR).items()}
MOCK = "core.conformance.mock-agent"
SUPERVISOR = "core.orchestrator.supervisor"


def workflow(config: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    node = {"id": "n", "typeId": changes.pop("type_id", MOCK), "config": dict(config or {})} | changes.pop("node", {})
    return {"id": "conformance-x", "nodes": [node], **changes}


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
    ("an unknown type", workflow(type_id="core.identity"), "`nodes[0]` has an unsupported"),
    ("an id that is none", workflow(id="Conformance"), "`id` must match"),
    ("no node", workflow(nodes=[]), "`nodes` must not be empty"),
    ("a variable", workflow(variables=[{"name": "x", "type": "string"}]), "`variables` must be empty"),
    ("an edge", workflow(edges=[{"id": "e", "sourceNodeId": "n", "targetNodeId": "x"}]), "`edges` must be empty"),
    ("an id without the prefix", workflow(id="mine"), "`id` must match"),
    ("an id twice", workflow(nodes=workflow()["nodes"] * 2), "`nodes`: expected unique ids"),
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
]


@pytest.mark.parametrize(("name", "document", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_invalid_definitions_are_rejected(name: str, document: dict[str, Any], message: str) -> None:
    del name
    with pytest.raises(ValueError, match="`") as refused:
        register(document)
    assert message in str(refused.value)
    assert "stray:" in message or "'stray'" not in str(refused.value)


def test_the_fixtures_have_the_ids_of_the_suite() -> None:
    assert sorted(FIXTURES) == [
        "conformance-agent-low-confidence",
        "conformance-agent-reasoning",
        "conformance-agent-reasoning-streaming",
    ]


@pytest.mark.parametrize("workflow_id", FIXTURES)
def test_fixtures_equal_those_of_the_suite_except_for_texts(openwop: Path, workflow_id: str) -> None:
    theirs = json.loads((openwop / "fixtures" / f"{workflow_id}.json").read_text(encoding="utf-8"))
    assert _without_words(theirs) == _without_words(FIXTURES[workflow_id])
    register(theirs)
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
