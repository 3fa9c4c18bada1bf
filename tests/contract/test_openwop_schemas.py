"""Events and documents against the published schemas, which are not in this repository; skipped without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema_rs import Draft202012Validator, Registry

from projector.openwop import event_log
from projector.openwop.event_log import EventLog
from projector.openwop.events import EVENT_ADAPTER
from projector.openwop.mock_nodes import MockAgentConfig
from tests.openwop_reader import check_log

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "openwop"
GOLDENS: Final = sorted(EXAMPLES.glob("*.ndjson"))
BASE: Final = "https://openwop.dev/spec/v1/"
VENDOR: Final = "public-sse."
AT: Final = "2025-12-15T12:00:00.000Z"
SUSPENDED: Final = "node.suspended"


class Schemas:
    """The published schemas: of the event, and of each type's payload."""

    def __init__(self, folder: Path) -> None:
        documents = {path.name: json.loads(path.read_bytes()) for path in folder.glob("*.schema.json")}
        self._registry = Registry([(BASE + name, document) for name, document in documents.items()])
        self.payloads: dict[str, Any] = documents["run-event-payloads.schema.json"]
        self.types: set[str] = set(documents["run-event.schema.json"]["$defs"]["RunEventType"]["enum"])

    @cache  # noqa: B019 - one object a session
    def of(self, reference: str) -> Draft202012Validator:
        return Draft202012Validator({"$ref": BASE + reference}, registry=self._registry, validate_formats=True)

    def errors(self, reference: str, value: object) -> list[str]:
        return [error.message for error in self.of(reference).iter_errors(value)]

    def payload(self, event_type: str) -> str:
        place = self.payloads["$defs"]["_typeIndex"]["properties"][event_type]["$ref"]
        return f"run-event-payloads.schema.json{place}"

    def event_errors(self, event: dict[str, Any]) -> Iterator[str]:
        yield from self.errors("run-event.schema.json", event)
        if not event["type"].startswith(VENDOR):
            yield from self.errors(self.payload(event["type"]), event["payload"])


@pytest.fixture(scope="module")
def schemas(openwop: Path) -> Schemas:
    return Schemas(openwop / "schemas")


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_every_golden_event_is_valid(schemas: Schemas, path: Path) -> None:
    for event in events_of(path):
        assert [*schemas.event_errors(event)] == [], event["type"]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_every_golden_log_is_valid(path: Path) -> None:
    assert check_log(path.read_bytes().splitlines()) == []


def test_events_without_a_golden_are_valid(schemas: Schemas) -> None:
    """Events that hosts emit beside the dialect."""
    log = EventLog("run_1")
    place = {"nodeId": "n", "interruptId": "int_1"}
    decided = {"agentId": "abc", "decision": {"next": "done"}}
    known: dict[str, Any] = {"agentId": "abc", "threshold": 0.7, "observed": 0.5}
    suspended = event_log.suspension("low-confidence", "n", "int_1", "k", **known, data=known | decided)
    said = [
        log.event("agent.decided", decided | {"confidence": 0.5}, timestamp=AT, node_id="n"),
        log.event("node.suspended", suspended, timestamp=AT, node_id="n"),
        log.event("interrupt.resolved", {**place, "kind": "low-confidence"}, timestamp=AT, node_id="n"),
        log.event("node.resumed", place, timestamp=AT, node_id="n"),
    ]
    for event in said:
        EVENT_ADAPTER.validate_python(event)
        assert [*schemas.event_errors(event)] == []
    interrupt = event_log.interrupt_request(said[1]["payload"])
    assert schemas.errors("suspend-request.schema.json", interrupt) == []


def test_an_approval_carries_its_interrupt(schemas: Schemas) -> None:
    suspended = [event for event in events_of(EXAMPLES / "chat-mcp-approval.ndjson") if event["type"] == SUSPENDED]
    payload = suspended[0]["payload"]
    interrupt = {name: payload[name] for name in ("kind", "key", "resumeSchema", "data")}
    assert schemas.errors("suspend-request.schema.json", interrupt) == []


def test_event_types_are_those_of_the_protocol_or_ours(schemas: Schemas) -> None:
    types = EVENT_ADAPTER.json_schema()["discriminator"]["mapping"]
    ours = {name for name in types if name.startswith(VENDOR)}
    assert {name for name in types if name not in schemas.types} == ours


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"mockReasoning": True},
        {"mockReasoning": {"summary": "s", "trace": "t", "tokenCount": 1, "streamChunks": ["a", "b"]}},
        {"mockToolCalls": [{"toolId": "t", "arguments": [1], "result": None, "durationMs": 1}]},
        {"mockToolCalls": [{"toolId": "t", "error": {"error": "e", "message": "m"}}]},
        {"mockHandoff": {"toAgentId": "abc", "reason": "r", "context": {}}},
        {"mockDecision": {"decision": "d", "confidence": 1, "reasoning": "r"}, "agentId": "abc"},
        {"mockConfidence": 0},
        {"mockConfidence": 1.7, "extra": "stray"},
        {"mockConfidence": -0.1},
        {"mockConfidence": "0.5"},
        {"agentId": "ab"},
        {"mockReasoning": {}},
        {"mockReasoning": {"summary": "s", "extra": 1}},
        {"mockReasoning": {"summary": "s", "streamChunks": [1]}},
        {"mockReasoning": {"summary": "s", "tokenCount": -1}},
        {"mockToolCalls": [{}]},
        {"mockToolCalls": [{"toolId": "t", "result": 1, "extra": 1}]},
        {"mockToolCalls": [{"toolId": "t", "error": {"error": "e"}}]},
        {"mockHandoff": {"toAgentId": "ab"}},
        {"mockHandoff": {}},
        {"mockDecision": {"confidence": 0.5}},
        {"mockDecision": {"decision": 1, "confidence": 2}},
    ],
)
def test_configurations_are_refused_where_the_schema_refuses_them(schemas: Schemas, config: dict[str, Any]) -> None:
    refused = bool(schemas.errors("core-conformance-mock-agent-config.schema.json", config))
    try:
        MockAgentConfig.model_validate(config)
    except ValueError:
        assert refused
    else:
        assert not refused


def test_a_call_without_an_end_is_refused_though_the_schema_takes_it() -> None:
    with pytest.raises(ValueError, match="expected `result` or `error`"):
        MockAgentConfig.model_validate({"mockToolCalls": [{"toolId": "t"}]})


def test_every_fixture_is_read(openwop: Path) -> None:
    fixtures = sorted((openwop / "fixtures").glob("*.json"))
    assert len(fixtures) == 3
    for path in fixtures:
        for node in json.loads(path.read_bytes())["nodes"]:
            assert MockAgentConfig.model_validate(node["config"]).model_fields_set
