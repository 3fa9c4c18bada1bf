"""State that a provider stores, and that a body refers to by ID: only the caller that was given it can use it."""

from __future__ import annotations

import json
import os
from typing import Any, Final

import pytest

from projector.server.ownership import ids_of
from tests.asgi.test_ai_sdk_route import ANN, AUTH, BOB
from tests.asgi.test_messages_route import answers as answers_json

RESPONSES: Final = "/v1/responses"
COMPACT: Final = "/v1/responses/compact"
CHAT: Final = "/v1/chat/completions"
MESSAGES: Final = "/v1/messages"
COUNT: Final = "/v1/messages/count_tokens"
USER: Final = {"role": "user", "content": "hi"}

REASONING: Final = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}]}
IMAGE: Final = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QQ=="}
CODE: Final = {
    "type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1", "container_id": "cntr_1",
    "outputs": [],
}  # fmt: skip
SEARCH: Final = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
REQUEST: Final = {
    "type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}",
}  # fmt: skip
ITEMS: Final[tuple[dict[str, Any], ...]] = (REASONING, IMAGE, CODE, SEARCH, REQUEST)


async def answers(peer: Any) -> None:
    """Answer a first request with items of all kinds, others with nothing; or with JSON."""
    if b"compact" in peer.head.split(b"\r\n")[0]:
        output = [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}]
        await answers_json({"id": "resp_2", "object": "response.compaction", "output": output})(peer)
        return
    await peer.start()
    response: dict[str, Any] = {"id": "resp_1", "status": "in_progress"}
    await peer.event({"type": "response.created", "response": response})
    for index, item in enumerate(ITEMS):
        for step in ("added", "done"):
            await peer.event({"type": f"response.output_item.{step}", "output_index": index, "item": item})
    await peer.event({"type": "response.completed", "response": {**response, "status": "completed"}})
    await peer.end()


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    base_url = f"http://localhost:{upstream_port}/v1"
    apis = {"responses": "openai_responses", "chat_completions": "openai_chat", "messages": "anthropic_messages"}
    upstreams = {name: {"api": api, "base_url": base_url} for name, api in apis.items()}
    steps = [{"name": "step", "agent": "helper"}]
    return serve(
        api_key=None,
        base_url=None,
        auth=AUTH,
        upstreams=upstreams,
        agents={"helper": {"upstream": "responses", "model": "m", "dialects": ["public_sse_v1", "openwop"]}},
        openwop={},
        workflows={"flow": {"stages": [{"name": "stage", "steps": steps}]}},
        passthrough={name: name for name in apis},
        retries={"max": 0},
    )


def sent(path: str, **members: Any) -> dict[str, Any]:
    """Return a body of a route with some members."""
    conversation = "messages" if path in (CHAT, MESSAGES, COUNT) else "input"
    return {"model": "m", conversation: [USER], **members}


def tool(**members: Any) -> list[dict[str, Any]]:
    return [{"type": "code_interpreter", **members}]


def space(**members: Any) -> list[dict[str, Any]]:
    """Return a namespace with a namespace with a tool."""
    inner = {"type": "namespace", "name": "b", "tools": tool(**members)}
    return [{"type": "namespace", "name": "a", "tools": [inner]}]


APPROVAL: Final = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
SHELL: Final = {"type": "container_reference", "container_id": "cntr_1"}
HER_ITEMS: Final[dict[str, list[dict[str, Any]]]] = {
    "an image": [{"type": "image_generation_call", "id": "ig_1"}],
    "an image with hints": [{"type": "image_generation_call", "id": "ig_1", "size": "1024x1024", "result": None}],
    "a type in another case": [{"type": "Image_Generation_Call", "id": "ig_1"}],
    "a reference in a message": [{"role": "user", "content": [{"type": "item_reference", "id": "ws_1"}]}],
    "reasoning": [{"type": "reasoning", "id": "rs_1", "summary": []}],
    "reasoning with its summary": [REASONING],
    "reasoning without its state": [{**REASONING, "encrypted_content": "", "content": []}],
    "an approval": [APPROVAL],
    "a message of nothing": [{"type": "message", "id": "ws_1", "role": None, "content": None}],
    "an empty message": [{"type": "message", "id": "ws_1", "role": "user", "content": []}],
    "a message of nothing without a type": [{"id": "ws_1", "role": "user", "content": None}],
    "a message without content": [{"type": "message", "role": "assistant", "id": "ws_1"}],
    "a search that could be whole": [SEARCH],
    "an image that could be whole": [IMAGE],
    "an approval with the request": [REQUEST, APPROVAL],
    "code": [CODE],
    "code of another ID": [{**CODE, "id": "ci_9"}],
    "a shell": [{"type": "shell_call", "call_id": "c", "action": {"commands": []}, "environment": SHELL}],
    "a tool that was found": [{"type": "tool_search_output", "call_id": "c", "tools": tool(container="cntr_1")}],
    "a namespace that was found": [{"type": "tool_search_output", "call_id": "c", "tools": space(container="cntr_1")}],
    "an added tool": [{"type": "additional_tools", "role": "developer", "tools": tool(container="cntr_1")}],
}
"""Items that refer to what the response of a caller has."""
HERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    **{name: (RESPONSES, sent(RESPONSES, input=[USER, *items])) for name, items in HER_ITEMS.items()},
    **{f"{name}, compacted": (COMPACT, sent(COMPACT, input=[USER, *items])) for name, items in HER_ITEMS.items()},
    "the container of a tool": (RESPONSES, sent(RESPONSES, tools=tool(container="cntr_1"))),
    "the container of a tool in a list": (RESPONSES, sent(RESPONSES, tools=[tool(container="cntr_1")])),
    "the container of a tool of a namespace": (RESPONSES, sent(RESPONSES, tools=space(container="cntr_1"))),
    "the container of a shell": (RESPONSES, sent(RESPONSES, tools=[{"type": "shell", "environment": SHELL}])),
    "the container of a message": (MESSAGES, sent(MESSAGES, max_tokens=9, container="cntr_1")),
    "the container of a count": (COUNT, sent(COUNT, container="cntr_1")),
    "a container with skills": (MESSAGES, sent(MESSAGES, max_tokens=9, container={"id": "cntr_1", "skills": []})),
}
NOBODYS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a conversation": (RESPONSES, sent(RESPONSES, conversation="conv_1")),
    "a conversation, compacted": (COMPACT, {"model": "m", "conversation": "conv_1"}),
    "an object, compacted": (COMPACT, {"model": "m", "conversation": {"id": "conv_1"}}),
    "audio": (CHAT, sent(CHAT, messages=[USER, {"role": "assistant", "audio": {"id": "audio_1"}}, USER])),
    "a container": (MESSAGES, sent(MESSAGES, max_tokens=9, container="cntr_0")),
    "another case": (MESSAGES, sent(MESSAGES, max_tokens=9, Container="cntr_1")),
    "tools in another case": (RESPONSES, sent(RESPONSES, Tools=tool(container="cntr_1"))),
    "tools of a namespace in another case": (RESPONSES, sent(RESPONSES, tools=[{"type": "namespace", "Tools": []}])),
    "an approval of another type": (RESPONSES, sent(RESPONSES, input=[{**APPROVAL, "approval_request_id": []}])),
    "an item of another type": (RESPONSES, sent(RESPONSES, input=[{"type": ["reasoning"], "id": "rs_0"}])),
    "an item in a list": (RESPONSES, sent(RESPONSES, input=[[{"type": "item_reference", "id": "rs_0"}]])),
    "an item in a list, compacted": (COMPACT, sent(COMPACT, input=[USER, [USER, {"id": "rs_0"}]])),
    "an ID in another case": (RESPONSES, sent(RESPONSES, input=[{"type": "item_reference", "ID": "ws_1"}])),
    "an ID beside another": (RESPONSES, sent(RESPONSES, input=[{**USER, "type": "message", "Id": "ws_1"}])),
    "a container of another type": (RESPONSES, sent(RESPONSES, tools=tool(container=[{}]))),
}


async def refusal_of(site: Any, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
    answer = await site.ask(path, body, **headers)
    error = json.loads(await answer.rest()).get("error") if answer.status != 200 else None
    return answer.status, error and error["message"]


async def give(site: Any, provider: Any) -> None:
    """Have Ann given an answer with all items."""
    answer = await site.ask(RESPONSES, sent(RESPONSES), **ANN)
    assert answer.status == 200
    await answer.rest()
    await provider.peers.get()


@pytest.mark.parametrize("name", HERS)
async def test_what_a_caller_was_given_is_not_for_others(site: Any, upstream: Any, name: str) -> None:
    provider = await upstream(answers)
    await give(site, provider)
    path, body = HERS[name]
    status, message = await refusal_of(site, path, body, BOB)
    assert status == 404, message
    assert provider.peers.empty()
    if path == RESPONSES:
        answer = await site.ask(path, body, **ANN)
        assert answer.status == 200
        await answer.rest()
        assert (await provider.peers.get()).body["input"] == body["input"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/chat/stream", {"agent": "helper", "message": "hi"}),
        ("/api/v1/workflows/flow/run-stream", {"message": "hi"}),
        ("/v1/runs", {"workflowId": "helper", "inputs": {"message": "hi"}}),
    ],
)
async def test_items_of_agents_are_not_for_others(site: Any, upstream: Any, path: str, body: dict[str, Any]) -> None:
    item = {**REQUEST, "id": f"mcpr_{os.urandom(8).hex()}"}  # the tests share a server

    async def asks(peer: Any) -> None:
        await peer.start()
        response = {"id": f"resp_{item['id']}", "status": "completed"}
        await peer.event({"type": "response.created", "response": {**response, "status": "in_progress"}})
        await peer.event({"type": "response.output_item.done", "output_index": 0, "item": item})
        await peer.event({"type": "response.completed", "response": response})
        await peer.end()

    provider = await upstream(asks)
    answer = await site.ask(path, body, **ANN)
    said = await answer.rest()
    while answer.status == 201 and b"node.suspended" not in said:
        reader = await site.get(f"{answer.headers['location']}/events", accept="application/json", **ANN)
        said = await reader.rest()
    await provider.peers.get()
    whole = sent(RESPONSES, input=[item, {**APPROVAL, "approval_request_id": item["id"]}])
    assert await refusal_of(site, RESPONSES, whole, BOB) == (404, "A referenced item was not found.")
    assert provider.peers.empty()
    assert (await refusal_of(site, RESPONSES, whole, ANN))[0] == 200


async def test_what_was_shown_can_be_sent_back(site: Any, upstream: Any) -> None:
    """Clients that hold the conversation send the output of an answer as it is, some of it without its content."""
    provider = await upstream(answers)
    answer = await site.ask(RESPONSES, sent(RESPONSES), **ANN)
    output = json.loads(await answer.rest())["output"]
    await provider.peers.get()
    assert {"rs_1", "ig_1", "ci_1", "ws_1", "mcpr_1"} <= {item["id"] for item in output}
    statuses = [
        (await site.ask(RESPONSES, sent(RESPONSES, input=[USER, *output, APPROVAL]), **caller)).status
        for caller in (ANN, BOB)
    ]
    assert statuses == [200, 404]


@pytest.mark.parametrize("name", HERS)
def test_owners_are_loaded_before_they_are_checked(name: str) -> None:
    """Another server, or this one before a restart, may have given it."""
    _, body = HERS[name]
    assert {*ids_of(body)} & {"rs_1", "ig_1", "ci_1", "ws_1", "mcpr_1", "cntr_1"}


@pytest.mark.parametrize("name", NOBODYS)
async def test_what_no_caller_was_given_is_refused(site: Any, upstream: Any, name: str) -> None:
    provider = await upstream(answers)
    path, body = NOBODYS[name]
    status, message = await refusal_of(site, path, body, ANN)
    assert status in {400, 404}, message
    assert provider.peers.empty()


WHOLE: Final[dict[str, dict[str, Any]]] = {
    "a message": {"type": "message", "role": "assistant", "id": "msg_7", "content": []},
    "a message without a type": {"role": "assistant", "id": "msg_7", "content": ""},
    "a call": {"type": "function_call", "id": "fc_7", "call_id": "c", "name": "f", "arguments": ""},
    "an output": {"type": "function_call_output", "id": "fco_7", "call_id": "c", "output": ""},
    "a call of a custom tool": {"type": "custom_tool_call", "id": "ctc_7", "call_id": "c", "name": "f", "input": ""},
    "encrypted reasoning": {**REASONING, "id": "rs_7", "encrypted_content": "gAAAA"},
    "open reasoning": {**REASONING, "id": "rs_7", "content": [{"type": "reasoning_text", "text": "a"}]},
    "an image": {**IMAGE, "id": "ig_7"},
    "a search": {**SEARCH, "id": "ws_7"},
    "a compaction": {"type": "compaction", "id": "cmp_7", "encrypted_content": "x"},
    "a call of an MCP server": {"type": "mcp_call", "id": "mcp_7", "server_label": "s", "name": "f", "arguments": ""},
    "an item without an ID": {"type": "reasoning", "summary": []},
}
"""Items with their content, as clients send them that hold the conversation; the server may have forgotten them."""


@pytest.mark.parametrize("name", WHOLE)
async def test_whole_items_need_not_be_known(site: Any, upstream: Any, name: str) -> None:
    provider = await upstream(answers)
    items = [USER, WHOLE[name]]
    answer = await site.ask(RESPONSES, sent(RESPONSES, input=items), **BOB)
    assert answer.status == 200
    await answer.rest()
    assert (await provider.peers.get()).body["input"] == items


async def test_reasoning_that_is_left_out_is_no_reference(site: Any, upstream: Any) -> None:
    """A client that has the provider store nothing may send back what it was shown of reasoning."""
    provider = await upstream(answers)
    answer = await site.ask(RESPONSES, sent(RESPONSES, input=[USER, REASONING], store=False), **BOB)
    assert answer.status == 200
    assert (await provider.peers.get()).body["input"] == [USER]


@pytest.mark.parametrize("items", [[REASONING], [{**REASONING, "id": "rs_0"}]])
async def test_an_upstream_of_another_api_finds_nothing_by_its_id(
    serve: Any, upstream: Any, upstream_port: int, items: list[Any]
) -> None:
    upstreams = {"one": {"api": "openai_chat", "base_url": f"http://localhost:{upstream_port}/v1"}}
    site = serve(api_key=None, base_url=None, auth=AUTH, upstreams=upstreams, passthrough={"responses": "one"})
    provider = await upstream(answers)
    await site.ask(RESPONSES, sent(RESPONSES, input=[USER, *items, USER]), **BOB)
    assert b"rs_" not in json.dumps((await provider.peers.get()).body).encode()
