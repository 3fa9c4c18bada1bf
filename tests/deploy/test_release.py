"""The provenance of a release is a valid statement, and the workflows call what exists."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another package

from deploy.release import provenance
from deploy.release.rehearsal import RehearsalError, rehearse
from tests.deploy.image import ROOT

WORKFLOWS: Final = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").iterdir()}
JOBS: Final = [(file, name, job) for file, flow in WORKFLOWS.items() for name, job in flow["jobs"].items()]
STEPS: Final = [(f"{file} {name}", step) for file, name, job in JOBS for step in job.get("steps", ())]
FORMS: Final = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a provenance names a commit")
def test_the_provenance(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tgz").write_bytes(b"a")
    made = provenance.statement(tmp_path.iterdir(), "0.1.0", environ={})
    assert made == provenance.statement(reversed(list(tmp_path.iterdir())), "0.1.0", environ={})
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["subject"] == [
        {"name": name, "digest": {"sha256": hashlib.sha256(name[:1].encode()).hexdigest()}}
        for name in ("a.tgz", "b.whl")
    ]
    source, *locks = made["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert re.fullmatch(r"[0-9a-f]{40}", source["digest"]["gitCommit"])
    assert [one["uri"] for one in locks] == list(provenance.LOCKS)
    assert made["predicate"]["runDetails"] == {"builder": {"id": provenance.LOCAL}}


def test_the_provenance_of_a_workflow(tmp_path: Path) -> None:
    names = ("REF", "REPOSITORY", "RUN_ATTEMPT", "RUN_ID", "SERVER_URL", "WORKFLOW_REF")
    environ = {f"GITHUB_{name}": name.lower() for name in names}
    made = provenance.statement(tmp_path.iterdir(), "0.1.0", environ=environ)["predicate"]
    assert made["runDetails"]["builder"]["id"] == "server_url/workflow_ref"
    assert made["buildDefinition"]["resolvedDependencies"][0]["uri"] == "git+server_url/repository@ref"


# the workflows


def test_each_supported_python_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [match[1] for one in project["classifiers"] if (match := re.search(r"Python :: (3\.\d+)", one))]
    assert WORKFLOWS["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize(("place", "step"), STEPS, ids=[f"{place}-{n}" for n, (place, _) in enumerate(STEPS)])
def test_a_step_names_what_exists(place: str, step: dict[str, Any]) -> None:
    if "uses" in step:
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step["uses"]), place
        return
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([\w-]+)", step["run"]):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), place
    for script in re.findall(r"(?:^| )(\.?[\w-]+/[\w/.-]+)", step["run"], re.MULTILINE):
        is_made = script.startswith("dist/") or not script.startswith((".", "tests/", "deploy/"))
        assert is_made or os.access(ROOT / script, os.X_OK), place


def test_workflows_are_called_by_their_path() -> None:
    called = [job["uses"] for *_, job in JOBS if "uses" in job]
    assert called == ["./.github/workflows/ci.yml"]


def test_a_release_calls_the_check_with_its_tag() -> None:
    [command] = [step["run"] for place, step in STEPS if place == "release.yml build" and "run" in step]
    assert command == 'make release-check TAG="$GITHUB_REF_NAME"'
    assert "$(if $(TAG),--tag $(TAG))" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_rights_are_given_to_jobs_only() -> None:
    assert [flow["permissions"] for flow in WORKFLOWS.values()] == [{"contents": "read"}] * len(WORKFLOWS)
    writing = {
        name: sorted(right for right, level in job.get("permissions", {}).items() if level == "write")
        for _, name, job in JOBS
    }
    assert writing == {
        "test": [],
        "build": ["attestations", "id-token"],
        "python-index": ["id-token"],
        "npm": ["id-token"],
        "image": ["id-token", "packages"],
        "publish": ["contents", "id-token"],
    }


def test_no_job_before_its_tests() -> None:
    needs = {name: job.get("needs", []) for file, name, job in JOBS if file == "release.yml"}
    assert needs.pop("test") == []
    assert needs.pop("build") == "test"
    assert set(map(str, needs.values())) == {"build", "['python-index', 'npm']"}


def test_what_publishes_runs_here(program: Any, tmp_path: Path) -> None:
    """Every command of the workflow, with stand-ins for what reaches a registry."""
    program("npm")
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in ("a-0.1.0-py3-none-any.whl", "public_stream_projector-0.1.0.tar.gz", "sbom.cdx.json"):
        (dist / name).write_bytes(b"{}")
    manifest = b'{"name": "public-stream-client", "version": "0.1.0"}'
    with tarfile.open(dist / "public-stream-client-0.1.0.tgz", "w:gz") as packed:
        (member := tarfile.TarInfo("package/package.json")).size = len(manifest)
        packed.addfile(member, io.BytesIO(manifest))
    (tmp_path / "done").mkdir()
    calls = rehearse(dist, tmp_path / "done", "v0.1.0")
    assert [" ".join(call.split()[:2]) for call in calls] == [
        "npm publish", "docker login", "docker build", "docker push", "docker inspect", "cosign sign",
        *["cosign sign-blob"] * 4, "gh release",
    ]  # fmt: skip
    assert "v0.1.0" in calls[-1]
    (dist / "a-0.1.0-py3-none-any.whl").unlink()
    (tmp_path / "missing").mkdir()
    with pytest.raises(RehearsalError, match="whl"):
        rehearse(dist, tmp_path / "missing", "v0.1.0")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= form.keys()
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 0
    assert all(part["attributes"].get("label") for part in form["body"] if part["type"] != "markdown")


def test_the_check_needs_what_is_here() -> None:
    from deploy.release import check, quickstart  # noqa: PLC0415 - a script

    assert all(callable(step) and step.__doc__ for _, step in check.STEPS)
    assert quickstart.EXAMPLE.is_file()
    assert quickstart.GOLDEN.is_file()
    assert [lock for lock in (*check.LOCKS, *provenance.LOCKS) if not (ROOT / lock).is_file()] == []
