"""The test provider and a real server before it, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.clients.node_readings import NodeReadings
from tests.clients.recorded_provider import KEY
from tests.clients.typescript_client import InstalledClient

ROOT: Final = Path(__file__).parents[2]
MAX_RETRIES: Final = 2
"""`retries.max` of the server; a provider's 500 costs one call more."""

SERVER: Final = f"""
[upstreams.responses]
base_url = "URL/v1"
api_key = "${{PROVIDER_KEY}}"

[upstreams.chat]
api = "openai_chat"
base_url = "URL/v1"
api_key = "${{PROVIDER_KEY}}"

[passthrough]
responses = "responses"
chat_completions = "chat"
policy.reasoning = "full"

[retries]
max = {MAX_RETRIES}
initial_backoff_s = 0.01
budget_share = 10

[circuit_breaker]
failures = 0
"""


class Recorded:
    """The running test provider."""

    def __init__(self, url: str) -> None:
        self.url = url

    def calls(self) -> dict[str, int]:
        """Return the number of requests by model."""
        return self._get("/calls")

    def requests(self) -> list[dict[str, Any]]:
        """Return the bodies of the requests."""
        return self._get("/requests")

    def reset(self) -> None:
        """Forget the requests."""
        self._get("/calls", "DELETE")

    def _get(self, path: str, method: str = "GET") -> Any:
        return json.loads(fetch(self.url + path, method)[1])


def fetch(url: str, method: str = "GET", body: object = None) -> tuple[int, bytes]:
    """Send a request with an optional JSON body, and return status and body of the answer."""
    target = urlsplit(url)
    assert target.hostname is not None
    connection = HTTPConnection(target.hostname, target.port, timeout=60)
    with closing(connection):
        path = urlunsplit(("", "", target.path, target.query, ""))
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[str]:
    """Run a server until the end of the block and return its URL, which its first line names."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PROJECTOR_DEMO_PACE_S": "0.03", **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found is not None, f"no URL: {line!r}"
            yield found[0]
        finally:
            process.terminate()
            process.stdout.read()


@pytest.fixture(scope="session")
def recorded() -> Iterator[Recorded]:
    """The test provider."""
    with running([sys.executable, str(ROOT / "tests/clients/recorded_provider.py"), "0"]) as url:
        yield Recorded(url)


@pytest.fixture(scope="session")
def projector_url(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL for clients: `projector serve` with both passthrough routes to the test provider."""
    yield from _serving(SERVER, recorded, tmp_path_factory)


@pytest.fixture(scope="session")
def crossed_url(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a server on which each of the two routes has the upstream with the other API."""
    swapped = SERVER.replace('responses = "responses"', 'responses = "chat"')
    swapped = swapped.replace('chat_completions = "chat"', 'chat_completions = "responses"')
    yield from _serving(swapped, recorded, tmp_path_factory)


def _serving(settings: str, recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = tmp_path_factory.mktemp("serve") / "projector.toml"
    config.write_text(settings.replace("URL", recorded.url), encoding="utf-8")
    command = [sys.executable, "-m", "projector", "serve", "--port", "0", "--config", str(config)]
    with running(command, PROVIDER_KEY=KEY) as url:
        yield f"{url}/v1"


@pytest.fixture(scope="session")
def node_readings(node_modules: Path, projector_url: str, recorded: Recorded) -> NodeReadings:
    """What the npm clients read from the server."""
    return NodeReadings(node_modules, projector_url, recorded.url)


@pytest.fixture(scope="session")
def client(typescript_client: Path, tmp_path_factory: pytest.TempPathFactory) -> InstalledClient:
    """The packed TypeScript client."""
    installed = InstalledClient(tmp_path_factory.mktemp("client"))
    installed.install(typescript_client)
    return installed
