"""What the tests of real clients with a route of their own share: a scripted provider, its server, and node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.asgi.conftest import Peer
from tests.asgi.examples import example

NODE_S: Final = 120
"""Limit for a busy machine."""
SOON_S: Final = 60.0

TEXT: Final = example("chat-text-citations")[0]
BEGINNING: Final = [line for line in TEXT if b"output_text.delta" in line or b"response.created" in line]
"""An answer that does not end; its client leaves, or cancels it."""
CHAT: Final = example("chat-completions-text", "openai_chat")[0]
"""The answer of the provider with the other API."""
SCRIPTS: Final[Mapping[str, list[list[bytes]]]] = {
    "text": [TEXT, TEXT],
    "tool": example("chat-function-tool"),
    "approve": example("chat-mcp-approval"),
    "seal": [*example("chat-encrypted-reasoning"), TEXT],
}
"""Conversations that every client has: first text of the user -> the answers, one for each request."""


class Conversations:
    """A provider that selects its answers by the first text of the user, and records the requests."""

    def __init__(self, scripts: Mapping[str, list[list[bytes]]]) -> None:
        self._scripts = {**SCRIPTS, **scripts}
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.left = {name: asyncio.Event() for name, answers in self._scripts.items() if BEGINNING in answers}
        """Set when the server leaves an answer that does not end."""

    async def __call__(self, peer: Peer) -> None:
        """Answer a request. The answers of a conversation repeat, for one client after another."""
        name = "chatty" if "messages" in peer.body else _first_text(peer.body["input"])
        asked = self.requests.setdefault(name, [])
        answers = [CHAT] if name == "chatty" else self._scripts[name]
        answer = answers[len(asked) % len(answers)]
        asked.append(peer.body)
        try:
            await peer.start()
            for data in answer:
                await peer.chunk(b"data: " + data + b"\n\n")  # raises if the server leaves meanwhile
            if answer is BEGINNING:
                await peer.gone.wait()
        finally:
            if answer is BEGINNING:
                self.left[name].set()
        await peer.end()

    async def is_left(self) -> None:
        """Wait until the server has left every answer that does not end."""
        async with asyncio.timeout(SOON_S):
            for left in self.left.values():
                await left.wait()


def _first_text(entries: list[dict[str, Any]]) -> str:
    said = [item["content"] for item in entries if item.get("role") == "user"]
    if not said:
        return "approve"  # continues a response that the provider has stored
    first = said[0]
    return first if isinstance(first, str) else next(str(part["text"]) for part in first if "text" in part)


def settings(upstream_port: int, **agent: Any) -> dict[str, Any]:
    """Return the settings of a server with an agent for each API of the provider."""
    base_url = f"http://localhost:{upstream_port}/v1"
    helper = {"upstream": "one", "model": "gpt-x", "policy": {"encrypted_reasoning": True}, **agent}
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {"one": {"base_url": base_url}, "local": {"api": "openai_chat", "base_url": base_url}},
        "agents": {"helper": helper, "chatty": helper | {"upstream": "local"}},
        "heartbeat_s": 0.02,  # clients skip comments
    }


async def run_node(folder: Path, script: str, *arguments: str, sent: object = None) -> Any:
    """Run a script of tests/node with JSON as its input; return its output, which is JSON too."""
    command = ("node", script, *arguments)
    pipe = asyncio.subprocess.PIPE
    node = await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=pipe, stdout=pipe)
    try:
        said, _ = await asyncio.wait_for(node.communicate(json.dumps(sent).encode()), NODE_S)
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    assert node.returncode == 0
    return json.loads(said)
