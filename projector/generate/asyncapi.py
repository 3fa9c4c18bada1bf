"""The AsyncAPI document of `public_sse_v1`: the routes that send it, and its events as messages.

`GET /openapi.json` describes the requests; this document describes what is sent after them.
"""

from __future__ import annotations

import json
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from projector import __version__
from projector.contracts.kinds import SCHEMA, Kind
from projector.contracts.public_sse_v1 import EVENT_ADAPTER, PublicEvent
from projector.contracts.schema_export import PlainSchema
from projector.generate.pages import sample

_CHANNELS: Final = {
    "chat": ("/api/v1/chat/stream", "POST", "Answer of an agent.", {}),
    "workflow": (
        "/api/v1/workflows/{workflow_key}/run-stream",
        "POST",
        "Run of a workflow.",
        {"workflow_key": "Name of the workflow."},
    ),
    "stored": (
        "/api/v1/streams/{stream_id}/events",
        "GET",
        "A stream again, after the event that `after` or the header `Last-Event-ID` names.",
        {"stream_id": "ID of the stream."},
    ),
}
"""Channel -> address, method, summary, and parameters of the address."""


def asyncapi() -> bytes:
    """Return the document, as a file."""
    return (json.dumps(_document(EVENT_ADAPTER), indent=2, ensure_ascii=False) + "\n").encode()


def _document(events: TypeAdapter[Any]) -> dict[str, object]:
    schema = events.json_schema(schema_generator=PlainSchema, ref_template="#/components/schemas/{model}")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": SCHEMA,
            "version": __version__,
            "description": (
                "The public event stream, as server-sent events: each message is the JSON of one `data` field. "
                "README.md has the rules over a stream."
            ),
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(address, parameters) for name, (address, _, _, parameters) in _CHANNELS.items()},
        "operations": {
            name: {
                "action": "send",
                "channel": {"$ref": f"#/channels/{name}"},
                "summary": summary,
                "bindings": {"http": {"method": method}},
            }
            for name, (_, method, summary, _) in _CHANNELS.items()
        },
        "components": {"messages": _messages(), "schemas": schema["$defs"]},
    }


def _channel(address: str, parameters: dict[str, str]) -> dict[str, object]:
    channel: dict[str, object] = {
        "address": address,
        "messages": {kind.value: {"$ref": f"#/components/messages/{kind.value}"} for kind in Kind},
    }
    if parameters:
        channel["parameters"] = {name: {"description": about} for name, about in parameters.items()}
    return channel


def _messages() -> dict[str, object]:
    models = {get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(get_args(PublicEvent)[0])}
    return {
        kind.value: {
            "name": kind.value,
            "summary": models[kind].__doc__,
            "payload": {"$ref": f"#/components/schemas/{models[kind].__name__}"},
            "examples": [{"payload": sample(kind.value)}],
        }
        for kind in Kind
    }
