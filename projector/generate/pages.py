"""Pages whose tables and samples are generated: each block between two markers is written anew.

    <!-- generated: NAME ARGUMENT ... -->
    <!-- end -->

`WRITERS` has the names. All other text of a page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from projector.generate.dialect_tables import descriptor_table, dropped_table
from projector.generate.member_tables import members_table
from projector.generate.rule_tables import codes_table, limits_table, rules_line
from projector.generate.samples import sample_block, stream_block

PAGES: Final = "contracts/*/README.md"
_BLOCK: Final = re.compile(r"(?<=^<!-- generated: )([^\n]+)( -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)


def event_block(model: str, kind: str) -> list[str]:
    """Return the table of the members of a kind, and its sample."""
    return [*members_table(model), "", *sample_block(kind)]


WRITERS: Final[Mapping[str, Callable[..., list[str]]]] = {
    "members": members_table,
    "rules": rules_line,
    "limits": limits_table,
    "codes": codes_table,
    "event": event_block,
    "sample": sample_block,
    "stream": stream_block,
    "descriptor": descriptor_table,
    "dropped": dropped_table,
}
"""Name of a block -> function that returns its lines; it is called with the words after the name."""


def pages(root: Path) -> dict[Path, bytes]:
    """Return each page below `root` with its blocks up to date, by its path from there."""
    found = sorted(root.glob(PAGES))
    return {path.relative_to(root): page(path.read_text(encoding="utf-8")).encode() for path in found}


def page(text: str) -> str:
    """Return a page with its blocks up to date. Raises `KeyError` for an unknown name."""
    return _BLOCK.sub(_block, text)


def _block(found: re.Match[str]) -> str:
    name, *arguments = found[1].split()
    return "\n".join([f"{found[1]}{found[2]}", *WRITERS[name](*arguments), "", ""])
