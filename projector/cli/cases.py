"""A folder of cases: record a new one, replay all of them."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from projector import recording
from projector._errors import UsageError
from projector.cli.common import opened, shell
from projector.cli.progress import Progress
from projector.contracts import codec
from projector.core.faults import Fault
from projector.dialects import DIALECTS
from projector.recording import replay


def record_case(arguments: argparse.Namespace) -> int:
    """Ask an upstream once, and keep its stream as a case that `replay` plays."""
    settings = shell("config.loading").load(os.environ, config=arguments.config)
    folder, name = arguments.dir, arguments.name or _name(arguments.upstream)
    recording.check_name(folder, name)
    request = _request(arguments.request)
    if arguments.raw:
        _warn("--raw keeps all that the provider says, secrets too: not for a repository")
    answer = shell("upstream.capture").ask(settings, arguments.upstream, request, is_raw=arguments.raw)
    if isinstance(answer, Fault):
        _warn(f"{answer.code}: {answer.message}")
        return 1
    source = recording.write(folder, name, answer)
    print(f"{source}: {answer.events} events, {answer.withheld or 'nothing'} withheld")
    if close := answer.settings.get("close"):
        print(f"The stream broke off, and so does the case: {close}")
    print("Next: look at it, then write what each dialect makes of it, and commit both:")
    print(f"  projector replay {shlex.quote(str(folder))} --update")
    return 0


def replay_goldens(arguments: argparse.Namespace) -> int:
    """Compare every case with its goldens, and print what differs."""
    folder = Path(arguments.folder)
    cases = replay.load_cases(folder)
    differences: list[replay.Difference] = []
    with Progress("cases", len(cases) * len(DIALECTS)) as progress:
        for case in cases:
            for dialect in DIALECTS:
                difference = replay.compare(folder, case, dialect, update=arguments.update)
                differences += [difference] if difference is not None else []
                progress.advance(1)
    differences += replay.orphans(folder, cases, update=arguments.update)
    for difference in differences:
        print(f"{difference.dialect}/{difference.case}.ndjson: {difference.what}")
        if difference.diff:
            print(difference.diff)
    if any(difference.what == "golden is missing" for difference in differences):
        print(f"Goldens are written by: projector replay {shlex.quote(arguments.folder)} --update")
    done = "written" if arguments.update else "replayed"
    print(f"{len(cases)} cases {done} in {len(DIALECTS)} dialect(s), {len(differences)} differ")
    return 1 if differences else 0


def _name(upstream: str) -> str:
    return f"{upstream}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"


def _request(name: str) -> dict[str, Any]:
    with opened(name) as source:
        try:
            request = codec.loads(source.read())
        except codec.CodecError:
            request = None
    if not isinstance(request, dict):
        raise UsageError(f"{name}: expected a request as a JSON object")
    return request


def _warn(text: str) -> None:
    print(f"projector: {text}", file=sys.stderr)
