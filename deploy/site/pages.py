"""The pages of the documentation site: copies of the Markdown files, with their folders, for mkdocs.

Links between pages stay; a link to another file of the repository becomes its text, because the site does not have it.
Decisions and examples are listed on pages of their own, because the navigation does not name them.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = (
    "README.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "clients/typescript/README.md",
    "contracts/**/*.md",
    "deploy/*/**/README.md",
    "docs/**/*.md",
    "redaction/README.md",
)
ASSETS: Final = ("docs/*.png", "docs/*.svg", "deploy/site/*.css")
HOME: Final = Path("README.md")
_WIDE: Final = "---\nhide: [navigation, toc]\n---\n\n"
"""Start of a page whose text takes the whole width: the diagram of the start page needs it."""
LISTS: Final = {
    Path("docs/decisions"): ("Decisions", "Why it is as it is, and what would show that it is wrong."),
    Path("deploy/examples"): ("Example pages", "Pages with other clients, each tested in a browser."),
}
"""Folder -> title and first sentence of the page that lists its pages."""

_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def main() -> int:
    """Write the pages into the folder of the argument."""
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    pages = found(SOURCES)
    for page in pages:
        _write(target / page, (_WIDE if page == HOME else "") + rewritten(page, set(pages)))
    for asset in found(ASSETS):
        (target / asset).parent.mkdir(parents=True, exist_ok=True)
        (target / asset).write_bytes((ROOT / asset).read_bytes())
    for folder in LISTS:
        _write(target / folder / "index.md", list_of(folder, pages))
    return 0


def found(patterns: tuple[str, ...]) -> list[Path]:
    """Return the files of the repository that match, relative to its folder, without those of packages."""
    paths = {path.relative_to(ROOT) for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path for path in paths if "node_modules" not in path.parts)


def rewritten(page: Path, pages: set[Path]) -> str:
    """Return a page without links to files that are no pages."""

    def kept(match: re.Match[str]) -> str:
        text, link = match[1], match[2]
        target = _target(page, link.partition("#")[0])
        if target is None or target in pages:
            return match[0]
        if target in LISTS:
            return f"[{text}]({link.rstrip('/')}/index.md)"
        return text

    parts = _FENCE.split((ROOT / page).read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else _LINK.sub(kept, part) for part in parts)


def list_of(folder: Path, pages: list[Path]) -> str:
    """Return the page that lists the pages of a folder."""
    lines = [f"# {LISTS[folder][0]}", "", LISTS[folder][1], ""]
    for page in pages:
        if page.is_relative_to(folder):
            [title, *_] = _TITLE.findall((ROOT / page).read_text(encoding="utf-8"))
            lines += [f"- [{title}]({page.relative_to(folder).as_posix()})"]
    return "\n".join(lines) + "\n"


def _target(page: Path, link: str) -> Path | None:
    """Return the file that a link leads to, relative to the repository; None for the same page and other sites."""
    if not link or "://" in link:
        return None
    return (ROOT / page.parent / link).resolve().relative_to(ROOT)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
