"""The wheel in a project that has packages `contracts` and `redaction` of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Final

import pytest

from projector.dialects import DIALECTS
from projector.recording.replay import inputs_of

ROOT: Final = Path(__file__).parents[2]
OWN: Final = 'NAME = "the user\'s own"\n'
PROJECT: Final = {
    "contracts/__init__.py": OWN,
    "redaction/__init__.py": OWN,
    "test_own.py": """
import contracts
import redaction


def test_own() -> None:
    assert contracts.NAME == redaction.NAME == "the user's own"
""",
    "conftest.py": """
import pathlib
import sys


def pytest_unconfigure() -> None:
    names = sorted(name for name in sys.modules if name.partition(".")[0] == "projector")
    pathlib.Path("imported.txt").write_text(" ".join(names))
""",
    "streams/openai_chat/bye.ndjson": """
{"choices": [{"index": 0, "delta": {"content": "Bye"}, "finish_reason": "stop"}]}
[DONE]
""",
}
USE: Final = """
import json, contracts, redaction, projector
from projector._resources import resource
from projector.server.http import pages
from projector.server.upstream.demo import DemoUpstream

pipeline = projector.build_pipeline(
    provider="openai_chat", dialect="public_sse_v1", input_format="ndjson", output_format="ndjson"
)
stream = open("streams/openai_chat/bye.ndjson", "rb").read()
print(json.dumps({
    "file": projector.__file__,
    "own": [contracts.NAME, redaction.NAME],
    "last": json.loads((pipeline.feed(stream) + pipeline.close()).splitlines()[-1])["final"],
    "examples": {api: sorted(examples) for api, examples in DemoUpstream().examples.items()},
    "page": {path.name: path.read_text() for path in pages.FILES.iterdir()},
    "strict": projector.Policy.named("strict").reasoning,
    "resources": {name: sorted(path.name for path in resource(name).iterdir()) for name in ["contracts", "redaction"]},
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel alone is installed in."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return target


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The user's project."""
    for name, content in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def run(project: Path, installed: Path, *arguments: str) -> str:
    """Run Python in the project. Without `site`, the packages of this environment are there, but not this checkout."""
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {re.sub(r"^public_stream_projector-[\d.]+\.", "", top) for top in tops} == {"projector", "dist-info"}


def test_the_library_works_beside_them(project: Path, installed: Path) -> None:
    used = json.loads(run(project, installed, "-c", USE))
    assert Path(used["file"]).is_relative_to(installed)
    assert used["own"] == ["the user's own"] * 2
    assert used["last"] == {"status": "completed", "response_text": "Bye"}
    assert used["strict"] == "off"
    for api, examples in used["examples"].items():
        folder = ROOT / "examples_ndjson" / inputs_of(api)
        assert examples == sorted(path.stem for path in folder.glob("*.ndjson")), api
    page = ROOT / "projector" / "server" / "demo_page"
    assert used["page"] == {path.name: path.read_text(encoding="utf-8") for path in page.iterdir()}
    for name, held in used["resources"].items():
        assert held == sorted(path.name for path in (ROOT / name).iterdir()), name


def test_pytest_runs_untouched(project: Path, installed: Path) -> None:
    assert re.search(r"\b1 passed\b", run(project, installed, "-m", "pytest"))
    assert (project / "imported.txt").read_text() == "projector projector.pytest_plugin"


def test_the_plugin_runs_cases(project: Path, installed: Path) -> None:
    run(project, installed, "-m", "projector", "replay", "streams", "--update")
    printed = run(project, installed, "-m", "pytest", "--projector-cases", "streams")
    assert re.search(rf"\b{len(DIALECTS) + 1} passed\b", printed), printed
    assert "projector.recording.replay" in (project / "imported.txt").read_text().split()
