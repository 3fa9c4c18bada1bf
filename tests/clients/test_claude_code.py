"""Claude Code, unchanged, before this server and a scripted provider: tool loops with secrets, and failures.

The program is that of the npm package of the Agent SDK. One process of it asks one question after another, for each
API of a provider.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.clients.conftest import running
from tests.clients.scripted_provider import (
    CREDENTIAL,
    EVENTS,
    KEY,
    SIGNATURE,
    Block,
    ScriptedProvider,
    Turn,
    call,
    leaks,
    repeating,
    serving,
)

TIMEOUT_S: Final = 300
MARK: Final = "<redacted>"
LOG: Final = "log.txt"
NOTES: Final = "notes.txt"
NOTE: Final = "The ferry leaves at noon."
ENVIRONMENT: Final = {
    "ANTHROPIC_API_KEY": "sk-client",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
FLAGS: Final = (
    *("-p", "--allowedTools", "Read,Bash", "--verbose"),
    *("--input-format", "stream-json", "--output-format", "stream-json", "--include-partial-messages"),
)
RETRIES: Final = 1
STEP: Final = 3
"""Of the cuts of the secrets, which `test_anthropic_client.py` has all: each answer costs a shell."""

pytestmark = pytest.mark.timeout(TIMEOUT_S)


def bash(call_id: str, line: str) -> Block:
    """Return a call that adds a line to the log."""
    return call("Bash", call_id, {"command": f"echo '{line}' >> {LOG}", "description": f"Log with {KEY}"})


def text(*pieces: str) -> Block:
    return Block("text", pieces)


DONE: Final = Turn((text("All ", "done."),))
LONG: Final = bash("toolu_cut", "never")


def scripts(folder: Path) -> dict[str, tuple[Turn, ...]]:
    """Return the scripts; each is a question."""

    def calls(place: int) -> list[Block]:
        read = call("Read", f"toolu_{place}_b", {"file_path": str(folder / NOTES)})
        return [bash(f"toolu_{place}_a", f"{place} {CREDENTIAL} {KEY}"), read]

    return {
        "text": (DONE,),
        "loop": (*repeating(calls)[:-1:STEP], DONE),
        "overloaded": (Turn(error="overloaded_error"),),
        "cut-once": (Turn((text("Half an ", "answer"),), "cut"), DONE),
        "error-once": (Turn((text("Half an ", "answer"),), "error"), DONE),
        "cut-arguments": (Turn((text("I log."), LONG._replace(pieces=(LONG.whole[:-9],))), "cut"), DONE),
        "cut-call": (Turn((text("I log."), LONG), "cut"), DONE),
        "cut-start": (Turn((text("I log."), LONG._replace(pieces=())), "error"), DONE),
        "refusal": (Turn((text("I cannot ", "help."),), "refusal"),),
        "max-tokens": (Turn((text("It is ", "long"),), "max_tokens"), DONE),
        "again": (DONE,),
    }


class Answered(NamedTuple):
    """What Claude Code did with a question."""

    result: dict[str, Any]
    events: list[dict[str, Any]]
    requests: int


class Judged(NamedTuple):
    """One process of Claude Code."""

    api: str
    provider: ScriptedProvider
    answers: dict[str, Answered]
    printed: str
    home: Path
    folder: Path


class Site(NamedTuple):
    """A server before three providers, each with the model that its API names."""

    url: str
    providers: dict[str, ScriptedProvider]
    folders: dict[str, Path]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all APIs."""
    folders = {api: tmp_path_factory.mktemp("work") for api in EVENTS}
    config = tmp_path_factory.mktemp("serve") / "projector.toml"
    with ExitStack() as stack:
        providers = {api: stack.enter_context(serving(scripts(folders[api]))) for api in EVENTS}
        upstreams = "".join(
            f'[upstreams.{api}]\napi = "{api}"\nbase_url = "{provider.url}/v1"\napi_key = "${{PROVIDER_KEY}}"\n'
            f'models = ["{api}"]\n'
            for api, provider in providers.items()
        )
        config.write_text(
            f'{upstreams}[passthrough]\nmessages = {json.dumps([*EVENTS])}\npolicy.reasoning = "full"\n'
            f"[retries]\nmax = {RETRIES}\ninitial_backoff_s = 0.01\nbudget_share = 10\n"
            "[circuit_breaker]\nfailures = 0\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "projector", "serve", "--port", "0", "--config", str(config)]
        yield Site(stack.enter_context(running(command, PROVIDER_KEY=KEY)), providers, folders)


@pytest.fixture(scope="module", params=EVENTS)
def judged(
    request: pytest.FixtureRequest, claude_code: Path, site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Judged:
    """Ask all questions in one process."""
    api = str(request.param)
    home, folder, provider = tmp_path_factory.mktemp("home"), site.folders[api], site.providers[api]
    (folder / NOTES).write_text(NOTE, encoding="utf-8")
    environment = {**ENVIRONMENT, "HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": site.url}
    with subprocess.Popen(
        [str(claude_code), *FLAGS, "--model", api],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=environment,
    ) as process:
        answers = {name: _ask(process, provider, name) for name in provider.scripts}
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
    printed = json.dumps([answered.events for answered in answers.values()])
    return Judged(api, provider, answers, printed, home, folder)


def _ask(process: subprocess.Popen[str], provider: ScriptedProvider, name: str) -> Answered:
    """Ask a question and read to its result."""
    events = _tell(process, f"Play case={name}")
    return Answered(events[-1], events, provider.calls[name])


REQUESTS: Final = {
    "text": 1,
    "overloaded": 1 + RETRIES,  # by this server
    "cut-once": 2,
    "error-once": 2,
    "cut-arguments": 2,
    "cut-call": 2,
    "cut-start": 2,
    "refusal": 2,  # it asks again with a note
    "max-tokens": 2,
    "again": 1,
}
"""Question -> requests that reach the provider."""
SHOWN: Final = {
    "overloaded": "529",
    "refusal": "safeguards flagged this message",
}
"""Question -> what the error says; all others end well."""


@pytest.mark.parametrize("name", REQUESTS)
def test_it_shows_what_happened_and_repeats_nothing_needlessly(judged: Judged, name: str) -> None:
    result, _, requests = judged.answers[name]
    assert requests == REQUESTS[name]
    assert result["is_error"] == (name in SHOWN), result
    assert SHOWN.get(name, "All done.") in result["result"]


def blocks_of(answered: Answered, kind: str) -> list[dict[str, Any]]:
    """Return the blocks of the answers of the model, or the results of tools."""
    messages = [event["message"]["content"] for event in answered.events if event["type"] in {"assistant", "user"}]
    return [block for content in messages for block in content if block["type"] == kind]


def test_a_tool_loop_goes_on_and_executes_each_call_once(judged: Judged) -> None:
    answered = judged.answers["loop"]
    turns = len(judged.provider.scripts["loop"])
    assert answered.requests == turns
    assert not answered.result["is_error"]
    assert answered.result["result"] == "All done."
    lines = (judged.folder / LOG).read_text(encoding="utf-8").splitlines()
    assert lines == [f"{place * STEP} {MARK} {MARK}" for place in range(turns - 1)]
    results = blocks_of(answered, "tool_result")
    assert len(results) == len({one["tool_use_id"] for one in results}) == 2 * (turns - 1)
    assert not any(one.get("is_error") for one in results)
    assert sum(NOTE in str(one["content"]) for one in results) >= 1
    thoughts = [block["thinking"] for block in blocks_of(answered, "thinking")]
    assert thoughts == [f"They are {MARK} and {MARK}."] * (turns - 1)


def test_no_secret_reaches_the_client(judged: Judged) -> None:
    """Neither what it prints, nor a file that it writes, such as the transcript."""
    assert leaks(judged.printed) == []
    files = [path for folder in (judged.home, judged.folder) for path in folder.rglob("*") if path.is_file()]
    assert any(MARK in path.read_text(encoding="utf-8", errors="replace") for path in files if path.suffix == ".jsonl")
    for path in files:
        assert leaks(path.read_text(encoding="utf-8", errors="replace")) == [], path


@pytest.mark.parametrize("name", ["cut-arguments", "cut-call", "cut-start"])
def test_a_call_that_was_cut_off_is_not_executed(judged: Judged, name: str) -> None:
    assert blocks_of(judged.answers[name], "tool_use") == []
    assert "never" not in (judged.folder / LOG).read_text(encoding="utf-8")


def test_thinking_goes_back_to_anthropic_as_it_was_sent(judged: Judged) -> None:
    [last] = [body for name, body in judged.provider.requests if name == "loop"][-1:]
    blocks = [block for one in last.get("messages", []) for block in one["content"] or [] if "thinking" in block]
    whole = {"type": "thinking", "thinking": f"They are {KEY} and {CREDENTIAL}.", "signature": SIGNATURE}
    turns = len(judged.provider.scripts["loop"])
    assert blocks == ([whole] * (turns - 1) if judged.api == "anthropic_messages" else [])


NOTES_SERVER: Final = Path(__file__).parents[1] / "asgi" / "notes_server.py"
MCP: Final = {"mcpServers": {"notes": {"command": sys.executable, "args": [str(NOTES_SERVER)]}}}
SESSION: Final = "session"
WRITTEN: Final = "written.txt"


def session(folder: Path) -> tuple[Turn, ...]:
    """Return a task with an MCP tool, a long result, a file, a compaction, an interruption and a resumption."""
    lines = call("Bash", "toolu_long", {"command": "seq 1 6000", "description": "Count"})
    note = call("mcp__notes__read_note", "toolu_note", {"name": CREDENTIAL})
    file = {"file_path": str(folder / WRITTEN), "content": f"key {CREDENTIAL}\n"}
    return (
        Turn((Block("thinking", (f"I need {CREDENTIAL}.",)), note, lines)),
        Turn((call("Write", "toolu_file", file),)),
        Turn((text("Written with ", CREDENTIAL),)),
        Turn((text(f"<summary>case={SESSION}: the key is {CREDENTIAL}.</summary>"),)),
        Turn((bash("toolu_after", "after"),)),
        DONE,
        Turn((text("I begin to"),), "wait"),
        DONE,
    )


@pytest.mark.parametrize("api", EVENTS)
def test_a_long_session(api: str, claude_code: Path, tmp_path: Path) -> None:
    home, folder, config = tmp_path / "home", tmp_path / "work", tmp_path / "projector.toml"
    home.mkdir()
    folder.mkdir()
    flags = [*FLAGS, "--model", "m", "--mcp-config", json.dumps(MCP), "--allowedTools", "Bash,Write,mcp__notes"]
    with serving({SESSION: session(folder)}) as provider:
        config.write_text(
            f'[upstreams.one]\napi = "{api}"\nbase_url = "{provider.url}/v1"\napi_key = "${{PROVIDER_KEY}}"\n'
            '[passthrough]\nmessages = "one"\n',
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "projector", "serve", "--port", "0", "--config", str(config)]
        with running(command, PROVIDER_KEY=KEY) as url:
            environment = {**ENVIRONMENT, "HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": url}

            def start(*more: str) -> subprocess.Popen[str]:
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                given = [str(claude_code), *flags, *more]
                return subprocess.Popen(given, text=True, encoding="utf-8", cwd=folder, env=environment, **pipes)

            with start() as process:
                answers = [_tell(process, line) for line in (f"Play case={SESSION}", "/compact", "Go on")]
                _send(process, "Go on")
                assert provider.waiting.wait(TIMEOUT_S)
                process.kill()
            with start("--resume", answers[0][-1]["session_id"]) as process:
                answers.append(_tell(process, f"Finish case={SESSION}"))
                assert process.stdin is not None
                process.stdin.close()
                assert process.wait() == 0

    assert provider.calls[SESSION] == len(session(folder))
    assert not any(events[-1]["is_error"] for events in answers)
    results = [events[-1]["result"] for events in answers]
    assert [results[0], *results[2:]] == [f"Written with {MARK}", "All done.", "All done."]
    assert f"the note {MARK}" in json.dumps(answers[0])
    assert (folder / WRITTEN).read_text() == f"key {MARK}\n"
    assert (folder / LOG).read_text() == "after\n"
    assert "compact_boundary" in json.dumps(answers[1])
    assert leaks(json.dumps(answers)) == []
    for path in (path for root in (home, folder) for path in root.rglob("*") if path.is_file()):
        assert leaks(path.read_text(encoding="utf-8", errors="replace")) == [], path


def _send(process: subprocess.Popen[str], content: str) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n")
    process.stdin.flush()


def _tell(process: subprocess.Popen[str], content: str) -> list[dict[str, Any]]:
    """Send a message, and return the events to its result."""
    _send(process, content)
    assert process.stdout is not None
    events: list[dict[str, Any]] = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["type"] == "result":
            return events
    raise AssertionError(f"it ended after {events[-1:]}")
