"""The packed TypeScript client with a real server: it resumes, cancels, and serves the AI SDK."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.clients.conftest import running
from tests.clients.typescript_client import InstalledClient

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def read(client: InstalledClient) -> dict[str, Any]:
    """Return what the client reads of a demo server."""
    demo = [sys.executable, "-m", "projector", "demo", "--port", "0"]
    with running(demo) as url, running(demo, PROJECTOR_DEMO_PACE_S="2") as slow:
        (line,) = client.run("live.mjs", url, slow)
    found: dict[str, Any] = line
    return found


def test_an_answer(read: dict[str, Any]) -> None:
    assert read["answer"]["status"] == "completed"
    assert read["answer"]["text"].startswith("The strike ended on Sunday")


def test_lost_connections_lose_and_repeat_nothing(read: dict[str, Any]) -> None:
    assert read["lost"] == read["answer"]
    assert read["lost"]["ids"] == list(range(1, len(read["lost"]["ids"]) + 1))


def test_a_cancelled_stream_ends_by_itself(read: dict[str, Any]) -> None:
    assert read["cancelled"]["status"] == "cancelled"


def test_a_chat_of_the_ai_sdk_goes_on_after_a_reload(read: dict[str, Any]) -> None:
    assert [part for part in read["parts"] if not part.startswith("data-")][-1] == "text"
    assert "reasoning" in read["parts"]
    assert read["nothing"] is None
