"""The generated types compile under `--strict`, and `kind` and `tool_type` narrow them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

TYPES: Final = Path(__file__).parents[2] / "contracts" / "public_sse_v1" / "public_sse_v1.ts"
OPTIONS: Final = (
    *("--strict", "--exactOptionalPropertyTypes", "--noEmit", "--pretty", "false"),
    *("--target", "es2022", "--lib", "es2022", "--module", "esnext", "--moduleResolution", "bundler"),
)

pytestmark = pytest.mark.node


def compiled(node_modules: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    compiler = node_modules / "node_modules" / "typescript" / "bin" / "tsc"
    command = ["node", str(compiler), *OPTIONS, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=node_modules)


def test_the_types_compile(node_modules: Path) -> None:
    result = compiled(node_modules, TYPES)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_types_narrow(node_modules: Path) -> None:
    """Every line that must not compile says `@ts-expect-error`, which is an error itself where the line compiles."""
    result = compiled(node_modules, node_modules / "narrowing.ts")
    assert (result.returncode, result.stdout) == (0, "")


def test_the_compiler_is_listening(node_modules: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.ts"
    wrong.write_text("const text: string = 1;\nexport { text };\n")
    result = compiled(node_modules, wrong)
    assert result.returncode != 0
    assert "TS2322" in result.stdout
