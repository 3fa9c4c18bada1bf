"""The OpenAPI document of a server: what each of its routes takes and answers, printed from the models and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from contracts import codec
from projector.asgi.problems import PROBLEMS
from projector.asgi.requests import ChatRequest

_SCHEMAS: Final = "#/components/schemas/"
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
    "content": {"application/problem+json": {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
}
_EVENT: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["data"],
    "properties": {"event": {"type": "string"}, "data": {"type": "string", "contentMediaType": "application/json"}},
}
_STREAM_ANSWER: Final[Mapping[str, Any]] = {
    "description": "A stream of events that ends with exactly one terminal event.",
    "headers": {
        "x-stream-id": {"schema": {"type": "string"}, "description": "For the cancel path."},
        "x-request-id": {"schema": {"type": "string"}},
    },
    "content": {"text/event-stream": {"schema": _EVENT}},
}
_TEXT_ANSWER: Final[Mapping[str, Any]] = {
    "description": "It is so.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
_STREAM_PROBLEMS: Final = (400, 401, 404, 408, 413, 415, 422, 429, 500, 502, 503, 504)
_DIALECT: Final[Mapping[str, Any]] = {
    "name": "dialect",
    "in": "query",
    "schema": {"type": "string"},
    "description": "How the stream is written; what is allowed depends on the agent or route.",
}


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _PROBLEM_ANSWER for status in statuses}


def _stream(summary: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "post": {
            "summary": summary,
            "parameters": [_DIALECT],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": {"200": _STREAM_ANSWER, **_problems(*_STREAM_PROBLEMS)},
            "security": [{"bearer": []}, {}],
        }
    }


def _whole(required: str) -> dict[str, Any]:
    """Describe a body that is passed on: the provider knows the rest of it."""
    return {"type": "object", "required": [required], "properties": {"stream": {"enum": [True]}}}


def _probe(summary: str, answer: Mapping[str, Any], *statuses: int) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": answer, **_problems(*statuses)}}}


_PATHS: Final[Mapping[str, Mapping[str, Any]]] = {
    "/api/v1/chat/stream": _stream("Ask an agent.", {"$ref": f"{_SCHEMAS}ChatRequest"}),
    "/v1/responses": _stream("Pass a request of the Responses API on.", _whole("input")),
    "/v1/chat/completions": _stream("Pass a request of the Chat Completions API on.", _whole("messages")),
    "/api/v1/streams/{stream_id}/cancel": {
        "post": {
            "summary": "End a stream; twice is no mistake.",
            "parameters": [{"name": "stream_id", "in": "path", "required": True, "schema": {"type": "string"}}],
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


def document(paths: Iterable[str]) -> bytes:
    """Give the document of a server that has these paths."""
    schema = ChatRequest.model_json_schema(ref_template=_SCHEMAS + "{model}")
    schemas = {**schema.pop("$defs", {}), "ChatRequest": schema, "Problem": _PROBLEM}
    return codec.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "public-stream-projector", "version": "1"},
            "paths": {path: _PATHS[path] for path in paths},
            "components": {
                "schemas": schemas,
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )
