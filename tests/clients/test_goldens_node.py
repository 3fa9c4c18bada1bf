"""Strict readers of the npm clients read every golden of the OpenAI dialects: accumulators, and schemas for each event.

They must receive what the answer in one piece contains.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from projector.core.sse import DONE, encode_sse
from projector.dialects import DIALECTS
from projector.dialects.descriptor import JsonAnswer

pytestmark = pytest.mark.node

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
APIS: Final = {"responses": "responses", "chat": "chat_completions"}
"""API -> dialect."""
GOLDENS: Final = [(api, path.stem) for api, dialect in APIS.items() for path in sorted((EXAMPLES / dialect).glob("*"))]


@cache
def lines(dialect: str, name: str) -> list[bytes]:
    return (EXAMPLES / dialect / f"{name}.ndjson").read_bytes().splitlines()


def answer(dialect: str, name: str) -> JsonAnswer:
    """Return the answer in one piece."""
    described = DIALECTS[dialect].assembler
    assert described is not None
    assembly = described.start()
    for line in lines(dialect, name):
        if line != DONE:
            assembly.feed(line)
    return assembly.close()


class Replay(BaseHTTPRequestHandler):
    """Answers `/DIALECT/NAME/...` with a golden as an event stream."""

    timeout = 10

    def do_POST(self) -> None:
        dialect, name = self.path.split("/")[1:3]
        self.rfile.read(int(self.headers["content-length"]))
        body = b"".join(encode_sse(line, type_of(line)) for line in lines(dialect, name))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def type_of(line: bytes) -> str | None:
    """Return the name of an SSE event; those of Chat Completions have none."""
    return json.loads(line).get("type") if line != DONE else None


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replay)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def readings(base: str, node_modules: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what each reader reads, by API and name, from one process for each API."""
    found = {}
    for api, dialect in APIS.items():
        command = ["node", "golden-streams.mjs", api, f"{base}/{dialect}"]
        names = "\n".join(name for of, name in GOLDENS if of == api)
        done = subprocess.run(
            command, input=names, capture_output=True, text=True, check=False, cwd=node_modules, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        read = [json.loads(line) for line in done.stdout.split("\n") if line]
        found.update({(api, it["name"]): it["readings"] for it in read})
    return found


@pytest.mark.parametrize(("api", "name"), GOLDENS)
def test_every_reader_receives_the_answer(readings: dict[tuple[str, str], dict[str, Any]], api: str, name: str) -> None:
    expected = answer(APIS[api], name)
    for reader, reading in readings[api, name].items():
        if expected.status != 200:
            assert expected.body["error"]["message"] in reading["error"], reader
        else:
            wanted = content_of[api](expected.body)
            shown = {"text": wanted["text"] + wanted["refusal"]} if "refusal" not in reading else wanted
            assert {**reading, **shown} == reading, reader
            assert not reading.get("unended"), reader


def of_response(body: dict[str, Any]) -> dict[str, Any]:
    """Return text, refusal and calls of a response."""
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    return {
        "text": "".join(part.get("text", "") for part in parts),
        "refusal": "".join(part.get("refusal", "") for part in parts),
        "calls": [[call["call_id"], call["name"], call["arguments"]] for call in calls],
    }


def of_completion(body: dict[str, Any]) -> dict[str, Any]:
    """Return text, refusal and calls of a completion. A stream has calls of custom tools as functions, too."""
    message = body["choices"][0]["message"]
    calls = [(call["id"], *call[call["type"]].values()) for call in message.get("tool_calls") or []]
    return {
        "text": message["content"] or "",
        "refusal": message["refusal"] or "",
        "calls": [[*call] for call in calls],
    }


content_of: Final = {"responses": of_response, "chat": of_completion}
