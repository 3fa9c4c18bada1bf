"""The provenance of a release: which files were built, from which commit and lock files, by whom.

It is an in-toto statement with the SLSA predicate `provenance/v1`, without times: equal builds have equal statements. A
forge signs it (`.github/workflows/release.yml`); on another machine it documents a build.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:public-stream-projector:make-release-check"
LOCAL: Final = "urn:public-stream-projector:local"
LOCKS: Final = ("requirements/build.txt", "requirements/server.txt", "clients/typescript/package-lock.json")
"""Files that determine what a build installs."""


def statement(
    files: Iterable[Path], version: str, root: Path = ROOT, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the statement about the files of a release."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": file.name, "digest": {"sha256": _sha256(file)}} for file in sorted(files)],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": version, "is_modified": bool(_git(root, "status", "--porcelain"))},
                "resolvedDependencies": [
                    {"uri": _source(environ), "digest": {"gitCommit": _git(root, "rev-parse", "HEAD")}},
                    *({"uri": name, "digest": {"sha256": _sha256(root / name)}} for name in LOCKS),
                ],
            },
            "runDetails": _run(environ),
        },
    }


def _run(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return who built: a workflow of the forge, by the variables that it sets, or a machine."""
    if "GITHUB_WORKFLOW_REF" not in environ:
        return {"builder": {"id": LOCAL}}
    server = environ["GITHUB_SERVER_URL"]
    run = f"{environ['GITHUB_REPOSITORY']}/actions/runs/{environ['GITHUB_RUN_ID']}"
    return {
        "builder": {"id": f"{server}/{environ['GITHUB_WORKFLOW_REF']}"},
        "metadata": {"invocationId": f"{server}/{run}/attempts/{environ['GITHUB_RUN_ATTEMPT']}"},
    }


def _source(environ: Mapping[str, str]) -> str:
    if "GITHUB_REPOSITORY" not in environ:
        return "git+file:."
    return f"git+{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}@{environ['GITHUB_REF']}"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)  # noqa: S607 - any git
    return done.stdout.strip()
