"""Every module of the project is listed in `[tool.importlinter]`; a module that is missing would not be checked."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
SHELL: Final = {
    f"projector.{name}" for name in ("__main__", "server", "store", "openwop", "cli", "generate", "pytest_plugin")
}
"""Modules that may wait, and the modules that start them."""


def modules_of(folder: Path) -> list[str]:
    return [
        path.stem
        for path in sorted(folder.iterdir())
        if (path / "__init__.py").is_file() or (path.suffix == ".py" and path.stem != "__init__")
    ]


MODULES: Final = [f"projector.{name}" for name in modules_of(ROOT / "projector")]
CORE: Final = [f"projector.core.{name}" for name in modules_of(ROOT / "projector" / "core")]


def rows(contract: str, key: str) -> list[str]:
    return next(one[key] for one in SETTINGS["contracts"] if one["type"] == contract)


@pytest.mark.parametrize("module", sorted(set(MODULES) - SHELL))
def test_what_is_below_the_shell_may_not_wait(module: str) -> None:
    assert module in rows("forbidden", "source_modules")


@pytest.mark.parametrize("module", [*(name for name in MODULES if name != "projector.core"), *CORE])
def test_each_module_is_in_a_layer(module: str) -> None:
    assert module in {name.strip("() ") for row in rows("layers", "layers") for name in row.split("|")}
