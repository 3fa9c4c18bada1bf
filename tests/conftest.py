"""What tests need beyond Python, and what happens where it is missing."""

from __future__ import annotations

import filecmp
import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
PACKAGES = ("projector",)
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
def openwop() -> Path:
    """The folder of OpenWOP's own schemas and fixtures."""
    if not (SHARED / "openwop").is_dir():
        _missing("shared", "../shared/openwop is not on this machine")
    return SHARED / "openwop"


@pytest.fixture(scope="session")
def agents_sdk() -> ModuleType:
    """The Agents SDK, which is an extra."""
    try:
        return importlib.import_module("agents")
    except ImportError:
        _missing("agents_sdk", "the Agents SDK is not installed")
        raise


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder tests/node, with node on the machine and its packages installed."""
    folder = ROOT / "tests" / "node"
    if shutil.which("node") is None:
        _missing("node", "node is not on this machine")
    if not (folder / "node_modules").is_dir():
        _missing("node", "tests/node has no node_modules: run `npm ci` there")
    return folder


@pytest.fixture(scope="session")
def curl() -> str:
    """The program curl."""
    found = shutil.which("curl")
    if found is None:
        _missing("curl", "curl is not on this machine")
    return str(found)


@pytest.fixture(scope="session")
def nginx() -> str:
    """The program nginx."""
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")  # Debian puts it there
    if found is None:
        _missing("nginx", "nginx is not on this machine")
    return str(found)


@pytest.fixture(scope="session")
def nextjs() -> Path:
    """The folder deploy/nextjs, with node on the machine and its packages installed."""
    folder = ROOT / "deploy" / "nextjs"
    if shutil.which("node") is None:
        _missing("nextjs", "node is not on this machine")
    if not (folder / "node_modules").is_dir():
        _missing("nextjs", "deploy/nextjs has no node_modules: run `npm ci` there")
    return folder


@pytest.fixture(scope="session")
def image() -> Path:
    """What the Dockerfile's steps left in a folder: `opt/projector` of it is what the image holds."""
    folder = ROOT / "build" / "image"
    installed = next(folder.glob("opt/projector/lib/*/site-packages"), folder)
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    if not all(_is_same(path, installed / path.relative_to(ROOT)) for path in sources):
        _missing("image", "build/image is not made of this work tree: run `make wheel`")
    return folder


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
