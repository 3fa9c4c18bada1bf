"""The real AG-UI clients use the real route of a real server, over loopback; the provider is scripted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.asgi.examples import example

pytestmark = [pytest.mark.node, pytest.mark.timeout(60)]

CLIENTS: Final = {"1.0.0": "@ag-ui/client", "0.0.59": "@ag-ui/client-0"}
SOON_S: Final = 5.0
NODE_S: Final = 45


TEXT: Final = example("chat-text-citations")[0]
BEGINNING: Final = [line for line in TEXT if b"output_text.delta" in line or b"response.created" in line]
SCRIPTS: Final = {
    "text": [TEXT, TEXT],
    "tool": example("chat-function-tool"),
    "approve": example("chat-mcp-approval"),
    "seal": [*example("chat-encrypted-reasoning"), TEXT],
    "cancel": [BEGINNING],
    "leave": [BEGINNING],
}
"""First message of the user -> the provider's answers, one for each request."""

CHAT: Final = example("chat-completions-text", "openai_chat")[0]


class Provider:
    """Selects answers by the first message of the user, and records the requests."""

    def __init__(self) -> None:
        self.asked: dict[str, list[dict[str, Any]]] = {}
        self.left = {name: asyncio.Event() for name in ("cancel", "leave")}

    async def __call__(self, peer: Any) -> None:
        if "messages" in peer.body:
            name, answer = "chatty", CHAT
            self.asked.setdefault(name, []).append(peer.body)
        else:
            said = [item["content"] for item in peer.body["input"] if item.get("role") == "user"]
            name = said[0] if said else "approve"  # continues a response that the provider has stored
            self.asked.setdefault(name, []).append(peer.body)
            answer = SCRIPTS[name][len(self.asked[name]) - 1]
        await peer.start()
        for data in answer:
            await peer.chunk(b"data: " + data + b"\n\n")
        if answer is BEGINNING:
            await peer.gone.wait()
            self.left[name].set()
        await peer.end()


@pytest.fixture
async def played(request: Any, serve: Any, upstream: Any, upstream_port: int, node_modules: Path) -> Any:
    """Run all conversations of a client; return its reports and the provider."""
    base_url = f"http://localhost:{upstream_port}/v1"
    agent: dict[str, Any] = {
        "upstream": "one",
        "model": "gpt-x",
        "dialects": ["ag_ui"],
        "client_tools": ["pick_colour"],
    }
    agent["policy"] = {"encrypted_reasoning": True}
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"one": {"base_url": base_url}, "local": {"api": "openai_chat", "base_url": base_url}},
        agents={"helper": agent, "chatty": agent | {"upstream": "local"}},
        heartbeat_s=0.02,  # clients skip comments
    )
    provider = Provider()
    await upstream(provider)
    command = ("node", "ag-ui-route.mjs", CLIENTS[request.param], f"http://127.0.0.1:{site.port}")
    node = await asyncio.create_subprocess_exec(*command, cwd=node_modules, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(node.communicate(), NODE_S)
    assert node.returncode == 0
    for left in provider.left.values():
        await asyncio.wait_for(left.wait(), SOON_S)
    return request.param, json.loads(said), provider


def outcomes(report: dict[str, Any]) -> list[str | None]:
    return [end.get("outcome", {}).get("type") for end in report["ends"]]


def text_of(report: dict[str, Any]) -> list[str]:
    said = [message for message in report["messages"] if message["role"] == "assistant"]
    return [message["content"] for message in said if message.get("content")]


@pytest.mark.parametrize("played", CLIENTS, indirect=True)
async def test_a_client_converses(played: Any) -> None:
    client, reports, provider = played
    refused = reports.pop("instruct")
    assert "422" in refused["thrown"], "instructions are the server's to write"
    assert "instruct" not in provider.asked
    for name, report in reports.items():
        assert (report["thrown"], report["warnings"]) == (None, []), name

    text = next(json.loads(line)["text"] for line in TEXT if b"output_text.done" in line)
    assert text_of(reports["text"]) == [text, text], "the second answer has the ids of the first"
    assert outcomes(reports["text"]) == ["success", "success"]
    assert text_of(reports["chatty"]) != []
    assert provider.asked["chatty"][0]["messages"] == [{"role": "user", "content": "text"}]

    second = provider.asked["tool"][1]
    assert [item["type"] for item in second["input"]] == ["message", "function_call", "function_call_output"]
    assert second["input"][2]["output"] == "blue"
    assert [tool["name"] for tool in second["tools"]] == ["pick_colour"]
    assert text_of(reports["tool"]) == ["The next boats leave at 14:10 and 14:35."]

    assert outcomes(reports["approve"]) == ["interrupt", "success"]
    assert text_of(reports["approve"]) == ["Two seats are booked."]
    [answer] = provider.asked["approve"][1]["input"]
    assert (answer["type"], answer["approve"]) == ("mcp_approval_response", True)
    assert provider.asked["approve"][1]["previous_response_id"].startswith("resp_")

    again = provider.asked["seal"][1]["input"]
    assert [item["type"] for item in again] == ["message", "reasoning", "message", "message"]
    assert again[1]["encrypted_content"].startswith("gAAAAABpP-OPAQUE-EXAMPLE-SECOND"), (
        "the first led to a call without a result"
    )
    assert again[1]["summary"] == [{"type": "summary_text", "text": "Opening hours are per branch."}]

    if client == "1.0.0":
        assert outcomes(reports["cancel"]) == ["cancelled"]
    else:
        assert [end["code"] for end in reports["cancel"]["ends"]] == ["cancelled"]
