from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

from projector.asgi.configuration import PREFIX, fields, members, variables
from projector.asgi.metrics import Metrics
from projector.asgi.problems import PROBLEMS
from projector.asgi.settings import Limits, Settings
from projector.asgi.streams import Streams
from projector.faults import FAULTS
from redaction.policy import Policy

SHELL = Path(__file__).parents[2] / "projector" / "asgi"
PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
ROWS = {line.split("|")[1].strip().strip("`"): line for line in PAGE.splitlines() if line.startswith("| `")}


def test_every_code_has_its_row() -> None:
    assert {*PROBLEMS, *FAULTS} <= ROWS.keys()


def test_every_problem_is_said_with_its_status() -> None:
    for code, row in PROBLEMS.items():
        assert f"| {row.status.value} |" in ROWS[code]


def test_every_setting_has_its_row_and_no_other() -> None:
    assert {name for name in ROWS if name.startswith("PROJECTOR_")} == set(variables())


def test_every_default_is_the_true_one() -> None:
    for path in fields():
        kind: Any = Settings
        about: Any = None
        for part in path:
            tables = [one for one in (kind, *get_args(kind)) if hasattr(one, "model_fields")]  # a table, or None
            about = None if part == "<name>" else tables[0].model_fields[part]
            kind = members(kind)[part]
        name = PREFIX + "__".join(path).upper()
        said = re.split(r"\s*\|\s*", ROWS[name])[2]
        assert said == _written(about), name


def _written(about: Any) -> str:
    if about.is_required():
        return "required"
    if isinstance(about.default, tuple | frozenset):
        return ", ".join(sorted(about.default)) or "none"
    if isinstance(about.default, Policy):
        return "the contract's"
    return str(about.default) if about.default not in ({}, None) else "none"


def test_every_line_of_the_log_has_its_row() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in SHELL.glob("*.py"))
    said = set(re.findall(r"log\.(?:info|warning|error)\(\s*\"(\w+)\"", code)) | {"library"}
    assert len(said) > 5
    assert said <= ROWS.keys()


def test_every_metric_has_its_row() -> None:
    text = Metrics(Streams(Limits())).text().decode()
    named = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    assert {name for name, _ in named if not name.endswith("_created")} <= ROWS.keys()
    spoken = re.findall(r"\"(gen_ai\.client[a-z._]+)\"", (SHELL / "telemetry.py").read_text(encoding="utf-8"))
    assert set(spoken) == set(re.findall(r"`(gen_ai\.client[a-z._]+)`", PAGE))
