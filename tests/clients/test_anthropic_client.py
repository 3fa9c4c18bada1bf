"""The package `anthropic` reads answers, failures, counts and models, and repeats no request that was repeated here."""

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

COUNT: Final = "/v1/messages/count_tokens"
EXAMPLES: Final = ROOT / "examples_ndjson" / "anthropic_messages_input"
ERRORS: Final = {
    "400": (400, "invalid_request_error", "BadRequestError"),
    "401": (401, "authentication_error", "AuthenticationError"),
    "403": (403, "permission_error", "PermissionDeniedError"),
    "404": (404, "not_found_error", "NotFoundError"),
    "429": (429, "rate_limit_error", "RateLimitError"),
    "500": (500, "api_error", "InternalServerError"),
    "529": (529, "overloaded_error", "OverloadedError"),
}
"""Model -> status and type of the provider's error, and what the client raises."""
MODELS: Final = ("text", "thinking", "parallel-tools", "refusal", "truncated", "error", *ERRORS)
LISTED: Final = {"claude-a": "Claude A", "claude-b": "Claude B", "claude-c": "claude-c"}
RETRIES: Final = 1
TIMEOUT_S: Final = 120

pytestmark = pytest.mark.timeout(TIMEOUT_S)


class _Provider(BaseHTTPRequestHandler):
    """Answers with the example that `model` names."""

    calls: ClassVar[Counter[tuple[str, str]]] = Counter()

    def do_POST(self) -> None:
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        self.calls[self.path, model] += 1
        if model in ERRORS:
            status, kind, _ = ERRORS[model]
            self._answer(status, {"type": "error", "error": {"type": kind, "message": "No."}})
        elif self.path == COUNT:
            self._answer(200, {"input_tokens": 7 + len(self.headers["anthropic-beta"])})
        else:
            lines = (EXAMPLES / f"messages-{model}.ndjson").read_bytes().splitlines()
            self._send(200, "text/event-stream", b"".join(b"data: " + line + b"\n\n" for line in lines))

    def do_GET(self) -> None:
        models = [{"type": "model", "id": name, "display_name": LISTED[name]} for name in LISTED]
        self._answer(200, {"data": models, "has_more": False})

    def _answer(self, status: int, value: object) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, media_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.end_headers()
        self.wfile.write(body)

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
        f'[passthrough]\nmessages = "claude"\n[retries]\nmax = {RETRIES}\ninitial_backoff_s = 0.01\nbudget_share = 10\n'
        "[circuit_breaker]\nfailures = 0\n",
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
CLIENT_RETRIES: Final = 2
"""The default of the package."""
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


@pytest.mark.parametrize("model", ["truncated", "error"])
def test_a_failure_in_the_stream_raises(lines: dict[tuple[str, str], Any], model: str) -> None:
    """Nothing was repeated here, so the client repeats what it did not show."""
    assert "raised" in lines[model, "streamed"]
    assert lines[model, "whole"]["raised"] == [529, "overloaded_error"]
    assert _Provider.calls["/v1/messages", model] == 1 + CLIENT_RETRIES + 1


@pytest.mark.parametrize("model", ERRORS)
def test_an_error_is_of_its_class_and_is_not_repeated(lines: dict[tuple[str, str], Any], model: str) -> None:
    status, kind, raised = ERRORS[model]
    for way in (*WAYS, "counted"):
        line = lines[model, way]
        assert (line["raised"], line["class"], line["has_id"]) == ([status, kind], raised, True), line
    calls = 1 + RETRIES if status == 429 or status >= 500 else 1
    assert [_Provider.calls[path, model] for path in ("/v1/messages", COUNT)] == [2 * calls, calls]


def test_counts_and_models(lines: dict[tuple[str, str], Any]) -> None:
    assert lines["text", "counted"]["result"]["tokens"] > 7
    assert lines["", "listed"]["result"].pop("request_id")
    assert lines["", "listed"]["result"] == {"names": LISTED}
