"""The command line: its commands and their arguments. What they do stands in `projector.cli`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from projector._errors import UsageError
from projector.cli.cases import record_case, replay_goldens
from projector.cli.common import STDIN
from projector.cli.servers import check_config, demo, health, print_config, serve
from projector.cli.streams import project, validate
from projector.cli.tables import explain_event
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name

EXAMPLES: Final = "examples_ndjson"
EXIT_USAGE: Final = 2
DEFAULT: Final = "default: %(default)s"
CONFIG: Final = "TOML; without one, the variables of the environment alone"
PORT: Final = "to listen on; without one, of the configuration; 0: any that is free"


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="projector", description="Projects, checks, records, replays and serves streams of model providers."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_servers, _add_streams, _add_cases, _add_tables):
        add(commands)
    return parser


def _add_servers(commands: Commands) -> None:
    command = _command(commands, "demo", demo)
    command.add_argument("--port", type=int, metavar="N", help=PORT)

    command = _command(commands, "serve", serve)
    command.add_argument("--config", type=Path, metavar="FILE", help=CONFIG)
    command.add_argument("--host", metavar="H", help="address to listen on; without one, of the configuration")
    command.add_argument("--port", type=int, metavar="N", help=PORT)
    command.add_argument(
        "--workers", type=int, default=1, metavar="N", help="1: more are more servers, behind a balancer"
    )

    command = _command(commands, "health", health)
    command.add_argument("url", nargs="?", default="http://127.0.0.1:8000", metavar="URL", help="default: %(default)s")

    about = "Check or print the configuration of `serve`."
    config = commands.add_parser("config", help=about, description=about)
    config_commands = config.add_subparsers(required=True, metavar="COMMAND")
    for name, run in (("check", check_config), ("print", print_config)):
        command = _command(config_commands, name, run)
        command.add_argument("file", nargs="?", type=Path, metavar="FILE", help=CONFIG)


def _add_streams(commands: Commands) -> None:
    command = _command(commands, "project", project)
    command.add_argument("--provider", choices=list(PROVIDERS), default="openai_responses", help=DEFAULT)
    command.add_argument("--dialect", choices=list(DIALECTS), default="public_sse_v1", help=DEFAULT)
    command.add_argument("--in", dest="input_format", choices=("auto", "sse", "ndjson"), default="auto", help=DEFAULT)
    command.add_argument("--out", dest="output_format", choices=("ndjson", "sse"), default="ndjson", help=DEFAULT)
    command.add_argument("--stream-id", metavar="ID", help="of the stream; a new one without it")
    command.add_argument("--clock", metavar="ISO8601", help="a fixed time for every event")
    command.add_argument("--run", dest="run_of_responses", action="store_true", help="responses follow each other")
    command.add_argument("--host-events", action="store_true", help="take `projector.*` lines as the host's")
    command.add_argument(
        "file", nargs="?", default=STDIN, metavar="FILE|-", help="a provider's stream; -: standard input"
    )

    command = _command(commands, "validate", validate)
    command.add_argument("--dialect", choices=list(DIALECTS), default="public_sse_v1", help=DEFAULT)
    command.add_argument("files", nargs="+", metavar="FILE", help="a stream as NDJSON or SSE; -: standard input")


def _add_cases(commands: Commands) -> None:
    command = _command(commands, "replay", replay_goldens)
    command.add_argument("folder", nargs="?", default=EXAMPLES, metavar="DIR", help=f"folder of cases; {DEFAULT}")
    command.add_argument("--update", action="store_true", help="write the goldens instead of comparing")

    command = _command(commands, "record", record_case)
    command.add_argument("--upstream", default="default", metavar="NAME", help=f"of the configuration; {DEFAULT}")
    command.add_argument("--config", type=Path, metavar="FILE", help=CONFIG)
    command.add_argument(
        "--dir", type=Path, default=Path("recordings"), metavar="DIR", help=f"folder of cases; {DEFAULT}"
    )
    command.add_argument("--name", metavar="CASE", help="of the new case; without one, the upstream's and the time")
    command.add_argument("--raw", action="store_true", help="keep everything, secrets too")
    command.add_argument("request", metavar="REQUEST.json|-", help="what is asked, in the words of the upstream's API")


def _add_tables(commands: Commands) -> None:
    command = _command(commands, "explain", explain_event)
    about = "an event, an item or a member of a chunk; `rules`: those of redaction; without one, everything"
    command.add_argument("event_type", nargs="?", metavar="EVENT_TYPE", help=about)


def _command(commands: Commands, name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    command.set_defaults(run=run)
    return command
