"""Blocks of tools that the provider executed go back as they came: after a pause, and with calls that follow them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.asgi.conftest import Peer
from tests.asgi.test_messages_route import MESSAGES
from tests.asgi.test_sealed_thinking import CALLERS, NEW, REGISTERED, Block, content_of, events, settings

THINKING: Final = {"type": "thinking", "thinking": f"It is {REGISTERED}.", "signature": "c2lnbmVk"}
SEARCH: Final = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": REGISTERED}}
PAGE: Final = {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "ZW5j"}
FOUND: Final = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [PAGE]}
MCP: Final = {"type": "mcp_tool_use", "id": "mcp_1", "name": "f", "server_name": "s", "input": {"at": 1}}
MCP_FOUND: Final = {"type": "mcp_tool_result", "tool_use_id": "mcp_1", "is_error": False, "content": "out"}
CODE: Final = {"type": "server_tool_use", "id": "srv_2", "name": "code_execution", "input": {"code": "look()"}}
RAN: Final = {"type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0, "content": []}
CODE_DONE: Final = {"type": "code_execution_tool_result", "tool_use_id": "srv_2", "content": RAN}
CALL: Final = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}}
BY_CODE: Final = {**CALL, "caller": {"type": "code_execution_20250825", "tool_id": "srv_2"}}
CONTAINER: Final = "container_1"


def text(words: str) -> Block:
    return {"type": "text", "text": words}


PAUSED: Final = [
    [THINKING, text("I search."), SEARCH, FOUND, MCP],
    [MCP_FOUND, text("I compute."), CODE, BY_CODE],
    [CODE_DONE, text("Done.")],
]
"""A turn that the provider interrupts, whose results come in the next message, and whose code calls the client."""
COMPACTION: Final = {"type": "compaction", "content": f"It was {REGISTERED}.", "encrypted_content": "ZW5j"}
FALLBACK: Final = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal"}}
ADVICE: Final = {"type": "server_tool_use", "id": "srv_3", "name": "advisor", "input": {}}
ADVISED: Final = {
    "type": "advisor_tool_result",
    "tool_use_id": "srv_3",
    "content": {"type": "advisor_result", "text": REGISTERED, "stop_reason": "end_turn"},
}
CLICK: Final = {**CALL, "toolset_name": "computer"}
COMPACTED: Final = [
    [COMPACTION, THINKING, FALLBACK, THINKING, ADVICE, ADVISED, text("I look."), CLICK],
    [text("Done.")],
]
CALLED: Final = [[THINKING, SEARCH, FOUND, text("I look."), CALL], [text("Done.")]]


def answering(turns: list[list[Block]]) -> Callable[[Peer], Any]:
    """Return the script of a provider that says the first turn that is not in the request."""

    async def script(peer: Peer) -> None:
        done = sum(message["role"] == "assistant" for message in peer.body["messages"])
        content = turns[done]
        stop = {"toolu_1": "tool_use", "mcp_1": "pause_turn"}.get(content[-1].get("id", ""), "end_turn")
        container = {"container": {"id": CONTAINER}} if BY_CODE in content else {}
        await peer.start()
        for event in events(content, 5):
            end = {"delta": {"stop_reason": stop, **container}} if event["type"] == "message_delta" else {}
            await peer.event({**event, **end})
        await peer.end()

    return script


async def ask(site: Any, path: str, body: Block) -> str:
    answer = await site.ask(path, {"model": "m", "max_tokens": 9, **body}, x_api_key=CALLERS["alice"])
    said = (await answer.rest()).decode()
    assert answer.status == 200, said
    assert not any(hidden in said for hidden in (REGISTERED, "c2lnbmVk", "ZW5j"))
    return str(said)


RESULT: Final = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}]}


@pytest.mark.parametrize(
    ("turns", "keys"),
    [(PAUSED, (NEW,)), (CALLED, (NEW,)), (CALLED, ()), (COMPACTED, (NEW,)), (COMPACTED, ())],
    ids=["paused", "carried", "kept", "compacted and carried", "compacted and kept"],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_provider_gets_its_blocks_back(
    serve: Any, upstream: Any, upstream_port: int, turns: list[list[Block]], keys: Any, *, stream: bool
) -> None:
    scripted = await upstream(answering(turns))
    given = settings(upstream_port, *keys)
    given["passthrough"]["store"] = "default"
    site = serve(**given)
    messages: list[Block] = [{"role": "user", "content": "Hi"}]
    for turn in turns:
        said = await ask(site, MESSAGES, {"stream": stream, "messages": messages})
        messages.append({"role": "assistant", "content": content_of(said, stream=stream)})
        messages += [RESULT] if turn[-1].get("id") == "toolu_1" else []
    bodies = [(await scripted.peers.get()).body for _ in turns]
    assert [one["content"] for one in bodies[-1]["messages"] if one["role"] == "assistant"] == turns[:-1]
    containers = [None, None, CONTAINER] if turns is PAUSED else [None, None]
    assert [body.get("container") for body in bodies] == containers


async def test_clients_of_another_api_need_not_know_them(serve: Any, upstream: Any, upstream_port: int) -> None:
    scripted = await upstream(answering([[THINKING, text("I compute."), CODE, BY_CODE], [CODE_DONE, text("Done.")]]))
    given = settings(upstream_port)
    given["passthrough"] = {"chat_completions": "one"}
    site = serve(**given)
    messages: list[Block] = [{"role": "user", "content": "Hi"}]
    for _ in range(2):
        body = {"model": "m", "messages": messages}
        answer = await site.ask("/v1/chat/completions", body, authorization=f"Bearer {CALLERS['alice']}")
        message = json.loads(await answer.rest())["choices"][0]["message"]
        messages += [message, {"role": "tool", "tool_call_id": "toolu_1", "content": "1"}]
    await scripted.peers.get()
    sent = (await scripted.peers.get()).body
    assert sent["messages"][1]["content"] == [THINKING, text("I compute."), CODE, BY_CODE]
    assert sent["container"] == CONTAINER
