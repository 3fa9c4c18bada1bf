"""mkdocs.yml names each page once, the copies of pages have no link that leads to nothing, and docs/ stays short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another package

from deploy.site.pages import LISTS, ROOT, SOURCES, found, list_of, rewritten

TEXT: Final = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION: Final = yaml.safe_load(TEXT.partition("\nnav:\n")[2])
PAGES: Final = found(SOURCES)
WORDS_MAX: Final = 28_000
"""Words of the pages of docs/, besides the decisions: what a person can read in two hours."""


def names(entry: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for one in entry.values() if isinstance(entry, dict) else entry:
            yield from names(one)


def test_each_page_has_one_entry() -> None:
    """A new page belongs where its readers look for it."""
    named = [page.as_posix() for page in PAGES if not any(map(page.is_relative_to, LISTS))]
    expected = sorted([*named, *(f"{folder}/index.md" for folder in LISTS)])
    assert sorted(names(NAVIGATION)) == expected, "mkdocs.yml, `nav`: add the page for its readers"


def test_the_pages_stay_short() -> None:
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").glob("*.md"))
    assert words <= WORDS_MAX, "docs/*.md: a new sentence replaces another"


def test_the_readers() -> None:
    parts = [next(iter(part)) for part in NAVIGATION]
    assert parts[1:5] == ["Tutorial", "How to", "Reference", "Explanation"]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_pages(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", rewritten(page, set(PAGES)), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"(?<!!)\]\(([^)\s#]+)", text):
        if "://" not in link and not link.endswith(("index.md", ".png", ".svg")):
            assert (ROOT / page.parent / link).resolve().relative_to(ROOT) in PAGES, link


@pytest.mark.parametrize("folder", LISTS, ids=str)
def test_each_page_of_a_folder_is_listed(folder: Path) -> None:
    listed = re.findall(r"\]\((\S+)\)$", list_of(folder, PAGES), re.MULTILINE)
    assert [folder / name for name in listed] == [page for page in PAGES if page.is_relative_to(folder)] != []
