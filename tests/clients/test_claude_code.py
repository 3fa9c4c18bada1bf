"""Claude Code, unchanged, before this server and a scripted provider: a long session with secrets, and failures.

The program is that of the npm package of the Agent SDK. For each API of a provider, one process of it asks one question
after another and works on a task; a second one resumes it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import pytest

from projector.providers import PROVIDERS
from tests.clients.conftest import running
from tests.clients.scripted_provider import (
    CREDENTIAL,
    EVENTS,
    KEY,
    PLACES,
    SIGNATURE,
    THOUGHT,
    Block,
    ScriptedProvider,
    Turn,
    call,
    cut_blocks,
    leaks,
    repeating,
    serving,
)
from tests.clients.tee import Tee, kept

TIMEOUT_S: Final = 600
MARK: Final = "<redacted>"
LOG: Final = "log.txt"
NOTES: Final = "notes.txt"
NOTE: Final = "The ferry leaves at noon."
NOTES_SERVER: Final = Path(__file__).parents[1] / "asgi" / "notes_server.py"
MCP: Final = {"mcpServers": {"notes": {"command": sys.executable, "args": [str(NOTES_SERVER)]}}}
ENVIRONMENT: Final = {
    "ANTHROPIC_API_KEY": "sk-client",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
FLAGS: Final = (
    *("-p", "--allowedTools", "Read,Bash,Edit,WebSearch,mcp__notes", "--mcp-config", json.dumps(MCP), "--verbose"),
    *("--input-format", "stream-json", "--output-format", "stream-json", "--include-partial-messages"),
)
RETRIES: Final = 1
PLACES_PER_TURN: Final = 2
"""Two calls at a time, and two thirds of the shells of one."""
SESSION: Final = "session"
FOUND: Final = "found"

pytestmark = pytest.mark.timeout(TIMEOUT_S)


def bash(call_id: str, line: str) -> Block:
    """Return a call that adds a line to the log."""
    return call("Bash", call_id, {"command": f"echo '{line}' >> {LOG}", "description": f"Log with {KEY}"})


def text(*pieces: str) -> Block:
    return Block("text", pieces)


DONE: Final = Turn((text("All ", "done."),))
LONG: Final = bash("toolu_cut", "never")
SEARCH: Final = Turn(
    tuple(
        cut_blocks(
            [
                Block("search", (json.dumps({"query": f"tide {CREDENTIAL}"}),), "srvtoolu_1", "web_search"),
                Block("found", (f"Tides {KEY}",), "srvtoolu_1"),
                text(f"High water is at six, {CREDENTIAL} {KEY}."),
            ],
            9,
        )
    )
)
"""The answer to the request that Claude Code sends for a search: the provider has executed it."""


def scripts(api: str, folder: Path) -> dict[str, tuple[Turn, ...]]:
    """Return the scripts; each is a question, but for `FOUND`."""
    return {
        "text": (DONE,),
        "overloaded": (Turn(error="overloaded_error"),),
        "cut-once": (Turn((text("Half an ", "answer"),), "cut"), DONE),
        "error-once": (Turn((text("Half an ", "answer"),), "error"), DONE),
        "cut-arguments": (Turn((text("I log."), LONG._replace(pieces=(LONG.whole[:-9],))), "cut"), DONE),
        "cut-call": (Turn((text("I log."), LONG), "cut"), DONE),
        "cut-start": (Turn((text("I log."), LONG._replace(pieces=())), "error"), DONE),
        "refusal": (Turn((text("I cannot ", "help."),), "refusal"),),
        "max-tokens": (Turn((text("It is ", "long"),), "max_tokens"), DONE),
        "search": (Turn((call("WebSearch", "toolu_web", {"query": f"case={FOUND} {CREDENTIAL}"}),)),),
        "again": (DONE,),
        FOUND: (SEARCH, DONE) if api == "anthropic_messages" else (DONE,),
        SESSION: session(folder / NOTES),
    }


def session(notes: Path) -> tuple[Turn, ...]:
    """Return a task with all kinds of calls, a compaction, an interruption, and a resumption."""
    file = {"file_path": str(notes)}
    secrets = f"{CREDENTIAL} {KEY}"
    special = {
        0: call("Bash", "toolu_long", {"command": f"seq 1 6000 # {secrets}", "description": "Count"}),
        2: call("Edit", "toolu_patch", {**file, "old_string": "at noon", "new_string": f"with {secrets}"}),
        4: call("Edit", "toolu_again", {**file, "old_string": f"with {secrets}", "new_string": f"after {secrets}"}),
    }

    def calls(place: int) -> list[Block]:
        if place % PLACES_PER_TURN == 0:
            return [special.get(place) or bash(f"toolu_{place}", f"{place} {secrets}")]
        note = call("mcp__notes__read_note", f"toolu_{place}", {"name": secrets})
        return [call("Read", "toolu_read", file), note] if place == 1 else [note]

    return (
        *repeating(calls, PLACES_PER_TURN)[:-1],
        Turn((text("Written with ", CREDENTIAL),)),
        Turn((text(f"<summary>case={SESSION}: the key is {CREDENTIAL}.</summary>"),)),
        Turn((bash("toolu_after", "after"),)),
        DONE,
        Turn((text("I begin to"),), "wait"),
        Turn((bash("toolu_resumed", "resumed"),)),
        DONE,
    )


TURNS: Final = len(PLACES[::PLACES_PER_TURN]) + 1
"""Answers of the task, with the last one."""
IN_SESSION: Final = TURNS + 6


class Answered(NamedTuple):
    """What Claude Code did with a question."""

    events: list[dict[str, Any]]
    requests: int = 0

    @property
    def result(self) -> dict[str, Any]:
        """Return the last event."""
        return self.events[-1]


class Judged(NamedTuple):
    """Claude Code over an API."""

    api: str
    provider: ScriptedProvider
    answers: dict[str, Answered]
    tee: Tee
    home: Path
    folder: Path


class Site(NamedTuple):
    """A server before the providers, each with the model that its API names."""

    port: int
    providers: dict[str, ScriptedProvider]
    folders: dict[str, Path]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all APIs."""
    folders = {api: tmp_path_factory.mktemp("work") for api in EVENTS}
    config = tmp_path_factory.mktemp("serve") / "projector.toml"
    with ExitStack() as stack:
        providers = {api: stack.enter_context(serving(scripts(api, folders[api]))) for api in EVENTS}
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
        url = stack.enter_context(running(command, PROVIDER_KEY=KEY))
        yield Site(urlsplit(url).port or 0, providers, folders)


@pytest.fixture(scope="module", params=EVENTS)
def judged(
    request: pytest.FixtureRequest, claude_code: Path, site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judged]:
    """Ask all questions, and work on the task."""
    api = str(request.param)
    home, folder, provider = tmp_path_factory.mktemp("home"), site.folders[api], site.providers[api]
    (folder / NOTES).write_text(NOTE, encoding="utf-8")
    with kept(site.port) as tee:
        environment = {**ENVIRONMENT, "HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": tee.url}
        given = [str(claude_code), *FLAGS, "--model", api]
        questions = [name for name in provider.scripts if name not in {FOUND, SESSION}]
        with Program(given, folder, environment) as program:
            answers = {name: Answered(program.tell(f"Play case={name}"), provider.calls[name]) for name in questions}
            answers["task"] = Answered(program.tell(f"Play case={SESSION}"), provider.calls[SESSION])
            answers["compacted"] = Answered(program.tell("/compact"))
            answers["after"] = Answered(program.tell("Go on"))
            program.send("Go on")
            assert provider.waiting.wait(TIMEOUT_S)
            answers["interrupted"] = Answered(program.interrupt())
        with Program([*given, "--resume", answers["task"].result["session_id"]], folder, environment) as program:
            answers["resumed"] = Answered(program.tell(f"Finish case={SESSION}"))
        yield Judged(api, provider, answers, tee, home, folder)


class Program:
    """A process of Claude Code, which reads messages and prints events."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, encoding="utf-8", cwd=folder, env=environment, **pipes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            assert process.stdout is not None
            process.stdout.read()

    def tell(self, content: str) -> list[dict[str, Any]]:
        """Send a message, and return the events to its result."""
        self.send(content)
        return self._events()

    def send(self, content: str) -> None:
        """Send a message."""
        self._write({"type": "user", "message": {"role": "user", "content": content}})

    def interrupt(self) -> list[dict[str, Any]]:
        """Interrupt the answer, as a person does with Escape, and return the events to its result."""
        self._write({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}})
        return self._events()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _events(self) -> list[dict[str, Any]]:
        assert self._process.stdout is not None
        events: list[dict[str, Any]] = []
        for line in self._process.stdout:
            events.append(json.loads(line))
            if events[-1]["type"] == "result":
                return events
        raise AssertionError(f"it ended after {events[-1:]}")


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
    "search": 1,
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
    answered = judged.answers[name]
    result = answered.result
    assert answered.requests == REQUESTS[name]
    assert result["is_error"] == (name in SHOWN), result
    assert SHOWN.get(name, "All done.") in result["result"]


def blocks_of(answered: Answered, kind: str) -> list[dict[str, Any]]:
    """Return the blocks of the answers of the model, or the results of tools."""
    messages = [event["message"]["content"] for event in answered.events if event["type"] in {"assistant", "user"}]
    return [block for content in messages for block in content if block["type"] == kind]


def test_every_provider_is_tried() -> None:
    assert EVENTS.keys() == PROVIDERS.keys()


def test_a_tool_of_the_provider_is_executed_once(judged: Judged) -> None:
    """Claude Code sends a request of its own for a search. Another API cannot carry it, and the loop goes on."""
    searches = [body for name, body in judged.provider.requests if name == FOUND and "WebSearch" not in str(body)]
    [result] = blocks_of(judged.answers["search"], "tool_result")
    if judged.api == "anthropic_messages":
        assert [[tool["type"] for tool in body["tools"]] for body in searches] == [["web_search_20250305"]]
        assert f"High water is at six, {MARK} {MARK}." in result["content"]
    else:
        assert searches == []
        assert (result["is_error"], "(`web_search_20250305`)" in result["content"]) == (True, True)


def test_a_task_goes_on_and_executes_each_call_once(judged: Judged) -> None:
    """Both secrets are repeated in thinking, text and arguments, cut at every place."""
    answered = judged.answers["task"]
    messages = {event["message"]["id"] for event in answered.events if event["type"] == "assistant"}
    assert answered.requests == len(messages) == TURNS >= 10
    assert (answered.result["is_error"], answered.result["result"]) == (False, f"Written with {MARK}")
    calls, results = blocks_of(answered, "tool_use"), blocks_of(answered, "tool_result")
    assert len(calls) == len(PLACES) + 1
    assert sorted(one["id"] for one in calls) == sorted(one["tool_use_id"] for one in results)
    assert not any(one.get("is_error") for one in results)
    assert {one["name"] for one in calls} == {"Bash", "Read", "Edit", "mcp__notes__read_note"}
    said = json.dumps(results)
    assert NOTE in said
    assert f"the note {MARK} {MARK}" in said
    assert (judged.folder / NOTES).read_text(encoding="utf-8") == f"The ferry leaves after {MARK} {MARK}."
    lines = [f"{place} {MARK} {MARK}" for place in PLACES[6::PLACES_PER_TURN]]
    assert (judged.folder / LOG).read_text(encoding="utf-8").splitlines() == [*lines, "after", "resumed"]
    thoughts = "".join(block["thinking"] for block in blocks_of(answered, "thinking"))
    assert thoughts == f"They are {MARK} and {MARK}." * len(PLACES)


def test_a_session_is_compacted_interrupted_and_resumed(judged: Judged) -> None:
    answers = judged.answers
    assert judged.provider.calls[SESSION] == IN_SESSION == len(judged.provider.scripts[SESSION])
    assert "compact_boundary" in json.dumps(answers["compacted"].events)
    assert "Request interrupted by user" in json.dumps(answers["interrupted"].events)
    assert [answers[name].result["result"] for name in ("after", "resumed")] == ["All done."] * 2


def test_no_secret_reaches_the_client(judged: Judged) -> None:
    """Neither in what it receives, nor in what it prints, nor in a file that it writes, such as the transcript."""
    said = judged.tee.joined_deltas()
    assert said.count(MARK) > 2 * 3 * len(PLACES)
    assert leaks(said) == leaks(judged.tee.received.decode()) == []
    assert leaks(json.dumps([answered.events for answered in judged.answers.values()])) == []
    files = [path for folder in (judged.home, judged.folder) for path in folder.rglob("*") if path.is_file()]
    assert any(MARK in path.read_text(encoding="utf-8", errors="replace") for path in files if path.suffix == ".jsonl")
    for path in files:
        assert leaks(path.read_text(encoding="utf-8", errors="replace")) == [], path


@pytest.mark.parametrize("name", ["cut-arguments", "cut-call", "cut-start"])
def test_a_call_that_was_cut_off_is_not_executed(judged: Judged, name: str) -> None:
    assert blocks_of(judged.answers[name], "tool_use") == []
    assert "never" not in (judged.folder / LOG).read_text(encoding="utf-8")


def test_thinking_goes_back_to_anthropic_as_it_was_sent(judged: Judged) -> None:
    body = [body for name, body in judged.provider.requests if name == SESSION][TURNS - 1]
    blocks = [block for one in body.get("messages", []) for block in one.get("content") or () if "thinking" in block]
    whole = {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}
    assert blocks == ([whole] * len(PLACES) if judged.api == "anthropic_messages" else [])
