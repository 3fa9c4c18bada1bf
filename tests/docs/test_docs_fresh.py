"""Generated pages and files are up to date with their tables and models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from projector import generate
from projector.cli import mapping as explain


def test_generated_files_are_fresh(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 0, "run `make schemas docs`"
    assert capsys.readouterr().out == ""


FILES = generate.files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(generate.ROOT)))
def test_each_file_is_there(path: Path) -> None:
    assert path.read_bytes() == FILES[path]


def test_stale_files_are_named_and_rewritten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 1
    assert "stale: docs/mapping.md; run `make" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["generate"])
    assert generate.main() == 0
    assert "docs/mapping.md" in capsys.readouterr().out.splitlines()
    assert (tmp_path / "docs" / "mapping.md").read_text() == explain.mapping_markdown()
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 0
