"""Build all files of a release in `dist/`, install each one in a clean folder, and run the quick start from it.

`make release-check` runs it; exit status 1 if a step fails. With `--tag` the changelog must have the date of the
release, and the work tree must be committed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from deploy.release.provenance import statement
from deploy.release.quickstart import QuickstartError, run_node, run_python
from deploy.release.rehearsal import RehearsalError, rehearse
from deploy.release.versions import ROOT, disagreements, versions

DIST: Final = ROOT / "dist"
IMAGE: Final = ROOT / "build" / "image"
CLIENT: Final = ROOT / "clients" / "typescript"
LOCKS: Final = ("requirements/build.txt", "requirements/server.txt")


class ReleaseError(Exception):
    """A step found that the release is not ready."""


class Release:
    """The steps, in order; each returns what it did in a few words."""

    def __init__(self, folder: Path, tag: str) -> None:
        self.folder = folder
        """Clean folder outside the work tree."""
        self.tag = tag
        self.version = versions()["pyproject.toml"]

    def check_versions(self) -> str:
        """Compare the version in every place."""
        if wrong := disagreements(tag=self.tag):
            raise ReleaseError("\n".join(wrong))
        if self.tag and _run("git", "status", "--porcelain"):
            raise ReleaseError("the work tree has changes that are not committed")
        return f"{self.version} in {len(versions())} places"

    def build_image(self) -> str:
        """Run the steps of the Dockerfile in a folder; the wheel is one of their results."""
        for folder in (DIST, IMAGE):
            shutil.rmtree(folder, ignore_errors=True)
        DIST.mkdir()
        _python("tests/deploy/image.py", str(IMAGE))
        shutil.copy(_one(IMAGE / "src" / "dist", "*.whl"), DIST)
        return f"{_one(DIST, '*.whl').name}, {IMAGE.relative_to(ROOT)}"

    def build_sdist(self) -> str:
        """Build the source distribution, and from it the same wheel."""
        _python("-m", "hatchling", "build", "-t", "sdist", "-d", str(DIST))
        sdist = _one(DIST, "*.tar.gz")
        shutil.unpack_archive(sdist, self.folder / "source", filter="data")
        source, built = _one(self.folder / "source", "*"), self.folder / "wheel"
        _python("-m", "hatchling", "build", "-t", "wheel", "-d", str(built), cwd=source)
        if _one(built, "*.whl").read_bytes() != _one(DIST, "*.whl").read_bytes():
            raise ReleaseError("the wheel from the source distribution differs from that of the work tree")
        return f"{sdist.name}, with the same wheel in it"

    def build_npm(self) -> str:
        """Pack the TypeScript client."""
        if not (CLIENT / "node_modules").is_dir():
            _run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=CLIENT)
        _run("npm", "pack", "--loglevel=error", "--pack-destination", str(DIST), cwd=CLIENT)
        return _one(DIST, "*.tgz").name

    def write_papers(self) -> str:
        """Write the bill of materials and the provenance."""
        (DIST / "sbom.cdx.json").write_text(_python("deploy/sbom.py"), encoding="utf-8")
        document = statement(DIST.iterdir(), self.version)
        (DIST / "provenance.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        commit = document["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"]
        return f"sbom.cdx.json, provenance.json: {len(document['subject'])} files of {commit[:12]}"

    def use_wheel(self) -> str:
        """Install the wheel in a virtual environment and use it."""
        return self._use(_one(DIST, "*.whl"))

    def use_sdist(self) -> str:
        """Install the source distribution in a virtual environment and use it."""
        return self._use(_one(DIST, "*.tar.gz"))

    def use_image(self) -> str:
        """Use what the image contains."""
        return run_python(IMAGE / "opt" / "projector" / "bin", self._clean("image"))

    def use_npm(self) -> str:
        """Install the npm package in a folder and use it."""
        folder = self._clean("node")
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
        _run(
            "npm",
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--omit=peer",
            str(_one(DIST, "*.tgz")),
            cwd=folder,
        )
        return run_node(folder)

    def rehearse(self) -> str:
        """Run what publishes, with stand-ins for what reaches a registry."""
        calls = rehearse(DIST, self._clean("publishing"), self.tag or f"v{self.version}")
        return f"{len(calls)} calls: {', '.join(sorted({one.partition(' ')[0] for one in calls}))}"

    def _use(self, file: Path) -> str:
        folder = self._clean(file.name)
        _python("-m", "venv", str(folder / "venv"))
        pip = [
            str(folder / "venv" / "bin" / "python"),
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "install",
        ]
        _run(*pip, "--require-hashes", *(word for lock in LOCKS for word in ("-r", str(ROOT / lock))))
        _run(*pip, "--no-index", "--no-build-isolation", f"{file}[server]", cwd=folder)
        return run_python(folder / "venv" / "bin", folder)

    def _clean(self, name: str) -> Path:
        folder = self.folder / f"use-{name}"
        folder.mkdir()
        return folder


STEPS: Final[tuple[tuple[str, Callable[[Release], str]], ...]] = (
    ("versions", Release.check_versions),
    ("image and wheel", Release.build_image),
    ("sdist", Release.build_sdist),
    ("npm package", Release.build_npm),
    ("papers", Release.write_papers),
    ("use the wheel", Release.use_wheel),
    ("use the sdist", Release.use_sdist),
    ("use the image", Release.use_image),
    ("use the npm package", Release.use_npm),
    ("publishing", Release.rehearse),
)


def main() -> int:
    """Run the steps until one fails."""
    parser = argparse.ArgumentParser(description="Build and try a release.")
    parser.add_argument("--tag", default="", help="tag of the release, such as v0.1.0")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        release = Release(Path(folder), arguments.tag)
        for name, step in STEPS:
            began = time.monotonic()
            try:
                done = step(release)
            except (ReleaseError, QuickstartError, RehearsalError, OSError, ValueError) as error:
                print(f"FAILED  {name}\n{error}")
                return 1
            print(f"ok  {name:20} {time.monotonic() - began:5.1f} s  {done}", flush=True)
    print("The release is ready in dist/.")
    return 0


def _python(*words: str, cwd: Path = ROOT) -> str:
    return _run(sys.executable, *words, cwd=cwd)


def _run(*command: str, cwd: Path = ROOT) -> str:
    """Return the output of a program, which must succeed. It does not see this checkout through PYTHONPATH."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise ReleaseError(f"`{' '.join(command[:4])} ...` exited with {done.returncode}:\n{tail}")
    return done.stdout


def _one(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(f"{folder.name}: expected one {pattern}, found {len(found)}")
    return found[0]


if __name__ == "__main__":
    sys.exit(main())
