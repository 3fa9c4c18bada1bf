"""The commands as data: names, help, arguments, and the function that runs each, imported only when it runs."""

from __future__ import annotations

import argparse
import importlib
from typing import Any, Final, NamedTuple, TypeAlias

from projector import __version__

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name


class Argument(NamedTuple):
    """Names of an argument, and the options of `add_argument`; `choices` may be `module:NAME`, a list of names."""

    names: tuple[str, ...]
    options: dict[str, Any]


class Command(NamedTuple):
    """One command, or a group of commands without `run`."""

    name: str
    help: str
    run: str
    """`module:function` in this package."""
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    commands: tuple[Command, ...] = ()


def _value(name: str, metavar: str, about: str, **more: Any) -> Argument:
    return Argument((name,), {"metavar": metavar, "help": about, **more})


def _flag(name: str, about: str, **more: Any) -> Argument:
    return Argument((name,), {"help": about, "action": "store_true", **more})


def _choice(*names: str, choices: str | tuple[str, ...], default: str, about: str) -> Argument:
    return Argument(names, {"choices": choices, "default": default, "help": about + _DEFAULT})


EXAMPLES: Final = "examples_ndjson"
_DEFAULT: Final = " (default: %(default)s)"
_CONFIG: Final = "configuration file in TOML (default: environment variables only)"
_CONFIG_FILE: Final = _value("file", "FILE", _CONFIG, nargs="?")
_CONFIG_OPTION: Final = _value("--config", "FILE", _CONFIG)
_PORT: Final = _value("--port", "N", "port to listen on (default: from the configuration; 0 = any free port)", type=int)
_DIALECTS: Final = "projector.dialects:DIALECTS"
_DIALECT: Final = _choice("--dialect", choices=_DIALECTS, default="public_sse_v1", about="dialect of the events")
_POLICY_CONFIG: Final = _value(
    "--config", "FILE", "configuration file in TOML that has the policy (default: the default policy)"
)
_POLICY_PATH: Final = _value(
    "--policy", "PATH", "policy of the configuration, if it has several: `agents.NAME`, `workflows.NAME`, `passthrough`"
)
_PROVIDERS: Final = "projector.providers:PROVIDERS"
DEFAULT_PROVIDER: Final = "openai_responses"
"""That of `projector.providers`, whose import would slow each help down."""

_FAIL_ON_DROPPED: Final = _flag(
    "--fail-on-dropped", "exit 1 if input was dropped without a reason in the tables, such as an unknown event"
)

COMMANDS: Final = (
    Command(
        "demo",
        "Serve recorded example streams; no API key is needed.",
        "servers:demo",
        ("projector demo --port 8000",),
        (_PORT,),
    ),
    Command(
        "serve",
        "Serve the configured upstreams.",
        "servers:serve",
        ("projector serve --config projector.toml --port 8000",),
        (
            _CONFIG_OPTION,
            _value("--host", "H", "address to listen on (default: from the configuration)"),
            _PORT,
            _value(
                "--workers", "N", "worker processes; more than 1 need a Redis store (default: 1)", type=int, default=1
            ),
        ),
    ),
    Command(
        "health",
        "Check that a server is up; exit 1 if it is not.",
        "servers:health",
        ("projector health http://127.0.0.1:8000",),
        (_value("url", "URL", "URL of the server" + _DEFAULT, nargs="?", default="http://127.0.0.1:8000"),),
    ),
    Command(
        "init",
        "Write a configuration with comments for a case; without a case, list the cases.",
        "init_config:write_config",
        ("projector init one-upstream", "projector init replicas server.toml"),
        (
            _value("case", "CASE", "case (default: list them)", nargs="?", choices="projector.cli.init_config:CASES"),
            _value(
                "out",
                "FILE",
                "file to write; - is standard output (default: projector.toml)",
                nargs="?",
                default=argparse.SUPPRESS,  # or it would replace the value of `--out`
            ),
            _value("--out", "FILE", "the same", default="projector.toml"),
            _flag("--force", "replace the file if it exists"),
        ),
    ),
    Command(
        "keys",
        "Make API keys for callers: hashes for `auth.api_keys` on standard output, the keys on standard error.",
        "servers:make_keys",
        ("projector keys frontend", "projector keys ann ben --out keys.txt >> projector.toml"),
        (
            _value("names", "NAME", "name of a caller", nargs="+"),
            _value("--out", "FILE", "new file for the names and keys, which only you can read"),
        ),
    ),
    Command(
        "config",
        "Check or print the configuration of `serve`.",
        "",
        ("projector config check projector.toml", "projector config print"),
        commands=tuple(
            Command(
                name, about, f"servers:{name}_config", (f"projector config {name} projector.toml",), (_CONFIG_FILE,)
            )
            for name, about in (
                ("check", "Check that a server can start with this configuration."),
                ("print", "Print the settings in effect as TOML, with secrets masked."),
            )
        ),
    ),
    Command(
        "project",
        "Convert a provider stream to a dialect as it arrives.",
        "streams:project",
        (
            "projector project --provider openai_chat --dialect ag_ui stream.ndjson",
            "curl -N ... | projector project --output-format sse",
        ),
        (
            _choice("--provider", choices=_PROVIDERS, default=DEFAULT_PROVIDER, about="provider of the stream"),
            _DIALECT,
            _choice("--input-format", "--in", choices=("auto", "sse", "ndjson"), default="auto", about="input format"),
            _choice("--output-format", "--out", choices=("ndjson", "sse"), default="ndjson", about="output format"),
            _value("--stream-id", "ID", "stream ID (default: generated)"),
            _value("--clock", "ISO8601", "timestamp of every event (default: the current time)"),
            _flag("--run", "join consecutive responses into one run", dest="is_run"),
            _flag("--host-events", "accept `projector.*` lines as events of the host"),
            _FAIL_ON_DROPPED,
            _value("file", "FILE|-", "provider stream; - is standard input" + _DEFAULT, nargs="?", default="-"),
        ),
    ),
    Command(
        "validate",
        "Check streams against the rules of a dialect; exit 1 on a violation.",
        "streams:validate",
        ("projector validate --dialect openwop log.ndjson", "projector project stream.ndjson | projector validate -"),
        (
            _choice(
                "--dialect",
                choices=_DIALECTS,
                default="public_sse_v1",
                about="dialect of the events; `public_sse_v1` and `openwop` have rules",
            ),
            _value("files", "FILE", "stream as NDJSON or SSE; - is standard input", nargs="+"),
        ),
    ),
    Command(
        "replay",
        "Compare the output of each case in a folder with its golden file; exit 1 on a difference.",
        "cases:replay_cases",
        (
            "projector replay tests/streams",
            "projector replay tests/streams --update --name 'weather-*'",
            "projector replay tests/streams --config projector.toml --policy agents.support",
        ),
        (
            _value("folder", "DIR", "folder of cases, or one as a ZIP file" + _DEFAULT, nargs="?", default=EXAMPLES),
            _flag("--update", "write the golden files that differ, and list them"),
            _value("--name", "CASE", "only this case; a pattern like `weather-*`: several (default: all)"),
            _FAIL_ON_DROPPED,
            _value(
                "--config",
                "FILE",
                "configuration file in TOML whose policy holds for cases without one in `cases.toml`",
            ),
            _POLICY_PATH,
        ),
    ),
    Command(
        "record",
        "Send one request to an upstream and save its stream as a case for `replay`.",
        "cases:record_case",
        (
            "projector record --upstream openai --name hello request.json",
            "projector record --dir tests/streams --again",
        ),
        (
            _value("--upstream", "NAME", "configured upstream (default: the only one)"),
            _CONFIG_OPTION,
            _value("--dir", "DIR", "folder of cases" + _DEFAULT, default="recordings"),
            _value("--name", "CASE", "name of the new case (default: upstream name and timestamp)"),
            _flag("--raw", "save the stream unredacted, including any secrets"),
            _flag("--force", "replace the case if it exists, and print what changed"),
            _flag("--keep-request", "save the request too, unredacted, for `--again`"),
            _flag(
                "--again",
                "send the saved requests of the folder, or of the case `--name`, and compare; exit 1 on a change",
            ),
            _value("request", "REQUEST.json|-", "request body for the upstream's API; - is standard input", nargs="?"),
        ),
    ),
    Command(
        "explain",
        "Explain how an event type, an item type or a chunk field is handled, or what is withheld in a file.",
        "mapping:explain_name",
        (
            "projector explain response.mcp_call.completed",
            "projector explain rules --config projector.toml",
            "projector explain --redaction tool_output.json --config projector.toml --policy agents.support",
        ),
        (
            _value("name", "NAME", "a name, or `rules` for the redaction rules (default: everything)", nargs="?"),
            _value(
                "--redaction",
                "FILE|-",
                "list what a policy withholds in a file (text, JSON or JSON lines) or standard input, and the rules",
            ),
            _POLICY_CONFIG,
            _POLICY_PATH,
        ),
    ),
    Command(
        "redact",
        "Write a text, or the events of a provider stream, without what a policy withholds. JSON is read as text.",
        "redacting:redact",
        (
            "projector redact notes.txt",
            "projector redact --config projector.toml --policy agents.support notes.txt",
            "projector redact --text credentials,email -",
            "projector redact --provider openai_chat stream.ndjson",
        ),
        (
            _POLICY_CONFIG,
            _POLICY_PATH,
            _value(
                "--text",
                "CLASSES",
                "`off`, `credentials` or classes like `email,phone=block`, else masked (default: of the policy)",
            ),
            _value(
                "--provider",
                "NAME",
                "the input is a stream of this provider (default: it is a text)",
                choices=_PROVIDERS,
            ),
            _value("file", "FILE|-", "text or stream; - is standard input" + _DEFAULT, nargs="?", default="-"),
        ),
    ),
    Command(
        "completion",
        "Print a completion script for a shell.",
        "completion:print_script",
        ('eval "$(projector completion bash)"', "projector completion fish | source"),
        (_value("shell", "SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish")),),
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
    parser.epilog = "\n  ".join(["examples:" if len(row.examples) > 1 else "example:", *row.examples])
    parser.set_defaults(run=row.run, parser=parser)
    for names, options in row.arguments:
        parser.add_argument(*names, **{**options, **_choices(options.get("choices"))})
    if row.commands:
        inner = parser.add_subparsers(required=True, metavar="COMMAND")
        for one in row.commands:
            _add(inner, one, is_complete=True)


def _choices(choices: object) -> dict[str, list[str]]:
    """Return the `choices` option with the names of a mapping, whose values are not imported."""
    if not isinstance(choices, str):
        return {}
    module, _, name = choices.partition(":")
    return {"choices": list(getattr(importlib.import_module(module), name))}
