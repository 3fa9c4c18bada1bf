"""Everything that the prose names exists: pages, anchors, files, tests, commands, decisions."""

from __future__ import annotations

import argparse
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from projector.cli.commands import build_parser
from projector.core.handlers import HOST_HANDLERS
from projector.core.intake import STEERING

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
PAGES: Final = [ROOT / name for name in NAMES] + sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "contracts").rglob("*.md"),
        ROOT / "clients" / "typescript" / "README.md",
    ]
)
IDS: Final = [str(page.relative_to(ROOT)) for page in PAGES]

LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE: Final = re.compile(r"`([^`\n]+)`")
FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
DECISION: Final = re.compile(r"\bD([1-9]\d?)\b")

FOLDERS: Final = {
    "bench",
    "clients",
    "contracts",
    "deploy",
    "docs",
    "examples_ndjson",
    "projector",
    "redaction",
    "tests",
}
MADE: Final = ("tests/streams",)
"""Names that pages use for the reader's own project."""

OTHERS: Final = HOST_HANDLERS.keys() | STEERING.keys()
"""Events of the host, which look like modules of ours."""

MODULE: Final = re.compile(r"`(projector(?:\.(?!(?:py|toml)`)[A-Za-z]\w*)+)[`(]")


@cache
def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as repository hosts generate them."""
    titles = HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def named_paths(page: Path) -> Iterator[str]:
    for words in CODE.findall(prose(page)):
        if words.partition("/")[0] in FOLDERS and not words.startswith(MADE) and not re.search(r"[<{ ]", words):
            yield words


def is_there(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def commands(parser: argparse.ArgumentParser) -> set[str]:
    [subparsers] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return set(subparsers.choices)


def test_there_are_pages_and_links() -> None:
    assert len(PAGES) > 20
    assert sum(len(LINK.findall(prose(page))) for page in PAGES) > 50
    assert sum(len(list(named_paths(page))) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_each_path_is_there(page: Path) -> None:
    """The changelog may name removed files."""
    for path in named_paths(page):
        assert (ROOT / path).exists() or list(ROOT.glob(path)), path


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_name_of_ours_is_there(page: Path) -> None:
    for name in set(MODULE.findall(prose(page))) - OTHERS:
        assert is_there(name), name


def test_each_name_of_ours_in_a_module_is_there() -> None:
    modules = [path for folder in ("projector", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    named = {(name, path.name) for path in modules for name in MODULE.findall(path.read_text(encoding="utf-8"))}
    assert {(name, path) for name, path in named if name not in OTHERS and not is_there(name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_target_of_make_is_there(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+)(?: [a-z-]+)*:", makefile, re.MULTILINE)) | {"docs"}
    for call in re.findall(r"`make ([a-z -]+)`", page.read_text(encoding="utf-8")):
        assert set(call.split()) <= targets, call


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_command_is_there(page: Path) -> None:
    known = commands(build_parser())
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"(?:`|^|\$ |\| )projector ([a-z]+)", text, re.MULTILINE):
        assert command in known, command


def test_each_page_is_found_from_the_readme() -> None:
    found, to_read = {ROOT / "README.md"}, [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        for link in LINK.findall(prose(page)):
            target = (page.parent / link.partition("#")[0]).resolve()
            pages = sorted(target.glob("*.md")) if target.is_dir() else [target]
            new = {one for one in pages if one.suffix == ".md" and one.is_file()} - found
            found |= new
            to_read += new
    assert set(PAGES) <= found


def test_decisions_have_numbers_of_their_own() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(page.name.partition("-")[0]) for page in pages]
    assert numbers == [*range(1, len(pages) + 1)]
    for number, page in zip(numbers, pages, strict=True):
        assert page.read_text(encoding="utf-8").startswith(f"# {number}. "), page.name


def test_each_decision_that_is_cited_is_written_down() -> None:
    pages = [ROOT / "docs" / "contract.md", ROOT / "contracts" / "public_sse_v1" / "README.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    rows = [int(number) for number in re.findall(r"^- \*\*D(\d+)\*\* ", text, re.MULTILINE)]
    assert len(rows) == len(set(rows))
    modules = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts]
    sources = [*PAGES, *modules]
    cited = {int(number) for path in sources for number in DECISION.findall(path.read_text(encoding="utf-8"))}
    assert cited
    assert cited <= set(rows)
