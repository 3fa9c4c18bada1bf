"""The commands as data: names, help, arguments, and the function that runs each, imported only when it runs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from projector import __version__

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name


class Argument(NamedTuple):
    """One argument: its names and the options of `add_argument`.

    `choices` may be `module:NAME`, a mapping with the names.
    """

    names: tuple[str, ...]
    options: dict[str, Any]


class Command(NamedTuple):
    """One command; `run` is `module:function`, empty for a group of commands."""

    name: str
    help: str
    run: str
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    commands: tuple[Command, ...] = ()


def _argument(*names: str, **options: object) -> Argument:
    return Argument(names, options)


EXAMPLES: Final = "examples_ndjson"
_DIALECTS: Final = "projector.dialects:DIALECTS"
_CONFIG: Final = "configuration file in TOML (default: environment variables only)"
_PORT: Final = _argument(
    "--port",
    type=int,
    metavar="N",
    help="port to listen on (default: from the configuration; 0 = any free port)",
)
_CONFIG_FILE: Final = _argument("file", nargs="?", metavar="FILE", help=_CONFIG)

COMMANDS: Final = (
    Command(
        "demo",
        "Serve recorded example streams; no API key is needed.",
        "projector.cli.servers:demo",
        ("projector demo --port 8000",),
        (_PORT,),
    ),
    Command(
        "serve",
        "Serve the configured upstreams.",
        "projector.cli.servers:serve",
        ("projector serve --config projector.toml --port 8000",),
        (
            _argument("--config", metavar="FILE", help=_CONFIG),
            _argument("--host", metavar="H", help="address to listen on (default: from the configuration)"),
            _PORT,
            _argument(
                "--workers",
                type=int,
                default=1,
                metavar="N",
                help="must be 1; to scale, run several servers behind a load balancer",
            ),
        ),
    ),
    Command(
        "health",
        "Check that a server is up; exit 1 if it is not.",
        "projector.cli.servers:health",
        ("projector health http://127.0.0.1:8000",),
        (
            _argument(
                "url",
                nargs="?",
                default="http://127.0.0.1:8000",
                metavar="URL",
                help="URL of the server (default: %(default)s)",
            ),
        ),
    ),
    Command(
        "config",
        "Check or print the configuration of `serve`.",
        "",
        ("projector config check projector.toml", "projector config print"),
        commands=(
            Command(
                "check",
                "Check that a server can start with this configuration.",
                "projector.cli.servers:check_config",
                ("projector config check projector.toml",),
                (_CONFIG_FILE,),
            ),
            Command(
                "print",
                "Print the settings in effect as TOML, with secrets masked.",
                "projector.cli.servers:print_config",
                ("projector config print projector.toml",),
                (_CONFIG_FILE,),
            ),
        ),
    ),
    Command(
        "project",
        "Convert a provider stream to a dialect, while it arrives.",
        "projector.cli.streams:project",
        (
            "projector project --provider openai_chat --dialect ag_ui stream.ndjson",
            "curl -N ... | projector project --output-format sse",
        ),
        (
            _argument(
                "--provider",
                choices="projector.providers:PROVIDERS",
                default="openai_responses",
                help="provider of the stream (default: %(default)s)",
            ),
            _argument("--dialect", choices=_DIALECTS, default="public_sse_v1", help="dialect (default: %(default)s)"),
            _argument(
                "--input-format",
                "--in",
                choices=("auto", "sse", "ndjson"),
                default="auto",
                help="format of the input (default: %(default)s)",
            ),
            _argument(
                "--output-format",
                "--out",
                choices=("ndjson", "sse"),
                default="ndjson",
                help="format of the output (default: %(default)s)",
            ),
            _argument("--stream-id", metavar="ID", help="stream ID (default: generated)"),
            _argument("--clock", metavar="ISO8601", help="timestamp of every event (default: the current time)"),
            _argument("--run", dest="is_run", action="store_true", help="join consecutive responses into one run"),
            _argument("--host-events", action="store_true", help="accept `projector.*` lines as events of the host"),
            _argument(
                "file",
                nargs="?",
                default="-",
                metavar="FILE|-",
                help="provider stream; - is standard input (default: %(default)s)",
            ),
        ),
    ),
    Command(
        "validate",
        "Check streams against the rules of a dialect; exit 1 on a violation.",
        "projector.cli.streams:validate",
        ("projector validate --dialect ag_ui stream.ndjson", "projector project stream.ndjson | projector validate -"),
        (
            _argument("--dialect", choices=_DIALECTS, default="public_sse_v1", help="dialect (default: %(default)s)"),
            _argument("files", nargs="+", metavar="FILE", help="stream as NDJSON or SSE; - is standard input"),
        ),
    ),
    Command(
        "replay",
        "Compare the output of each case in a folder with its golden file; exit 1 on a difference.",
        "projector.cli.cases:replay_cases",
        ("projector replay tests/streams", "projector replay tests/streams --update"),
        (
            _argument(
                "folder", nargs="?", default=EXAMPLES, metavar="DIR", help="folder of cases (default: %(default)s)"
            ),
            _argument("--update", action="store_true", help="write the golden files instead of comparing them"),
        ),
    ),
    Command(
        "record",
        "Send one request to an upstream and save its stream as a case for `replay`.",
        "projector.cli.cases:record_case",
        ("projector record --upstream default --name hello request.json",),
        (
            _argument(
                "--upstream", default="default", metavar="NAME", help="configured upstream (default: %(default)s)"
            ),
            _argument("--config", metavar="FILE", help=_CONFIG),
            _argument("--dir", default="recordings", metavar="DIR", help="folder of cases (default: %(default)s)"),
            _argument("--name", metavar="CASE", help="name of the new case (default: upstream name and timestamp)"),
            _argument("--raw", action="store_true", help="save the stream unredacted, with any secrets in it"),
            _argument(
                "request",
                metavar="REQUEST.json|-",
                help="request body as the upstream's API defines it; - is standard input",
            ),
        ),
    ),
    Command(
        "explain",
        "Explain how an event type, an item type or a chunk field is handled.",
        "projector.cli.mapping:explain_name",
        ("projector explain response.mcp_call.completed", "projector explain rules"),
        (
            _argument(
                "name",
                nargs="?",
                metavar="NAME",
                help="event type, item type or chunk field; `rules` prints the redaction rules (default: everything)",
            ),
        ),
    ),
    Command(
        "completion",
        "Print a completion script for a shell.",
        "projector.cli.completion:print_script",
        (
            'eval "$(projector completion bash)"',
            'eval "$(projector completion zsh)"',
            "projector completion fish | source",
        ),
        (_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"),),
    ),
)


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser. With `only`, just that command gets its arguments, so that the others load nothing."""
    parser = argparse.ArgumentParser(
        prog="projector",
        description="Project, check, record, replay and serve event streams of model providers.",
        epilog="projector COMMAND --help describes a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=f"projector {__version__}", help="show the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for row in COMMANDS:
        _add(commands, row, is_complete=only in {None, row.name})
    return parser


def _add(commands: Subparsers, row: Command, *, is_complete: bool) -> None:
    parser = commands.add_parser(row.name, help=row.help, description=row.help)
    if not is_complete:
        return
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:" if len(row.examples) > 1 else "example:", *(f"  {e}" for e in row.examples)])
    parser.set_defaults(run=row.run)
    for names, options in row.arguments:
        parser.add_argument(*names, **{**options, **_choices(options.get("choices"))})
    if row.commands:
        inner = parser.add_subparsers(required=True, metavar="COMMAND")
        for one in row.commands:
            _add(inner, one, is_complete=True)


def _choices(choices: str | Iterable[str] | None) -> dict[str, list[str]]:
    """Return the `choices` option with the names of a mapping, whose values are not imported."""
    if not isinstance(choices, str):
        return {}
    module, _, name = choices.partition(":")
    return {"choices": list(getattr(importlib.import_module(module), name))}
