"""The version of a release in every place that has it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
UNRELEASED: Final = "unreleased"

_ENTRY: Final = re.compile(r"^## (\S+)(?: \(([\w-]+)\))?$", re.MULTILINE)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_LABEL: Final = re.compile(r"org\.opencontainers\.image\.version=(\S+)")
_CLIENT: Final = "clients/typescript"


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version that each place has, by the name of the place."""
    lock = _json(root / _CLIENT / "package-lock.json")
    return {
        "pyproject.toml": tomllib.loads(_text(root / "pyproject.toml"))["project"]["version"],
        "projector.__version__": _assigned(root / "projector" / "__init__.py", "__version__"),
        f"{_CLIENT}/package.json": _json(root / _CLIENT / "package.json")["version"],
        f"{_CLIENT}/package-lock.json": lock["version"],
        f"{_CLIENT}/package-lock.json, packages": lock["packages"][""]["version"],
        "label in Dockerfile": _only(_LABEL.findall(_text(root / "Dockerfile"))),
        "first entry of CHANGELOG.md": next(iter(_ENTRY.findall(_text(root / "CHANGELOG.md"))), ("none",))[0],
        **{
            path.relative_to(root).as_posix(): _json(path)["info"]["version"]
            for path in sorted((root / "contracts").rglob("*asyncapi.json"))
        },
    }


def disagreements(root: Path = ROOT, tag: str = "") -> list[str]:
    """Return what does not agree with the version in pyproject.toml.

    Args:
        root: the work tree.
        tag: tag of the release; with it, the entry in the changelog must have a date.
    """
    found = versions(root)
    expected = found["pyproject.toml"]
    wrong = [f"{place}: {version}, expected {expected}" for place, version in found.items() if version != expected]
    dates = dict(_ENTRY.findall(_text(root / "CHANGELOG.md")))
    date = dates.get(expected, "none")
    if tag and tag != f"v{expected}":
        wrong.append(f"tag {tag}, expected v{expected}")
    if not _DATE.fullmatch(date) and (tag or date != UNRELEASED):
        wrong.append(f"CHANGELOG.md: the entry of {expected} needs a date, not `{date}`")
    return wrong


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _json(path: Path) -> dict[str, Any]:
    document = json.loads(_text(path))
    return document if isinstance(document, dict) else {}


def _assigned(path: Path, name: str) -> str:
    """Return the text that a module assigns to a name, without importing it."""
    for node in ast.parse(_text(path)).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return str(ast.literal_eval(node.value))
    return "none"


def _only(found: list[str]) -> str:
    return found[0] if len(found) == 1 else f"{len(found)} versions"
