"""Generated files: schemas and types, the OpenAPI document, parts of pages, docs/mapping.md, compiled redaction rules.

`tests/protocols/schemas.py` writes the schemas of the dialects that follow a protocol of others.
`--check` compares instead of writing.

python -m projector.generate [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from projector.cli import mapping as explain
from projector.contracts.schema_export import json_schema
from projector.dialects import DIALECTS
from projector.generate.asyncapi import asyncapi
from projector.generate.openapi import openapi
from projector.generate.pages import pages
from projector.redaction import rule_files

ROOT: Final = Path(__file__).parents[2]
_SOURCES: Final = ROOT
"""Where the pages are read whose parts are generated; `ROOT` is where files are written."""


def files() -> dict[Path, bytes]:
    """Return the content of every generated file, and of every page with generated parts."""
    made = {ROOT / "docs" / "mapping.md": explain.mapping_markdown().encode()}
    made[ROOT / "projector" / "redaction" / "rules.json"] = rule_files.compiled()
    made[ROOT / "projector" / "redaction" / "internals.json"] = rule_files.compiled_internals()
    for name, dialect in DIALECTS.items():
        if dialect.events is not None:
            made[ROOT / "contracts" / name / f"{name}.schema.json"] = json_schema(name, dialect.events())
        made |= {ROOT / "contracts" / name / file: data for file, data in dialect.files().items()}
    made[ROOT / "contracts" / "public_sse_v1" / "asyncapi.json"] = asyncapi()
    made[ROOT / "projector" / "server" / "http" / "openapi.json"] = openapi()
    types = "public_sse_v1.ts"
    made[ROOT / "clients" / "typescript" / "src" / types] = DIALECTS["public_sse_v1"].files()[types]
    return made | {ROOT / path: data for path, data in pages(_SOURCES).items()}


def main() -> int:
    """Write or check the files."""
    return write(files(), is_check="--check" in sys.argv)


def write(made: Mapping[Path, bytes], *, is_check: bool) -> int:
    """Write files, or as a check print those that are stale and return 1 if any is."""
    stale = {path: data for path, data in made.items() if not path.is_file() or path.read_bytes() != data}
    for path, data in stale.items():
        print(f"stale: {path.relative_to(ROOT)}; run `make schemas`" if is_check else path.relative_to(ROOT))
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return 1 if stale and is_check else 0
