"""The adapters of the TypeScript client: messages of the AI SDK are those of the server's dialect `ai_sdk`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from projector.core.sse import DONE
from tests.clients.arrivals import GOLDENS
from tests.clients.typescript_client import InstalledClient

pytestmark = pytest.mark.node

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
LEVELS: Final = ("5", "6", "7")

OTHERS: Final = ("data-", "step-start")
"""Types of parts that are not compared: data for pages, which the state of the client has too."""
PRIVATE: Final = (":full:0", ":encrypted")
"""Ends of the IDs of reasoning that is never in the public stream."""
UNKNOWN: Final = frozenset({"callProviderMetadata", "resultProviderMetadata", "providerMetadata", "preliminary"})
"""Members with details that the public stream does not contain."""


def lines(dialect: str, name: str) -> list[Any]:
    """Return the events of a golden."""
    data = (EXAMPLES / dialect / f"{name}.ndjson").read_bytes().splitlines()
    return [json.loads(line) for line in data if line != DONE]


@pytest.fixture(scope="module")
def readings(client: InstalledClient) -> dict[str, dict[str, Any]]:
    """Return what each version of the AI SDK reads of each golden."""
    given = [
        {"name": name, "events": lines("public_sse_v1", name), "chunks": lines("ai_sdk", name)} for name in GOLDENS
    ]
    return {read["name"]: read["readings"] for read in client.run("ui-messages.mjs", lines=list(given))}


def compared(reading: dict[str, Any]) -> list[dict[str, Any]]:
    parts = reading["message"]["parts"] if reading["message"] else []
    kept = [part for part in parts if not part["type"].startswith(OTHERS) and not part.get("id", "").endswith(PRIVATE)]
    return [{name: value for name, value in part.items() if name not in UNKNOWN} for part in kept]


def notices(reading: dict[str, Any]) -> dict[str, Any]:
    parts = reading["message"]["parts"] if reading["message"] else []
    return {part["id"]: part["data"] for part in parts if part["type"] == "data-notice"}


@pytest.mark.parametrize("name", GOLDENS)
def test_a_message_is_that_of_the_dialect(readings: dict[str, dict[str, Any]], name: str) -> None:
    for level in LEVELS:
        adapter, dialect = readings[name][level]["adapter"], readings[name][level]["dialect"]
        assert compared(adapter) == compared(dialect), level
        assert adapter["last"]["type"] == dialect["last"]["type"], level
        assert adapter["last"].get("finishReason") == dialect["last"].get("finishReason"), level
        assert adapter["errors"] == dialect["errors"], level
        # the dialect has notices of private frames too
        assert notices(dialect) | notices(adapter) == notices(dialect), level
