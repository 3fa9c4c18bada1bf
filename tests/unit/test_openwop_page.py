"""The page of the events of OpenWOP: its numbers and names are correct, and its commands work."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from projector import cli
from projector.openwop.content import BLOCK_MAX_CHARS, WAITING_MAX_CHARS
from projector.openwop.event_log import SUMMARY_MAX_TOKENS
from projector.openwop.workflows import AGENT_NODE_ID
from projector.openwop.writer import NODE_ID

ROOT: Final = Path(__file__).parents[2]
EVENTS: Final = (ROOT / "contracts" / "openwop" / "README.md").read_text(encoding="utf-8")


def test_numbers_and_names_of_the_page_of_events() -> None:
    assert f"ends at {BLOCK_MAX_CHARS['summary']:,} characters ({SUMMARY_MAX_TOKENS} tokens)" in EVENTS
    assert f"up to {WAITING_MAX_CHARS:,} characters in a run" in EVENTS
    assert f"the node `{NODE_ID}`, on the host the node `{AGENT_NODE_ID}`" in EVENTS
    assert "`host:model:<node>`" in EVENTS


def test_the_commands_of_the_page_work(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    source = ROOT / "examples_ndjson" / "openai_responses" / "chat-web-search.ndjson"
    assert cli.main(["project", "--dialect", "openwop", "--in", "ndjson", str(source)]) == 0
    log = tmp_path / "log.ndjson"
    log.write_bytes(capfdbinary.readouterr().out)
    assert cli.main(["validate", "--dialect", "openwop", str(log)]) == 0
    assert capfdbinary.readouterr().out == b""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    assert cli.main(["validate", "--dialect", "openwop", str(log)]) == 1
    rules = capfdbinary.readouterr().out.decode()
    assert f"{log}:1: event 1 sequence (spec): expected 0, found 1\n" in rules
    assert "run_started (project)" in rules


def test_a_stream_of_sse_is_checked_too(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    source = ROOT / "examples_ndjson" / "openai_responses" / "chat-function-tool.ndjson"
    arguments = ["--dialect", "openwop", "--in", "ndjson", "--out", "sse", "--run", "--host-events"]
    assert cli.main(["project", *arguments, str(source)]) == 0
    stream = tmp_path / "log.sse"
    stream.write_bytes(capfdbinary.readouterr().out)
    assert stream.read_bytes().startswith(b"event: run.started\ndata: {")
    assert cli.main(["validate", "--dialect", "openwop", str(stream)]) == 0
