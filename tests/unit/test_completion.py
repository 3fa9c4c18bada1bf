"""Shell completion (`projector completion`): the scripts, run by their shells."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from projector import cli
from projector.cli.commands import COMMANDS
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS

NAMES: Final = [command.name for command in COMMANDS]
COMPLETE: Final = """
source "$1"; shift
COMP_WORDS=(projector "$@"); COMP_CWORD=$#
_projector
echo "${COMPREPLY[*]}"
"""
SYNTAX: Final = {"bash": ["-n"], "zsh": ["-n"], "fish": ["--no-execute"]}


@pytest.fixture
def scripts(tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Shell -> the path of its script."""
    paths = {}
    for shell in SYNTAX:
        assert cli.main(["completion", shell]) == 0
        path = tmp_path_factory.mktemp("completion") / shell
        path.write_text(capsys.readouterr().out)
        paths[shell] = str(path)
    return paths


@pytest.mark.parametrize("shell", SYNTAX)
def test_each_shell_reads_its_script(scripts: dict[str, str], shell: str, program: Callable[[str], str]) -> None:
    subprocess.run([program(shell), *SYNTAX[shell], scripts[shell]], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], NAMES),
        (["pro"], ["project"]),
        (["--v"], ["--version"]),
        (["project", "--in"], ["--input-format", "--in"]),
        (["project", "--dialect", ""], [*DIALECTS]),
        (["project", "--provider", ""], [*PROVIDERS]),
        (["project", "--run", "--out", "s"], ["sse"]),
        (["config", ""], ["check", "print"]),
        (["config", "check", "--"], ["--help"]),
        (["completion", "z"], ["zsh"]),
        (["validate", "--dialect", "openwop", "READ"], []),  # then the shell completes files
        (["serve", "--config", ""], []),
    ],
)
def test_bash_completes(scripts: dict[str, str], words: list[str], expected: list[str]) -> None:
    command = ["bash", "-c", COMPLETE, "bash", scripts["bash"], *words]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == expected


def test_every_command_and_option_is_in_every_script(scripts: dict[str, str]) -> None:
    rows = [row for command in COMMANDS for row in (command, *command.commands)]
    options = {name for row in rows for argument in row.arguments for name in argument.names if name.startswith("--")}
    for shell, path in scripts.items():
        script = Path(path).read_text()
        for word in {row.name for row in rows} | options:
            assert (f"-l {word[2:]} " if shell == "fish" and word in options else word) in script, (shell, word)
