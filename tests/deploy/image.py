"""A reader of the Dockerfile that runs its build stage in a folder, for machines without a container engine.

Run as a program it builds into the folder of its argument, as `make wheel` does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
WORKDIR: Final = "/src"


class Step(NamedTuple):
    """One instruction of a stage."""

    name: str
    text: str


class Stage(NamedTuple):
    """One stage, from its `FROM`."""

    source: str
    steps: list[Step]

    def one(self, name: str) -> str:
        """Return the text of an instruction that the stage has once."""
        (text,) = [step.text for step in self.steps if step.name == name]
        return text

    def argv(self, name: str) -> list[str]:
        """Return the exec form of an instruction, without its options."""
        text = self.one(name)
        return [str(word) for word in json.loads(text[text.index("[") :])]


def read(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    stages: list[Stage] = []
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    for line in filter(None, lines):
        name, _, text = line.partition(" ")
        if name == "FROM":
            stages.append(Stage(text, []))
        else:
            stages[-1].steps.append(Step(name, text))
    return stages


def dockerfile() -> list[Stage]:
    """Return the stages of our Dockerfile."""
    return read((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def build(folder: Path) -> None:
    """Run the first stage, with `folder` as the root of the image."""
    workdir = folder / WORKDIR.lstrip("/")
    workdir.mkdir(parents=True)
    for name, text in dockerfile()[0].steps:
        if name == "COPY":
            *sources, target = text.split()
            for source in sources:
                _copy(source, workdir / target)
        elif name == "RUN":
            _run(text, folder, workdir)
        elif (name, text) != ("WORKDIR", WORKDIR):
            raise NotImplementedError(f"{name} {text}")


def _copy(source: str, target: Path) -> None:
    """Copy the files that a fresh clone of the work tree has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", source],  # noqa: S607 - any git
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = [name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()]
    if not names:
        raise FileNotFoundError(source)
    for name in names:
        into = target / Path(name).relative_to(source if source.endswith("/") else ".")
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, into)


def _run(command: str, folder: Path, workdir: Path) -> None:
    here = re.sub(r"(?<![\w./])/opt/", f"{folder}/opt/", command)
    python = f'python() {{ "{sys.executable}" "$@"; }}\n'
    quiet = os.environ | {"PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(["sh", "-euc", python + here], cwd=workdir, check=True, env=quiet)  # noqa: S607 - any shell


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute())
