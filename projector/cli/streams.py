"""One stream: project it, validate it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from projector.cli.common import opened, size_of
from projector.cli.progress import Progress
from projector.contracts import stream_rules
from projector.core.context import StreamContext, parse_time
from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS

READ_BYTES: Final = 65_536
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells say it


FRAMING: Final = (b":", b"event:", b"id:", b"retry:")
"""Lines of SSE that are no data."""


def project(arguments: argparse.Namespace) -> int:
    """Write the public stream of a provider stream while it arrives."""
    pipeline = build_pipeline(
        provider=arguments.provider,
        dialect=arguments.dialect,
        context=StreamContext(stream_id=arguments.stream_id),
        run=arguments.run_of_responses,
        input_format=arguments.input_format,
        output_format=arguments.output_format,
        takes_host_events=arguments.host_events,
        clock=_clock(arguments.clock),
    )
    with opened(arguments.file) as source, Progress("bytes", size_of(source)) as progress:
        try:
            while data := source.read1(READ_BYTES):  # type: ignore[attr-defined]  # buffered readers have it
                _write(pipeline.feed(data))
                progress.advance(len(data))
        except KeyboardInterrupt:
            _write(pipeline.cancel())
            return EXIT_INTERRUPTED
        _write(pipeline.close())
    return 0


def validate(arguments: argparse.Namespace) -> int:
    """Print each violation of a dialect's rules, with its line."""
    found = False
    for name in arguments.files:
        with opened(name) as source, Progress("bytes", size_of(source)) as progress:
            checker = DIALECTS[arguments.dialect].checker()
            violations: list[stream_rules.Violation] = []
            for number, line in _events(source, progress):
                violations += checker.feed(number, line)
            violations += checker.close()
        for violation in violations:
            found = True
            event = f" event {violation.event_id}" if violation.event_id is not None else ""
            place = f"{name}:{violation.line}:{event}"
            print(f"{place} {violation.rule} ({violation.level}): {violation.message}")
    return 1 if found else 0


def _events(source: BinaryIO, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Give each event of an NDJSON file, or of the `data` lines that we write as SSE, with its line number."""
    for number, line in enumerate(source, 1):
        progress.advance(len(line))
        event = line.removeprefix(b"data:").strip()
        if event and not line.startswith(FRAMING):
            yield number, event


def _write(data: bytes) -> None:
    if data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _clock(text: str | None) -> Callable[[], float]:
    """Give the clock that stands still at a time of ISO 8601; without one, the time of day."""
    if text is None:
        return time.time
    at = parse_time(text, "--clock")
    return lambda: at
