"""The packed TypeScript client: its files, sizes and types, and its own tests, with React 18 and 19."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tests.clients.typescript_client import SOURCE, InstalledClient, ran

pytestmark = pytest.mark.node

ENTRIES: Final = {"index", "store", "react", "ai-sdk", "assistant-ui"}
MAX_BYTES: Final = {"client": 6_600, "client and hook": 8_000, "ai-sdk": 9_000, "assistant-ui": 2_000}
"""Bundle -> most bytes, gzipped."""
README: Final = (SOURCE / "README.md").read_text(encoding="utf-8")
FIRST: Final = (SOURCE.parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```(tsx?)\n(.*?)```", README + FIRST, re.DOTALL)
OPTIONS: Final = (
    *(
        "--strict",
        "--noUncheckedIndexedAccess",
        "--exactOptionalPropertyTypes",
        "--noEmit",
        "--pretty",
        "false",
        "--skipLibCheck",
        "--jsx",
        "react-jsx",
    ),
    *("--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--module", "esnext", "--moduleResolution", "bundler"),
)
NOT_INSTALLED: Final = 'import { useChat } from "@ai-sdk/react";'
"""A package of which the examples use one function."""


def test_the_files(client: InstalledClient) -> None:
    sources = {path.stem for path in (SOURCE / "src").iterdir()}
    built = {f"dist/{name}.{end}" for name in sources for end in ("js", "d.ts")}
    assert set(client.files) == {*built, "README.md", "package.json"}
    package = json.loads((SOURCE / "package.json").read_text(encoding="utf-8"))
    assert {name.removeprefix("./").replace(".", "index") for name in package["exports"]} == ENTRIES
    assert "dependencies" not in package


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text(encoding="utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_the_sizes(client: InstalledClient) -> None:
    (sizes,) = client.run("size.mjs")
    assert {name: size for name, size in sizes.items() if size > MAX_BYTES[name]} == {}


def test_the_types(client: InstalledClient) -> None:
    """Adapters fit `ai` 5, 6, 7 and assistant-ui, and the examples of both READMEs compile."""
    files = ["types.tsx"]
    for number, (suffix, text) in enumerate(EXAMPLES):
        code = text.replace(NOT_INSTALLED, "declare const useChat: (options: object) => object;")
        files.append(f"example-{number}.{suffix}")
        (client.folder / files[-1]).write_text(code + "\nexport {};\n", encoding="utf-8")
    compiler = client.folder / "node_modules" / "typescript" / "bin" / "tsc"
    ran(["node", str(compiler), *OPTIONS, *files], client.folder)
    assert len(EXAMPLES) == 7


def passed(output: str) -> int:
    counts = dict(re.findall(r"^# (pass|fail|cancelled|skipped) (\d+)$", output, re.MULTILINE))
    assert {counts[name] for name in ("fail", "cancelled", "skipped")} == {"0"}
    assert "generated asynchronous activity" not in output
    return int(counts["pass"])


def test_connections(client: InstalledClient) -> None:
    assert passed(ran(["node", "connection.test.mjs"], client.folder)) >= 48


def test_marks(client: InstalledClient) -> None:
    assert passed(ran(["node", "marks.test.mjs"], client.folder)) == 14


def test_chats(client: InstalledClient) -> None:
    assert passed(ran(["node", "chats.test.mjs"], client.folder)) >= 16


@pytest.mark.parametrize("version", ["18", "19"])
def test_react(client: InstalledClient, version: str) -> None:
    folder: Path = client.folder if version == "19" else client.with_react(version)
    output = ran(["node", "react.test.mjs"], folder)
    assert f"React {version}." in output
    assert passed(output) >= 16
