"""What the npm clients read: each script of `tests/node` runs the scenarios of the test provider through the server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

Reading: TypeAlias = Mapping[str, Any]
"""A line of a script: text, calls and so on; `requests` to the provider by model; `error` if the client raised."""

TIMEOUT_S: Final = 280
PROVIDER_API: Final = {"responses": "responses", "open-responses": "responses", "chat": "chat", "compatible": "chat"}
"""API as a script names it -> API of the provider."""


class NodeClient(NamedTuple):
    """A client, and how its script is called."""

    script: str
    package: str


OPENAI: Final = NodeClient("openai-client.mjs", "openai")
OPENAI_6: Final = NodeClient("openai-client.mjs", "openai-6")
AI_SDK: Final = NodeClient("ai-sdk-client.mjs", "latest")
AI_SDK_6: Final = NodeClient("ai-sdk-client.mjs", "6")
LANGCHAIN: Final = NodeClient("langchain-client.mjs", "@langchain/openai")


class NodeReadings:
    """Readings of the clients, from one run of each script."""

    def __init__(self, folder: Path, base_url: str, provider_url: str) -> None:
        self._folder, self._base_url, self._provider_url = folder, base_url, provider_url
        self._done: dict[NodeClient, subprocess.CompletedProcess[str]] = {}

    def of(self, client: NodeClient, api: str, scenario: str) -> dict[str, Reading]:
        """Return the readings of a scenario, by form: `stream`, `json` and so on."""
        prefix = f"{api}/{scenario}/"
        readings = self._all(client)
        return {name.removeprefix(prefix): it for name, it in readings.items() if name.startswith(prefix)}

    def one(self, client: NodeClient, name: str) -> Reading:
        """Return the reading with a name."""
        return self._all(client)[name]

    def _all(self, client: NodeClient) -> dict[str, Reading]:
        if client not in self._done:
            command = ["node", client.script, client.package, self._base_url, self._provider_url]
            self._done[client] = subprocess.run(
                command, capture_output=True, text=True, check=False, cwd=self._folder, timeout=TIMEOUT_S
            )
        done = self._done[client]
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.removesuffix("\n").split("\n")  # a text may contain other line ends
        return {reading["name"]: reading for reading in map(json.loads, lines)}
