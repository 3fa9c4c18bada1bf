"""The pytest plugin in projects of users: each in its own folder, all in one separate pytest process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from projector import cli
from projector.dialects import DIALECTS

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
TEXT: Final = '{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": "Hello"}\n'
DONE: Final = '{"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}\n'
PROJECT: Final = {
    "pyproject.toml": """
[tool.pytest.ini_options]
projector_cases = ["streams"]
testpaths = ["tests"]
addopts = ["--import-mode=importlib", "-p", "no:cacheprovider"]
""",
    "tests/test_own.py": "def test_own() -> None:\n    assert True\n",
    "streams/openai_responses/hello.ndjson": TEXT + DONE,
    "streams/openai_responses/._hello.ndjson": "no input, but what macOS writes beside it",
    "streams/openai_chat/bye.ndjson": '{"choices": [{"index": 0, "delta": {"content": "Bye"}}]}\n[DONE]\n',
}
EACH: Final = len(DIALECTS)
"""Tests of one case."""

RUN_ALL: Final = """
import contextlib, io, json, os, sys
import pytest
ended = []
for folder, arguments in json.load(sys.stdin):
    os.chdir(folder)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = pytest.main(["-p", "projector.pytest_plugin", *arguments])
    ended.append((int(status), output.getvalue()))
json.dump(ended, sys.stdout)
"""


class Job(NamedTuple):
    """A project, and how pytest is run in it."""

    arguments: tuple[str, ...] = ()
    change: Callable[[Path], object] = lambda _streams: None


class Ended(NamedTuple):
    status: int
    output: str


def say_hi(streams: Path) -> None:
    (streams / "openai_responses" / "hello.ndjson").write_text(TEXT.replace("Hello", "Hi") + DONE)
    (streams / "ag_ui" / "bye.ndjson").unlink()


def lose_an_input(streams: Path) -> None:
    (streams / "openai_chat" / "bye.ndjson").unlink()


def lose_everything(streams: Path) -> None:
    for path in streams.glob("*/*"):
        path.unlink()


def configure_nothing(streams: Path) -> None:
    (streams / "cases.toml").write_text("[cases.none]\n")


def configure_wrongly(streams: Path) -> None:
    (streams / "cases.toml").write_text("[cases.bye]\nclose = 1\n")


def misspell(streams: Path) -> None:
    (streams / "openai_chat").rename(streams / "openai-chat")


def move(streams: Path) -> None:
    streams.rename(streams.with_name("moved"))


def drop(streams: Path) -> None:
    source = streams / "openai_responses" / "hello.ndjson"
    source.write_text('{"type": "response.odd"}\n' + source.read_text())
    (streams / "cases.toml").write_text('[cases.bye]\ndropped = ["delta.odd"]\n')
    bye = streams / "openai_chat" / "bye.ndjson"
    bye.write_text(bye.read_text().replace('"content"', '"odd": 1, "content"'))


def choose(streams: Path) -> None:
    (streams / "cases.toml").write_text('[cases.bye]\ndialects = ["public_sse_v1"]\n')


def configure(streams: Path) -> None:
    """The golden files are those of `projector replay --config`."""
    secret = '[[agents.one.policy.registered]]\nid = "greeting"\nvalue = "Hello"\n'
    agent = '[agents.{}]\nupstream = "local"\nmodel = "m"\n'
    local = '[upstreams.local]\napi = "openai_chat"\nbase_url = "http://localhost:1/v1"\n'
    config = streams.with_name("the projector.toml")
    config.write_text(local + agent.format("one") + secret + agent.format("two"))
    assert cli.main(["replay", str(streams), "--update", "--config", str(config), "--policy", "agents.one"]) == 0


CONFIGURED: Final = ("streams", "-o", "projector_config=the projector.toml")

RUNS: Final[Mapping[str, tuple[Job, int]]] = {
    "with everything else": (Job(), 2 * EACH + 1),
    "not when other tests are named": (Job(("tests",)), 1),
    "by the option, beside something else": (Job(("tests", "--projector-cases", "streams")), 2 * EACH + 1),
    "the folder": (Job(("streams",)), 2 * EACH),
    "one provider": (Job(("streams/openai_chat",)), EACH),
    "one test": (Job(("streams/openai_chat/bye.ndjson::public_sse_v1",)), 1),
    "by name": (Job((".", "-k", "hello and public_sse_v1")), 1),
    "once, however often it is named": (Job((".", "--projector-cases", "streams")), 2 * EACH + 1),
    "dropped input": (Job(("streams",), drop), 2 * EACH),
    "no dropped input": (Job(("streams", "-o", "projector_fail_on_dropped=true")), 2 * EACH + 2),
    "the policy of a configuration": (Job((*CONFIGURED, "-o", "projector_policy=agents.one"), configure), 2 * EACH),
    "none without a folder": (Job(("-o", "projector_cases=")), 1),
}
"""Arguments of pytest -> number of tests that pass."""

MISTAKES: Final[Mapping[str, tuple[Job, str]]] = {
    "no cases": (Job((), lose_everything), "expected inputs at `"),
    "no folder": (Job((), move), "not found; expected a folder of cases"),
    "settings of nothing": (Job((), configure_nothing), "cases.toml: no input for `none`"),
    "a misspelled provider": (Job((), misspell), "unknown folder in `"),
}
"""Error -> pytest's output before it runs any test."""

OTHERS: Final[Mapping[str, Job]] = {
    "differences": Job((), say_hi),
    "an orphan": Job((), lose_an_input),
    "dropped, by the setting": Job(("streams", "-o", "projector_fail_on_dropped=true"), drop),
    "dropped, by the option": Job(("streams", "--projector-fail-on-dropped"), drop),
    "mistakes elsewhere": Job(("tests",), lose_everything),
    "dialects not chosen": Job(("streams",), choose),
    "a difference by a policy": Job((*CONFIGURED, "-o", "projector_policy=agents.two"), configure),
    "one of several policies": Job(CONFIGURED, configure),
    "two configurations": Job(("streams", "-o", "projector_config=a.toml\nb.toml")),
    "wrong settings": Job(("streams/openai_chat/bye.ndjson",), configure_wrongly),
}
JOBS: Final = {**{name: job for name, (job, _) in (*RUNS.items(), *MISTAKES.items())}, **OTHERS}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Result of each job, by its name."""
    project = tmp_path_factory.mktemp("project")
    for name, content in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(content)
    assert cli.main(["replay", str(project / "streams"), "--update"]) == 0
    folders = [Path(shutil.copytree(project, tmp_path_factory.mktemp("job") / "copy")) for _ in JOBS]
    for folder, job in zip(folders, JOBS.values(), strict=True):
        job.change(folder / "streams")
    jobs = json.dumps([(str(folder), job.arguments) for folder, job in zip(folders, JOBS.values(), strict=True)])
    run = subprocess.run(
        [sys.executable, "-c", RUN_ALL], env=ENVIRONMENT, input=jobs, capture_output=True, text=True, check=True
    )
    return {name: Ended(*one) for name, one in zip(JOBS, json.loads(run.stdout), strict=True)}


@pytest.mark.parametrize("name", RUNS)
def test_what_runs(ended: dict[str, Ended], name: str) -> None:
    assert re.search(rf"\b{RUNS[name][1]} passed\b", ended[name].output), ended[name].output
    assert ended[name].status == 0


def test_a_failure_shows_the_difference_and_what_to_do(ended: dict[str, Ended]) -> None:
    status, output = ended["differences"]
    assert "public_sse_v1/hello.ndjson: differs" in output
    assert '"delta":"Hello"' in output
    assert '"delta":"Hi"' in output
    assert "ag_ui/bye.ndjson: golden is missing" in output
    assert re.search(r"^To accept it: projector replay .*/streams --name hello --update$", output, re.MULTILINE)
    assert "Traceback" not in output
    assert (status, f"{EACH + 1} failed" in output) == (1, True)


@pytest.mark.parametrize("by", ["setting", "option"])
def test_dropped_input_fails_on_request(ended: dict[str, Ended], by: str) -> None:
    status, output = ended[f"dropped, by the {by}"]
    assert "openai_responses/hello.ndjson: dropped: response.odd (1)" in output
    assert re.search(r"^To accept it: .*`dropped`.*cases.toml", output, re.MULTILINE)
    assert (status, f"1 failed, {2 * EACH + 1} passed" in output) == (1, True)


def test_a_golden_without_an_input_fails(ended: dict[str, Ended]) -> None:
    status, output = ended["an orphan"]
    assert output.count("bye.ndjson: input is missing") >= EACH
    assert (status, f"{EACH} failed, {EACH + 1} passed" in output) == (1, True)


def test_a_golden_of_a_dialect_that_is_not_chosen_fails(ended: dict[str, Ended]) -> None:
    status, output = ended["dialects not chosen"]
    assert "ag_ui/bye.ndjson: dialect is not chosen" in output
    assert (status, f"{EACH - 1} failed, {EACH + 1} passed" in output) == (1, True)


def test_what_accepts_a_difference_has_the_configuration(ended: dict[str, Ended]) -> None:
    _, output = ended["a difference by a policy"]
    assert re.search(
        r"replay \S+/streams --config '\S+/the projector\.toml' --policy agents\.two --name hello --update$",
        output,
        re.MULTILINE,
    )
    assert f"{EACH} failed, {EACH} passed" in output


def test_a_configuration_with_several_policies_fails(ended: dict[str, Ended]) -> None:
    status, output = ended["one of several policies"]
    assert "expected `agents.one` or `agents.two`" in output
    assert "1 error" in output
    assert status == pytest.ExitCode.INTERRUPTED


def test_two_configurations_fail(ended: dict[str, Ended]) -> None:
    status, output = ended["two configurations"]
    assert (status, "`projector_config`: expected one file" in output) == (pytest.ExitCode.INTERRUPTED, True)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_folder_without_cases_stops_the_run(ended: dict[str, Ended], name: str) -> None:
    status, output = ended[name]
    assert "ERROR: projector_cases: " in output
    assert MISTAKES[name][1] in output
    assert status == pytest.ExitCode.USAGE_ERROR


def test_a_wrong_folder_is_nothing_to_a_run_of_other_tests(ended: dict[str, Ended]) -> None:
    assert ended["mistakes elsewhere"].status == 0


def test_wrong_settings_fail_the_named_cases(ended: dict[str, Ended]) -> None:
    status, output = ended["wrong settings"]
    assert "cases.toml: `bye`: `close` must be a string" in output
    assert status == pytest.ExitCode.INTERRUPTED


def test_pytest_finds_the_plugin_by_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"projector": "projector.pytest_plugin"}
