"""docs/frontend.md shows every kind of event, with samples that are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from projector.contracts.kinds import Kind

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "frontend.md").read_text(encoding="utf-8")
SECTIONS: Final = dict(re.findall(r"^### `([\w.]+)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
SCHEMA: Final = json.loads((ROOT / "contracts" / "public_sse_v1" / "public_sse_v1.schema.json").read_text("utf-8"))
CLIENT: Final = (ROOT / "clients" / "typescript" / "src" / "state.ts").read_text(encoding="utf-8")


def samples(text: str) -> list[dict[str, Any]]:
    return [json.loads(sample) for sample in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]


ENVELOPE: Final = {name: value for name, value in samples(PAGE)[0].items() if name not in {"kind", "status"}}


def test_every_kind_has_its_section() -> None:
    assert sorted(SECTIONS) == sorted(kind.value for kind in Kind)


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_samples_are_valid(kind: str) -> None:
    found = samples(SECTIONS[kind])
    assert found
    for sample in found:
        assert sample["kind"] == kind
        jsonschema.validate(ENVELOPE | sample, SCHEMA)


def test_the_functions_of_the_client_exist() -> None:
    named = set(re.findall(r"`(\w+)\((?:state|part|item|item, state)\)`", PAGE))
    assert named == set(re.findall(r"^export (?:function|const) (\w+)", CLIENT, re.MULTILINE)) - {"initialState"}
