"""The tables of docs/architecture.md name every folder and module once, and none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLES: Final = dict(re.findall(r"^\| in `(\S+)` \| content \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE))
"""Folder -> the rows of its table."""


def names_of(rows: str) -> list[str]:
    """Return the names in the first column."""
    return [name for row in rows.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def parts_of(folder: Path) -> set[str]:
    """Return modules and folders, without `__init__.py` and what is no source."""
    names = {path.name + "/" * path.is_dir() for path in folder.iterdir()}
    return names - {"__init__.py", "py.typed", "__pycache__/"}


def test_there_are_tables() -> None:
    assert {"projector/", "projector/core/", "projector/server/"} <= TABLES.keys()


@pytest.mark.parametrize("folder", TABLES)
def test_every_part_has_one_row(folder: str) -> None:
    assert sorted(names_of(TABLES[folder])) == sorted(parts_of(ROOT / folder))


def test_each_module_states_what_belongs_in_it() -> None:
    modules = [path for path in (ROOT / "projector").rglob("*.py") if path.stat().st_size]
    assert [path for path in modules if not path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))] == []
