"""The command `llm` with a tool, before this server and a scripted provider: a secret in the arguments is withheld."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.clients.conftest import running
from tests.clients.scripted_provider import CREDENTIAL, SECRETS, Block, Turn, call, cut, leaks, serving

TIMEOUT_S: Final = 120
TOOL: Final = """
def note(text: str) -> str:
    with open("notes.txt", "a") as notes:
        notes.write(text)
    return "written"
"""
CUT: Final = 9

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def in_pieces(block: Block) -> Block:
    return block._replace(pieces=cut(block.whole, SECRETS, CUT))


TURNS: Final = (
    Turn((Block("text", ("I begin. ",)), in_pieces(call("note", "call_1", {"text": f"the key {CREDENTIAL}"})))),
    Turn((in_pieces(Block("text", (f"Done: {CREDENTIAL}.",))),)),
)


def test_a_tool_gets_the_mark(python_clients: Path, tmp_path: Path) -> None:
    settings = tmp_path / "projector.toml"
    with serving({"note": TURNS}) as provider:
        settings.write_text(
            f'[upstreams.one]\nbase_url = "{provider.url}/v1"\n[passthrough]\nresponses = "one"\n',
            encoding="utf-8",
        )
        with running([sys.executable, "-m", "projector", "serve", "--port", "0", "--config", str(settings)]) as url:
            model = {"model_id": "m", "model_name": "m", "api_base": f"{url}/v1", "supports_tools": True}
            models = json.dumps([{**model, "responses": True}])  # JSON is YAML
            (tmp_path / "extra-openai-models.yaml").write_text(models, encoding="utf-8")
            done = subprocess.run(
                [python_clients.parent / "llm", "-m", "m", "--key", "sk-any", "--functions", TOOL, "Play case=note"],
                cwd=tmp_path,
                env={**os.environ, "LLM_USER_PATH": str(tmp_path)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "I begin. Done: <redacted>.\n"
    assert (tmp_path / "notes.txt").read_text() == "the key <redacted>"
    assert provider.calls["note"] == len(TURNS)
    assert leaks(done.stderr + (tmp_path / "logs.db").read_bytes().decode(errors="replace")) == []
