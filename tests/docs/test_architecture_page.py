"""The map of the house has every room, each once, and no room that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SHELL: Final = "projector/server/"
PACKAGES: Final = ("contracts/", "redaction/", "projector/", SHELL)


def rooms() -> list[str]:
    """Give the paths of the first columns; what follows in a row stands in the folder of its first."""
    found: list[str] = []
    for section in PAGE.partition("## Rooms")[2].partition("\nWho may import")[0].split("\n### "):
        above = SHELL if "room in `projector/server/`" in section else ""
        for cell in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE):
            first, *others = re.findall(r"`([^`]+)`", cell)
            folder = above + first[: first.rstrip("/").rfind("/") + 1]
            found += [above + first, *(folder + other for other in others)]
    return found


def parts(package: str) -> set[str]:
    """Give the modules and folders that stand in a package, but for its own file and what marks it as typed."""
    names = {path.name + "/" * path.is_dir() for path in (ROOT / package).iterdir()}
    return {package + name for name in names - {"__init__.py", "py.typed", "__pycache__/"}}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_part_has_its_place(package: str) -> None:
    expected = parts(package) - {SHELL}
    assert expected
    assert expected <= set(rooms())


def test_every_room_is_there_once() -> None:
    found = rooms()
    assert sorted(found) == sorted(set(found))
    assert [room for room in found if not (ROOT / room).exists()] == []


def test_a_module_says_what_belongs_there() -> None:
    """So that the map need not."""
    modules = [path for package in PACKAGES for path in (ROOT / package).glob("*.py") if path.stat().st_size]
    assert [path.name for path in modules if not path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))] == []
