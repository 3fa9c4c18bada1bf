"""Items of the OpenAPI document that the providers' own APIs have: errors, models, counts, stored responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.dialects.anthropic_messages.errors import TYPE_STATUSES
from projector.providers import PROVIDERS
from projector.providers.descriptor import TokenCounting
from projector.server.control.rate_limits import HEADERS as RATE_HEADERS
from projector.server.http.model_routes import PAGE_MAX
from projector.server.telemetry.request_facts import VERSION_HEADER

Schema = Mapping[str, Any]

SCHEMAS: Final = "#/components/schemas/"
TEXT_HEADER: Final[Schema] = {"schema": {"type": "string"}}
LIMIT_HEADERS: Final[Schema] = {
    name: {**TEXT_HEADER, "description": "Present if the caller has such a limit."} for name in RATE_HEADERS
}
_OPENAI_MEMBERS: Final[Schema] = {
    "message": {"type": "string"},
    "type": {"type": "string"},
    "param": {"type": ["string", "null"], "description": "Member of the request."},
    "code": {"type": ["string", "null"]},
}
OPENAI_ERROR: Final[Schema] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "object", "required": list(_OPENAI_MEMBERS), "properties": _OPENAI_MEMBERS},
    },
}
OPENAI_ERROR_REF: Final[Schema] = {"$ref": f"{SCHEMAS}OpenAIError"}
ANTHROPIC_ERROR: Final[Schema] = {
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {
                "type": {"enum": [*TYPE_STATUSES]},
                "message": {"type": "string"},
                "details": {"type": "object", "description": "Code of a member that is not supported."},
            },
        },
        "request_id": {"type": "string"},
    },
}
ANTHROPIC_ERROR_REF: Final[Schema] = {"$ref": f"{SCHEMAS}AnthropicError"}
ERROR_HEADERS: Final[Schema] = {
    **LIMIT_HEADERS,
    "x-should-retry": {
        "schema": {"enum": ["true", "false"]},
        "description": "`false` if a retry cannot help, `true` after the wait for a rate limit.",
    },
    "x-request-id": TEXT_HEADER,
}
ANTHROPIC_HEADERS: Final[Schema] = {**ERROR_HEADERS, "request-id": TEXT_HEADER}
OPENAI_STATUSES: Final = (
    *("400", "401", "403", "404", "408", "409", "413", "415", "422", "429"),
    *("500", "502", "503", "504", "4XX", "5XX"),
)
"""The last two stand for other statuses of providers."""
ANTHROPIC_STATUSES: Final = (*(one for one in OPENAI_STATUSES if one != "503"), "529")
"""A server at its limits is a 529 of this API."""
SECURITY: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {}]
ANTHROPIC_SECURITY: Final[list[dict[str, list[str]]]] = [{"api_key": []}, *SECURITY]
SECURITY_SCHEMES: Final[Schema] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "Of clients of Anthropic."},
}


def parameter(name: str, location: str, schema: Schema, description: str) -> dict[str, Any]:
    """Return a parameter, whose value is text."""
    found = {"name": name, "in": location, "schema": {"type": "string", **schema}, "description": description}
    return found | ({"required": True} if location == "path" else {})


_MODEL: Final[Schema] = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": {"type": "integer", "description": "Seconds since 1970; 0 if it is not known."},
        "owned_by": {"type": "string"},
    },
}
_MODELS: Final[Schema] = {
    "type": "object",
    "required": ["object", "data"],
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _MODEL}},
}


_ANTHROPIC_MODEL: Final[Schema] = {
    "type": "object",
    "required": ["type", "id", "display_name", "created_at", "lifecycle"],
    "properties": {
        "type": {"const": "model"},
        "id": {"type": "string"},
        "display_name": {"type": "string"},
        "created_at": {"type": "string", "format": "date-time", "description": "1970 if it is not known."},
        "lifecycle": {"const": "active"},
    },
}
_ANTHROPIC_MODELS: Final[Schema] = {
    "type": "object",
    "required": ["data", "has_more", "first_id", "last_id"],
    "properties": {
        "data": {"type": "array", "items": _ANTHROPIC_MODEL},
        "has_more": {"type": "boolean"},
        "first_id": {"type": ["string", "null"]},
        "last_id": {"type": ["string", "null"]},
    },
}
_VERSION: Final = parameter(
    VERSION_HEADER, "header", {}, "Sent by clients of Anthropic, whose form the answer then has."
)
_PAGE: Final = [
    parameter("limit", "query", {"pattern": "^[0-9]{1,4}$"}, f"Models of a page, for Anthropic: 1 to {PAGE_MAX}."),
    parameter("after_id", "query", {}, "`id` of the model before the page, for Anthropic."),
    parameter("before_id", "query", {}, "`id` of the model after the page, for Anthropic."),
]


def _models(
    summary: str, schema: Schema, *statuses: str, anthropic: Schema | None = None, **more: Any
) -> dict[str, Any]:
    """Return the path item of a route of the OpenAI API that does not stream; `anthropic` is its form for Anthropic."""
    shared, security = ([], SECURITY) if anthropic is None else ([ANTHROPIC_ERROR_REF], ANTHROPIC_SECURITY)
    error = {"description": "Error.", "content": json_content([OPENAI_ERROR_REF, *shared])}
    found = [schema] if anthropic is None else [schema, anthropic]
    responses = {"200": {"description": "OK", "content": json_content(found)}, **dict.fromkeys(statuses, error)}
    return {"get": {"summary": summary, "responses": responses, "security": security, **more}}


def json_content(schemas: list[Any]) -> dict[str, Any]:
    """Return the content of a JSON body that has one of these schemas."""
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def _counting(route: TokenCounting) -> dict[str, Any]:
    """Return the path item of a route that counts tokens."""
    properties = {"model": {"type": "string"}, "messages": {"type": "array"}}
    body = {"type": "object", "required": ["messages"], "properties": properties}
    count = {"type": "integer", "description": "An estimate by size, unless the provider counts."}
    managed = {"type": "object", "properties": {"original_input_tokens": {"type": "integer"}}}
    members = {"input_tokens": count, "context_management": managed}
    counted = {"type": "object", "required": ["input_tokens"], "properties": members}
    headers = {**LIMIT_HEADERS, "request-id": TEXT_HEADER, "x-request-id": TEXT_HEADER}
    ok = {"200": {"description": "OK", "headers": headers, "content": json_content([counted])}}
    content = json_content([ANTHROPIC_ERROR_REF])
    error = {"description": "Error of the Anthropic API.", "headers": ANTHROPIC_HEADERS, "content": content}
    return {
        "post": {
            "summary": route.summary,
            "requestBody": {"required": True, "content": json_content([body])},
            "responses": {**ok, **dict.fromkeys(("4XX", "5XX"), error)},
            "security": ANTHROPIC_SECURITY,
        }
    }


NUMBER: Final[Schema] = {"type": "string", "pattern": "^[0-9]{1,15}$"}
_RESPONSE_ID: Final = parameter("response_id", "path", {}, "ID of a response.")
_COMPACTED: Final[Schema] = {
    "type": "object",
    "required": ["output"],
    "properties": {
        "output": {"type": "array", "items": {"type": "object"}, "description": "The input of the next request."}
    },
}
_COMPACTION: Final[Schema] = {
    "post": {
        **_models("Compact a conversation: by the provider, if it has the Responses API.", _COMPACTED, "4XX", "5XX")[
            "get"
        ],
        "requestBody": {
            "required": True,
            "content": json_content([{"type": "object", "properties": {"model": {"type": "string"}}}]),
        },
    }
}
API_PATHS: Final[Mapping[str, Schema]] = {
    "/v1/responses/{response_id}": _models(
        "Read a stored response, or its events with `stream=true`.",
        {"type": "object"},
        *("400", "401", "403", "404", "410", "429", "503"),
        parameters=[
            _RESPONSE_ID,
            parameter("stream", "query", {"enum": ["true", "false"]}, "Whether to respond with events."),
            parameter("starting_after", "query", NUMBER, "`sequence_number` of the last event that the client has."),
        ],
    ),
    "/v1/responses/{response_id}/cancel": {
        "post": _models(
            "Cancel a response. Idempotent.",
            {"type": "object"},
            *("401", "403", "404", "410", "429", "503"),
            parameters=[_RESPONSE_ID],
        )["get"]
    },
    "/v1/models": _models(
        "List the models that the caller may use.",
        _MODELS,
        *("400", "401", "403", "503", "529"),
        anthropic=_ANTHROPIC_MODELS,
        parameters=[_VERSION, *_PAGE],
    ),
    "/v1/models/{model}": _models(
        "Describe a model.",
        _MODEL,
        *("401", "403", "404", "503", "529"),
        anthropic=_ANTHROPIC_MODEL,
        parameters=[_VERSION, parameter("model", "path", {}, "ID of a model; it may contain slashes.")],
    ),
    "/v1/responses/compact": _COMPACTION,
    **{one.path: _counting(one) for provider in PROVIDERS.values() if (one := provider.counting) is not None},
}
