"""The test in docs/recording.md holds for a recorded stream, and fails if a cut matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.blocks import BLOCKS, ROOT

[CUTS] = [block.text for block in BLOCKS if (block.page, block.language) == ("docs/recording.md", "python")]
CASE: Final = ROOT / "examples_ndjson" / "gemini" / "gemini-text.ndjson"


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's test defines, beside its stream."""
    (folder := tmp_path / "tests" / "streams" / "gemini").mkdir(parents=True)
    (folder / "hello.ndjson").write_bytes(CASE.read_bytes())
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(CUTS, "docs/recording.md", "exec"), found)  # noqa: S102 - the page's own words
    return found


def test_the_page_cuts_a_stream_everywhere(names: dict[str, Any]) -> None:
    assert names["written"](names["STREAM"]).endswith(b"data: [DONE]\n\n")
    names["test_cuts_do_not_matter"]()


def test_the_page_finds_a_cut_that_matters(names: dict[str, Any]) -> None:
    names["written"] = lambda *parts: parts
    with pytest.raises(AssertionError):
        names["test_cuts_do_not_matter"]()
