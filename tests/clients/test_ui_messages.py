"""The AI SDK of each version builds a message from every example and recorded stream, whole and without a violation.

Its transport validates each chunk against its schemas; its reader fails for a chunk that does not fit the message.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from projector.contracts.stream_rules.table import check_lines
from projector.core.sse import DONE, encode_sse
from projector.dialects.descriptor import DialectOptions
from tests.clients.ag_ui_streams import CORPUS_SOURCES, GOLDEN, Source, output_of, play
from tests.protocols.ai_sdk.checker import AiSdkChecker

pytestmark = pytest.mark.node

LEVELS: Final = (5, 6, 7)


def lines_of(source: Source, level: int) -> list[bytes]:
    """Return the data of each message of a stream; each is projected once."""
    if (source.name, level) not in _LINES:
        _LINES[source.name, level] = output_of(source, "ai_sdk", DialectOptions(level=level)).splitlines()
    return _LINES[source.name, level]


_LINES: Final[dict[tuple[str, int], list[bytes]]] = {}


def read(sources: list[Source], node_modules: Path) -> list[tuple[Source, dict[str, Any]]]:
    """Return what each version reads of each stream."""
    asked = [(source, level) for source in sources for level in LEVELS]
    bodies = [b"".join(map(encode_sse, lines_of(source, level))).decode() for source, level in asked]
    given = "\n".join(
        json.dumps({"name": source.name, "level": level, "body": body})
        for (source, level), body in zip(asked, bodies, strict=True)
    )
    command = ["node", "ui-messages.mjs"]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, cwd=node_modules, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(found) == len(asked)
    return [(source, reading) for (source, _), reading in zip(asked, found, strict=True)]


def assert_whole(source: Source, reading: dict[str, Any]) -> None:
    """Check that the message has the text of the public stream, and that nothing in it is left open."""
    place = f"{source.name}, version {reading['level']}"
    terminal = play(source, "public_sse_v1")[-1]
    chunks = [json.loads(line) for line in lines_of(source, reading["level"]) if line != DONE]
    errors = [chunk["errorText"] for chunk in chunks if chunk["type"] == "error"]
    assert reading["errors"] == errors, place
    assert reading["last"] == chunks[-1]["type"], place
    assert reading["message"]["id"] == terminal["stream_id"], place
    parts = reading["message"]["parts"]
    assert [part for part in parts if part.get("state") in {"streaming", "input-streaming"}] == [], place
    if terminal["kind"] == "final":
        shown = "".join(part["text"] for part in parts if part["type"] == "text")
        for member in ("response_text", "refusal_text"):
            assert without_blanks(terminal["final"].get(member, "")) in without_blanks(shown), place


def without_blanks(text: str) -> str:
    return "".join(text.split())


@pytest.fixture(scope="module")
def golden_readings(node_modules: Path) -> list[tuple[Source, dict[str, Any]]]:
    return read(GOLDEN, node_modules)


def test_every_version_reads_every_example(golden_readings: list[tuple[Source, dict[str, Any]]]) -> None:
    for source, reading in golden_readings:
        assert_whole(source, reading)


@pytest.mark.usefixtures("corpus")
def test_every_version_reads_every_recording(node_modules: Path) -> None:
    for source in CORPUS_SOURCES:
        assert check_lines(AiSdkChecker(), lines_of(source, LEVELS[-1])) == [], source.name
    for source, reading in read(CORPUS_SOURCES, node_modules):
        assert_whole(source, reading)
