"""The fenced blocks of the pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "contracts").rglob("*.md"), ROOT / "SECURITY.md"]
)
SHELL: Final = frozenset({"sh", "console"})
_BLOCK: Final = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block; its number counts the blocks of a page in its language, both kinds of shell together."""

    page: str
    language: str
    number: int
    text: str


def _blocks_of(page: Path) -> list[Block]:
    name, counts, found = page.relative_to(ROOT).as_posix(), dict[str, int](), list[Block]()
    for _, language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        kind = "shell" if language in SHELL else language
        counts[kind] = counts.get(kind, 0) + 1
        found.append(Block(name, language, counts[kind], text))
    return found


BLOCKS: Final = [block for page in PAGES for block in _blocks_of(page)]


class Command(NamedTuple):
    """One command of a shell block, and the lines that it prints according to the page."""

    text: str
    printed: tuple[str, ...]


def commands(block: Block) -> list[Command]:
    """Return the commands of a shell block: in `console` they follow `$`, in `sh` each line is one."""
    found: list[Command] = []
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    for line in filter(None, lines):
        if block.language == "console" and not line.startswith("$ "):
            found[-1] = found[-1]._replace(printed=(*found[-1].printed, line))
        elif text := re.sub(r"(^|\s+)# .*$", "", line.removeprefix("$ ")):
            found.append(Command(text, ()))
    return found
