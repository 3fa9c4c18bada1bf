"""The public interface of the library and of the command line."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import projector
import projector.server
from projector import Pipeline, PublicStreamProjector, StreamContext, build_pipeline, cli, providers
from projector.cli import commands
from projector.cli.commands import COMMANDS, Command, build_parser
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS

ROOT: Final = Path(__file__).parents[2]


def test_names() -> None:
    promised = {"Pipeline", "PipelineBranch", "PublicStreamProjector", "Policy", "PolicyError", "StreamContext"}
    promised |= {"UsageError", "build_pipeline"}
    assert promised <= set(projector.__all__)
    promised = {"ProjectingMiddleware", "Projection", "PublicSSEResponse", "Settings", "create_app", "workflow"}
    assert promised <= set(projector.server.__all__)


@pytest.mark.parametrize("module", [projector, projector.server])
def test_each_public_name_is_imported_on_access(module: ModuleType) -> None:
    assert all(hasattr(module, name) for name in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match=f"module `{module.__name__}` has no attribute `pipelines`"):
        module.pipelines  # noqa: B018 - reading it is the test


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert projector.__version__ == project["version"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"projector {project['version']}\n")


def test_extras_have_hyphens() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) == {"server", "redis", "otel", "agents-sdk", "openai"}


def test_build_pipeline() -> None:
    given = inspect.signature(build_pipeline).parameters
    assert list(given)[:5] == ["provider", "dialect", "policy", "context", "run"]
    assert {parameter.kind for parameter in given.values()} == {inspect.Parameter.KEYWORD_ONLY}
    needed = [name for name, parameter in given.items() if parameter.default is inspect.Parameter.empty]
    assert needed == ["provider", "dialect"]
    assert (given["policy"].default, given["context"].default, given["run"].default) == (None, None, False)
    assert inspect.signature(build_pipeline).return_annotation == "Pipeline"


@pytest.mark.parametrize(
    ("owner", "method", "parameters"),
    [
        (Pipeline, "feed", "(self, data: 'bytes') -> 'bytes'"),
        (Pipeline, "close", "(self, fault: 'Fault | None' = None) -> 'bytes'"),
        (Pipeline, "host", "(self, event: 'CanonicalEvent') -> 'bytes'"),
        (Pipeline, "next_response", "(self) -> 'bytes'"),
        (Pipeline, "cancel", "(self) -> 'bytes'"),
        (PublicStreamProjector, "feed", "(self, event: 'CanonicalEvent') -> 'list[Frame]'"),
        (PublicStreamProjector, "close", "(self) -> 'list[Frame]'"),
    ],
)
def test_methods(owner: type, method: str, parameters: str) -> None:
    assert str(inspect.signature(getattr(owner, method))) == parameters


def test_a_pipeline_reports_whether_it_has_ended() -> None:
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", context=StreamContext())
    assert pipeline.ended is False
    assert pipeline.close().startswith(b"data: {")
    assert pipeline.ended is True


def test_providers_and_dialects() -> None:
    assert {"openai_responses", "openai_chat"} <= PROVIDERS.keys()
    assert "public_sse_v1" in DIALECTS


def subparsers() -> argparse._SubParsersAction[argparse.ArgumentParser]:
    actions = build_parser()._actions
    return next(action for action in actions if isinstance(action, argparse._SubParsersAction))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", {"--port": None}),
        ("serve", {"--config": None, "--host": None, "--port": None}),
        (
            "project",
            {
                "--provider": list(PROVIDERS),
                "--dialect": list(DIALECTS),
                "--in": ["auto", "sse", "ndjson"],
                "--out": ["ndjson", "sse"],
                "--stream-id": None,
                "--clock": None,
                "--run": None,
                "--host-events": None,
                "FILE|-": None,
            },
        ),
        ("validate", {"--dialect": None, "FILE": None}),
        ("replay", {"DIR": None, "--update": None}),
        ("record", {"--upstream": None, "--config": None, "--dir": None, "--name": None, "REQUEST.json|-": None}),
        ("health", {"URL": None}),
        ("explain", {"NAME": None}),
        ("completion", {"SHELL": ["bash", "zsh", "fish"]}),
    ],
)
def test_commands(command: str, options: dict[str, list[str] | None]) -> None:
    actions = {
        (action.option_strings or [str(action.metavar)])[-1]: action
        for action in subparsers().choices[command]._actions
    }
    assert options.keys() <= actions.keys()
    for name, choices in options.items():
        assert choices is None or list(actions[name].choices or ()) == choices, name


def test_every_command_has_a_help() -> None:
    assert subparsers().choices.keys() >= {"demo", "serve", "project", "validate", "replay", "explain"}
    assert all(command.help for command in subparsers()._choices_actions)


def test_every_argument_has_a_help() -> None:
    commands = dict(subparsers().choices)
    [of_config] = [a for a in commands.pop("config")._actions if isinstance(a, argparse._SubParsersAction)]
    arguments = [(name, a) for name, one in [*commands.items(), *of_config.choices.items()] for a in one._actions]
    assert [(name, a.dest) for name, a in arguments if not a.help] == []
    named = {a.dest: str(a.metavar) for _, a in arguments if a.option_strings and a.nargs is None and not a.choices}
    assert named == {
        "clock": "ISO8601",
        "config": "FILE",
        "dir": "DIR",
        "host": "H",
        "name": "CASE",
        "out": "FILE",
        "policy": "PATH",
        "port": "N",
        "redaction": "FILE|-",
        "stream_id": "ID",
        "text": "CLASSES",
        "upstream": "NAME",
        "workers": "N",
    }


@pytest.mark.parametrize("command", [row for one in COMMANDS for row in (one, *one.commands)], ids=lambda row: row.name)
def test_every_command_has_a_function_and_an_example(command: Command) -> None:
    if not command.commands:
        module, _, function = command.run.partition(":")
        assert callable(getattr(importlib.import_module(f"projector.cli.{module}"), function))
    for example in command.examples:
        words = shlex.split(re.search(r"projector ([^|>)]*)", example)[1].rstrip('"'))  # type: ignore[index]  # else no example
        build_parser().parse_args(words)


def test_the_default_provider_is_that_of_the_library() -> None:
    assert commands.DEFAULT_PROVIDER == providers.DEFAULT_PROVIDER


def test_the_configuration_has_two_commands() -> None:
    [of_config] = [a for a in subparsers().choices["config"]._actions if isinstance(a, argparse._SubParsersAction)]
    assert set(of_config.choices) == {"check", "print"}
