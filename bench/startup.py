"""CPU time of a start as a ratio to a floor: user and system time of child processes, the median of several rounds.

Bytecode is cached, as after an installation. Prints, and never fails. docs/performance.md has targets and results.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

ROUNDS: Final = 11
STREAM: Final = Path(__file__).parent.parent / "examples_ndjson" / "openai_responses" / "chat-text-citations.ndjson"

POLICY: Final = """
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
policy = Policy()
"""
COMPILE: Final = """
redactor = Redactor(policy)
assert redactor.text("plain text of a tool").value == "plain text of a tool"
stream = redactor.argument_stream()
stream.feed('{"password": "x", "note": "plain ')
stream.feed('text"}')
assert stream.finish().arguments.text.value == '{"password": "<redacted>", "note": "plain text"}'
"""
"""Uses both searches once, in whole text and in text in parts, because the first use compiles them.

Patterns of formats are not included: each is compiled when its anchor is first found.
"""
PARSER: Final = ("-c", "import argparse, json")
MODELS: Final = ("-c", "from pydantic import BaseModel; import orjson")


class Start(NamedTuple):
    """A command, the command it is compared with, and the ratio it must not exceed.

    Args:
        ours: arguments of the interpreter.
        floor: arguments of a command with the imports that any such program needs.
        most: the target.
        without: a command whose cost is subtracted from `ours`.
    """

    ours: tuple[str, ...]
    floor: tuple[str, ...]
    most: float
    without: tuple[str, ...] | None = None


STARTS: Final = {
    "projector --help": Start(("-m", "projector", "--help"), PARSER, 2.5),
    "projector project": Start(("-m", "projector", "project", str(STREAM)), MODELS, 3),
    "compile the default policy": Start(("-c", POLICY + COMPILE), MODELS, 0.42, without=("-c", POLICY)),
}


def main() -> None:
    """Measure and print."""
    commands = {command for start in STARTS.values() for command in (start.ours, start.floor, start.without) if command}
    costs: dict[tuple[str, ...], list[float]] = {command: [] for command in sorted(commands)}
    with tempfile.TemporaryDirectory() as bytecode:
        for command in costs:
            cpu_s(command, bytecode)  # write the bytecode
        for _ in range(ROUNDS):  # commands take turns, so that other load affects all of them
            for command, rounds in costs.items():
                rounds.append(cpu_s(command, bytecode))
    print(f"start-up, {ROUNDS} rounds")
    for name, start in STARTS.items():
        floor = median(costs[start.floor])
        ours = median(costs[start.ours]) - (median(costs[start.without]) if start.without else 0)
        reached = "reached" if ours <= start.most * floor else "not reached"
        print(
            f"  {name:32}{1e3 * ours:6.1f} ms   {ours / floor:.2f} of `python {' '.join(start.floor)}` "
            f"({1e3 * floor:.1f} ms); target: at most {start.most}: {reached}"
        )


def cpu_s(arguments: tuple[str, ...], bytecode: str) -> float:
    """Return the CPU seconds of Python with these arguments and a folder for its bytecode."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = bytecode
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environ)  # noqa: S603 - our own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
