"""The TypeScript client as users install it: packed by npm, unpacked beside the scripts that use it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).parents[2] / "clients" / "typescript"
UNPACKED: Final = ("node_modules", "dist")
"""Folders of the source that are not part of it."""
_FAILED: Final = re.compile(r"^not ok .*?(?=^(?:ok|not ok|# Subtest) |\Z)", re.DOTALL | re.MULTILINE)
"""A test that failed, in the output of node's test runner."""


class InstalledClient:
    """A folder with the packed client, the packages that it is tested with, and its test scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[str] = []

    def install(self, source: Path = SOURCE) -> None:
        """Pack the client and install it, without a network."""
        build = self.folder / "build"
        shutil.copytree(source, build, ignore=shutil.ignore_patterns(*UNPACKED))
        (build / "node_modules").symlink_to(source / "node_modules")
        command = ["npm", "pack", "--json", "--offline", "--loglevel=error", "--pack-destination", str(self.folder)]
        packed = json.loads(ran(command, build))
        (archive,) = packed if isinstance(packed, list) else packed.values()
        self.files = sorted(file["path"] for file in archive["files"])
        modules = self.folder / "node_modules"
        modules.mkdir()
        for package in (source / "node_modules").iterdir():
            (modules / package.name).symlink_to(package)
        shutil.unpack_archive(self.folder / archive["filename"], self.folder / "unpacked", "gztar", filter="data")
        (self.folder / "unpacked" / "package").rename(modules / archive["name"])
        for script in (source / "tests").iterdir():
            shutil.copy(script, self.folder)

    def with_react(self, version: str) -> Path:
        """Return a folder with the test scripts and another version of React."""
        folder, modules = self.folder / f"react-{version}", self.folder / "node_modules"
        if not folder.exists():
            for package in ("react", "react-dom", "react-test-renderer"):
                shutil.copytree(modules / f"{package}-{version}", folder / "node_modules" / package)
            shutil.copytree(modules / "public-stream-client", folder / "node_modules" / "public-stream-client")
            for script in self.folder.glob("*.mjs"):
                shutil.copy(script, folder)
        return folder

    def run(self, *command: str, lines: list[object] | None = None) -> list[Any]:
        """Run a script of the client with lines of JSON as its input, and return those of its output."""
        given = "".join(json.dumps(line) + "\n" for line in lines or [])
        return [json.loads(line) for line in ran(["node", *command], self.folder, given).split("\n") if line]


def ran(command: list[str], folder: Path, given: str = "", *, limit_s: float = 280) -> str:
    """Return the output of a command that must succeed, within a time."""
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            timeout=limit_s,
            encoding="utf-8",
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{command}: not within {error.timeout} s: {(error.stdout or b'')[-8_000:]!r}") from None
    failed = "".join(_FAILED.findall(done.stdout)) or done.stdout[-2_000:]
    assert done.returncode == 0, f"{command}: {failed[:8_000]} {done.stderr[-4_000:]}"
    return done.stdout
