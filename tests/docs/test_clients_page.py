"""docs/clients.md has the rows that the tests of the clients verify."""

from __future__ import annotations

import json
import re
from typing import Final

import pytest

from tests.clients import rows_chats
from tests.clients.clients_table import BEHAVIOURS, PAGE, ROOT, Row, printed
from tests.clients.rows import ROWS
from tests.clients.rows_python import LOCK

PACKAGES: Final = json.loads((ROOT / "tests/node/package.json").read_text(encoding="utf-8"))
CLAUDE_CODE: Final = PACKAGES["optionalDependencies"]["@anthropic-ai/claude-agent-sdk-linux-x64"]


def test_the_table_has_every_row() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert printed(page, ROWS, rows_chats.table()) == page, "run `make docs`"
    for row in (*ROWS, *rows_chats.ROWS):
        assert re.search(rf"^\| `{re.escape(row.client)}` [\d., ]*\b{re.escape(row.version)}[, ]", page, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}-{row.version}-{row.api}")
def test_a_row_has_a_cell_for_each_behaviour(row: Row) -> None:
    assert list(row.cells) == list(BEHAVIOURS)


@pytest.mark.parametrize(
    "package", ["anthropic", "langchain-anthropic", "pydantic-ai-slim", "@anthropic-ai/sdk", "@ai-sdk/anthropic"]
)
def test_the_clients_of_anthropic_have_the_versions_of_the_locks(package: str) -> None:
    version = PACKAGES["devDependencies"].get(package) or re.findall(rf"^{package}==(\S+)", LOCK, re.MULTILINE)[0]
    name = {"anthropic": "anthropic (Python)", "pydantic-ai-slim": "pydantic-ai"}.get(package, package)
    assert f"| `{name}` {version} " in PAGE.read_text(encoding="utf-8").partition("## Clients of Anthropic")[2]


def test_claude_code_has_the_version_of_its_package() -> None:
    assert f"| Claude Code 2.1.{CLAUDE_CODE.rpartition('.')[2]} " in PAGE.read_text(encoding="utf-8")
