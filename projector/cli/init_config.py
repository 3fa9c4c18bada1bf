"""The command `init`: write the first configuration of a case. Each case is a file in `init_cases/`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from projector._errors import UsageError
from projector.cli.terminal import STDIN

_FOLDER: Final = Path(__file__).parent / "init_cases"
CASES: Final = {file.stem: file for file in sorted(_FOLDER.glob("*.toml"))}
_VARIABLE: Final = re.compile(r"^[^#\n]*\$\{(\w+)\}", re.MULTILINE)
_CALLER: Final = re.compile(r'^([\w-]+) *= *"\$\{\w+_SHA256\}"', re.MULTILINE)


def write_config(arguments: argparse.Namespace) -> int:
    """Write the configuration of a case to a file that does not exist yet; without a case, list the cases."""
    if arguments.case is None:
        for name, file in CASES.items():
            print(f"{name:14}{_title(file)}")
        return 0
    text = CASES[arguments.case].read_text(encoding="utf-8")
    if arguments.out == STDIN:
        print(text, end="")
        return 0
    target = Path(arguments.out)
    try:
        with target.open("w" if arguments.force else "x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise UsageError(f"{target}: exists; name another one, or replace it with --force") from None
    print(f"{target}: written. Next, change what its comments name, and:", file=sys.stderr)
    for command in _next_commands(text, target):
        print(f"  {command}", file=sys.stderr)
    return 0


def _title(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _is_hash(variable: str) -> bool:
    return variable.endswith("_SHA256")


def _next_commands(text: str, file: Path) -> list[str]:
    """Return the commands after `init`: the variables that the configuration reads, its check, the start."""
    variables, callers = dict.fromkeys(_VARIABLE.findall(text)), _CALLER.findall(text)
    return [
        *(
            [f"projector keys {' '.join(callers)}    # for each caller its key, and the hash for its variable"]
            if callers
            else ()
        ),
        *(f"export {name}={'sha256:' if _is_hash(name) else ''}..." for name in variables),
        f"projector config check {file}",
        f"projector serve --config {file}",
    ]
