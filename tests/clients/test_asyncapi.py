"""The AsyncAPI document is valid for the schema of AsyncAPI 3.0, and its examples for its own schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest

from projector.contracts.kinds import Kind

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = json.loads((ROOT / "contracts" / "public_sse_v1" / "asyncapi.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def specification(node_modules: Path) -> Any:
    """Return a validator of AsyncAPI documents of version 3.0."""
    path = node_modules / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json"
    return jsonschema_rs.validator_for(path.read_text(encoding="utf-8"))


def test_the_document_is_valid(specification: Any) -> None:
    specification.validate(DOCUMENT)


@pytest.mark.parametrize("member", ["channels", "operations", "components"])
def test_a_wrong_document_is_refused(specification: Any, member: str) -> None:
    assert not specification.is_valid(DOCUMENT | {member: {"one": {"action": "sends"}}})


def test_every_channel_has_every_kind() -> None:
    assert DOCUMENT["components"]["messages"].keys() == {*Kind}
    for channel in DOCUMENT["channels"].values():
        assert channel["messages"] == {kind: {"$ref": f"#/components/messages/{kind}"} for kind in Kind}
    used = {operation["channel"]["$ref"].rpartition("/")[2] for operation in DOCUMENT["operations"].values()}
    assert used == DOCUMENT["channels"].keys()


@pytest.mark.parametrize("kind", Kind)
def test_an_example_is_valid(kind: Kind) -> None:
    message = DOCUMENT["components"]["messages"][kind]
    validator = jsonschema_rs.validator_for(json.dumps(message["payload"] | {"components": DOCUMENT["components"]}))
    for example in message["examples"]:
        assert example["payload"]["kind"] == kind
        validator.validate(example["payload"])
