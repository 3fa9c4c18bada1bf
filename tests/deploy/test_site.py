"""`make site`: the site builds without a warning or a network, and loads nothing from other sites."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.image import ROOT

pytestmark = pytest.mark.timeout(600)

NO_NETWORK: Final = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
LOADED: Final = re.compile(r"<(?:script|link|img|iframe|source|video)\b[^>]*?\s(?:src|href)=[\"']?([^\"' >]+)")


@pytest.fixture(scope="module")
def site(site_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "deploy.site.pages", str(folder / "pages")]
    subprocess.run(command, cwd=ROOT, check=True)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text(config.replace("_dir: build/", "_dir: "), encoding="utf-8")
    done = subprocess.run(
        [site_tools / "mkdocs", "build", "--strict"],
        cwd=folder,
        env={**os.environ, **NO_NETWORK, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_make_builds_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    steps = makefile.partition("\nsite: ")[2].partition("\n\n")[0]
    assert "-m deploy.site.pages build/pages" in steps
    assert "mkdocs build --quiet --strict" in steps


def test_it_loads_nothing_from_other_sites(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        loaded = LOADED.findall(page.read_text(encoding="utf-8"))
        assert [address for address in loaded if "//" in address] == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:https?:)?//", style.read_text(encoding="utf-8")) == []


def test_what_is_loaded_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        for address in LOADED.findall(page.read_text(encoding="utf-8")):
            path = address.partition("#")[0].partition("?")[0]
            if path and not path.startswith(("data:", "/")):
                assert (page.parent / path).exists(), (page, address)


def test_it_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"] for entry in index["docs"] if "circuit breaker" in entry["text"].lower()}
    assert any(location.startswith("docs/operations.html") for location in found)


def test_lock_file_names_no_host() -> None:
    text = (ROOT / "requirements" / "site.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--hash=sha256:" in text
