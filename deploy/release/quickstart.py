"""The quick start of the README, run from what was installed in a clean folder."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples_ndjson" / "openai_responses" / "chat-web-search.ndjson"
GOLDEN: Final = ROOT / "examples_ndjson" / "public_sse_v1" / "chat-web-search.ndjson"
_REDUCE: Final = """
import { readFileSync } from "node:fs";
import { initialState, reduce, responseText } from "public-stream-client";

const events = readFileSync(process.argv[2], "utf8").split("\\n").filter(Boolean).map((line) => JSON.parse(line));
const state = events.reduce(reduce, initialState);
console.log(JSON.stringify({ status: state.status, response_text: responseText(state) }));
"""
_TRY: Final = "Try:"
_LIMIT_S: Final = 120.0


class QuickstartError(Exception):
    """A step of the quick start had another result than the README promises."""


def run_python(programs: Path, folder: Path) -> str:
    """Run the demo, the conversion of an example and `init` from a folder of programs; return what was done."""
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "OPENAI_API_KEY": "sk-none"}
    events = _demo_events(folder, environ)
    _expect(events[-1].get("final", {}).get("status") == "completed", "the demo's stream ends as completed")
    public = _output(["projector", "project", str(EXAMPLE)], folder, environ)
    _expect(json.loads(public.splitlines()[-1])["kind"] == "final", "`project` ends with `final`")
    _output(["projector", "validate", "-"], folder, environ, given=public)
    _output(["projector", "init", "one-upstream", "--force"], folder, environ)
    _output(["projector", "config", "check", "projector.toml"], folder, environ)
    return f"demo: {len(events)} events; project, validate, init, config check"


def run_node(folder: Path) -> str:
    """Reduce a golden with the client that is installed in a folder; return what was done."""
    script = folder / "reduce.mjs"
    script.write_text(_REDUCE, encoding="utf-8")
    printed = json.loads(_output(["node", script.name, str(GOLDEN)], folder, os.environ))
    final = json.loads(GOLDEN.read_text(encoding="utf-8").splitlines()[-1])["final"]
    _expect(printed == {name: final[name] for name in printed}, "the state is that of the golden's `final`")
    return f"reduced {GOLDEN.name}: {printed['status']}"


def _demo_events(folder: Path, environ: Mapping[str, str]) -> list[dict[str, object]]:
    """Start the demo, run the command that it prints, and return the events."""
    with _demo(folder, environ) as command:
        stream = _output([*shlex.split(command), "--silent", "--max-time", "60"], folder, environ)
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines]


@contextmanager
def _demo(folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    command = ["projector", "demo", "--port", "0"]
    found = _found(command[0], environ)
    with subprocess.Popen(
        [found, *command[1:]], cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            printed = next((line for line in server.stdout or () if line.startswith(_TRY)), None)
            if printed is None:
                raise QuickstartError("`projector demo` did not print a command")
            yield printed.removeprefix(_TRY)
        finally:
            server.terminate()


def _found(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program that the environment finds first."""
    for folder in environ["PATH"].split(":"):
        if os.access(path := f"{folder}/{name}", os.X_OK):
            return path
    raise QuickstartError(f"`{name}` is not installed")


def _output(command: list[str], folder: Path, environ: Mapping[str, str], given: str | None = None) -> str:
    done = subprocess.run(
        [_found(command[0], environ), *command[1:]],
        cwd=folder,
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise QuickstartError(f"`{shlex.join(command)}` exited with {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout


def _expect(is_so: bool, expected: str) -> None:  # noqa: FBT001 - an assertion
    if not is_so:
        raise QuickstartError(f"expected: {expected}")
