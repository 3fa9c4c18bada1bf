"""The OpenAPI document of a server: what each of its routes takes and answers, printed from the models and tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from projector.contracts import codec
from projector.contracts.schema_export import PlainSchema
from projector.dialects.ag_ui.run_input import RunAgentInput
from projector.openwop.host import description as openwop
from projector.server.http import event_schemas
from projector.server.http.event_schemas import SCHEMAS
from projector.server.http.problems import PROBLEMS
from projector.server.http.requests import ChatRequest, WorkflowRequest
from projector.server.streaming.json_response import ASSEMBLED

_PROBLEM: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "is_retryable", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string", "description": f"One of: {', '.join(PROBLEMS)}; or that of a failed provider."},
        "is_retryable": {"type": "boolean"},
        "request_id": {"type": "string"},
    },
}
_PROBLEM_ANSWER: Final[Mapping[str, Any]] = {
    "description": "A problem document (RFC 9457).",
    "content": {"application/problem+json": {"schema": {"$ref": f"{SCHEMAS}Problem"}}},
}
_HEADERS: Final[Mapping[str, Any]] = {
    "x-stream-id": {"schema": {"type": "string"}, "description": "For the cancel path."},
    "x-request-id": {"schema": {"type": "string"}},
}
_TEXT_ANSWER: Final[Mapping[str, Any]] = {
    "description": "It is so.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
_STREAM_PROBLEMS: Final = (400, 401, 404, 408, 413, 415, 422, 429, 500, 502, 503, 504)
_ERROR_STATUSES: Final = (400, 404, 429, 500)
"""Of an answer in one piece that is an error of Open Responses (`projector.dialects.openresponses`)."""


class _Stream(NamedTuple):
    """A route that answers with a stream."""

    summary: str
    body: Mapping[str, Any]
    path: tuple[str, ...] = ()
    """Parameters in its path."""
    has_whole: bool = False
    """Whether `"stream": false` asks for the answer in one piece."""


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _PROBLEM_ANSWER for status in statuses}


def _parameter(name: str, place: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    about = {"name": name, "in": place, "schema": {"type": "string", **schema}, "description": description}
    return about | ({"required": True} if place == "path" else {})


def _stream(row: _Stream, dialects: Collection[str]) -> dict[str, Any]:
    content = {"text/event-stream": {"schema": event_schemas.message(dialects)}}
    about = "How the stream is written; an agent may allow fewer."
    parameters = [_parameter(name, "path", {}, "As the configuration names it.") for name in row.path]
    parameters.append(_parameter("dialect", "query", {"enum": sorted(dialects)}, about))
    answers = {"200": _answer("A stream of events that ends with exactly one terminal event.", content)}
    answers |= _problems(*_STREAM_PROBLEMS)
    if row.has_whole and ASSEMBLED in dialects:
        content["application/json"] = {"schema": {"$ref": f"{SCHEMAS}{ASSEMBLED}.Response"}}
        answers |= {str(status): _WHOLE_ERROR for status in _ERROR_STATUSES}
    return {
        "post": {
            "summary": row.summary,
            "parameters": parameters,
            "requestBody": {"required": True, "content": {"application/json": {"schema": row.body}}},
            "responses": answers,
            "security": [{"bearer": []}, {}],
        }
    }


def _answer(description: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "headers": _HEADERS, "content": content}


_WHOLE_ERROR: Final = _answer(
    'A problem document; or, to `"stream": false`, the error that the provider\'s answer ended with.',
    {
        **_PROBLEM_ANSWER["content"],
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": {"$ref": f"{SCHEMAS}{ASSEMBLED}.ErrorPayload"}},
            }
        },
    },
)


def _whole(required: str) -> dict[str, Any]:
    """Describe a body that is passed on: the provider knows the rest of it."""
    about = f"False asks for the answer in one piece, which `{ASSEMBLED}` is without this member, too."
    stream = {"type": "boolean", "description": about}
    return {"type": "object", "required": [required], "properties": {"stream": stream}}


def _probe(summary: str, answer: Mapping[str, Any], *statuses: int) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": answer, **_problems(*statuses)}}}


_STREAMS: Final[Mapping[str, _Stream]] = {
    "/api/v1/chat/stream": _Stream("Ask an agent.", {"$ref": f"{SCHEMAS}ChatRequest"}),
    "/api/v1/ag-ui/{agent}": _Stream("Run an agent by AG-UI.", {"$ref": f"{SCHEMAS}RunAgentInput"}, path=("agent",)),
    "/api/v1/workflows/{workflow_key}/run-stream": _Stream(
        "Run a workflow.", {"$ref": f"{SCHEMAS}WorkflowRequest"}, path=("workflow_key",)
    ),
    "/v1/responses": _Stream("Pass a request of the Responses API on.", _whole("input"), has_whole=True),
    "/v1/chat/completions": _Stream(
        "Pass a request of the Chat Completions API on.", _whole("messages"), has_whole=True
    ),
}
_PATHS: Final[Mapping[str, Mapping[str, Any]]] = {
    "/api/v1/streams/{stream_id}/cancel": {
        "post": {
            "summary": "End a stream; twice is no mistake.",
            "parameters": [_parameter("stream_id", "path", {}, "As the header `x-stream-id` said it.")],
            "responses": {"204": {"description": "It ends, or has ended."}, **_problems(401, 404, 503)},
            "security": [{"bearer": []}, {}],
        }
    },
    "/livez": _probe("Does the process run?", _TEXT_ANSWER),
    "/healthz": _probe("The same.", _TEXT_ANSWER),
    "/readyz": _probe("Are new streams welcome?", _TEXT_ANSWER, 503),
    "/metrics": _probe("Metrics in the format of Prometheus.", _TEXT_ANSWER),
    "/openapi.json": _probe(
        "This document.", {"description": "OpenAPI.", "content": {"application/json": {"schema": {"type": "object"}}}}
    ),
}


def document(routes: Mapping[str, Collection[str]]) -> bytes:
    """Give the document of a server.

    Args:
        routes: its paths, and the dialects that requests there may choose; none where the answer is no stream.
    """
    asked = _asked(ChatRequest) | _asked(WorkflowRequest) | _asked(RunAgentInput)
    spoken = {dialect for dialects in routes.values() for dialect in dialects}
    described = {**_PATHS, **openwop.PATHS}
    paths = {
        path: _stream(_STREAMS[path], dialects) if dialects else described[path] for path, dialects in routes.items()
    }
    parts = openwop.schemas() if openwop.PATHS.keys() & paths.keys() else {}
    return codec.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "public-stream-projector", "version": "1"},
            "paths": paths,
            "components": {
                "schemas": asked | event_schemas.components(spoken) | parts | {"Problem": _PROBLEM},
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _asked(model: type[BaseModel]) -> dict[str, Any]:
    """Give the schemas of a request: `NAME` is the body, `NAME.Part` a part of it."""
    name = model.__name__
    schema = model.model_json_schema(schema_generator=PlainSchema, ref_template=f"{SCHEMAS}{name}.{{model}}")
    parts = schema.pop("$defs", {})
    return {**{f"{name}.{part}": about for part, about in parts.items()}, name: schema}
