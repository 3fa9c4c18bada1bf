"""A folder of cases: replay it."""

from __future__ import annotations

import argparse
from pathlib import Path

from projector import replay
from projector.dialects import DIALECTS
from projector.progress import Progress


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
    done = "written" if arguments.update else "replayed"
    print(f"{len(cases)} cases {done} in {len(DIALECTS)} dialect(s), {len(differences)} differ")
    return 1 if differences else 0
