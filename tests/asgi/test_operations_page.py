from __future__ import annotations

import re
from pathlib import Path

from projector.asgi.problems import PROBLEMS
from projector.asgi.settings import Settings, variables
from projector.faults import FAULTS

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
    for name in variables():
        value: object = Settings()
        for field in name.removeprefix("PROJECTOR_").lower().split("__"):
            value = getattr(value, field)
        said = re.split(r"\s*\|\s*", ROWS[name])[2]
        assert said == ("none" if value is None else str(value)), name
