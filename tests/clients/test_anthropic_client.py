"""The package `anthropic` reads text, thinking, parallel tools, a refusal, an overloaded provider and a cut stream."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from tests.clients.conftest import ROOT, running

EXAMPLES: Final = ROOT / "examples_ndjson" / "anthropic_messages_input"
OVERLOADED: Final = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
MODELS: Final = ("text", "thinking", "parallel-tools", "refusal", "truncated", "error", "overloaded")
TIMEOUT_S: Final = 120

pytestmark = pytest.mark.timeout(TIMEOUT_S)


class _Provider(BaseHTTPRequestHandler):
    """Answers with the example that `model` names."""

    calls: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        self.calls[model] += 1
        is_up = model != "overloaded"
        lines = (EXAMPLES / f"messages-{model}.ndjson").read_bytes().splitlines() if is_up else []
        self.send_response(200 if is_up else 529)
        self.send_header("content-type", "text/event-stream" if is_up else "application/json")
        self.end_headers()
        self.wfile.write(b"".join(b"data: " + line + b"\n\n" for line in lines) if is_up else OVERLOADED)

    def log_message(self, *_arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def lines(python_clients: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Return what the script of the package prints, by model and way."""
    provider = ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    config = tmp_path_factory.mktemp("serve") / "projector.toml"
    config.write_text(
        f'[upstreams.claude]\napi = "anthropic_messages"\nbase_url = "http://127.0.0.1:{provider.server_port}/v1"\n'
        '[passthrough]\nmessages = "claude"\n[retries]\nmax = 0\n',
        encoding="utf-8",
    )
    with running([sys.executable, "-m", "projector", "serve", "--port", "0", "--config", str(config)]) as url:
        command = [str(python_clients), str(ROOT / "tests/clients/python/client_anthropic.py"), url, *MODELS]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    provider.shutdown()
    provider.server_close()
    assert result.returncode == 0, result.stderr
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    return {(line["model"], line["way"]): line for line in printed}


WAYS: Final = ("streamed", "whole")
EXPECTED: Final[dict[str, tuple[list[str], str]]] = {
    "text": (["text"], "end_turn"),
    "parallel-tools": (["tool_use", "tool_use"], "tool_use"),
    "refusal": (["text"], "refusal"),
}


@pytest.mark.parametrize("model", EXPECTED)
def test_both_ways_read_the_same(lines: dict[tuple[str, str], Any], model: str) -> None:
    results = [lines[model, way]["result"] for way in WAYS]
    assert results[0] == results[1]
    kinds, stop = EXPECTED[model]
    assert [block["type"] for block in results[0]["content"]][-len(kinds) :] == kinds
    assert results[0]["stop_reason"] == stop


def test_thinking_that_the_policy_shows_is_a_block(lines: dict[tuple[str, str], Any]) -> None:
    [first, *_] = lines["thinking", "streamed"]["result"]["content"]
    assert (first["type"], bool(first["thinking"])) == ("thinking", True)


@pytest.mark.parametrize("model", ["truncated", "error", "overloaded"])
def test_a_failure_raises(lines: dict[tuple[str, str], Any], model: str) -> None:
    assert all("raised" in lines[model, way] for way in WAYS), lines
    assert lines[model, "whole"]["raised"] == [529, "overloaded_error"]


def test_an_overloaded_provider_is_not_asked_again(lines: dict[tuple[str, str], Any]) -> None:
    assert "raised" in lines["overloaded", "streamed"]
    assert _Provider.calls["overloaded"] == len(WAYS)
