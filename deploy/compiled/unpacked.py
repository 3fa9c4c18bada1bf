"""Build the wheel with compiled modules, and unpack it in a folder: `make compiled`.

With `PYTHONPATH` on the folder, the programs of `.venv` use the compiled package. `--check` prints `compiled` if this
machine has what that takes, and nothing otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ENABLED: Final = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}


def is_possible() -> bool:
    """Return whether this machine has a C compiler and the headers of this Python."""
    return shutil.which("cc") is not None and (Path(sysconfig.get_path("include")) / "Python.h").is_file()


def build(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel of a source folder, and return it; `OSError` with the end of the output if that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=source, env=os.environ | ENABLED, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError("\n".join((done.stdout + done.stderr).splitlines()[-20:]))
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> None:
    """Build and unpack."""
    if sys.argv[1] == "--check":
        print("compiled" if is_possible() else "")
        return
    folder = Path(sys.argv[1]).absolute()
    wheel = build(ROOT / "build" / "wheel")
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


if __name__ == "__main__":
    main()
