"""`projector init`: each configuration that it writes is accepted and serves, its commented lines included."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Final

import pytest

from projector.cli import main
from projector.cli.init_config import CASES
from projector.server.config.loading import load
from tests.asgi.process import running, serve_with

pytestmark = pytest.mark.timeout(300)

HASHES: Final = [f"sha256:{digit * 64}" for digit in "123"]
ENVIRON: Final = {
    "OPENAI_API_KEY": "sk-a-test-key",
    "AZURE_OPENAI_API_KEY": "sk-a-test-key",
    "AZURE_WEST_API_KEY": "sk-a-test-key",
    "ANTHROPIC_API_KEY": "sk-a-test-key",
    "GEMINI_API_KEY": "sk-a-test-key",
    "AWS_BEARER_TOKEN_BEDROCK": "sk-a-test-key",
    "GATEWAY_API_KEY": "sk-a-test-key",
    "VERTEX_ACCESS_TOKEN": "sk-a-test-key",
    "FRONTEND_KEY_SHA256": HASHES[0],
    "PAGE_KEY_SHA256": HASHES[1],
    "STAFF_KEY_SHA256": HASHES[2],
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "STORE_KEY": base64.b64encode(bytes(32)).decode(),
}
OURS: Final = {"azure": (("RESOURCE", "ours"), ("DEPLOYMENT", "chat"))}
"""Case -> its placeholders, and what replaces them."""
EXAMPLE: Final = re.compile(r"^# (?=\[[\w.\"]+\]$|[\w.]+ = )", re.MULTILINE)
"""What comments out a table or a setting."""


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ENVIRON:
        monkeypatch.delenv(name, raising=False)


def replace(file: Path, word: str, name: str) -> None:
    file.write_text(file.read_text().replace(word, name))


def test_without_a_case_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CASES)
    claude = {"anthropic", "claude-cloud", "claude-server"}
    assert claude | {"one-upstream", "azure", "gemini", "agents", "nextjs", "replicas"} == CASES.keys()
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_checked(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", case]) == 0
    printed = capsys.readouterr().err
    named = re.findall(r"export (\w+)=", printed)
    assert named
    callers = [name.removesuffix("_KEY_SHA256").lower() for name in named if name.endswith("_KEY_SHA256")]
    assert callers == [
        word for line in re.findall(r"^  projector keys ([a-z ]+)", printed, re.MULTILINE) for word in line.split()
    ]
    assert printed.count("_SHA256=sha256:...") == len(callers)
    assert main(["config", "check", "projector.toml"]) == 2
    errors = capsys.readouterr().err
    for word, name in OURS.get(case, ()):
        assert f"has the placeholder {word}: replace it\n" in errors
        replace(tmp_path / "projector.toml", word, name)
    for name in named:
        assert f"the variable {name} is not set" in errors
        monkeypatch.setenv(name, ENVIRON[name])
    assert main(["config", "check", "projector.toml"]) == 0
    warned = capsys.readouterr().err.splitlines()
    away = "warning: `store.url`: Redis does not answer: ConnectionRefusedError"
    assert warned == ([away] if "REDIS_URL" in named else [])
    assert len((tmp_path / "projector.toml").read_text().splitlines()) < 60


@pytest.mark.parametrize("case", CASES)
def test_its_examples_are_settings(case: str, tmp_path: Path) -> None:
    text, count = EXAMPLE.subn("", CASES[case].read_text(encoding="utf-8"))
    assert count > 0
    (tmp_path / "all.toml").write_text(text)
    for word, name in OURS.get(case, ()):
        replace(tmp_path / "all.toml", word, name)
    (tmp_path / "private.md").write_text("Be brief.")
    load(ENVIRON, config=tmp_path / "all.toml")


@pytest.mark.parametrize("case", CASES)
async def test_a_case_serves(case: str, tmp_path: Path) -> None:
    assert main(["init", case]) == 0
    for word, name in OURS.get(case, ()):
        replace(tmp_path / "projector.toml", word, name)
    overrides = {"nextjs": {"PROJECTOR_STORE__PATH": str(tmp_path / "s")}, "replicas": {"PROJECTOR_ADMIN__PORT": "0"}}
    async with running(serve_with(tmp_path / "projector.toml"), 1, **ENVIRON, **overrides.get(case, {})) as server:
        answer = await server.get("/readyz")
        assert answer.startswith("HTTP/1.1 200 "), answer
        server.stop()
        assert await server.process.wait() == 0


def test_a_file_is_replaced_only_with_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("port = 1\n")
    assert main(["init", "azure", "--out", str(file)]) == 2
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == "port = 1\n"
    assert main(["init", "azure", "--out", str(file), "--force"]) == 0
    assert file.read_bytes() == CASES["azure"].read_bytes()


@pytest.mark.parametrize("arguments", [["azure", "mine.toml"], ["azure", "--out", "mine.toml"]])
def test_a_file_is_named(arguments: list[str], tmp_path: Path) -> None:
    assert main(["init", *arguments]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["mine.toml"]


def test_a_case_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "azure", "-"]) == 0
    assert capsys.readouterr().out == CASES["azure"].read_text(encoding="utf-8")
