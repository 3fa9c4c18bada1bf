"""The protocol's own client reads every golden log as a stream and recognises each event."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import openwop_client as wop
import pytest

from projector.core.sse import encode_sse

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "openwop"
GOLDENS: Final = sorted(EXAMPLES.glob("*.ndjson"))

IS: Final[dict[str, Callable[[wop.RunEventDoc], bool]]] = {
    "agent.reasoned": wop.is_agent_reasoned,
    "agent.reasoning.delta": wop.is_agent_reasoning_delta,
    "agent.toolCalled": wop.is_agent_tool_called,
    "agent.toolReturned": wop.is_agent_tool_returned,
    "agent.handoff": wop.is_agent_handoff,
    "output.chunk": wop.is_output_chunk,
}
"""Type -> the client's predicate for it."""

MEMBERS: Final = ("eventId", "runId", "type", "payload", "timestamp", "sequence", "nodeId", "causationId")


class Player(BaseHTTPRequestHandler):
    """Server that answers `/v1/runs/<case>/events` with the golden of the case."""

    def do_GET(self) -> None:
        lines = (EXAMPLES / f"{self.path.split('/')[3]}.ndjson").read_bytes().splitlines()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"".join(encode_sse(line, json.loads(line)["type"]) for line in lines))

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Player) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "*")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def read(address: str, path: Path) -> list[wop.RunEventDoc]:
    return list(wop.stream_events(address, "a key", path.stem))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_the_client_reads_every_event(address: str, path: Path) -> None:
    said: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().splitlines()]
    heard = read(address, path)
    assert [[getattr(event, name) for name in MEMBERS] for event in heard] == [
        [event.get(name) for name in MEMBERS] for event in said
    ]
    taken = {name: [event.sequence for event in heard if is_it(event)] for name, is_it in IS.items()}
    assert taken == {name: [event["sequence"] for event in said if event["type"] == name] for name in IS}


def test_every_type_that_the_client_knows_is_in_some_golden(address: str) -> None:
    heard = {event.type for path in GOLDENS for event in read(address, path)}
    assert heard >= IS.keys()
