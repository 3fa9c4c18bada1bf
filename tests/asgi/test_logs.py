"""The log of the server: what it contains, and that it neither blocks nor fails anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import structlog

from projector.server import Terminal
from projector.server.telemetry import logs
from projector.server.telemetry.logs import LogWriter, configure_logs, lost_lines
from projector.server.telemetry.reports import Observer
from projector.server.telemetry.stream_stats import StreamStats
from tests.asgi.conftest import plays
from tests.asgi.process import SERVE, running

PIPE_BYTES = 65_536
LINE = "x" * 99 + "\n"


class Pipe:
    """A pipe as the file of a log."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.written = b""

    def read_all(self) -> None:
        """Read until the write end is closed."""
        while part := os.read(self.read_end, PIPE_BYTES):
            self.written += part

    def close(self) -> None:
        """Close the write end."""
        os.close(self.write_end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    found = Pipe()
    yield found
    for end in (found.read_end, found.write_end):
        with contextlib.suppress(OSError):
            os.close(end)


@pytest.fixture
def configured(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogWriter]:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    before = structlog.get_config()
    writer = configure_logs(pipe.write_end)
    monkeypatch.setattr(logs.log, "_logger", structlog.get_logger())  # it keeps the configuration of its first use
    yield writer
    writer.close()
    structlog.configure(**before)


def test_libraries_are_logged_without_their_arguments(configured: LogWriter, pipe: Pipe) -> None:
    try:
        {}["payload"]
    except KeyError:
        logging.getLogger("library").exception("it failed: %s", "payload")
    configured.close()
    pipe.close()
    pipe.read_all()
    line = json.loads(pipe.written)
    assert (line["event"], line["logger"], line["error_type"]) == ("library", "library", "KeyError")
    assert b"payload" not in pipe.written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", b'"plain"'),
        (7, b"7"),
        ("caf\u00e9", b'"caf\\u00e9"'),
        ("\x1b[2J", b'"\\u001b[2J"'),
        ("\x9b2J", b'"\\u009b2J"'),
        ("\ud800", b'"\\ud800"'),
        ({1}, b'"{1}"'),
    ],
    ids=["ASCII", "number", "not ASCII", "control character", "C1 control character", "lone surrogate", "not JSON"],
)
def test_a_line_is_ascii(configured: LogWriter, pipe: Pipe, value: object, written: bytes) -> None:
    logs.log.info("tested", value=value)
    configured.close()
    pipe.close()
    pipe.read_all()
    assert json.loads(pipe.written)["event"] == "tested"
    assert written in pipe.written.replace(b": ", b":")
    assert pipe.written.isascii()


def test_what_the_server_reports_itself_is_logged_once(configured: LogWriter, pipe: Pipe) -> None:
    """uvicorn has a warning for bytes that are no request; `malformed_http` reports them."""
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").warning("Another warning.")
    configured.close()
    pipe.close()
    pipe.read_all()
    assert json.loads(pipe.written)["message"] == "Another warning."


def test_a_pipe_that_is_not_read_delays_nothing_and_losses_are_counted_and_reported(pipe: Pipe) -> None:
    reported: list[int] = []
    os.write(pipe.write_end, LINE.encode() * (PIPE_BYTES // len(LINE)))  # it is full
    writer = LogWriter(reported.append, pipe.write_end, max_lines=100)
    for _ in range(500):
        writer.write(LINE)
    lost = writer.lost
    assert lost > 0
    assert reported == []
    reading = threading.Thread(target=pipe.read_all)
    reading.start()
    writer.close(60)
    pipe.close()
    reading.join()
    assert reported == [lost]
    assert pipe.written.count(LINE.encode()) == PIPE_BYTES // len(LINE) + 500 - lost


def test_a_closed_pipe_loses_lines_without_an_error(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    reported: list[int] = []
    writer = LogWriter(reported.append, pipe.write_end)
    for _ in range(3):
        writer.write(LINE)
    writer.close()
    assert (writer.lost, reported) == (3, [])


async def test_a_failing_logger_of_the_host_changes_nothing() -> None:
    def fail(*_: object) -> Any:
        raise OSError

    ended: list[Terminal] = []
    before, lost = structlog.get_config(), lost_lines()
    structlog.configure(processors=[fail])
    try:
        stats = StreamStats(stream_id="stream_1", request_id="req_1", dialect="public_sse_v1")
        stats.on_frame({"kind": "final", "event_id": 1, "final": {"status": "completed", "response_text": "a"}})
        await Observer(on_terminal=ended.append).report(stats)
    finally:
        structlog.configure(**before)
    assert [one.outcome for one in ended] == ["completed"]
    assert lost_lines() == lost + 1


UNREAD = "import os; ends = os.pipe(); os.dup2(ends[1], 2); "
CLOSED = UNREAD + "os.close(ends[0]); "
N_STREAMS = 150
"""About 110 lines fill a pipe."""


@pytest.mark.parametrize("prepare", [pytest.param(UNREAD, id="not-read"), pytest.param(CLOSED, id="closed")])
async def test_a_server_outlives_its_log(
    upstream: Any, upstream_port: int, text_events: Sequence[bytes], prepare: str
) -> None:
    await upstream(plays(text_events))
    environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{upstream_port}/v1", "OPENAI_API_KEY": "sk-test"}
    async with running(prepare + SERVE, 1, **environ) as server:
        for _ in range(N_STREAMS):
            answer = await asyncio.wait_for((await server.stream()).read(), 60)
            assert answer.count(b'"kind":"final"') == 1
        assert "projector_log_lines_lost_total" in await server.get("/metrics")
        server.stop()
        assert await server.exit_code() == 0
