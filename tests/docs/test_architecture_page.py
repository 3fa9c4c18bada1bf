"""The lists of docs/architecture.md name every part once, and none that does not exist; modules describe themselves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from projector.core.lifecycle import Phase, Signal
from projector.dialects import DIALECTS

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLES: Final = dict(re.findall(r"^In `(\S+)`:\n\n((?:- .*\n)+)", PAGE, re.MULTILINE))
"""Folder -> the rows of its list."""


def names_of(rows: str) -> list[str]:
    """Return the names before the colon of each row."""
    return [name for row in rows.splitlines() for name in re.findall(r"`([^`]+)`", row.partition(": ")[0])]


def parts_of(folder: Path) -> set[str]:
    """Return modules and folders, without `__init__.py` and what is no source."""
    names = {path.name + "/" * path.is_dir() for path in folder.iterdir()}
    return names - {"__init__.py", "py.typed", "__pycache__/"}


def test_there_are_tables() -> None:
    assert "projector/" in TABLES


@pytest.mark.parametrize("folder", TABLES)
def test_every_part_has_one_row(folder: str) -> None:
    assert sorted(names_of(TABLES[folder])) == sorted(parts_of(ROOT / folder))


def test_the_names_in_the_picture_exist() -> None:
    picture = PAGE.split("```")[1]
    names = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b|\bCleaned\b|\bFrame\b|\bFault\b", picture))
    assert {"SseDecoder", "CanonicalEvent", "PublicStreamProjector", "Cleaned", "WireEvent"} <= names
    core = [path for folder in ("core", "redaction") for path in (ROOT / "projector" / folder).rglob("*.py")]
    source = "\n".join(path.read_text(encoding="utf-8") for path in core)
    assert {
        name for name in names if not re.search(rf"^(?:class {name}\b|{name}: TypeAlias)", source, re.MULTILINE)
    } == set()


def test_the_picture_of_the_readme_has_every_dialect() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("```")[1]
    assert set(DIALECTS) <= set(re.findall(r"\w+", readme))


def test_the_order_of_imports_is_the_one_that_is_checked() -> None:
    (sentence,) = re.findall(r"^Imports go one way: `([^`]+)`", PAGE, re.MULTILINE)
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = tool["contracts"][0]["layers"]

    def last(name: str) -> int:
        """Return the last layer with a part of a package."""
        return max(at for at, layer in enumerate(layers) if re.search(rf"\bprojector\.{re.escape(name)}\b", layer))

    places = [last(name) for name in re.split(r" > | \| ", sentence)]
    assert places == sorted(places)


def test_the_lifecycle_has_as_many_phases_and_signals() -> None:
    assert f"four phases ({', '.join(phase.name for phase in Phase)}) and eleven signals" in PAGE
    assert (len(Phase), len(Signal)) == (4, 11)


def test_each_module_states_what_belongs_in_it() -> None:
    modules = [path for path in (ROOT / "projector").rglob("*.py") if path.stat().st_size]
    assert [path for path in modules if not path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))] == []
