"""What tests need beyond Python, and what happens where it is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
REQUIRED = frozenset(os.environ.get("PROJECTOR_TESTS_REQUIRE", "").split())


def _missing(need: str, reason: str) -> None:
    """Skip, or fail where `.ci/run` said that the need must be there."""
    if need in REQUIRED:
        pytest.fail(f"required here, but missing: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of recorded provider streams."""
    if not (SHARED / "corpus").is_dir():
        _missing("shared", "../shared/corpus is not on this machine")
    return SHARED / "corpus"


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder tests/node, with node on the machine and its packages installed."""
    folder = ROOT / "tests" / "node"
    if shutil.which("node") is None:
        _missing("node", "node is not on this machine")
    if not (folder / "node_modules").is_dir():
        _missing("node", "tests/node has no node_modules: run `npm ci` there")
    return folder
