"""docs/frontend.md has a row for each kind of event, and the functions of the client that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from projector.contracts.kinds import Kind

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "frontend.md").read_text(encoding="utf-8")
TABLE: Final = PAGE.partition("| kind | what a page does | reducer |\n")[2].partition("\n\n")[0]
CLIENT: Final = (ROOT / "clients" / "typescript" / "src" / "state.ts").read_text(encoding="utf-8")


def test_every_kind_has_its_row() -> None:
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", TABLE, re.MULTILINE)) == sorted(kind.value for kind in Kind)


def test_the_functions_of_the_client_exist() -> None:
    named = set(re.findall(r"`(\w+)\((?:state|part|item|item, state)\)`", PAGE))
    assert named == set(re.findall(r"^export (?:function|const) (\w+)", CLIENT, re.MULTILINE)) - {"initialState"}
