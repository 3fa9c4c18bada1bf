"""docs/frontend.md and docs/frontend-events.md have each kind of event, and code of the client that exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from projector.contracts.kinds import Kind
from tests.clients import frontend_events

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "frontend.md").read_text(encoding="utf-8")
TABLE: Final = PAGE.partition("| kind | what a page does | reducer |\n")[2].partition("\n\n")[0]
CLIENT: Final = (ROOT / "clients" / "typescript" / "src" / "state.ts").read_text(encoding="utf-8")


def test_every_kind_has_its_row() -> None:
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", TABLE, re.MULTILINE)) == sorted(kind.value for kind in Kind)


def test_the_functions_of_the_client_exist() -> None:
    named = set(re.findall(r"`(\w+)\((?:state|part|item|item, state)\)`", PAGE))
    assert named == set(re.findall(r"^export (?:function|const) (\w+)", CLIENT, re.MULTILINE)) - {"initialState"}


def test_the_copied_code_is_fresh() -> None:
    page = frontend_events.PAGE.read_text(encoding="utf-8")
    assert frontend_events.printed(page) == page, "run `make docs`"


@pytest.mark.parametrize("writer", ["sample", "reducer"])
def test_every_kind_has_its_code(writer: str) -> None:
    page = frontend_events.PAGE.read_text(encoding="utf-8")
    copied = re.findall(rf"^<!-- copied: {writer} (.+) -->$", page, re.MULTILINE)
    assert sorted(kind for kinds in copied for kind in kinds.split()) == sorted(kind.value for kind in Kind)


def test_every_component_is_shown() -> None:
    page = frontend_events.PAGE.read_text(encoding="utf-8")
    sections = re.findall(r"^// section: (\w+)$", frontend_events.ANSWER, re.MULTILINE)
    assert re.findall(r"^<!-- copied: rendering (\w+) -->$", page, re.MULTILINE) == sections
