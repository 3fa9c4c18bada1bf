"""The published schemas are up to date and agree with the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from projector import generate
from projector.contracts import kinds
from projector.dialects import DIALECTS
from tests.protocols import schemas
from tests.protocols.schemas import EVENTS

SCHEMAS: Final = Path(__file__).parents[2] / "contracts" / "public_sse_v1"
RENDERED: Final = {path.name: data for path, data in generate.files().items() if path.parent == SCHEMAS}
SCHEMA: Final = json.loads(RENDERED["public_sse_v1.schema.json"])
TYPES: Final = RENDERED["public_sse_v1.ts"].decode()


def test_the_files_are_those_of_the_models() -> None:
    assert {path.name: path.read_bytes() for path in SCHEMAS.iterdir()} == RENDERED, "run `make schemas`"


@pytest.mark.parametrize("dialect", EVENTS)
def test_the_schemas_of_protocols_of_others_are_those_of_the_models(dialect: str) -> None:
    assert DIALECTS[dialect].events is None, "the published schema describes its events"
    made = {path: data for path, data in schemas.files().items() if path.parent.name == dialect}
    assert made
    assert {path: path.read_bytes() for path in made} == made, "run `make schemas`"


def test_the_same_models_give_the_same_bytes() -> None:
    assert {path.name: data for path, data in generate.files().items() if path.parent == SCHEMAS} == RENDERED


def branches() -> dict[str, Any]:
    """Return the schema of each branch by its kind."""
    named = [SCHEMA["$defs"][branch["$ref"].rpartition("/")[2]] for branch in SCHEMA["oneOf"]]
    return {branch["properties"]["kind"]["const"]: branch for branch in named}


def test_the_schema_has_a_branch_for_each_kind() -> None:
    assert list(branches()) == [kind.value for kind in kinds.Kind]


@pytest.mark.parametrize("kind", kinds.Kind)
def test_a_branch_is_closed_and_requires_the_envelope(kind: kinds.Kind) -> None:
    branch = branches()[kind]
    assert branch["additionalProperties"] is False
    assert {"schema", "event_id", "stream_id", "server_timestamp", "kind"} <= set(branch["required"])
    assert branch["properties"]["event_id"] == {
        "description": "Counts the events of the stream from 1; the position to resume from.",
        "minimum": 1,
        "type": "integer",
    }


def nodes(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from nodes(member)
    elif isinstance(value, list):
        for member in value:
            yield from nodes(member)


def test_the_schema_is_plain() -> None:
    assert SCHEMA["$schema"].endswith("2020-12/schema")
    words = {word for node in nodes(SCHEMA) for word in node}
    assert not words & {"default", "discriminator", "nullable"}
    assert {ref for node in nodes(SCHEMA) if isinstance(ref := node.get("$ref"), str)} == {
        f"#/$defs/{name}" for name in SCHEMA["$defs"]
    }


def test_null_stands_where_the_seed_shows_it() -> None:
    def nullable(schema: dict[str, Any]) -> set[str]:
        return {name for name, row in schema["properties"].items() if {"type": "null"} in row.get("anyOf", [])}

    found = {name: nullable(schema) for name, schema in SCHEMA["$defs"].items()}
    context = {"conversation_id", "response_id", "agent", "workflow"}
    assert {name: names for name, names in found.items() if names not in (set(), context)} == {
        "WorkflowContext": set(SCHEMA["$defs"]["WorkflowContext"]["properties"]),
        "FinalDetail": {"structured_output"},
    }


def test_the_types_have_an_interface_for_each_kind() -> None:
    for kind in kinds.Kind:
        assert TYPES.count(f'  kind: "{kind}";\n') == 1
    types = re.sub(r"/\*\*.*?\*/", "", TYPES)
    assert "any" not in types.replace("AnyTool", "").split()


LINES: Final = [
    'export interface ToolStatus extends ItemEvent {\n  kind: "tool.status";\n',
    "  /** The call; it replaces the one of the previous status. */\n  tool: AnyTool;\n}\n",
    "  response_id?: string | null;\n",
    "  sources?: string[];\n",
    "  structured_output?: unknown;\n",
    "  arguments_json?: Record<string, unknown>;\n",
    "export type Citation = UrlCitation | FileCitation | ContainerFileCitation;\n",
    "  | ErrorEvent\n  | FinalEvent;\n",
]


@pytest.mark.parametrize("line", LINES)
def test_the_types_read_well(line: str) -> None:
    assert line in TYPES
