"""Run the steps of `.github/workflows/release.yml` that publish, with stand-ins for what reaches a registry.

`make release-check` does it after `dist/` is complete, so that no command of a release runs there for the first time.
`npm publish` is the real one with `--dry-run`, and without a registry, which it would ask for what is published. The
other programs that publish are stand-ins: they write down their arguments, and fail if a file among these does not
exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # its types are another package

WORKFLOW: Final = Path(__file__).parents[2] / ".github" / "workflows" / "release.yml"
PUBLISHING: Final = ("python-index", "npm", "image", "publish")
"""Jobs after `build`, which is `make release-check` itself."""
_DIGEST: Final = f"registry.example/projector@sha256:{'0' * 64}"
_STAND_IN: Final = f"""#!/bin/sh
echo "${{0##*/}} $*" >> "$CALLS"
for word in "$@"; do
    case $word in dist/*.sigstore.json) ;; dist/*) [ -f "$word" ] || exit 1 ;; esac
done
case "${{0##*/}} $1" in "docker login") cat > /dev/null ;; "docker inspect") echo {_DIGEST} ;; esac
"""
_NPM: Final = """#!/bin/sh
echo "npm $*" >> "$CALLS"
for word in "$@"; do
    shift
    [ "$word" = --provenance ] || set -- "$@" "$word"
done
exec {npm} "$@" --dry-run --registry=http://127.0.0.1:9 --fetch-retries=0 --loglevel=error
"""
_PREPARING: Final = ("actions/checkout", "actions/setup-node", "sigstore/cosign-installer")
"""Actions that only install a program, or files that are here."""


class RehearsalError(Exception):
    """A step of the workflow failed, or is not known here."""


def rehearse(dist: Path, folder: Path, tag: str) -> list[str]:
    """Run the steps in clean folders; return the calls of what publishes."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    bash, npm = _program("bash"), _program("npm")
    programs, calls = folder / "programs", folder / "calls"
    programs.mkdir()
    calls.touch()
    for name, script in {**dict.fromkeys(("docker", "cosign", "gh"), _STAND_IN), "npm": _NPM}.items():
        (programs / name).write_text(script.replace("{npm}", npm), encoding="utf-8")
        (programs / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(calls)}
    environ |= {"GITHUB_REF_NAME": tag, "GITHUB_ACTOR": "someone"}
    values = {"vars.IMAGE": "registry.example/projector", "github.ref_name": tag, "github.repository": "a/b"}
    values |= {"github.token": "token", "secrets.GITHUB_TOKEN": "token"}
    later = set(workflow["jobs"]) - {"test", "build"}
    if later != set(PUBLISHING):
        raise RehearsalError(f"jobs after build: expected {sorted(PUBLISHING)}, found {sorted(later)}")
    for name in PUBLISHING:
        work = folder / name
        work.mkdir()
        job = workflow["jobs"][name]
        for step in job["steps"]:
            _run(
                step, {**environ, **_evaluated({**job.get("env", {}), **step.get("env", {})}, values)}, work, dist, bash
            )
    return calls.read_text(encoding="utf-8").splitlines()


def _run(step: Mapping[str, Any], environ: Mapping[str, str], work: Path, dist: Path, bash: str) -> None:
    action = step.get("uses", "").partition("@")[0]
    if action in _PREPARING:
        return
    if action == "actions/download-artifact":
        shutil.copytree(dist, work / step["with"]["path"])
    elif action == "pypa/gh-action-pypi-publish":
        kinds = sorted(one.suffix for one in (work / step["with"]["packages-dir"]).iterdir())
        if kinds != [".gz", ".whl"]:
            raise RehearsalError(f"packages for the index: expected one wheel and one source archive, found {kinds}")
    elif action:
        raise RehearsalError(f"no rehearsal is known for the action {action}")
    else:
        done = subprocess.run(
            (bash, "-e", "-o", "pipefail", "-c", step["run"]),
            cwd=work,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
            raise RehearsalError(f"`{step['run']}` exited with {done.returncode}:\n{tail}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RehearsalError(f"there is no {name}")
    return found


def _evaluated(given: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the values of their expressions."""
    return {
        name: re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: values[found[1]], text) for name, text in given.items()
    }
