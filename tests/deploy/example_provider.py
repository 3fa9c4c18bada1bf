"""The provider behind the example pages, and the pages themselves, served as their READMEs say."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections import defaultdict
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

from tests.asgi.examples import example
from tests.deploy.browser import CREATED, ENDED, delta

BUILD_S: Final = 240
START_S: Final = 60

TEXT: Final = example("chat-text-citations")[0]
TOOL: Final = example("chat-function-tool")
APPROVAL: Final = example("chat-mcp-approval")
CUT_OFF: Final = example("chat-truncated")[0]
LONG: Final = [f"Sentence {number} of the answer. " for number in range(12)]
REFUSED: Final = "No seats were booked."


class Desk:
    """A provider that answers by the question, and waits in the middle of some answers until the browser lets it go on.

    `GET /go/NAME` opens the gate `NAME`; `GET /at/NAME` is answered once an answer waits at it. A long answer waits at
    the gate that the last word of its question names.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.left: asyncio.Queue[str] = asyncio.Queue()
        """Gates at which the server closed the connection."""
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._waits: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def __call__(self, peer: Any) -> None:
        """Answer one request."""
        path = peer.head.split()[1].decode()
        _, command, gate = path.split("/", 2)
        if command in {"go", "at"}:
            if command == "go":
                self._gates[gate].set()
            else:
                await self._waits[gate].wait()
            await peer.send(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            return
        self.requests.append(peer.body)
        await peer.start()
        last = peer.body["input"][-1]
        question = _question(peer.body["input"])
        if last["type"] == "mcp_approval_response":
            await (_play(peer, APPROVAL[1]) if last["approve"] else _say(peer, REFUSED))
        elif "truncate" in question:
            await _play(peer, CUT_OFF)
        elif "approval" in question:
            await _play(peer, APPROVAL[0])
        elif "boats" in question:
            is_answered = last["type"] == "function_call_output"
            if is_answered and "slowly" in question:
                await self._wait(peer, question, [])
            await _play(peer, TOOL[1] if is_answered else TOOL[0])
        elif "long" in question:
            await self._wait(peer, question, LONG)
        else:
            await _play(peer, TEXT)
        await peer.end()

    def inputs(self, word: str) -> list[list[dict[str, Any]]]:
        """Return the items of each request that contains a word."""
        return [body["input"] for body in self.requests if word in str(body["input"])]

    def types(self, word: str) -> list[list[str]]:
        """Return the types of the items of each such request."""
        return [[item["type"] for item in items] for items in self.inputs(word)]

    def decisions(self) -> list[bool]:
        """Return the answers to approvals, in order."""
        answered = self.inputs("mcp_approval_response")
        return [item["approve"] for items in answered for item in items if "approve" in item]

    async def _wait(self, peer: Any, question: str, sentences: list[str]) -> None:
        """Send half of the sentences, wait at the gate, and send the rest."""
        gate = question.rsplit(maxsplit=1)[-1]
        middle = len(sentences) // 2
        if sentences:
            await peer.event(CREATED)
        for sentence in sentences[:middle]:
            await peer.event(delta(sentence))
        self._waits[gate].set()
        waits = [asyncio.ensure_future(one.wait()) for one in (self._gates[gate], peer.gone)]
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()
        if peer.gone.is_set():
            self.left.put_nowait(gate)
            return
        for sentence in sentences[middle:]:
            await peer.event(delta(sentence))
        if sentences:
            await peer.event(ENDED)


def _question(items: list[dict[str, Any]]) -> str:
    """Return the last text of the user; empty if the provider has it."""
    said = [item["content"] for item in items if item.get("role") == "user"]
    return str(said[-1]) if said else ""


async def _say(peer: Any, text: str) -> None:
    for event in (CREATED, delta(text), ENDED):
        await peer.event(event)


async def _play(peer: Any, events: list[bytes]) -> None:
    for event in events:
        await peer.chunk(b"data: " + event + b"\n\n")


@contextlib.asynccontextmanager
async def page(folder: Path, out: Path, server: str) -> AsyncGenerator[str, None]:
    """Build an example in another folder, serve it before the server at this URL, and return its own URL."""
    await ran("npm", "run", "build", "--", "--outDir", str(out), folder=folder, limit_s=BUILD_S)
    command = ["node", "node_modules/vite/bin/vite.js", "preview", "--outDir", str(out), "--host", "127.0.0.1"]
    environ = os.environ | {"STREAM_SERVER_URL": server, "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        *command, "--port", "0", cwd=folder, env=environ, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield await asyncio.wait_for(_url(process), START_S)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            process.terminate()
        await process.wait()


async def _url(process: asyncio.subprocess.Process) -> str:
    """Return the URL that a server prints."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if found := re.search(rb"http://127\.0\.0\.1:\d+/", line):
            return found[0].decode()
    raise AssertionError("the program ended")


async def ran(*command: str, folder: Path, limit_s: float) -> str:
    """Return the output of a command that must succeed; the scripted provider is served meanwhile."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    try:
        said, _ = await asyncio.wait_for(process.communicate(), limit_s)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said.decode()[-6_000:]
    return said.decode()
