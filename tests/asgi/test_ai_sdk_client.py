"""The real chats of the AI SDK, versions 5, 6 and 7, use the real route over loopback; the provider is scripted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.asgi.examples import example

pytestmark = [pytest.mark.node, pytest.mark.timeout(90)]

LEVELS: Final = ("5", "6", "7")
SOON_S: Final = 20.0
NODE_S: Final = 70

TEXT: Final = example("chat-text-citations")[0]
BEGINNING: Final = [line for line in TEXT if b"output_text.delta" in line or b"response.created" in line]
SCRIPTS: Final = {
    "text": [TEXT, TEXT],
    "regenerate": [TEXT, TEXT],
    "image": [TEXT],
    "tool": example("chat-function-tool"),
    "approve": example("chat-mcp-approval"),
    "seal": [*example("chat-encrypted-reasoning"), TEXT],
    "resume": [BEGINNING],
    "stop": [BEGINNING],
}
"""First text of the user -> the provider's answers, one for each request of a chat."""

CHAT: Final = example("chat-completions-text", "openai_chat")[0]


class Provider:
    """Selects answers by the first message of the user, and records the requests of one version after another."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.turns: dict[str, int] = {}
        self.left = asyncio.Event()

    async def __call__(self, peer: Any) -> None:
        if "messages" in peer.body:
            name, answer = "chatty", CHAT
        else:
            said = [item["content"] for item in peer.body["input"] if item.get("role") == "user"]
            first = said[0] if said else "approve"  # continues a response that the provider has stored
            name = first if isinstance(first, str) else next(part["text"] for part in first if "text" in part)
            turn = self.turns.get(name, 0)
            self.turns[name] = turn + 1
            answer = SCRIPTS[name][turn % len(SCRIPTS[name])]
        self.asked.append((name, peer.body))
        await peer.start()
        for data in answer:
            await peer.chunk(b"data: " + data + b"\n\n")
        if answer is BEGINNING:
            await peer.gone.wait()
            self.left.set()
        await peer.end()

    def requests(self, name: str) -> list[dict[str, Any]]:
        return [body for other, body in self.asked if other == name]


@pytest.fixture
async def played(serve: Any, upstream: Any, upstream_port: int, node_modules: Path) -> Any:
    """Run all conversations of all versions; return their reports and the provider."""
    base_url = f"http://localhost:{upstream_port}/v1"
    agent: dict[str, Any] = {
        "upstream": "one",
        "model": "gpt-x",
        "dialects": ["ai_sdk"],
        "policy": {"encrypted_reasoning": True},
    }
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"one": {"base_url": base_url}, "local": {"api": "openai_chat", "base_url": base_url}},
        agents={"helper": agent, "chatty": agent | {"upstream": "local"}},
        heartbeat_s=0.02,  # clients skip comments
    )
    provider = Provider()
    await upstream(provider)
    command = ("node", "ai-sdk-chat.mjs", f"http://127.0.0.1:{site.port}")
    node = await asyncio.create_subprocess_exec(*command, cwd=node_modules, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(node.communicate(), NODE_S)
    assert node.returncode == 0
    await asyncio.wait_for(provider.left.wait(), SOON_S)
    return json.loads(said), provider


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def roles(report: dict[str, Any]) -> list[str]:
    return [message["role"] for message in report["messages"]]


async def test_the_chats_of_each_version(played: Any) -> None:
    reports, provider = played
    text = next(json.loads(line)["text"] for line in TEXT if b"output_text.done" in line)
    for at, level in enumerate(LEVELS):
        report = reports[level]
        refused = report.pop("instruct")
        assert "messages[0]" in refused["errors"][0], "instructions are the server's to write"
        approved = report.pop("approve")
        assert (approved is None) is (level == "5")
        for name, chat in report.items():
            assert (chat["errors"], chat["status"]) == ([], "ready"), (level, name)

        assert roles(report["text"]) == ["user", "assistant"] * 2
        assert [text_of(message) for message in report["text"]["messages"]] == ["text", text] * 2
        assert roles(report["regenerate"]) == ["user", "assistant"]
        assert provider.requests("regenerate")[2 * at] == provider.requests("regenerate")[2 * at + 1]

        assert roles(report["tool"]) == ["user", "assistant"], "a result continues the message"
        assert text_of(report["tool"]["messages"][1]) == "The next boats leave at 14:10 and 14:35."
        second = provider.requests("tool")[2 * at + 1]["input"]
        assert [item["type"] for item in second] == ["message", "function_call", "function_call_output"]
        assert second[2]["output"] == '{"colour":"blue"}'

        again = provider.requests("seal")[2 * at + 1]["input"]
        sealed = next(item for item in again if item["type"] == "reasoning")
        assert sealed["summary"] == [{"type": "summary_text", "text": "Opening hours are per branch."}]
        assert sealed["encrypted_content"].startswith("gAAAAABpP-OPAQUE-EXAMPLE")

        [image] = [part for part in provider.requests("image")[at]["input"][0]["content"] if "image_url" in part]
        assert image["image_url"] == "data:image/png;base64,QUJD"
        assert text_of(report["chatty"]["messages"][1])
        assert provider.requests("chatty")[at]["messages"] == [{"role": "user", "content": "chatty"}]
        assert text_of(report["stop"]["messages"][1])
        resumed, first = report["resume"]["messages"], report["resume"]["first"]["messages"]
        assert [text_of(message) for message in resumed] == [text_of(message) for message in first]
        assert len(provider.requests("resume")) == len(LEVELS), "a reload asks the provider for nothing"
        if approved is not None:
            assert_approved(approved, provider.requests("approve")[2 * (at - 1) :])
    assert "instruct" not in provider.turns


def assert_approved(report: dict[str, Any], requests: list[dict[str, Any]]) -> None:
    assert (report["errors"], roles(report)) == ([], ["user", "assistant"])
    assert text_of(report["messages"][1]) == "Two seats are booked."
    [answer] = requests[1]["input"]
    assert (answer["type"], answer["approve"]) == ("mcp_approval_response", True)
    assert requests[1]["previous_response_id"].startswith("resp_")
