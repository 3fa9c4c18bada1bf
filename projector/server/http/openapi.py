"""The OpenAPI document of a server: the requests and responses of its routes, generated from models and descriptors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from projector.contracts import codec
from projector.contracts.schema_export import PlainSchema
from projector.dialects import DIALECTS
from projector.dialects.ag_ui.run_input import RunAgentInput
from projector.providers import PROVIDERS
from projector.server.http.problems import PROBLEMS
from projector.server.http.requests import ChatRequest, WorkflowRequest

Schema = Mapping[str, Any]

SCHEMAS: Final = "#/components/schemas/"

_PROBLEM_MEMBERS: Final[Schema] = {
    **{name: {"type": "string"} for name in ("type", "title", "detail", "instance", "request_id")},
    "code": {"type": "string", "description": f"One of: {', '.join(PROBLEMS)}; or the code of a provider error."},
    "status": {"type": "integer"},
    "is_retryable": {"type": "boolean"},
}
_PROBLEM: Final[Schema] = {"type": "object", "required": list(_PROBLEM_MEMBERS), "properties": _PROBLEM_MEMBERS}
_PROBLEM_CONTENT: Final[Schema] = {"application/problem+json": {"schema": {"$ref": f"{SCHEMAS}Problem"}}}
_PROBLEM_RESPONSE: Final[Schema] = {"description": "Problem document (RFC 9457).", "content": _PROBLEM_CONTENT}
_HEADERS: Final[Schema] = {
    "x-stream-id": {"schema": {"type": "string"}, "description": "ID of the stream, for cancelling it."},
    "x-request-id": {"schema": {"type": "string"}},
}
_TEXT: Final[Schema] = {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}
_SECURITY: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {}]
_STREAM_PROBLEMS: Final = (400, 401, 404, 408, 413, 415, 422, 429, 500, 502, 503, 504)


class _StreamRoute(NamedTuple):
    summary: str
    body: Schema
    allows_json: bool = False
    """Whether `"stream": false` requests a JSON response."""


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _PROBLEM_RESPONSE for status in statuses}


def _response(description: str, content: Schema) -> dict[str, Any]:
    return {"description": description, "headers": _HEADERS, "content": content}


def _parameter(name: str, location: str, schema: Schema, description: str) -> dict[str, Any]:
    parameter = {"name": name, "in": location, "schema": {"type": "string", **schema}, "description": description}
    return parameter | ({"required": True} if location == "path" else {})


def _passthrough(required: str) -> dict[str, Any]:
    about = "Default: true, unless the dialect has a JSON response: then false."
    stream = {"type": "boolean", "description": about}
    return {"type": "object", "required": [required], "properties": {"stream": stream}}


def _get(summary: str, response: Schema, *statuses: int) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": response, **_problems(*statuses)}}}


_STREAMS: Final[Mapping[str, _StreamRoute]] = {
    "/api/v1/chat/stream": _StreamRoute("Send a message to an agent.", {"$ref": f"{SCHEMAS}ChatRequest"}),
    "/api/v1/ag-ui/{agent}": _StreamRoute("Run an agent over AG-UI.", {"$ref": f"{SCHEMAS}RunAgentInput"}),
    "/api/v1/workflows/{workflow_key}/run-stream": _StreamRoute(
        "Run a workflow.", {"$ref": f"{SCHEMAS}WorkflowRequest"}
    ),
    **{
        route.path: _StreamRoute(route.summary, _passthrough(route.required), allows_json=True)
        for provider in PROVIDERS.values()
        if (route := provider.passthrough) is not None
    },
}
_PATHS: Final[Mapping[str, Schema]] = {
    "/api/v1/streams/{stream_id}/cancel": {
        "post": {
            "summary": "Cancel a stream. Idempotent.",
            "parameters": [_parameter("stream_id", "path", {}, "Value of the `x-stream-id` header of the stream.")],
            "responses": {"204": {"description": "Cancelled, or already ended."}, **_problems(401, 404, 503)},
            "security": _SECURITY,
        }
    },
    "/livez": _get("Check that the process is running.", _TEXT),
    "/healthz": _get("Check that the process is running (alias of `/livez`).", _TEXT),
    "/readyz": _get("Check that new streams are accepted.", _TEXT, 503),
    "/metrics": _get("Metrics in the Prometheus text format.", _TEXT),
    "/openapi.json": _get(
        "This document.",
        {"description": "OpenAPI document.", "content": {"application/json": {"schema": {"type": "object"}}}},
    ),
}


def document(
    routes: Mapping[str, Collection[str]], paths: Mapping[str, Schema] | None = None, schemas: Schema | None = None
) -> bytes:
    """Return the document of a server as JSON.

    Args:
        routes: path -> the dialects that its requests may select; empty for a route that does not stream.
        paths: path items of the routes of extensions.
        schemas: components that those path items refer to.
    """
    dialects = {dialect for choices in routes.values() for dialect in choices}
    items = {**_PATHS, **(paths or {})}
    components = _request(ChatRequest) | _request(WorkflowRequest) | _request(RunAgentInput) | _events(dialects)
    return codec.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "public-stream-projector", "version": "1"},
            "paths": {path: _stream(path, names) if names else items[path] for path, names in routes.items()},
            "components": {
                "schemas": components | dict(schemas or {}) | {"Problem": _PROBLEM},
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _request(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schemas of a request body: `NAME`, and `NAME.Part` for each model in it."""
    name = model.__name__
    schema = model.model_json_schema(schema_generator=PlainSchema, ref_template=f"{SCHEMAS}{name}.{{model}}")
    parts = schema.pop("$defs", {})
    return {**{f"{name}.{part}": about for part, about in parts.items()}, name: schema}


def _events(dialects: Collection[str]) -> dict[str, Any]:
    """Return the schemas of dialects: `DIALECT` is any of its events, `DIALECT.Name` a model of it."""
    schemas: dict[str, Any] = {}
    for name in sorted(dialects):
        events = DIALECTS[name].events()
        union = events.json_schema(schema_generator=PlainSchema, ref_template=f"{SCHEMAS}{name}.{{model}}")
        schemas |= {f"{name}.{model}": schema for model, schema in union.pop("$defs", {}).items()}
        schemas[name] = {"description": f"One event of the dialect `{name}`.", **union}
    return schemas


def _stream(path: str, dialects: Collection[str]) -> dict[str, Any]:
    route, names = _STREAMS[path], re.findall(r"{(\w+)}", path)
    content: dict[str, Any] = {"text/event-stream": {"schema": _message(dialects)}}
    parameters = [_parameter(name, "path", {}, "Name in the server's configuration.") for name in names]
    about = "Dialect of the stream. An agent may allow only some of these."
    parameters.append(_parameter("dialect", "query", {"enum": sorted(dialects)}, about))
    responses = {"200": _response("Stream of events. The last one is the terminal event.", content)}
    responses |= _problems(*_STREAM_PROBLEMS)
    if route.allows_json:
        body, errors = _json_responses(dialects)
        content |= body
        responses |= errors
    return {
        "post": {
            "summary": route.summary,
            "parameters": parameters,
            "requestBody": {"required": True, "content": {"application/json": {"schema": route.body}}},
            "responses": responses,
            "security": _SECURITY,
        }
    }


def _json_responses(dialects: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of a JSON response, and the responses to streams that end with an error, by status."""
    assemblers = {name: one for name in sorted(dialects) if (one := DIALECTS[name].assembler) is not None}
    if not assemblers:
        return {}, {}
    bodies = [{"$ref": f"{SCHEMAS}{name}.{assembler.body}"} for name, assembler in assemblers.items()]
    errors: dict[str, list[Schema]] = {}
    for name, assembler in assemblers.items():
        for status in assembler.error_statuses:
            error = {"$ref": f"{SCHEMAS}{name}.{assembler.error}"}
            errors.setdefault(str(status), []).append(
                {"type": "object", "required": ["error"], "properties": {"error": error}}
            )
    about = 'Problem document; or, if the request set `"stream": false`, the error that ended the stream.'
    return _json(bodies), {
        status: _response(about, {**_PROBLEM_CONTENT, **_json(schemas)}) for status, schemas in errors.items()
    }


def _json(schemas: list[Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _message(dialects: Collection[str]) -> dict[str, Any]:
    """Return the schema of one SSE message of a stream in one of these dialects."""
    chosen = {name: DIALECTS[name] for name in sorted(dialects)}
    refs = [{"$ref": SCHEMAS + name} for name in chosen]
    event = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"oneOf": refs}}
    marks = [
        {"const": dialect.end_mark.decode(), "description": f"End mark of `{name}`."}
        for name, dialect in chosen.items()
        if dialect.end_mark is not None
    ]
    properties: dict[str, Any] = {"data": {"anyOf": [event, *marks]}}
    if named := [f"`{name}`" for name, dialect in chosen.items() if dialect.has_event_names]:
        properties["event"] = {"type": "string", "description": f"Type of the event ({', '.join(named)} only)."}
    return {"type": "object", "required": ["data"], "properties": properties}
