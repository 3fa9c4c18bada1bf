"""The OpenAPI document of all routes: openapi_routes.json, with what models and descriptors define.

The server serves what its configuration has of it (`projector.server.http.internal_routes`). `x-dialects` marks what
only some dialects have, and `x-per-route` components that each route has with its own dialects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from projector import __version__
from projector._errors import UsageError
from projector._resources import resource
from projector.contracts import codec
from projector.contracts.schema_export import PlainSchema
from projector.dialects import DIALECTS
from projector.dialects.ag_ui.conversation import RunAgentInput
from projector.dialects.ai_sdk.conversation import ChatInput
from projector.dialects.descriptor import Dialect
from projector.providers import PROVIDERS
from projector.server.http.problems import PROBLEMS
from projector.server.http.requests import ChatRequest, WorkflowRequest

_ROUTES: Final = Path(__file__).parent / "openapi_routes.json"
_COMPONENTS: Final = "#/components/"
_SCHEMAS: Final = f"{_COMPONENTS}schemas/"


def openapi() -> bytes:
    """Return the document, as a file."""
    dialects = {name: DIALECTS[name] for name in sorted(DIALECTS)}
    document = _filled(codec.loads(_ROUTES.read_bytes()), _words(dialects) | {"{problems}": ", ".join(PROBLEMS)})
    document["info"]["version"] = __version__
    document["paths"] = dict(_paths(document["paths"]))
    for name, dialect in dialects.items():
        document["components"]["schemas"] |= _events(name, dialect)
    for model in (ChatRequest, WorkflowRequest, RunAgentInput, ChatInput):
        document["components"]["schemas"] |= _request(model)
    components = ",\n".join(f'"{kind}": {_lines(named)}' for kind, named in document["components"].items())
    head = json.dumps({"openapi": document["openapi"], "info": document["info"]})
    return f'{head[:-1]},\n"paths": {_lines(document["paths"])},\n"components": {{\n{components}}}}}\n'.encode()


def _lines(table: Mapping[str, Any]) -> str:
    """Return a table as JSON with a line for each member."""
    members = (f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in table.items())
    return "{\n" + ",\n".join(members) + "}"


def _words(dialects: Mapping[str, Dialect]) -> dict[str, list[Any]]:
    """Return the values of the words of the file: lists of what a stream may have in each dialect."""
    answers = {name: one.assembler for name, one in dialects.items() if one.assembler is not None}
    return {
        "{events}": [_of(name, {"$ref": _SCHEMAS + name}) for name in dialects],
        "{end marks}": [
            _of(name, {"const": one.end_mark.decode(), "description": f"End mark of `{name}`."})
            for name, one in dialects.items()
            if one.end_mark is not None
        ],
        "{with event names}": [name for name, one in dialects.items() if one.has_event_names],
        "{with event ids}": [name for name, one in dialects.items() if one.has_event_ids],
        "{answers}": [_of(name, {"$ref": f"{_SCHEMAS}{name}.{one.body}"}) for name, one in answers.items()],
        "{errors}": [
            _of(name, {"type": "object", "required": ["error"], "properties": {"error": {"$ref": error}}})
            for name, one in answers.items()
            if one.error_statuses and (error := f"{_SCHEMAS}{name}.{one.error}")
        ],
    }


def _of(dialect: str, schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"x-dialects": [dialect]}


def _filled(node: Any, values: Mapping[str, Any]) -> Any:
    """Return a part of the document with the values of its words; a list in a list adds its entries."""
    if isinstance(node, dict):
        return {name: _filled(value, values) for name, value in node.items()}
    if isinstance(node, list):
        found = [_filled(one, values) for one in node]
        return [entry for one in found for entry in (one if isinstance(one, list) else [one])]
    if isinstance(node, str):
        for word in values if "{" in node else ():
            node = values[word] if node == word else node.replace(word, values[word]) if word in node else node
    return node


def _paths(items: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the path items, with those of the routes that providers add."""
    for path, item in items.items():
        for filled_path, filled in _provider_paths(path, item) if path.startswith("{") else [(path, item)]:
            for operation in filled.values():
                _complete(operation)
            yield filled_path, filled


def _provider_paths(kind: str, item: Any) -> Iterator[tuple[str, Any]]:
    for provider in PROVIDERS.values():
        route, counting = provider.passthrough, provider.counting
        if route is not None and kind == ("{anthropic route}" if route.client is not None else "{openai route}"):
            yield route.path, _filled(item, {"{summary}": route.summary, "{required}": route.required})
        if counting is not None and kind == "{counting route}":
            yield counting.path, _filled(item, {"{summary}": counting.summary})


def _complete(operation: dict[str, Any]) -> None:
    """Write the names of parameters and error responses as references."""
    if "parameters" in operation:
        operation["parameters"] = [
            {"$ref": f"{_COMPONENTS}parameters/{one}"} if isinstance(one, str) else one
            for one in operation["parameters"]
        ]
    for name, statuses in operation.pop("errors", {}).items():
        operation["responses"] |= {str(one): {"$ref": f"{_COMPONENTS}responses/{name}"} for one in statuses}


def _request(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schemas of a request body: `NAME`, and `NAME.Part` for each model in it."""
    name = model.__name__
    schema = model.model_json_schema(schema_generator=PlainSchema, ref_template=f"{_SCHEMAS}{name}.{{model}}")
    parts = schema.pop("$defs", {})
    return {**{f"{name}.{part}": about for part, about in parts.items()}, name: schema}


def _events(name: str, dialect: Dialect) -> dict[str, Any]:
    """Return the schemas of a dialect: `DIALECT` is any of its events, `DIALECT.Name` a model of it."""
    if dialect.events is None:
        union = _published(name, f"{name}.schema.json")
    else:
        union = dialect.events().json_schema(schema_generator=PlainSchema, ref_template=f"{_SCHEMAS}{name}.{{model}}")
    schemas = {f"{name}.{model}": schema for model, schema in union.pop("$defs", {}).items()}
    if dialect.assembler is not None and dialect.assembler.schema:
        body = _published(name, dialect.assembler.schema)
        parts = body.pop("$defs", {})
        schemas |= {f"{name}.{model}": one for model, one in {**parts, dialect.assembler.body: body}.items()}
    return {**schemas, name: {"description": f"One event of the dialect `{name}`.", **union}}


def _published(dialect: str, file: str) -> dict[str, Any]:
    """Return a schema of `contracts/`, with references to components of the document."""
    path = resource("contracts") / dialect / file
    if not path.is_file():
        raise UsageError(f"`{dialect}`: expected `events` in its descriptor, or a row in tests/protocols/schemas.py")
    data = path.read_bytes()
    schema: dict[str, Any] = codec.loads(data.replace(b"#/$defs/", f"{_SCHEMAS}{dialect}.".encode()))
    return {name: value for name, value in schema.items() if name not in {"$schema", "title"}}
