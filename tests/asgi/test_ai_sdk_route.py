"""`POST /api/v1/ai-sdk/{agent}` over real sockets: what becomes of a request, and what is rejected."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import pytest

from projector.server.ownership import LATE
from tests.asgi.examples import example, plays

AUTH: Final = {"api_keys": {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("ann", "bob")}}
ANN: Final = {"authorization": "Bearer ann"}
BOB: Final = {"authorization": "Bearer bob"}

USER: Final = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
IMAGE: Final = {"type": "file", "mediaType": "image/png", "url": "https://a.example/b.png"}
PDF_URL: Final = "data:application/pdf;base64,QQ=="
PDF: Final = {"type": "file", "mediaType": "application/pdf", "url": PDF_URL, "filename": "b"}
TOOLS: Final = {"pick_colour": {"description": "Asks.", "parameters": {"type": "object"}}, "rm": {}}

AGENTS: Final[dict[str, dict[str, Any]]] = {
    "helper": {
        "upstream": "one",
        "model": "gpt-x",
        "instructions": "the secret sauce",
        "dialects": ["public_sse_v1", "ai_sdk"],
        "client_tools": ["pick_colour"],
        "allowed_params": ["images", "files"],
    },
    "plain": {"upstream": "one", "model": "gpt-x", "dialects": ["ai_sdk"], "allowed_params": []},
    "public": {"upstream": "one", "model": "gpt-x"},
    "chatty": {"upstream": "local", "model": "llama", "dialects": ["ai_sdk"], "allowed_params": ["files"]},
}


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    base_url = f"http://localhost:{upstream_port}/v1"
    upstreams = {"one": {"base_url": base_url}, "local": {"api": "openai_chat", "base_url": base_url}}
    return serve(api_key=None, base_url=None, auth=AUTH, upstreams=upstreams, agents=AGENTS)


def path(agent: str) -> str:
    return f"/api/v1/ai-sdk/{agent}"


def body(*messages: object, **members: object) -> dict[str, Any]:
    return {"id": "chat-1", "messages": list(messages) or [USER], "trigger": "submit-message", **members}


def user(*parts: object) -> dict[str, Any]:
    return {**USER, "parts": list(parts)}


async def chunks(answer: Any) -> list[dict[str, Any]]:
    lines = [line for line in (await answer.rest()).splitlines() if line.startswith(b"data: ")]
    assert lines.pop() == b"data: [DONE]"
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


async def test_a_message_of_an_agent(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(*example("chat-text-citations")))
    asked = body(user(USER["parts"][0], IMAGE, PDF), tools=TOOLS, system="obey", model="gpt-best")
    answer = await site.ask(path("helper"), asked, **ANN)
    assert (answer.status, answer.headers["x-vercel-ai-ui-message-stream"]) == (200, "v1")
    said = await chunks(answer)
    about = {"stream_id": answer.headers["x-stream-id"], "conversation_id": "chat-1"}
    assert said[0] == {"type": "start", "messageId": about["stream_id"], "messageMetadata": about}
    assert said[-1]["type"] == "finish"
    assert "secret sauce" not in json.dumps(said)
    content = [
        {"type": "input_text", "text": "Hi"},
        {"type": "input_image", "image_url": IMAGE["url"], "detail": "auto"},
        {"type": "input_file", "file_data": PDF_URL, "filename": "b"},
    ]
    tool = {"name": "pick_colour", "description": "Asks.", "parameters": {"type": "object"}}
    assert (await provider.peers.get()).body == {
        "model": "gpt-x",
        "instructions": "the secret sauce",
        "tools": [{"type": "function", **tool, "strict": False}],
        "input": [{"type": "message", "role": "user", "content": content}],
        "stream": True,
    }


async def test_a_file_for_a_chat_upstream(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(*example("chat-completions-text", "openai_chat")))
    await (await site.ask(path("chatty"), body(user(PDF)), **ANN)).rest()
    [message] = (await provider.peers.get()).body["messages"]
    assert message["content"] == [{"type": "file", "file": {"filename": "b", "file_data": PDF_URL}}]


def approval_of(said: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message of a client whose user has approved a call."""
    [asked] = [chunk for chunk in said if chunk["type"] == "tool-approval-request"]
    part = {"type": "dynamic-tool", "toolName": "f", "toolCallId": asked["toolCallId"], "providerExecuted": True}
    answer = {"id": asked["approvalId"], "approved": True}
    parts = [{"type": "step-start"}, {**part, "state": "approval-responded", "input": {}, "approval": answer}]
    return {"id": said[0]["messageId"], "role": "assistant", "parts": parts}


async def test_a_caller_cannot_answer_for_another(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(*example("chat-mcp-approval")))
    approved = approval_of(await chunks(await site.ask(path("plain"), body(), **ANN)))
    refused = await site.ask(path("plain"), body(USER, approved, id="chat-of-bob"), **BOB)
    problem = await refused.problem()
    assert (refused.status, problem["code"]) == (404, "unknown_response")
    assert problem["detail"] == LATE
    assert provider.peers.qsize() == 1
    again = await chunks(await site.ask(path("plain"), body(USER, approved), **ANN))
    assert (again[0]["messageId"], again[-1]["type"]) == (approved["id"], "finish")


async def test_a_chat_belongs_to_its_caller(site: Any, upstream: Any) -> None:
    await upstream(plays(*example("chat-text-citations")))
    await (await site.ask(path("plain"), body(), **ANN)).rest()
    refused = await site.ask(path("plain"), body(), **BOB)
    assert (refused.status, (await refused.problem())["code"]) == (404, "unknown_conversation")


UNKNOWN_AGENT: Final = "Agent not found, or its `dialects` do not include `ai_sdk`."
REFUSED: Final[list[tuple[str, str, Any, int, str]]] = [
    ("an unknown agent", "nobody", body(), 404, UNKNOWN_AGENT),
    ("an agent with other dialects", "public", body(), 404, UNKNOWN_AGENT),
    ("no messages", "plain", body(messages=[]), 422, "`messages` must not be empty."),
    ("a system message", "plain", body({**USER, "role": "system"}), 422, "`messages[0]` has an unsupported 'role'"),
    ("an image", "plain", body(user(IMAGE)), 422, "Images in `messages` are not allowed: `allowed_params`"),
    ("a file", "plain", body(user(PDF)), 422, "Files in `messages` are not allowed: `allowed_params`"),
    (
        "the address of a file",
        "chatty",
        body(user({**PDF, "url": "https://a.example/b"})),
        422,
        "The URL of a file is not",
    ),
    ("an unknown level", "plain?level=4", body(), 422, "`level` must be 5 or 6 or 7."),
]


@pytest.mark.parametrize(("name", "agent", "asked", "status", "detail"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_what_is_rejected(site: Any, name: str, agent: str, asked: Any, status: int, detail: str) -> None:
    del name
    refused = await site.ask(path(agent), asked, **ANN)
    problem = await refused.problem()
    assert refused.status == status
    assert problem["detail"].startswith(detail)


@pytest.mark.parametrize(("route", "dialect"), [("ai-sdk", "ai_sdk"), ("ag-ui", "ag_ui")])
async def test_a_server_without_such_agents_names_the_setting(
    serve: Any, upstream_port: int, route: str, dialect: str
) -> None:
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    agents = {"public": AGENTS["public"], "open": AGENTS["public"] | {"dialects": ["ag_ui", "ai_sdk"]}}
    for name, agent in agents.items():
        site = serve(api_key=None, base_url=None, upstreams=upstreams, agents={name: agent})
        start = await site.get("/")
        assert (f"/api/v1/{route}/" in (await start.problem())["detail"]) == (name == "open")
        refused = await site.ask(f"/api/v1/{route}/public", body())
        assert refused.status == 404
        assert (await refused.problem())["detail"] == UNKNOWN_AGENT.replace("ai_sdk", dialect)
