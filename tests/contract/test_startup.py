"""Modules that a start imports, and the commands of `bench/startup.py`. Modules are counted, not timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from bench.startup import MODELS, PARSER, STARTS, STREAM, cpu_s

IMPORTED: Final = """
import json, sys
try:
    exec(sys.argv.pop(1))
except SystemExit as end:
    assert not end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
COMMAND: Final = "from projector.cli import main; sys.exit(main(sys.argv[1:]))"

LIGHT: Final = ("projector", "projector.cli", "projector.cli.commands")
HEAVY: Final = {"pydantic", "pydantic_core", "orjson", "importlib.metadata", "pathlib", "inspect", "dataclasses"}
"""None of these is needed to print a help or to import a name that is not used."""

UNUSED: Final = (
    "projector.cli.cases",
    "projector.cli.completion",
    "projector.cli.mapping",
    "projector.cli.servers",
    "projector.contracts.public_sse_v1",
    "projector.contracts.schema_export",
    "projector.contracts.stream_rules",
    "projector.dialects.ag_ui",
    "projector.dialects.chat_completions",
    "projector.dialects.openresponses",
    "projector.generate",
    "projector.openwop",
    "projector.providers.agents_sdk",
    "projector.providers.openai_chat",
    "projector.recording",
    "projector.server",
    "projector.workflows",
    "asyncio",
    "openai",
    "starlette",
    "tomllib",
)
"""What `projector project` of a Responses stream does not use."""


SERVER: Final = """
from projector.server.config.settings import Settings
from projector.server.process import server
server(Settings()).compile()
"""
NOT_CONFIGURED: Final = {
    "agents", "certifi", "cryptography", "httpx", "httpx2", "jwt", "openai", "redis", "sqlite3",
    "projector.cli", "projector.contracts.public_sse_v1", "projector.contracts.schema_export",
    "projector.dialects.chat_completions", "projector.dialects.openresponses", "projector.dialects.responses",
    "projector.openwop", "projector.providers.agents_sdk",
    "projector.server.http.token_verifier", "projector.server.tls", "projector.store.encryption",
    "projector.store.redis_store", "projector.store.sqlite",
}  # fmt: skip
"""What a server without tokens, TLS, a store in files or Redis, OpenWOP and agent runs does not use.

Dialects are imported by the first stream that has them.
"""


def imported(code: str, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", IMPORTED, code, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(run.stderr.splitlines()[-1]))


def test_a_server_imports_what_is_configured() -> None:
    assert not imported(SERVER) & NOT_CONFIGURED


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        pytest.param("import projector", (), id="import"),
        pytest.param(COMMAND, ("--help",), id="--help"),
        pytest.param(COMMAND, ("--version",), id="--version"),
    ],
)
def test_little_is_imported(code: str, arguments: tuple[str, ...]) -> None:
    modules = imported(code, *arguments)
    assert {name for name in modules if name.partition(".")[0] == "projector"} <= set(LIGHT)
    assert modules & HEAVY == set()


@pytest.mark.parametrize("command", ["project", "validate"])
def test_the_help_of_a_command_needs_no_models(command: str) -> None:
    modules = imported(COMMAND, command, "--help")
    assert modules & {"pydantic", "orjson", "projector.redaction.policy", "projector.core.pipeline"} == set()


def test_project_imports_what_the_stream_needs() -> None:
    modules = imported(COMMAND, "project", str(STREAM))
    assert [name for name in UNUSED if name in modules] == []
    assert "projector.dialects.public_sse_v1.writer" in modules


# bench/startup.py


@pytest.mark.parametrize("name", STARTS)
def test_each_measured_command_works(name: str, tmp_path: Path) -> None:
    start = STARTS[name]
    for command in filter(None, (start.ours, start.floor, start.without)):
        assert cpu_s(command, str(tmp_path)) > 0, "it exits with 0"


def test_the_measured_commands_do_what_their_names_say() -> None:
    def output(name: str) -> list[str]:
        command = [sys.executable, *STARTS[name].ours]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert output("projector --help")[0].startswith("usage: projector ")
    assert json.loads(output("projector project")[-1])["kind"] == "final"
    compiled = STARTS["compile the default policy"]
    assert compiled.without is not None
    names: dict[str, Any] = {}
    exec(compiled.ours[1], names)  # noqa: S102 - our own code
    formats = names["redactor"]._search._formats
    assert {"live", "last"} <= vars(formats).keys(), "both searches are compiled"
    assert "Redactor(" not in compiled.without[1]


def test_the_floors_import_what_they_name() -> None:
    assert {"argparse", "json"} <= imported(PARSER[1])
    assert {"pydantic.main", "orjson"} <= imported(MODELS[1])
