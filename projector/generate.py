"""Files that are printed from tables and models: schemas, TypeScript, docs/mapping.md. `--check` compares instead.

python -m projector.generate [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from projector.cli import mapping as explain
from projector.contracts import schema_export

ROOT: Final = Path(__file__).parent.parent


def files() -> dict[Path, bytes]:
    """Give the content of every generated file."""
    schemas = {ROOT / "contracts" / "public_sse_v1" / name: data for name, data in schema_export.render().items()}
    return schemas | {ROOT / "docs" / "mapping.md": explain.mapping_markdown().encode()}


def main() -> int:
    """Write the files, or with `--check` name those that are stale; 1 if any is."""
    stale = [path for path, data in files().items() if not path.is_file() or path.read_bytes() != data]
    for path in stale:
        print(f"stale: {path.relative_to(ROOT)}; run `make schemas`" if CHECK in sys.argv else path.relative_to(ROOT))
        if CHECK not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files()[path])
    return 1 if stale and CHECK in sys.argv else 0


CHECK: Final = "--check"

if __name__ == "__main__":
    sys.exit(main())
