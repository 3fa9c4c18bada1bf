"""Rows of the npm clients for docs/clients.md, and the readings that they are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.clients_table import Row, cells
from tests.clients.node_readings import AI_SDK, AI_SDK_6, LANGCHAIN, OPENAI, OPENAI_6, PROVIDER_API, NodeClient

PACKAGES: Final[dict[str, str]] = json.loads(
    (Path(__file__).parents[1] / "node" / "package.json").read_text(encoding="utf-8")
)["devDependencies"]


class NodeRow(NamedTuple):
    """A client with one API of its script."""

    client: NodeClient
    api: str
    name: str
    package: str
    """Its name in `package.json`."""
    cells: dict[str, str]

    @property
    def row(self) -> Row:
        """The row of the table."""
        version = PACKAGES[self.package].rpartition("@")[2]  # of an alias: npm:NAME@VERSION
        return Row(self.name, version, PROVIDER_API[self.api], self.cells)


TEXT: Final = {"hosted": "text"}
AI: Final = {"refusal": "as text", "calls_500": "9"}
COMPATIBLE: Final = {**TEXT, "citations": "not shown", "calls_500": "9"}
OPEN: Final = {
    **TEXT,
    "citations": "not shown",
    "refusal": "`TypeError` in one piece",
    "errors": "status",
    "calls_500": "9",
}

NODE_ROWS: Final = (
    NodeRow(OPENAI, "responses", "openai (npm)", "openai", cells()),
    NodeRow(OPENAI, "chat", "openai (npm)", "openai", cells(**TEXT, reasoning="`events`, `json`")),
    NodeRow(OPENAI_6, "responses", "openai (npm)", "openai-6", cells()),
    NodeRow(OPENAI_6, "chat", "openai (npm)", "openai-6", cells(**TEXT, reasoning="`events`, `json`")),
    NodeRow(AI_SDK, "responses", "@ai-sdk/openai", "@ai-sdk/openai", cells(**AI)),
    NodeRow(AI_SDK, "chat", "@ai-sdk/openai", "@ai-sdk/openai", cells(**AI, **TEXT, reasoning="not shown")),
    NodeRow(AI_SDK_6, "responses", "@ai-sdk/openai", "@ai-sdk/openai-3", cells(**AI)),
    NodeRow(AI_SDK_6, "chat", "@ai-sdk/openai", "@ai-sdk/openai-3", cells(**AI, **TEXT, reasoning="not shown")),
    NodeRow(
        AI_SDK,
        "compatible",
        "@ai-sdk/openai-compatible",
        "@ai-sdk/openai-compatible",
        cells(**COMPATIBLE, refusal="as text"),
    ),
    NodeRow(
        AI_SDK_6,
        "compatible",
        "@ai-sdk/openai-compatible",
        "@ai-sdk/openai-compatible-2",
        cells(**COMPATIBLE, refusal="not shown"),
    ),
    NodeRow(AI_SDK, "open-responses", "@ai-sdk/open-responses", "@ai-sdk/open-responses-2", cells(**OPEN)),
    NodeRow(
        AI_SDK_6,
        "open-responses",
        "@ai-sdk/open-responses",
        "@ai-sdk/open-responses",
        cells(**OPEN, reasoning="`stream`", stream_error="not shown"),
    ),
    NodeRow(LANGCHAIN, "responses", "@langchain/openai", "@langchain/openai", cells(calls_500="21")),
    NodeRow(
        LANGCHAIN,
        "chat",
        "@langchain/openai",
        "@langchain/openai",
        cells(**TEXT, citations="not shown", refusal="not shown", calls_500="21"),
    ),
)
ROWS: Final = tuple(it.row for it in NODE_ROWS)
