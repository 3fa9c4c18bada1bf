"""The server against its OpenAPI document, in one process: schemathesis generates requests of every kind."""

from __future__ import annotations

import json
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from projector.dialects import DIALECTS
from projector.server.app import create_app
from projector.server.config.config_base import EXTENSIONS
from projector.server.config.settings import Settings
from projector.server.upstream.demo import DemoUpstream

AGENT: Final = {"upstream": "responses", "model": "demo"}
SETTINGS: Final = {
    "upstreams": {"responses": {}, "chat": {"api": "openai_chat"}},
    "agents": {"default": {**AGENT, "dialects": [name for name in DIALECTS if name not in EXTENSIONS]}},
    "passthrough": {"responses": "responses", "chat_completions": "chat", "messages": "chat"},
}
"""Settings with every route but that of workflows."""
APP = create_app(Settings.model_validate(SETTINGS), lambda *_: DemoUpstream(pace_s=0))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

schema = schemathesis.openapi.from_asgi("/openapi.json", APP)

DOCUMENT: Final[dict[str, Any]] = json.loads(APP.state.openapi())
OFFERED: Final = {*DIALECTS} - {*EXTENSIONS}
"""Dialects of a server without extensions."""
STREAMS: Final = {path for path, item in DOCUMENT["paths"].items() if "dialect" in str(item.get("post", ""))}


@schema.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_server_conforms_to_its_document(case: Any) -> None:
    if "agent" in case.path_parameters and len(case.path_parameters["agent"]) % 2:  # otherwise no agent would be found
        case.path_parameters["agent"] = "default"
    case.call_and_validate(checks=CHECKS)


def responses(path: str) -> dict[str, Any]:
    return DOCUMENT["paths"][path]["post"]["responses"]["200"]["content"]


def types_of(dialect: str) -> set[str]:
    """Return the event types that the document lists for a dialect."""
    schemas = DOCUMENT["components"]["schemas"]
    models = [schemas[event["$ref"].rpartition("/")[2]]["properties"] for event in schemas[dialect]["oneOf"]]
    words = [model.get("type", model.get("kind")) for model in models]
    return {word for of_type in words for word in of_type.get("enum", [of_type.get("const")])}


def test_every_dialect_is_described() -> None:
    assert DOCUMENT["components"]["schemas"].keys() >= OFFERED


def test_each_route_lists_the_dialects_that_a_request_may_select() -> None:
    named = {path: DOCUMENT["paths"][path]["post"]["parameters"][-1]["schema"]["enum"] for path in STREAMS}
    everywhere = sorted(OFFERED)
    assert named == {
        "/api/v1/chat/stream": everywhere,
        "/api/v1/ag-ui/{agent}": ["ag_ui"],
        "/api/v1/ai-sdk/{agent}": ["ai_sdk"],
        "/v1/responses": everywhere,
        "/v1/chat/completions": everywhere,
        "/v1/messages": everywhere,
    }
    for path, dialects in named.items():
        data = responses(path)["text/event-stream"]["schema"]["properties"]["data"]["anyOf"]
        refs = [{"$ref": f"#/components/schemas/{dialect}"} for dialect in dialects]
        assert data[0]["contentSchema"]["anyOf"] == refs  # an event may be one of two dialects


def test_the_events_of_each_dialect_are_listed() -> None:
    """FR-009 and FR-010 of seed 003, for every dialect."""
    core = {name for name in types_of("openresponses") if not name.startswith("public-sse:")}
    assert {"response.reasoning.delta", "response.reasoning.done"} <= core
    assert len(core) >= 17
    assert {"message.delta", "final", "error"} <= types_of("public_sse_v1")
    assert {"RUN_STARTED", "REASONING_ENCRYPTED_VALUE", "RUN_FINISHED", "RUN_ERROR"} <= types_of("ag_ui")


def test_every_reference_resolves() -> None:
    def references(node: object) -> list[str]:
        if isinstance(node, dict):
            return [node["$ref"]] if "$ref" in node else [ref for value in node.values() for ref in references(value)]
        return [ref for value in node for ref in references(value)] if isinstance(node, list) else []

    known = {f"#/components/{kind}/{name}" for kind, named in DOCUMENT["components"].items() for name in named}
    assert set(references(DOCUMENT)) <= known
    assert not {"x-dialects", "x-per-route", "x-dialect-names"} & {*json.dumps(DOCUMENT).split('"')}


def test_only_configured_dialects_are_described() -> None:
    agents = {"helper": {"upstream": "one", "model": "m", "dialects": ["public_sse_v1"]}}
    app = create_app(Settings.model_validate({"upstreams": {"one": {}}, "agents": agents}))
    document = json.loads(app.state.openapi())
    assert "/api/v1/ag-ui/{agent}" not in document["paths"]
    assert not {"ag_ui", "openresponses"} & document["components"]["schemas"].keys()


def test_the_size_of_the_document() -> None:
    assert len(APP.state.openapi()) < 325_000  # each passthrough route adds 29,000
