"""Codex before `projector serve`, by its base URL: tools, parallel calls, compaction, interruption, resumption."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from projector.recording import replay
from tests.asgi.coding_session import (
    EDIT,
    FILLING,
    FULL,
    LAST,
    NAMESPACE,
    PATCH,
    SECRET,
    STEP_CHARS,
    TURNS,
    CodingProvider,
)
from tests.asgi.conftest import ScriptedUpstream
from tests.asgi.process import running, serve_with
from tests.asgi.route_clients import NODE_S
from tests.clients.scripted_provider import EVENTS, HISTORIES, Block, Turn, leaks, serving
from tests.clients.scripted_provider import call as function
from tests.clients.tee import Tee, kept
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(4 * NODE_S)

TURNS_OF_A_TASK: Final = 10
"""Answers of a task, without the summary of a compaction, that a session has at least."""
COMMAND: Final = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json")
NOTES: Final = Path(__file__).with_name("notes_server.py")
SERVER: Final = """
[upstreams.one]
base_url = "http://127.0.0.1:{port}/v1"
[passthrough]
responses = "one"
policy = {policy}
record.folder = {folder}
"""
CODEX: Final = """
model = "gpt-5.5"
model_auto_compact_token_limit = 150000
check_for_update_on_startup = false
web_search = {web_search}
{provider}
[analytics]
enabled = false
[mcp_servers.notes]
command = {python}
args = [{notes}]
default_tools_approval_mode = "approve"
"""
BASE_URL: Final = 'openai_base_url = "{url}"'
OWN_PROVIDER: Final = """
model_provider = "projector"
[model_providers.projector]
name = "projector"
base_url = "{url}"
wire_api = "responses"
env_key = "CODEX_API_KEY"
"""
AS_SENT: Final = '{ arguments_as_sent = ["exec_command", "apply_patch", "read_note"] }'


class Setup(NamedTuple):
    """How Codex and the server are configured."""

    provider: str
    policy: str
    compaction: str
    """Type of the item that follows the compaction."""
    shown: str = "<redacted>"
    """What calls contain in place of the secret."""


SETUPS: Final[dict[str, Setup]] = {
    "base URL": Setup(BASE_URL, "{ encrypted_reasoning = true }", "compaction"),
    "arguments as sent": Setup(OWN_PROVIDER + "supports_websockets = true\n", AS_SENT, "message", shown=SECRET),
}


class Codex:
    """The command, with a folder for its settings and sessions, and one for its work."""

    def __init__(self, node_modules: Path, folder: Path) -> None:
        self._program = node_modules / "node_modules" / ".bin" / "codex"
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()

    def configure(self, provider: str, url: str, web_search: str = "live") -> None:
        given = {"python": json.dumps(sys.executable), "notes": json.dumps(str(NOTES))}
        given["web_search"] = json.dumps(web_search)
        text = CODEX.format(provider=provider.format(url=url), **given)
        (self.home / "config.toml").write_text(text, encoding="utf-8")

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "CODEX_"))}
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *(str(self._program), *COMMAND, *arguments),
            cwd=self.work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env={**kept, "CODEX_HOME": str(self.home), "CODEX_API_KEY": "sk-any"},
            start_new_session=True,
        )

    async def run(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a task to its end, and return the events that it prints."""
        process = await self.start(*arguments)
        try:
            out, errors = await asyncio.wait_for(process.communicate(), NODE_S)
        finally:
            _stop(process)
        assert process.returncode == 0, (out, errors)
        return [json.loads(line) for line in out.splitlines()]

    async def play(self, task: str, waiting: Awaitable[object]) -> list[list[dict[str, Any]]]:
        """Run a task, interrupt the next one when its answer waits, and resume the session; return what it prints."""
        first = await self.run(task)
        stopped = await self.start("resume", "--last", "go on")
        await asyncio.wait_for(waiting, NODE_S)
        _stop(stopped, signal.SIGINT)
        await asyncio.wait_for(stopped.communicate(), NODE_S)
        return [first, await self.run("resume", "--last", "finish")]

    def files(self) -> bytes:
        """Return the content of all its files, sessions and logs included."""
        return b"".join(
            path.read_bytes() for root in (self.home, self.work) for path in root.rglob("*") if path.is_file()
        )


def _stop(process: asyncio.subprocess.Process, signal_number: int = signal.SIGKILL) -> None:
    if process.returncode is None:
        os.killpg(process.pid, signal_number)


def said(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the finished items of a type."""
    return [one["item"] for one in events if one["type"] == "item.completed" and one["item"]["type"] == kind]


@pytest.mark.parametrize("name", SETUPS)
async def test_a_session(name: str, node_modules: Path, tmp_path: Path) -> None:
    setup = SETUPS[name]
    provider = CodingProvider([*TURNS, [], *LAST])
    upstream = ScriptedUpstream(provider)
    listening = await asyncio.start_server(upstream.on_connection, "127.0.0.1", 0, limit=2**20)
    config, log, folder = tmp_path / "projector.toml", tmp_path / "log", tmp_path / "kept"
    port = listening.sockets[0].getsockname()[1]
    config.write_text(SERVER.format(port=port, policy=setup.policy, folder=json.dumps(str(folder))), encoding="utf-8")
    codex = Codex(node_modules, tmp_path)
    async with running(serve_with(config), 1, log=log) as server, listening:
        with kept(server.port) as tee:
            codex.configure(setup.provider, f"{tee.url}/v1")
            stalled = asyncio.create_task(provider.waiting.get())
            first, last = await codex.play("deploy it", stalled)
            await asyncio.wait_for(stalled.result().gone.wait(), NODE_S)
            await wait_until(lambda: len(list(folder.glob("*/*.ndjson"))) == len(TURNS) + len(LAST))
        server.stop()  # the log is written by a thread, to its end at the exit
        assert await server.exit_code() == 0

    assert provider.refused == []
    assert len(provider.requests) == len(TURNS) + 1 + len(LAST)
    assert len(TURNS) - 1 >= TURNS_OF_A_TASK
    assert [one["exit_code"] for one in said(first, "command_execution")] == [0] * 7
    assert [one["status"] for one in said(first, "mcp_tool_call")] == ["completed"] * 3
    assert [one["status"] for one in said(first, "file_change")] == ["completed"] * 2
    assert said(first, "agent_message")[-1]["text"] == "Done: <redacted>."
    assert said(last, "agent_message")[-1]["text"] == "All is there, also <redacted>."
    assert (codex.work / "a.env").read_text() == f"DEPLOY={setup.shown}\n"
    assert (codex.work / "b.env").read_text() == f"RELEASE={setup.shown}\n"
    assert provider.requests[FILLING + 2]["input"][-1]["type"] == setup.compaction

    assert b"Done: " in tee.received
    assert b"incremental: ?1" in tee.received.lower()
    texts = [one["text"] for kind in ("agent_message", "reasoning") for one in (*said(first, kind), *said(last, kind))]
    assert leaks(json.dumps(texts), [SECRET]) == []
    if setup.shown != SECRET:
        assert_no_leak(tee, codex, first, last)
        assert leaks(json.dumps(provider.requests), [SECRET]) == []
    for case in replay.load_cases(folder):
        assert SECRET not in case.source.read_text()
        assert b"response.completed" in replay.play(case, "responses")
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    answered = [line for line in lines if line["event"] == "stream_end"]
    assert [line["outcome"] for line in answered] == [*["completed"] * len(TURNS), "client_left", *["completed"] * 2]
    assert [line["status"] for line in lines if line["event"] == "request"] == [426] * 3, "a WebSocket first"
    withheld = [line.get("notices", {}).get("redacted", 0) > 0 for line in answered]
    assert {withheld[0], withheld[-1]} == {True}, "the log tells it"


def assert_no_leak(tee: Tee, codex: Codex, *printed: list[dict[str, Any]]) -> None:
    """Check what Codex received, joined too, what it printed, and what it wrote."""
    files = codex.files().decode(errors="replace")
    for text in (tee.joined_deltas(), tee.received.decode(), files, json.dumps(printed)):
        assert "<redacted>" in text
        assert leaks(text, [SECRET]) == []


THOUGHT: Final = Block("thinking", (f"The token {SECRET} ", "is needed."))


def shell(call_id: str, command: str) -> Block:
    return in_pieces(function("exec_command", call_id, {"cmd": command}))


def note(call_id: str) -> Block:
    return in_pieces(function(f"{NAMESPACE}__read_note", call_id, {"name": SECRET}))


def in_pieces(block: Block) -> Block:
    """Return a block in deltas that are shorter than the secret."""
    starts = range(0, len(block.whole), STEP_CHARS)
    return block._replace(pieces=tuple(block.whole[at : at + STEP_CHARS] for at in starts))


def patch(call_id: str, text: str) -> Block:
    return in_pieces(Block("custom", (text,), call_id, "apply_patch"))


def words(text: str) -> Block:
    return in_pieces(Block("text", (text,)))


CASE: Final = "ship"
TASK: Final = (
    Turn((THOUGHT, function("tool_search", "call_1", {"query": "read a note"}))),
    Turn((THOUGHT, words("I begin."), shell("call_2", f"echo 'DEPLOY={SECRET}' > a.env; seq 1 6000"), note("call_3"))),
    Turn((patch("call_4", PATCH),)),
    Turn((THOUGHT, shell("call_5", "cat a.env"), shell("call_6", "cat b.env"))),
    Turn((patch("call_7", EDIT),)),
    Turn((note("call_8"),)),
    Turn((shell("call_9", f"grep -c '{SECRET}' a.env b.env; true"),)),
    Turn((THOUGHT, shell("call_10", "cat b.env")), tokens=FULL),
    Turn((words(f"I have used {SECRET} twice."),)),  # the summary
    Turn((shell("call_11", "ls"),)),
    Turn((patch("call_12", PATCH.replace("b.env", "c.env")),)),
    Turn((words(f"Done: {SECRET}."),)),
)
RESUMED: Final = (
    Turn((words("I begin to"),), "wait"),
    Turn((THOUGHT, shell("call_13", "ls"))),
    Turn((words(f"All is there, also {SECRET}."),)),
)
OTHERS: Final = [api for api in EVENTS if api != "openai_responses"]


def call_ids(api: str, body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the IDs of the calls in a request, and those of the outputs."""
    calls, outputs = [], []
    for turn in body[HISTORIES.get(api, "messages")]:
        blocks = turn.get("parts") or turn.get("content")
        for one in blocks if isinstance(blocks, list) else []:
            calls += [one["id"]] if one.get("type") == "tool_use" else []
            outputs += [one["tool_use_id"]] if one.get("type") == "tool_result" else []
            calls += [one["functionCall"]["id"]] if "functionCall" in one else []
            outputs += [one["functionResponse"]["id"]] if "functionResponse" in one else []
        calls += [one["id"] for one in turn.get("tool_calls", ())]
        outputs += [turn["tool_call_id"]] if turn.get("role") == "tool" else []
    return calls, outputs


@pytest.mark.parametrize("api", OTHERS)
async def test_a_session_over_another_api(api: str, node_modules: Path, tmp_path: Path) -> None:
    config, codex = tmp_path / "projector.toml", Codex(node_modules, tmp_path)
    with serving({CASE: (*TASK, *RESUMED)}) as provider:
        config.write_text(
            f'[upstreams.one]\napi = "{api}"\nbase_url = "{provider.url}/v1"\n[passthrough]\nresponses = "one"\n',
            encoding="utf-8",
        )
        async with running(serve_with(config), 1) as server:
            with kept(server.port) as tee:
                codex.configure(OWN_PROVIDER, f"{tee.url}/v1", "disabled")
                waiting = asyncio.to_thread(provider.waiting.wait, NODE_S)
                first, last = await codex.play(f"play case={CASE}", waiting)

    assert provider.calls[CASE] == len(TASK) + len(RESUMED)
    assert len(TASK) - 1 >= TURNS_OF_A_TASK
    assert [one["exit_code"] for one in said(first, "command_execution")] == [0] * 6
    assert [one["status"] for one in said(first, "mcp_tool_call")] == ["completed"] * 2
    assert [one["status"] for one in said(first, "file_change")] == ["completed"] * 3
    assert said(first, "agent_message")[-1]["text"] == "Done: <redacted>."
    assert said(last, "agent_message")[-1]["text"] == "All is there, also <redacted>."
    written = {name: (codex.work / f"{name}.env").read_text() for name in "abc"}
    assert written == {"a": "DEPLOY=<redacted>\n", "b": "RELEASE=<redacted>\n", "c": "DEPLOY=<redacted>\n"}
    for _, body in provider.requests:
        calls, outputs = call_ids(api, body)
        assert sorted(calls) == sorted(outputs)
        assert len(calls) == len(set(calls))
    assert_no_leak(tee, codex, first, last)
