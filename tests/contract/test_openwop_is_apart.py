"""Nothing outside OpenWOP imports it, and nothing of it is loaded unless it is configured."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
CASE: Final = ROOT / "examples_ndjson" / "openai_responses" / "chat-web-search.ndjson"

PROJECT: Final = """
from projector.cli import main
assert main(["project", "--input-format", "ndjson", *{given}, {case!r}]) == 0
"""
SERVE: Final = """
from projector.server.app import create_app
from projector.server.config.settings import Settings
create_app(Settings.model_validate({given}))
"""
LOADED: Final = """
import json, sys
print(json.dumps([name for name in sys.modules if name.startswith("projector.openwop")]), file=sys.stderr)
"""

ROWS: Final = [
    ("project", PROJECT, "[]", set[str]()),
    (
        "project --dialect openwop",
        PROJECT,
        '["--dialect", "openwop"]',
        {"content", "event_log", "log_state", "writer"},
    ),
    ("a server without the table", SERVE, "{}", set[str]()),
    (
        "a server with the table",
        SERVE,
        '{"openwop": {}}',
        {"event_log", "events", "host", "mock_nodes", "runs", "settings"},
    ),
]


@pytest.mark.parametrize(("name", "program", "given", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_openwop_is_loaded_only_if_it_is_configured(name: str, program: str, given: str, expected: set[str]) -> None:
    del name
    source = program.format(given=given, case=str(CASE)) + LOADED
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = json.loads(done.stderr.splitlines()[-1])
    parts = {name.split(".")[2] for name in loaded if name.count(".") > 1}
    assert bool(loaded) == bool(expected)
    assert parts == expected if program == PROJECT else parts >= expected


def test_the_contract_of_the_linter_names_every_other_module() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [one for one in linter["contracts"] if one.get("forbidden_modules") == ["projector.openwop"]]
    modules = {path.stem for path in (ROOT / "projector").iterdir() if path.suffix == ".py" or path.is_dir()}
    others = modules - {"__init__", "__pycache__", "openwop"}
    assert set(contract["source_modules"]) == {f"projector.{name}" for name in others}
