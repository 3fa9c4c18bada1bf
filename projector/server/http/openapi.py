"""The OpenAPI document of a server: the requests and responses of its routes, generated from models and descriptors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from projector import __version__
from projector._resources import resource
from projector.contracts import codec
from projector.contracts.schema_export import PlainSchema
from projector.dialects import DIALECTS
from projector.dialects.ag_ui.conversation import RunAgentInput
from projector.dialects.ai_sdk.conversation import ChatInput
from projector.dialects.descriptor import AI_SDK_LEVELS
from projector.providers import PROVIDERS
from projector.server.http.openapi_apis import (
    ANTHROPIC_ERROR,
    ANTHROPIC_ERROR_REF,
    ANTHROPIC_HEADERS,
    ANTHROPIC_SECURITY,
    ANTHROPIC_STATUSES,
    API_PATHS,
    ERROR_HEADERS,
    LIMIT_HEADERS,
    NUMBER,
    OPENAI_ERROR,
    OPENAI_ERROR_REF,
    OPENAI_STATUSES,
    SCHEMAS,
    SECURITY,
    SECURITY_SCHEMES,
    TEXT_HEADER,
    Schema,
    json_content,
    parameter,
)
from projector.server.http.problems import PROBLEMS
from projector.server.http.requests import ChatRequest, WorkflowRequest
from projector.server.streaming.response_writer import ANTHROPIC

_PROBLEM_MEMBERS: Final[Schema] = {
    **{name: {"type": "string"} for name in ("type", "title", "detail", "instance", "request_id")},
    "code": {"type": "string", "description": f"One of: {', '.join(PROBLEMS)}; or the code of a provider error."},
    "status": {"type": "integer"},
    "is_retryable": {"type": "boolean"},
}
_PROBLEM: Final[Schema] = {"type": "object", "required": list(_PROBLEM_MEMBERS), "properties": _PROBLEM_MEMBERS}
_PROBLEM_RESPONSE: Final[Schema] = {
    "description": "Problem document (RFC 9457).",
    "content": {"application/problem+json": {"schema": {"$ref": f"{SCHEMAS}Problem"}}},
}
_HEADERS: Final[Schema] = {
    **LIMIT_HEADERS,
    "x-stream-id": {**TEXT_HEADER, "description": "ID of the stream."},
    "x-run-id": {**TEXT_HEADER, "description": "ID of an AG-UI run, if it is ASCII."},
    "location": {**TEXT_HEADER, "description": "Address of the stream, if it is stored."},
    "x-request-id": TEXT_HEADER,
}
_TEXT: Final[Schema] = {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}
_STREAM_PROBLEMS: Final = (400, 401, 403, 404, 408, 410, 413, 415, 422, 429, 500, 502, 503, 504)


class _StreamRoute(NamedTuple):
    summary: str
    body: Schema
    is_passthrough: bool = False
    """Whether the route is that of a provider's API: JSON responses, errors in its shape."""
    is_anthropic: bool = False
    """Whether that API is Anthropic's."""


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _PROBLEM_RESPONSE for status in statuses}


def _response(description: str, content: Schema) -> dict[str, Any]:
    return {"description": description, "headers": _HEADERS, "content": content}


def _passthrough(required: str) -> dict[str, Any]:
    about = "Default: false, if the dialect has a JSON response."
    stream = {"type": ["boolean", "null"], "description": about}
    usage = {"type": ["boolean", "null"], "description": "Whether a stream of chat completions ends with its usage."}
    options = {"type": ["object", "null"], "properties": {"include_usage": usage}}
    properties = {"stream": stream, "stream_options": options}
    return {"type": "object", "required": [required], "properties": properties}


def _get(summary: str, response: Schema, *statuses: int) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": response, **_problems(*statuses)}}}


_STREAMS: Final[Mapping[str, _StreamRoute]] = {
    "/api/v1/chat/stream": _StreamRoute("Send a message to an agent.", {"$ref": f"{SCHEMAS}ChatRequest"}),
    "/api/v1/ag-ui/{agent}": _StreamRoute("Run an agent over AG-UI.", {"$ref": f"{SCHEMAS}RunAgentInput"}),
    "/api/v1/ai-sdk/{agent}": _StreamRoute("Answer in a chat of the AI SDK.", {"$ref": f"{SCHEMAS}ChatInput"}),
    "/api/v1/workflows/{workflow_key}/run-stream": _StreamRoute(
        "Run a workflow.", {"$ref": f"{SCHEMAS}WorkflowRequest"}
    ),
    **{
        route.path: _StreamRoute(
            route.summary, _passthrough(route.required), is_passthrough=True, is_anthropic=name == ANTHROPIC
        )
        for name, provider in PROVIDERS.items()
        if (route := provider.passthrough) is not None
    },
}
_STREAM_ID: Final = parameter("stream_id", "path", {}, "Value of the `x-stream-id` header of the stream.")
_STREAM: Final[Schema] = {
    "type": "object",
    "required": ["stream_id", "status", "last_event_id", "created_at", "dialect", "dialects"],
    "properties": {
        "stream_id": {"type": "string"},
        "status": {
            "enum": ["in_progress", "completed", "incomplete", "failed", "cancelled", "refused", "error"],
            "description": "That of the terminal event, if the stream has ended.",
        },
        "last_event_id": {"type": "integer", "description": "Of the dialect `public_sse_v1`; 0 before the first."},
        "created_at": {"type": "integer", "description": "Seconds since 1970."},
        "dialect": {"type": "string", "description": "Dialect of the response to the request."},
        "dialects": {"type": "array", "items": {"type": "string"}},
        **{name: {"type": "string"} for name in ("agent", "workflow", "conversation_id")},
    },
}
_RUNS: Final = "/api/v1/ag-ui/{agent}"
_CHAT_STREAM: Final = "/api/v1/ai-sdk/{agent}/{chat_id}/stream"
_CHAT: Final = [
    parameter("agent", "path", {}, "Name in the server's configuration."),
    parameter("chat_id", "path", {}, "The `id` of the chat's requests."),
]
_PATHS: Final[Mapping[str, Schema]] = {
    **API_PATHS,
    "/api/v1/streams/{stream_id}": {
        "get": {
            "summary": "State of a stored stream.",
            "parameters": [_STREAM_ID],
            "responses": {"200": {"description": "OK", "content": json_content([_STREAM])}, **_problems(401, 404, 503)},
            "security": SECURITY,
        },
        "delete": {
            "summary": "Cancel a stream, and delete what is stored of it.",
            "parameters": [_STREAM_ID],
            "responses": {"204": {"description": "Deleted."}, **_problems(401, 404, 503)},
            "security": SECURITY,
        },
    },
    "/api/v1/streams/{stream_id}/cancel": {
        "post": {
            "summary": "Cancel a stream, wherever it runs. Idempotent.",
            "parameters": [_STREAM_ID],
            "responses": {"204": {"description": "Cancelled, or already ended."}, **_problems(401, 404, 503)},
            "security": SECURITY,
        }
    },
    "/api/v1/ai-sdk/{agent}/{chat_id}/stop": {
        "post": {
            "summary": "Cancel the running answer of a chat. Idempotent.",
            "parameters": _CHAT,
            "responses": {"204": {"description": "Cancelled, or nothing runs."}, **_problems(401, 403, 404, 503)},
            "security": SECURITY,
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


_ERROR_SCHEMAS: Final = {"Problem": _PROBLEM, "OpenAIError": OPENAI_ERROR, "AnthropicError": ANTHROPIC_ERROR}


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
    components = _events(dialects)
    for model in (ChatRequest, WorkflowRequest, RunAgentInput, ChatInput):
        components |= _request(model)
    return codec.dumps_to_keep(
        {
            "openapi": "3.1.0",
            "info": {"title": "public-stream-projector", "version": __version__},
            "paths": {path: _item(path, names, items) for path, names in routes.items()},
            "components": {
                "schemas": components | dict(schemas or {}) | _ERROR_SCHEMAS,
                "securitySchemes": SECURITY_SCHEMES,
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
        union = _event_schema(name)
        schemas |= {f"{name}.{model}": schema for model, schema in union.pop("$defs", {}).items()}
        schemas |= _answers(name)
        schemas[name] = {"description": f"One event of the dialect `{name}`.", **union}
    return schemas


def _event_schema(dialect: str) -> dict[str, Any]:
    """Return the schema of one event, from the models of the dialect or as it is published."""
    if (events := DIALECTS[dialect].events) is None:
        return _published(dialect, f"{dialect}.schema.json")
    return events().json_schema(schema_generator=PlainSchema, ref_template=f"{SCHEMAS}{dialect}.{{model}}")


def _published(dialect: str, file: str) -> dict[str, Any]:
    """Return a schema of `contracts/`, with references to components of the document."""
    data = (resource("contracts") / dialect / file).read_bytes()
    schema: dict[str, Any] = codec.loads(data.replace(b"#/$defs/", f"{SCHEMAS}{dialect}.".encode()))
    return {name: value for name, value in schema.items() if name not in {"$schema", "title"}}


def _answers(dialect: str) -> dict[str, Any]:
    """Return the schemas of the JSON answers of a dialect that are not among its events."""
    assembler = DIALECTS[dialect].assembler
    if assembler is None or not assembler.schema:
        return {}
    body = _published(dialect, assembler.schema)
    parts = body.pop("$defs", {})
    return {f"{dialect}.{model}": schema for model, schema in {**parts, assembler.body: body}.items()}


def _item(path: str, dialects: Collection[str], items: Mapping[str, Schema]) -> Schema:
    if path == _RUNS:
        return _run_item(dialects)
    if path in _STREAMS:
        return _stream(path, dialects)
    if path == _CHAT_STREAM:
        return _chat_stream_item(dialects)
    return _events_item(dialects) if dialects else items[path]


def _events_item(dialects: Collection[str]) -> dict[str, Any]:
    number = {"type": "string", "pattern": "^[0-9]{0,15}$"}
    about = (
        "Number of the last event that the client has, counted from 1; in `public_sse_v1` its `event_id`. Default: 0."
    )
    parameters = [
        _STREAM_ID,
        parameter("after", "query", number, about),
        parameter("Last-Event-ID", "header", number, "The same, if `after` is missing."),
        *_options(dialects),
    ]
    content = {"text/event-stream": {"schema": _message(dialects)}}
    responses = {
        "200": _response("The events after that one. The last one is the terminal event.", content),
        "204": {"description": "The client has all events, and the stream has ended."},
        **_problems(400, 401, 404, 410, 422, 429, 503),
    }
    summary = "Read a stored stream after an event, while it runs or later."
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses, "security": SECURITY}}


def _run_item(dialects: Collection[str]) -> dict[str, Any]:
    about = "`id` of the last event that the client has. The run goes on after it, and is not started again."
    last = parameter("Last-Event-ID", "header", NUMBER, about)
    start = _stream(_RUNS, dialects)["post"]
    agent, *others = start["parameters"]
    run_id = parameter("runId", "query", {"minLength": 1}, "ID of the run, as in the request that started it.")
    offset = parameter("offset", "query", {"pattern": "^(-1|[0-9]{1,15})$"}, "The same without that header; -1: none.")
    ended = {"204": {"description": "The client has all events, and the run has ended."}}
    join = {
        "summary": "Read the events of a run again, while it runs or later.",
        "parameters": [agent, {**run_id, "required": True}, offset, last, *_options(dialects)],
        "responses": {"200": start["responses"]["200"], **ended, **_problems(400, 401, 403, 404, 410, 422, 429, 503)},
        "security": SECURITY,
    }
    start = {**start, "parameters": [agent, last, *others], "responses": {**start["responses"], **ended}}
    return {"post": start, "get": join}


def _chat_stream_item(dialects: Collection[str]) -> dict[str, Any]:
    content = {"text/event-stream": {"schema": _message(dialects)}}
    responses = {
        "200": _response("The running stream of the chat, from its start.", content),
        "204": {"description": "Nothing runs."},
        **_problems(401, 403, 404, 410, 422, 429, 503),
    }
    summary = "Read the running answer of a chat again."
    parameters = [*_CHAT, *_options(dialects)[:-1]]
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses, "security": SECURITY}}


def _stream(path: str, dialects: Collection[str]) -> dict[str, Any]:
    route, names = _STREAMS[path], re.findall(r"{(\w+)}", path)
    content: dict[str, Any] = {"text/event-stream": {"schema": _message(dialects)}}
    parameters = [parameter(name, "path", {}, "Name in the server's configuration.") for name in names]
    about = "A request that is sent again with the same key is answered with the stream of the first one."
    parameters.append(parameter("Idempotency-Key", "header", {"minLength": 1, "maxLength": 255}, about))
    parameters += _options(dialects)
    responses = {"200": _response("Stream of events. The last one is the terminal event.", content)}
    if route.is_passthrough:
        body, errors = _json_responses(dialects, is_anthropic=route.is_anthropic)
        content |= body
        responses |= errors
    else:
        responses |= _problems(*_STREAM_PROBLEMS)
    return {
        "post": {
            "summary": route.summary,
            "parameters": parameters,
            "requestBody": {"required": True, "content": {"application/json": {"schema": route.body}}},
            "responses": responses,
            "security": ANTHROPIC_SECURITY if route.is_anthropic else SECURITY,
        }
    }


def _options(dialects: Collection[str]) -> list[dict[str, Any]]:
    """Return the parameters that select a dialect and its options."""
    parameters = []
    about = "Include members and events that the protocol of the dialect does not define."
    parameters.append(parameter("extensions", "query", {"enum": ["true", "false"]}, about))
    if "ai_sdk" in dialects:
        about = "Major version of the AI SDK that reads the dialect `ai_sdk`. Default: 6."
        parameters.append(parameter("level", "query", {"enum": [str(level) for level in AI_SDK_LEVELS]}, about))
    about = "Dialect of the response. An agent may allow only some of these."
    parameters.append(parameter("dialect", "query", {"enum": sorted(dialects)}, about))
    return parameters


def _json_responses(dialects: Collection[str], *, is_anthropic: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of a JSON response, and the error responses by status."""
    assemblers = {name: one for name in sorted(dialects) if (one := DIALECTS[name].assembler) is not None}
    ref, known = (ANTHROPIC_ERROR_REF, ANTHROPIC_STATUSES) if is_anthropic else (OPENAI_ERROR_REF, OPENAI_STATUSES)
    errors: dict[str, list[Any]] = {status: [ref] for status in known}
    for name, assembler in assemblers.items():
        error = {"$ref": f"{SCHEMAS}{name}.{assembler.error}"}
        for status in assembler.error_statuses:
            document = {"type": "object", "required": ["error"], "properties": {"error": error}}
            errors.setdefault(str(status), []).append(document)
    about = "Error of the API of the route, with the status of the provider if it failed."
    headers = ANTHROPIC_HEADERS if is_anthropic else ERROR_HEADERS
    responses = {
        status: {"description": about, "headers": headers, "content": json_content(schemas)}
        for status, schemas in errors.items()
    }
    bodies = [{"$ref": f"{SCHEMAS}{name}.{assembler.body}"} for name, assembler in assemblers.items()]
    return json_content(bodies) if bodies else {}, responses


def _message(dialects: Collection[str]) -> dict[str, Any]:
    """Return the schema of one SSE message of a stream in one of these dialects."""
    chosen = {name: DIALECTS[name] for name in sorted(dialects)}
    refs = [{"$ref": SCHEMAS + name} for name in chosen]
    event = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"anyOf": refs}}
    marks = [
        {"const": dialect.end_mark.decode(), "description": f"End mark of `{name}`."}
        for name, dialect in chosen.items()
        if dialect.end_mark is not None
    ]
    properties: dict[str, Any] = {"data": {"anyOf": [event, *marks]}}
    if named := [f"`{name}`" for name, dialect in chosen.items() if dialect.has_event_names]:
        properties["event"] = {"type": "string", "description": f"Type of the event ({', '.join(named)} only)."}
    if numbered := [f"`{name}`" for name, dialect in chosen.items() if dialect.has_event_ids]:
        about = f"Number of the event ({', '.join(numbered)} of a stored stream only)."
        properties["id"] = {"type": "string", "description": about}
    return {"type": "object", "required": ["data"], "properties": properties}
