"""The version of a release is the same in every place that has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from deploy.release.versions import ROOT, disagreements, versions
from projector.server.app import create_app
from projector.server.config.settings import Settings

PLACES: Final = (
    ("pyproject.toml", 'version = "0.1.0"', 'version = "9.1.0"'),
    ("projector/__init__.py", '"0.1.0"', '"9.1.0"'),
    ("clients/typescript/package.json", '"0.1.0"', '"9.1.0"'),
    ("clients/typescript/package-lock.json", '"0.1.0"', '"9.1.0"'),
    ("Dockerfile", "version=0.1.0", "version=9.1.0"),
    ("CHANGELOG.md", "## 0.1.0 (", "## 9.1.0 ("),
)


def test_versions_agree() -> None:
    assert disagreements() == []
    assert json.loads(create_app(Settings()).state.openapi())["info"]["version"] == versions()["pyproject.toml"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with the files that have the version."""
    for name, *_ in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(versions()["pyproject.toml"], "0.1.0"))
    return tmp_path


@pytest.mark.parametrize(("name", "old", "new"), PLACES, ids=[name for name, *_ in PLACES])
def test_one_place_with_another_version(tree: Path, name: str, old: str, new: str) -> None:
    text = (tree / name).read_text()
    assert old in text
    (tree / name).write_text(text.replace(old, new, 1))
    assert disagreements(tree) != []


@pytest.mark.parametrize(
    ("entry", "tag", "count"),
    [
        ("## 0.1.0 (unreleased)", "", 0),
        ("## 0.1.0 (unreleased)", "v0.1.0", 1),
        ("## 0.1.0 (2026-11-30)", "v0.1.0", 0),
        ("## 0.1.0 (2026-11-30)", "", 0),
        ("## 0.1.0 (2026-11-30)", "v0.2.0", 1),
        ("## 0.1.0 (soon)", "", 1),
        ("## Unreleased", "", 2),
        ("## Unreleased\n\n## 0.1.0 (2026-11-30)", "", 1),
    ],
)
def test_the_entry_of_the_changelog(tree: Path, entry: str, tag: str, count: int) -> None:
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n{entry}\n\n- One change.\n")
    assert len(disagreements(tree, tag)) == count
