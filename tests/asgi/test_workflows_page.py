"""The examples of docs/workflows.md, run unchanged against the built-in provider."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from projector.contracts.stream_rules import check_stream
from projector.server.config.loading import load
from projector.workflows.template import REQUEST_MESSAGE, STEP_FIELDS
from tests.asgi.conftest import plays

PAGE = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text(encoding="utf-8")
(CONFIG,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
HEADLESS, BRANCHES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ENVIRON = {"OPENAI_API_KEY": "sk-test"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "projector.toml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


def run(example: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(example, "docs/workflows.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names


def test_the_configuration(config: Path) -> None:
    settings = load(ENVIRON, config=config)
    assert settings.workflows["ferry_review"].definition.agents == ["auditor", "planner", "writer"]


async def test_the_run_without_http(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    upstream: Any,
    upstream_port: int,
    text_events: Any,
) -> None:
    await upstream(plays(text_events))
    config = CONFIG.replace(
        "[upstreams.openai]", f'[upstreams.openai]\nbase_url = "http://localhost:{upstream_port}/v1"'
    )
    (tmp_path / "projector.toml").write_text(config, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    await run(HEADLESS)["review"]()
    lines = capsys.readouterr().out.encode().splitlines()
    assert check_stream(lines) == []
    frames = [json.loads(line) for line in lines]
    assert frames[-1]["final"]["status"] == "completed"
    steps = {frame["workflow"].get("step_name") for frame in frames}
    assert steps == {"costs", "shifts", "conclusion", None}
    branches = {(frame["workflow"]["step_name"], frame["workflow"].get("branch_index")) for frame in frames[:-1]}
    assert branches == {("costs", 0), ("shifts", 1), ("conclusion", None)}


def test_the_branches() -> None:
    lines = run(BRANCHES)["output"].splitlines()
    assert check_stream(lines) == []
    assert json.loads(lines[-1])["final"] == {"status": "completed", "response_text": "Hello\n\nHello"}


def test_the_names_are_those_of_the_code() -> None:
    assert re.findall(r"^- `\{\{(.*?)\}\}`", PAGE, re.MULTILINE) == [
        REQUEST_MESSAGE,
        *(f"steps.NAME.{asked}" for asked in STEP_FIELDS),
    ]
