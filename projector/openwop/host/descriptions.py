"""Descriptions of the host: its part of the OpenAPI document, and its capabilities (`/.well-known/openwop`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import metadata
from typing import Any, Final

from pydantic import BaseModel

from projector.contracts import codec
from projector.contracts.schema_export import PlainSchema
from projector.openwop.contract.documents import (
    Discovery,
    ErrorBody,
    EventList,
    EventPoll,
    RunCreated,
    RunForked,
    RunSnapshot,
    WebhookCreated,
)
from projector.openwop.event_log import SUMMARY_MAX_TOKENS, VENDOR, Verbosity
from projector.openwop.host.bindings import VERBOSITIES
from projector.openwop.host.run_requests import (
    MAX_BUFFER_MS,
    MODES,
    ForkRequest,
    InterruptAnswer,
    RunRequest,
    WebhookRequest,
)

NAME: Final = "public-stream-projector"

CACHE_CONTROL: Final = "public, max-age=300"
"""Recommended by the protocol; capabilities change with the configuration only."""

_SCHEMAS: Final = "#/components/schemas/"
_PREFIX: Final = "openwop.host."
_MODELS: Final = (
    *(Discovery, ErrorBody, EventList, EventPoll, RunCreated, RunForked, RunSnapshot),
    *(RunRequest, InterruptAnswer, ForkRequest, WebhookCreated, WebhookRequest),
)

_BEARER: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {}]
_JSON: Final = "application/json"
_ANY: Final[Mapping[str, Any]] = {"type": "object"}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"{_SCHEMAS}{_PREFIX}{model.__name__}"}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {_JSON: {"schema": schema}}


def _operation(summary: str, success: Mapping[str, Any], *errors: int, **members: Any) -> dict[str, Any]:
    error = {"description": "Error.", "content": _content(_ref(ErrorBody))}
    responses = {**success, **{str(status): error for status in (*errors, 500)}}
    return {"summary": summary, "responses": responses, **members}


def _secured(summary: str, success: Mapping[str, Any], *errors: int, **members: Any) -> dict[str, Any]:
    return _operation(summary, success, 401, *errors, 503, security=_BEARER, **members)


def _answer(description: str, schema: Mapping[str, Any], status: int = 200) -> dict[str, Any]:
    return {str(status): {"description": description, "content": _content(schema)}}


def _parameter(where: str, name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": schema, "description": description}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _body(model: type[BaseModel]) -> dict[str, Any]:
    return {"required": True, "content": _content(_ref(model))}


_RUN: Final = _path("run_id")
_TOKEN: Final = _path("token")
_SEQUENCE: Final[Mapping[str, Any]] = {"type": "integer", "minimum": -1}
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0}
_MODE_HELP: Final = f"Comma-separated list of: {', '.join(MODES)}; `debug` includes all events, `values` stands alone."
_MODE: Final = _parameter("query", "streamMode", {"type": "string"}, _MODE_HELP)
_BUFFER: Final = _parameter("query", "bufferMs", _COUNT, f"Milliseconds to collect a batch; at most {MAX_BUFFER_MS}.")
_LAST_HELP: Final = "`sequence` of the last event received; the stream continues after it."
_LAST: Final = _parameter("header", "Last-Event-ID", _SEQUENCE, _LAST_HELP)
_KEY_SCHEMA: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 256}
_KEY_HELP: Final = "A repeated request with the same key starts no second run."
_KEY: Final = _parameter("header", "Idempotency-Key", _KEY_SCHEMA, _KEY_HELP)
_EVENTS: Final[Mapping[str, Any]] = {
    "200": {
        "description": "Events of the run; as JSON the whole log, regardless of `streamMode`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}, **_content(_ref(EventList))},
    }
}

PATHS: Final[Mapping[str, Mapping[str, Any]]] = {
    "/.well-known/openwop": {
        "get": _operation("Get the capabilities of the host.", _answer("Capabilities.", _ref(Discovery)))
    },
    "/v1/openapi.json": {"get": _operation("Get this document.", _answer("OpenAPI document.", _ANY))},
    "/v1/workflows/{workflow_id}": {
        "get": _secured(
            "Get a workflow.", _answer("Workflow definition.", _ANY), 404, parameters=[_path("workflow_id")]
        )
    },
    "/v1/runs": {
        "post": _secured(
            "Start a run. It continues without a reader.",
            _answer("Run created.", _ref(RunCreated), 201),
            *(400, 403, 404, 408, 409, 413, 415, 429),
            parameters=[_KEY],
            requestBody=_body(RunRequest),
        )
    },
    "/v1/runs/{run_id}:fork": {
        "post": _secured(
            "Start a run with the events of another one.",
            _answer("Run created.", _ref(RunForked), 201),
            *(400, 403, 404, 408, 409, 413, 415, 429),
            parameters=[_RUN, _KEY],
            requestBody=_body(ForkRequest),
        )
    },
    "/v1/runs/{run_id}": {
        "get": _secured("Get the state of a run.", _answer("Run state.", _ref(RunSnapshot)), 404, parameters=[_RUN])
    },
    "/v1/runs/{run_id}/events": {
        "get": _secured("Get the events of a run.", _EVENTS, 400, 404, parameters=[_RUN, _MODE, _BUFFER, _LAST])
    },
    "/v1/runs/{run_id}/events/poll": {
        "get": _secured(
            "Poll for new events.",
            _answer("New events; may be empty.", _ref(EventPoll)),
            *(400, 404),
            parameters=[
                _RUN,
                _parameter("query", "lastSequence", _SEQUENCE, "`sequence` of the last event received."),
                _parameter("query", "timeout", {"type": "number", "minimum": 0}, "Seconds to wait for new events."),
            ],
        )
    },
    "/v1/runs/{run_id}/cancel": {
        "post": _secured("Cancel a run.", _answer("Run is cancelled.", _ANY), 404, 409, parameters=[_RUN])
    },
    "/v1/runs/{run_id}/interrupts/{node_id}": {
        "post": _secured(
            "Answer an interrupt.",
            _answer("Interrupt resolved.", _ANY),
            *(400, 404, 408, 409, 413, 415, 422, 429),
            parameters=[_RUN, _path("node_id")],
            requestBody=_body(InterruptAnswer),
        )
    },
    "/v1/webhooks": {
        "post": _secured(
            "Deliver events of the runs of the caller to a URL.",
            _answer("Webhook created.", _ref(WebhookCreated), 201),
            *(400, 408, 413, 415, 429),
            requestBody=_body(WebhookRequest),
        )
    },
    "/v1/webhooks/{webhook_id}": {
        "delete": _secured(
            "Remove a webhook.", {"204": {"description": "Webhook removed."}}, 404, parameters=[_path("webhook_id")]
        )
    },
    "/v1/interrupts/{token}": {
        "get": _operation(
            "Get the question of an interrupt.", _answer("Question.", _ANY), *(404, 409, 422), parameters=[_TOKEN]
        ),
        "post": _operation(
            "Answer an interrupt.",
            _answer("Interrupt resolved.", _ANY),
            *(400, 404, 408, 409, 413, 415, 422, 503),
            parameters=[_TOKEN],
            requestBody=_body(InterruptAnswer),
        ),
    },
}
"""Path -> OpenAPI path item, for all routes of `projector.openwop.host.host` but the one for unknown paths."""


def schemas() -> dict[str, Any]:
    """Return the OpenAPI components that the paths refer to."""
    components: dict[str, Any] = {}
    for model in _MODELS:
        schema = model.model_json_schema(
            by_alias=True, schema_generator=PlainSchema, ref_template=f"{_SCHEMAS}{_PREFIX}{{model}}"
        )
        components |= {_PREFIX + name: part for name, part in schema.pop("$defs", {}).items()}
        components[_PREFIX + model.__name__] = schema
    return components


def capabilities(
    verbosities: Collection[Verbosity],
    fixtures: Collection[str],
    *,
    conformance: bool,
    has_webhooks: bool,
    max_body_bytes: int,
) -> bytes:
    """Return the capabilities document, with each family at its root (RFC 0073), for workflows of these verbosities."""
    verbosity = max(verbosities, key=VERBOSITIES.index, default="off")
    families: dict[str, Any] = {
        "agents": {
            "supported": True,
            "reasoning": {"verbosity": verbosity, "tokenLimit": SUMMARY_MAX_TOKENS, "streaming": verbosity != "off"},
        },
        "providerUsage": {"supported": True},
    }
    if has_webhooks:
        families["webhooks"] = {"supported": True, "signatureAlgorithms": ["v1"]}
    if conformance:
        families["conformance"] = {"mockAgent": True}
        families["fixtures"] = sorted(fixtures)
    document = {
        "protocolVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": max_body_bytes,
        },
        "implementation": {"name": NAME, "version": metadata.version(NAME), "vendor": VENDOR},
        "supportedTransports": ["rest"],
        **families,
        "capabilities": families,  # for clients from before RFC 0073
    }
    Discovery.model_validate(document)
    return codec.dumps(document)
