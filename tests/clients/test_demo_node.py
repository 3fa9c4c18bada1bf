"""The npm package `openai` with the demo: what a newcomer sees who only changes the base URL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.conftest import running

pytestmark = pytest.mark.node

CHAT: Final = {
    "text": {"status": "stop", "text": "Tides follow the moon, with a delay of about 50 minutes a day."},
    "search": {"status": "stop", "text": "A comet is visible tonight."},
    "error": {"error": "Tool call validation failed: missing property 'name'"},
    "loop": {"text": "It is 4 °C in Oslo at 13:05.", "turns": 2},
}
RESPONSES: Final = {
    "text": {"status": "completed", "items": ["message"]},
    "search": {"status": "completed", "items": ["reasoning", "web_search_call", "message"]},
    "loop": {"text": "The next boats leave at 14:10 and 14:35.", "turns": 2},
}


@pytest.fixture(scope="module")
def shown(node_modules: Path) -> dict[str, Any]:
    with running([sys.executable, "-m", "projector", "demo", "--port", "0"]) as url:
        command = ["node", "demo-client.mjs", f"{url}/v1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=node_modules, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", CHAT)
def test_chat_completions(shown: dict[str, Any], name: str) -> None:
    assert shown["chat"][name] == CHAT[name]


@pytest.mark.parametrize("name", RESPONSES)
def test_responses(shown: dict[str, Any], name: str) -> None:
    assert shown["responses"][name] | RESPONSES[name] == shown["responses"][name]


def test_an_error_of_the_demo_raises(shown: dict[str, Any]) -> None:
    assert shown["responses"]["error"].keys() == {"error"}


def test_the_models(shown: dict[str, Any]) -> None:
    assert (shown["models"], shown["model"]) == (["demo"], "demo")
