"""The host's part of the OpenAPI document: what each of its paths takes and answers, printed from the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from projector.contracts.schema_export import PlainSchema
from projector.openwop.contract.documents import Discovery, ErrorBody, EventList, EventPoll, RunCreated, RunSnapshot
from projector.openwop.host.asked import MAX_BUFFER_MS, MODES, Answer, RunRequest

_SCHEMAS: Final = "#/components/schemas/"
_PREFIX: Final = "openwop.host."
_MODELS: Final = (Discovery, ErrorBody, EventList, EventPoll, RunCreated, RunSnapshot, RunRequest, Answer)

_BEARER: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {}]
_JSON: Final = "application/json"
_ANY: Final[Mapping[str, Any]] = {"type": "object"}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"{_SCHEMAS}{_PREFIX}{model.__name__}"}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {_JSON: {"schema": schema}}


def _operation(summary: str, answers: Mapping[str, Any], *refusals: int, **members: Any) -> dict[str, Any]:
    refused = {"description": "The error object.", "content": _content(_ref(ErrorBody))}
    responses = {**answers, **{str(status): refused for status in (*refusals, 500)}}
    return {"summary": summary, "responses": responses, **members}


def _secured(summary: str, answers: Mapping[str, Any], *refusals: int, **members: Any) -> dict[str, Any]:
    return _operation(summary, answers, 401, *refusals, 503, security=_BEARER, **members)


def _answer(description: str, schema: Mapping[str, Any], status: int = 200) -> dict[str, Any]:
    return {str(status): {"description": description, "content": _content(schema)}}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query(name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _body(model: type[BaseModel]) -> dict[str, Any]:
    return {"required": True, "content": _content(_ref(model))}


_RUN: Final = _path("run_id")
_MODE: Final = _query(
    "streamMode", {"type": "string"}, f"A list with commas of: {', '.join(MODES)}; `debug` is everything."
)
_BUFFER: Final = _query("bufferMs", {"type": "integer", "minimum": 0}, f"For batches; at most {MAX_BUFFER_MS} count.")
_LAST: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": {"type": "integer", "minimum": -1},
    "description": "The `sequence` behind which the stream goes on.",
}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 256},
    "description": "The same request with the same name begins one run.",
}
_EVENTS: Final[Mapping[str, Any]] = {
    "200": {
        "description": "The events of the run; as JSON the whole log, whatever `streamMode` says.",
        "content": {
            "text/event-stream": {"schema": {"type": "string"}},
            **_content(_ref(EventList)),
        },
    }
}

PATHS: Final[Mapping[str, Mapping[str, Any]]] = {
    "/.well-known/openwop": {
        "get": _operation("What this host of OpenWOP can do.", _answer("It can do this.", _ref(Discovery)))
    },
    "/v1/openapi.json": {"get": _operation("This document.", _answer("OpenAPI.", _ANY))},
    "/v1/workflows/{workflow_id}": {
        "get": _secured("What may be run.", _answer("A definition.", _ANY), 404, parameters=[_path("workflow_id")])
    },
    "/v1/runs": {
        "post": _secured(
            "Begin a run; it goes on when nobody reads it.",
            _answer("It begins.", _ref(RunCreated), 201),
            *(400, 403, 404, 408, 409, 413, 415, 429),
            parameters=[_KEY],
            requestBody=_body(RunRequest),
        )
    },
    "/v1/runs/{run_id}": {
        "get": _secured("How a run stands.", _answer("So.", _ref(RunSnapshot)), 404, parameters=[_RUN])
    },
    "/v1/runs/{run_id}/events": {
        "get": _secured("What a run has said and says.", _EVENTS, 400, 404, parameters=[_RUN, _MODE, _BUFFER, _LAST])
    },
    "/v1/runs/{run_id}/events/poll": {
        "get": _secured(
            "What is new.",
            _answer("Perhaps nothing.", _ref(EventPoll)),
            *(400, 404),
            parameters=[
                _RUN,
                _query("lastSequence", {"type": "integer", "minimum": -1}, "The last event that is known already."),
                _query("timeout", {"type": "integer", "minimum": 0}, "Seconds to wait for something new."),
            ],
        )
    },
    "/v1/runs/{run_id}/cancel": {
        "post": _secured("End a run.", _answer("It ends, or was ended so.", _ANY), 404, 409, parameters=[_RUN])
    },
    "/v1/runs/{run_id}/interrupts/{node_id}": {
        "post": _secured(
            "Answer what a node waits for.",
            _answer("It is answered.", _ANY),
            *(400, 404, 408, 409, 413, 415, 429),
            parameters=[_RUN, _path("node_id")],
            requestBody=_body(Answer),
        )
    },
}
"""Path -> its description; every route of `projector.openwop.host.host` has a row, but the one for unknown paths."""


def schemas() -> dict[str, Any]:
    """Give the components that the paths refer to."""
    said: dict[str, Any] = {}
    for model in _MODELS:
        schema = model.model_json_schema(
            by_alias=True, schema_generator=PlainSchema, ref_template=f"{_SCHEMAS}{_PREFIX}{{model}}"
        )
        said |= {_PREFIX + name: part for name, part in schema.pop("$defs", {}).items()}
        said[_PREFIX + model.__name__] = schema
    return said
