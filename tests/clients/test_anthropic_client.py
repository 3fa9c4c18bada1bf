"""Clients of Anthropic read answers, failures, counts and models, run tools once, and repeat nothing needlessly."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from tests.clients.conftest import ROOT, running
from tests.clients.scripted_provider import (
    CREDENTIAL,
    KEY,
    Block,
    Turn,
    call,
    leaks,
    messages_events,
    repeating,
)

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
"""Model -> status and type of the provider's error, and what the packages of Anthropic raise."""
SCRIPTS: Final[Mapping[str, tuple[Turn, ...]]] = {
    "loop": repeating(
        lambda place: [
            call("look", f"toolu_{place}_a", {"at": f"{place} {KEY}"}),
            call("find", f"toolu_{place}_b", {"at": f"{CREDENTIAL} {place}"}),
        ]
    ),
    "cut-call": (Turn((call("look", "toolu_1", {"at": CREDENTIAL}),), "cut"),),
    "cut-start": (Turn((Block("tool", (), "toolu_1", "look"),), "error"),),
}
"""Model -> its answers; others are examples."""
FAILING: Final = ("truncated", "error", "cut-call", "cut-start")
PAUSED: Final = ("I search.", "pause_turn")
RESUMED: Final = ("High water is at six.", "end_turn")
HOSTED: Final = {
    "web-search": ("The level is low.", "end_turn"),
    "code-execution": ("Here is the plot.", "end_turn"),
    "mcp": ("A grey heron.", "end_turn"),
    "pause": PAUSED,
    "resumed": RESUMED,
}
"""Model whose provider executes tools -> its text and stop reason."""
SHOWN: Final = ("text", "thinking", "parallel-tools", "refusal", "programmatic", *HOSTED)
MODELS: Final = (*SHOWN, *FAILING, *ERRORS, "loop", "loop-pause")
STATE_KEY: Final = base64.b64encode(b"k" * 32).decode()
LISTED: Final = {"claude-a": "Claude A", "claude-b": "Claude B", "claude-c": "claude-c"}
RETRIES: Final = 1
TIMEOUT_S: Final = 300

pytestmark = pytest.mark.timeout(TIMEOUT_S)


class _Provider(BaseHTTPRequestHandler):
    """Answers with the script or the example that `model` names, up to an `@`."""

    calls: ClassVar[Counter[tuple[str, str]]] = Counter()
    searches: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = body["model"]
        turn = self.calls[self.path, asked]
        self.calls[self.path, asked] += 1
        model = asked.partition("@")[0]
        if model == "loop-pause":  # a search that the request does not have is executed
            is_known = any(block["type"] == "server_tool_use" for block in _blocks(body))
            self.searches[asked] += not is_known
            model = "resumed" if is_known else "pause"
        if model in ERRORS:
            status, kind, _ = ERRORS[model]
            self._answer(status, {"type": "error", "error": {"type": kind, "message": "No."}})
        elif self.path == COUNT:
            self._answer(200, {"input_tokens": 7 + len(self.headers["anthropic-beta"])})
        else:
            lines = _events(model, turn)
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


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [message["content"] for message in body["messages"]]
    return [block for content in contents if isinstance(content, list) for block in content]


def _events(model: str, turn: int) -> list[bytes]:
    if model in SCRIPTS:
        script = SCRIPTS[model]
        return [json.dumps(event).encode() for event in messages_events(script[turn % len(script)], f"msg_{turn}")]
    return (EXAMPLES / f"messages-{model}.ndjson").read_bytes().splitlines()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server before the provider."""
    provider = ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    config = tmp_path_factory.mktemp("serve") / "projector.toml"
    config.write_text(
        f'state_encryption_keys = ["{STATE_KEY}"]\n[upstreams.claude]\napi = "anthropic_messages"\n'
        f'base_url = "http://127.0.0.1:{provider.server_port}/v1"\n'
        'api_key = "${PROVIDER_KEY}"\n[passthrough]\nmessages = "claude"\npolicy.reasoning = "full"\n'
        f"[retries]\nmax = {RETRIES}\ninitial_backoff_s = 0.01\nbudget_share = 10\n[circuit_breaker]\nfailures = 0\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "projector", "serve", "--port", "0", "--config", str(config)]
    with running(command, PROVIDER_KEY=KEY) as url:
        yield url
    provider.shutdown()
    provider.server_close()


Lines = dict[tuple[str, str], Any]
"""Model and way of asking -> what a client printed."""
CLIENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": ("python_clients", "client_anthropic.py"),
    "langchain": ("python_clients", "client_anthropic_langchain.py"),
    "pydantic-ai": ("python_clients", "client_anthropic_pydantic_ai.py"),
    "npm": ("node_modules", "anthropic-client.mjs", "npm"),
    "ai-sdk": ("node_modules", "anthropic-client.mjs", "ai-sdk"),
}
"""Client -> fixture of what it needs, its script, and the first arguments."""
PACKAGES_OF_ANTHROPIC: Final = ("python", "npm")


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def lines(client: str, server: str, request: pytest.FixtureRequest) -> Lines:
    """Return what a client prints; each one runs once, with models of its own."""
    needed, script, *arguments = CLIENTS[client]
    tools: Path = request.getfixturevalue(needed)
    is_node = needed == "node_modules"
    program = ["node", str(tools / script)] if is_node else [str(tools), str(ROOT / "tests/clients/python" / script)]
    command = [*program, *arguments, server, *(f"{model}@{client}" for model in MODELS)]
    for counts in (_Provider.calls, _Provider.searches):
        counts.clear()  # a worker that takes over tests of this module runs a client once more
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert result.returncode == 0, result.stderr
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    return {(line["model"].partition("@")[0], line["way"]): line for line in printed}


WAYS: Final = ("streamed", "whole")
CLIENT_RETRIES: Final = 2
"""The default of every client."""
EXPECTED: Final[dict[str, tuple[list[str], str]]] = {
    "text": (["text"], "end_turn"),
    "parallel-tools": (["tool_use", "tool_use"], "tool_use"),
    "refusal": (["text"], "refusal"),
    "programmatic": (["tool_use"], "tool_use"),
}


@pytest.mark.parametrize("model", EXPECTED)
def test_both_ways_read_the_same(client: str, lines: Lines, model: str) -> None:
    results = [lines[model, way]["result"] for way in WAYS]
    assert results[0] == results[1]
    kinds, stop = EXPECTED[model]
    assert [block["type"] for block in results[0]["content"]][-len(kinds) :] == kinds
    assert results[0]["stop_reason"] == stop
    assert _Provider.calls["/v1/messages", f"{model}@{client}"] == len(WAYS)


def said_in(result: Any) -> tuple[str, str]:
    """Return text and stop reason of an answer; some clients have citations in blocks of their own."""
    texts = [block.get("text", "") for block in result["content"] if block["type"] == "text"]
    return "".join(texts), result["stop_reason"]


@pytest.mark.parametrize("model", HOSTED)
def test_what_the_provider_did_is_shown_by_its_text(client: str, lines: Lines, model: str) -> None:
    assert [said_in(lines[model, way]["result"]) for way in WAYS] == [HOSTED[model]] * len(WAYS)
    assert _Provider.calls["/v1/messages", f"{model}@{client}"] == len(WAYS)


@pytest.mark.parametrize("way", ["loop_streamed", "loop_whole"])
def test_a_tool_of_the_provider_is_executed_once(client: str, lines: Lines, way: str) -> None:
    """Clients that go on after a pause carry what the provider did, and show it; others show that it paused."""
    asked = f"loop-pause@{client}-{way}"
    result = lines["loop-pause", way]["result"]
    assert _Provider.searches[asked] == 1
    text, stop = said_in(result)
    expected = RESUMED if _Provider.calls["/v1/messages", asked] > 1 else PAUSED
    assert (text.removeprefix(PAUSED[0]) or text, stop) == expected


def test_thinking_that_the_policy_shows_is_a_block(lines: Lines) -> None:
    [first, *_] = lines["thinking", "streamed"]["result"]["content"]
    assert (first["type"], bool(first["thinking"])) == ("thinking", True)


@pytest.mark.parametrize("model", FAILING)
def test_a_failure_in_the_stream_raises(client: str, lines: Lines, model: str) -> None:
    """Nothing was repeated here, so the client repeats what it did not show. No call of it was executed."""
    assert lines[model, "streamed"]["raised"][1] == "overloaded_error"
    assert lines[model, "whole"]["raised"] == [529, "overloaded_error"]
    assert _Provider.calls["/v1/messages", f"{model}@{client}"] == 1 + CLIENT_RETRIES + 1
    assert not any(lines[model, way].get("executed") for way in WAYS)


@pytest.mark.parametrize("model", ERRORS)
def test_an_error_is_of_its_class(client: str, lines: Lines, model: str) -> None:
    """Nothing that was repeated here is repeated by a client, except by the AI SDK, which decides by the status."""
    status, kind, raised = ERRORS[model]
    is_own = client in PACKAGES_OF_ANTHROPIC
    for way in (*WAYS, "counted") if is_own else WAYS:
        line = lines[model, way]
        assert line["raised"] == [status, kind]
        assert not is_own or (line["class"], line["has_id"]) == (raised, True)
    calls = 1 + RETRIES if status == 429 or status >= 500 else 1
    by_client = 1 + CLIENT_RETRIES if client == "ai-sdk" and calls > 1 else 1
    assert _Provider.calls["/v1/messages", f"{model}@{client}"] == 2 * calls * by_client
    assert _Provider.calls[COUNT, f"{model}@{client}"] == calls * is_own


def test_counts_and_models(client: str, lines: Lines) -> None:
    if client in PACKAGES_OF_ANTHROPIC:
        assert lines["text", "counted"]["result"]["tokens"] > 7
        assert lines["", "listed"]["result"]["names"] == LISTED
    if client == "python":
        assert lines["", "listed"]["result"]["request_id"]


@pytest.mark.parametrize("way", ["loop_streamed", "loop_whole"])
def test_a_tool_loop_shows_no_secret_and_goes_on(client: str, lines: Lines, way: str) -> None:
    """Both secrets are repeated in thinking, text and arguments, and are cut at every place."""
    assert leaks(json.dumps(lines["loop", way])) == []
    result = lines["loop", way]["result"]
    assert (result["content"][-1]["text"], result["stop_reason"]) == ("All done.", "end_turn")
    turns = len(SCRIPTS["loop"])
    assert _Provider.calls["/v1/messages", f"loop@{client}-{way}"] == turns
    given = [[block.name, json.loads(block.whole)] for turn in SCRIPTS["loop"] for block in turn.blocks[2:]]
    for secret in (KEY, CREDENTIAL):
        given = [[name, {"at": at["at"].replace(secret, "<redacted>")}] for name, at in given]
    assert sorted(result["executed"], key=str) == sorted(given, key=str)
    assert len(result["received"]) >= turns
    assert json.dumps(result["received"]).count("<redacted>") >= turns - 1
