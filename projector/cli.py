"""The command line: project, validate, replay, explain, demo, serve, health, config. Thin; the work is elsewhere."""

from __future__ import annotations

import argparse
import importlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from contracts import openwop, stream_rules
from projector import clock, explain, replay
from projector._errors import UsageError
from projector.context import StreamContext
from projector.dialects import DIALECTS
from projector.pipeline import build_pipeline
from projector.progress import Progress
from projector.providers import PROVIDERS

READ_BYTES: Final = 65_536
EXAMPLES: Final = "examples_ndjson"
STDIN: Final = "-"
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells say it


class Checker(Protocol):
    """Checks one stream, line by line."""

    def feed(self, line_no: int, line: bytes | str, /) -> list[stream_rules.Violation]:
        """Take one line; give what it breaks."""
        ...

    def close(self) -> list[stream_rules.Violation]:
        """Take the end of the stream; give what is missing."""
        ...


CHECKERS: Final[Mapping[str, Callable[[], Checker]]] = {
    "public_sse_v1": stream_rules.StreamChecker,
    "openwop": openwop.LogChecker,
}
"""Dialects with rules over a whole stream."""

FRAMING: Final = (b":", b"event:", b"id:", b"retry:")
"""Lines of SSE that are no data."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; give its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status = int(arguments.run(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader left, `head` for example; the interpreter must not fail once more when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UsageError, OSError, ValueError) as error:
        print(f"projector: {error}", file=sys.stderr)
        return EXIT_USAGE
    return status


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
    with _opened(arguments.file) as source, Progress("bytes", _size(source)) as progress:
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
        with _opened(name) as source, Progress("bytes", _size(source)) as progress:
            checker = CHECKERS[arguments.dialect]()
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


def explain_event(arguments: argparse.Namespace) -> int:
    """Print what becomes of an event type, or of every one."""
    for line in explain.explain(arguments.event_type) if arguments.event_type else explain.everything():
        print(line)
    return 0


def demo(arguments: argparse.Namespace) -> int:
    """Serve with the built-in provider; print a line to try."""
    return _serve({"port": arguments.port}, None, is_demo=True)


def serve(arguments: argparse.Namespace) -> int:
    """Serve with the configured provider."""
    _shell("server").refuse_workers(arguments.workers)
    return _serve({"host": arguments.host, "port": arguments.port}, arguments.config, is_demo=False)


def health(arguments: argparse.Namespace) -> int:
    """Say whether a server lives; status 1 if it does not."""
    why_not = _shell("health").why_not_alive(arguments.url)
    print("The server lives." if why_not is None else why_not)
    return 0 if why_not is None else 1


def check_config(arguments: argparse.Namespace) -> int:
    """Say whether a server could start with this configuration file and this environment."""
    _shell("configuration").load(os.environ, config=arguments.file)
    print("The configuration can be served.")
    return 0


def print_config(arguments: argparse.Namespace) -> int:
    """Print the settings in effect as TOML, secrets masked."""
    loaded = _shell("configuration").read(os.environ, config=arguments.file)
    print(_shell("shown").shown(loaded), end="")
    return 0


def _serve(flags: Mapping[str, object], config: Path | None, *, is_demo: bool) -> int:
    settings = _shell("configuration").load(os.environ, flags, config)
    _shell("server").run(settings, demo=is_demo)
    return 0


def _shell(name: str) -> Any:
    """Give a module of the shell, which needs the packages of the `server` extra."""
    try:
        return importlib.import_module(f"projector.asgi.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(f"`{error.name}` is missing; install `public-stream-projector[server]`") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="projector", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _command(commands, "demo", demo)
    command.add_argument("--port", type=int)

    command = _command(commands, "serve", serve)
    command.add_argument("--config", type=Path)
    command.add_argument("--host")
    command.add_argument("--port", type=int)
    command.add_argument("--workers", type=int, default=1, help="1: more are more servers, behind a balancer")

    command = _command(commands, "health", health)
    command.add_argument("url", nargs="?", default="http://127.0.0.1:8000", metavar="URL")

    config = commands.add_parser("config", help="about the configuration of `serve`")
    config_commands = config.add_subparsers(required=True, metavar="COMMAND")
    for name, run in (("check", check_config), ("print", print_config)):
        command = _command(config_commands, name, run)
        command.add_argument("file", nargs="?", type=Path, metavar="FILE")

    command = _command(commands, "project", project)
    command.add_argument("--provider", choices=list(PROVIDERS), default="openai_responses")
    command.add_argument("--dialect", choices=list(DIALECTS), default="public_sse_v1")
    command.add_argument("--in", dest="input_format", choices=("auto", "sse", "ndjson"), default="auto")
    command.add_argument("--out", dest="output_format", choices=("ndjson", "sse"), default="ndjson")
    command.add_argument("--stream-id")
    command.add_argument("--clock", metavar="ISO8601", help="a fixed time for every event")
    command.add_argument("--run", dest="run_of_responses", action="store_true", help="responses follow each other")
    command.add_argument("--host-events", action="store_true", help="take `projector.*` lines as the host's")
    command.add_argument("file", nargs="?", default=STDIN, metavar="FILE|-")

    command = _command(commands, "validate", validate)
    command.add_argument("--dialect", choices=list(CHECKERS), default="public_sse_v1")
    command.add_argument("files", nargs="+", metavar="FILE")

    command = _command(commands, "replay", replay_goldens)
    command.add_argument("folder", nargs="?", default=EXAMPLES, metavar="DIR")
    command.add_argument("--update", action="store_true", help="write the goldens instead of comparing")

    command = _command(commands, "explain", explain_event)
    command.add_argument("event_type", nargs="?", metavar="EVENT_TYPE")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    command.set_defaults(run=run)
    return command


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, or standard input for `-`."""
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as source:
        yield source


def _size(source: BinaryIO) -> int | None:
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


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
    at = clock.parse(text, "--clock")
    return lambda: at
