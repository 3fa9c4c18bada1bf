"""Goldens as a provider would send them, over loopback HTTP, and what their public stream contains."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Final, NamedTuple

from projector.core.sse import DONE, encode_sse
from tests.json_answers import assemble

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"

STATUSES: Final = {"refused": "completed", "cancelled": "incomplete"}
"""End status of the public stream -> its name in Open Responses, if different."""


class Said(NamedTuple):
    """Result of a stream."""

    text: str
    refusal: str
    summary: str
    calls: list[tuple[str, str, str]]
    """Call id, name and arguments of functions, in the order in which the calls end."""
    status: str
    usage: dict[str, int] | None
    error: str | None


@cache
def golden(dialect: str, name: str) -> list[bytes]:
    return (EXAMPLES / dialect / f"{name}.ndjson").read_bytes().splitlines()


@cache
def public(name: str) -> Said:
    """Read the public stream."""
    frames = [json.loads(line) for line in golden("public_sse_v1", name)]
    announced = [frame["item_id"] for frame in frames if frame["kind"] == "output_item.added"]
    by_item = sorted((frame for frame in frames if "delta" in frame), key=lambda it: announced.index(it["item_id"]))
    text, refusal, summary = (
        "".join(frame["delta"] for frame in by_item if frame["kind"] == kind)
        for kind in ("message.delta", "refusal.delta", "reasoning_summary.delta")
    )
    calls: dict[str, list[str]] = {}
    ended: list[tuple[str, str, str]] = []
    for frame in frames:
        item_id = frame.get("item_id", "")
        if frame["kind"] == "tool.status" and frame["tool"]["tool_type"] == "function":
            calls.setdefault(item_id, [frame["tool"]["tool_call_id"], frame["tool"]["name"], ""])
        elif frame["kind"] == "tool.arguments.delta" and item_id in calls:
            calls[item_id][2] += frame["delta"]
        elif frame["kind"] == "tool.arguments.done" and item_id in calls:
            calls[item_id][1:] = frame["tool_name"], frame["arguments_text"]
        elif frame["kind"] == "output_item.done" and frame["item_type"] == "function_call":
            call_id, call_name, arguments = calls[item_id]
            ended.append((call_id, call_name, arguments))
    final, error = frames[-1].get("final", {}), frames[-1].get("error")
    status = "failed" if error else STATUSES.get(final["status"], final["status"])
    return Said(text, refusal, summary, ended, status, final.get("usage"), error["code"] if error else None)


class Replay(BaseHTTPRequestHandler):
    """Answers `/streams/NAME/...` with a golden as an event stream, `/answers/NAME/...` with its JSON answer."""

    timeout = 60
    dialect: ClassVar[str]
    content_types: ClassVar = {"streams": "text/event-stream; charset=utf-8", "answers": "application/json"}

    def do_POST(self) -> None:
        kind, name = self.path.strip("/").split("/")[:2]
        self.rfile.read(int(self.headers["content-length"]))
        status, body = 200, sse(self.dialect, name)
        if kind == "answers":
            answer = assemble(golden(self.dialect, name), self.dialect)
            status, body = answer.status, json.dumps(answer.body).encode()
        self.send_response(status)
        self.send_header("content-type", self.content_types[kind])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def sse(dialect: str, name: str) -> bytes:
    """Return a golden as the pipeline sends it."""
    lines = golden(dialect, name)
    return b"".join(encode_sse(line, None if line == DONE else json.loads(line).get("type")) for line in lines)


@contextmanager
def serving(dialect: str) -> Iterator[str]:
    """Serve the goldens of a dialect at the address that is returned."""
    handler = type("Handler", (Replay,), {"dialect": dialect})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def readings(node_modules: Path, api: str, dialect: str) -> dict[str, dict[str, Any]]:
    """Return what the npm clients of an API read of every golden of a dialect: name -> reader -> its readings."""
    names = "\n".join(path.stem for path in sorted((EXAMPLES / dialect).glob("*.ndjson")))
    with serving(dialect) as base:
        done = subprocess.run(
            ["node", "golden-streams.mjs", api, base],  # noqa: S607 - any node
            input=names,
            capture_output=True,
            text=True,
            check=False,
            cwd=node_modules,
            timeout=280,
        )
    assert (done.returncode, done.stderr) == (0, "")
    return {read["name"]: read["readings"] for read in map(json.loads, done.stdout.strip().split("\n"))}
