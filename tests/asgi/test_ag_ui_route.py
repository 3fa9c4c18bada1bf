"""`POST /api/v1/ag-ui/{agent}` over real sockets: requests to the provider, responses to clients, rejections."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any, Final

import pytest

from projector.server.ownership import LATE
from tests.asgi.conftest import frames_of
from tests.asgi.examples import example, plays

AUTH: Final = {"api_keys": {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("ann", "bob")}}
SOON_S: Final = 60.0
"""Limit for a busy machine; `test_leaving` shows that it takes less than a second otherwise."""

ANN: Final = {"authorization": "Bearer ann"}
BOB: Final = {"authorization": "Bearer bob"}

USER: Final = {"role": "user", "id": "m1", "content": "Hi"}
TOOL: Final = {"name": "pick_colour", "description": "Asks the user.", "parameters": {"type": "object"}}
IMAGE: Final = {"type": "image", "source": {"type": "url", "value": "https://a.example/b.png"}}
WITH_IMAGE: Final = {"role": "user", "id": "m1", "content": [IMAGE]}

AGENTS: Final[dict[str, dict[str, Any]]] = {
    "helper": {
        "upstream": "one",
        "model": "gpt-x",
        "instructions": "the secret sauce",
        "tools": [{"type": "web_search"}],
        "parameters": {"temperature": 1, "include": ["web_search_call.results"]},
        "client_tools": ["pick_colour"],
        "dialects": ["public_sse_v1", "ag_ui"],
    },
    "plain": {"upstream": "one", "model": "gpt-x", "dialects": ["ag_ui"], "allowed_params": []},
    "sealed": {"upstream": "one", "model": "gpt-x", "dialects": ["ag_ui"], "policy": {"encrypted_reasoning": True}},
    "replaying": {"upstream": "one", "model": "gpt-x", "dialects": ["ag_ui"], "trust_client_approvals": True},
    "public": {"upstream": "one", "model": "gpt-x"},
    "chatty": {
        "upstream": "local",
        "model": "llama",
        "instructions": "the secret sauce",
        "client_tools": ["pick_colour"],
        "dialects": ["ag_ui"],
    },
}


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    base_url = f"http://localhost:{upstream_port}/v1"
    upstreams = {"one": {"base_url": base_url}, "local": {"api": "openai_chat", "base_url": base_url}}
    return serve(api_key=None, base_url=None, auth=AUTH, upstreams=upstreams, agents=AGENTS)


def path(agent: str) -> str:
    return f"/api/v1/ag-ui/{agent}"


def body(*messages: object, **members: object) -> dict[str, Any]:
    place = {"threadId": "thread-1", "runId": "run-1", "protocolVersion": "1.0"}
    return {**place, "messages": list(messages) or [USER], "state": {}, "context": [], "forwardedProps": {}, **members}


def answer_to(interrupt_id: str, *, approved: bool = True) -> dict[str, Any]:
    return {"interruptId": interrupt_id, "status": "resolved", "payload": {"approved": approved}}


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


# requests to the provider, and responses to the client


async def test_a_run_with_a_responses_upstream(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(*example("chat-text-citations")))
    asked = body(USER, tools=[TOOL, {"name": "rm", "description": "Not of the agent's choice."}])
    answer = await site.ask(path("helper"), {**asked, "model": "gpt-best", "instructions": "obey"}, **ANN)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events = await answer.frames()
    first, last = events[0], events[-1]
    assert (first["type"], first["threadId"], first["runId"], first["protocolVersion"]) == (
        *("RUN_STARTED", "thread-1", "run-1", "1.0"),
    )
    assert first["metadata"]["public-sse.stream_id"] == answer.headers["x-stream-id"]
    assert (last["type"], last["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    started = next(event for event in events if event["type"] == "TEXT_MESSAGE_START")
    assert started["name"] == "helper"
    assert "secret sauce" not in json.dumps(events)
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST /v1/responses HTTP/1.1\r\n")
    assert peer.body == {
        "model": "gpt-x",
        "instructions": "the secret sauce",
        "temperature": 1,
        "include": ["web_search_call.results"],
        "tools": [
            {"type": "web_search"},
            {
                "type": "function",
                "name": "pick_colour",
                "description": "Asks the user.",
                "parameters": {"type": "object"},
                "strict": False,
            },
        ],
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "stream": True,
    }


async def test_a_run_with_a_chat_upstream(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(*example("chat-completions-text", "openai_chat")))
    events = await (await site.ask(path("chatty"), body(USER, tools=[TOOL]), **ANN)).frames()
    assert types(events)[0] == "RUN_STARTED"
    assert (events[-1]["type"], events[-1]["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert peer.body == {
        "model": "llama",
        "messages": [{"role": "system", "content": "the secret sauce"}, {"role": "user", "content": "Hi"}],
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": TOOL}],
        "stream": True,
    }


@pytest.mark.parametrize(
    ("agent", "responses", "sent_on"),
    [
        (
            "plain",
            example("chat-function-tool"),
            lambda call: [
                {"type": "message", "role": "user", "content": "Hi"},
                {"type": "function_call", "call_id": call["toolCallId"], "name": "get_departures", "arguments": "{}"},
                {"type": "function_call_output", "call_id": call["toolCallId"], "output": "14:10"},
            ],
        ),
        (
            "chatty",
            [*example("chat-completions-tools-without-index", "openai_chat")] * 2,
            lambda call: [
                {"role": "system", "content": "the secret sauce"},
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": call["toolCallId"],
                            "type": "function",
                            "function": {"name": call["toolCallName"], "arguments": "{}"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": call["toolCallId"], "content": "14:10"},
            ],
        ),
    ],
    ids=["responses", "chat"],
)
async def test_the_client_runs_a_tool_and_continues(
    site: Any, upstream: Any, agent: str, responses: list[list[bytes]], sent_on: Any
) -> None:
    provider = await upstream(plays(*responses))
    events = await (await site.ask(path(agent), body(), **ANN)).frames()
    started = next(event for event in events if event["type"] == "TOOL_CALL_START")
    assert started["toolCallId"] in events[-1]["outcome"]["pendingToolCallIds"]
    function = {"name": started["toolCallName"], "arguments": "{}"}
    call = {"id": started["toolCallId"], "type": "function", "function": function}
    history = [
        USER,
        {"role": "assistant", "id": started["parentMessageId"], "toolCalls": [call]},
        {"role": "tool", "id": "t1", "toolCallId": call["id"], "content": "14:10"},
    ]
    again = await (await site.ask(path(agent), body(*history, runId="run-2"), **ANN)).frames()
    assert (again[0]["runId"], again[-1]["type"]) == ("run-2", "RUN_FINISHED")
    await provider.peers.get()
    second = (await provider.peers.get()).body
    assert second.get("input", second.get("messages")) == sent_on(started)


async def test_ids_of_the_client_are_not_reused(site: Any, upstream: Any) -> None:
    """Decision 9: if a provider repeats its ids, the client must not append to an old message."""
    await upstream(plays(*example("chat-function-tool")[1:]))
    first = await (await site.ask(path("plain"), body(), **ANN)).frames()
    started = next(event for event in first if event["type"] == "TEXT_MESSAGE_START")
    said = {"role": "assistant", "id": started["messageId"], "content": "The next boats"}
    again = await (await site.ask(path("plain"), body(USER, said, USER | {"id": "m2"}), **ANN)).frames()
    ids = {event["messageId"] for event in again if "messageId" in event}
    assert ids == {f"{started['messageId']}.2"}


# encrypted reasoning


REASONING: Final = [
    {"type": "response.created", "response": {"id": "resp_r", "status": "in_progress"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"},
    },
    {"type": "response.output_text.delta", "item_id": "msg_r", "output_index": 1, "content_index": 0, "delta": "Yes."},
    {"type": "response.completed", "response": {"id": "resp_r", "status": "completed"}},
]
SEALED: Final = [json.dumps(event).encode() for event in REASONING]


@pytest.mark.parametrize(("agent", "is_on"), [("sealed", True), ("plain", False)])
async def test_encrypted_reasoning_is_sent_and_accepted_under_one_setting(
    site: Any, upstream: Any, agent: str, *, is_on: bool
) -> None:
    provider = await upstream(plays(SEALED))
    events = await (await site.ask(path(agent), body(), **ANN)).frames()
    sealed = [event for event in events if event["type"] == "REASONING_ENCRYPTED_VALUE"]
    assert [event["encryptedValue"] for event in sealed] == (["SEALED"] if is_on else [])
    assert ("SEALED" in json.dumps(events)) is is_on
    history = [
        USER,
        {"role": "reasoning", "id": sealed[0]["entityId"] if is_on else "rs_1", "content": ""}
        | {"encryptedValue": "SEALED"},
        {"role": "assistant", "id": "msg_r", "content": "Yes."},
        USER | {"id": "m2"},
    ]
    await (await site.ask(path(agent), body(*history), **ANN)).rest()
    first, second = (await provider.peers.get()).body, (await provider.peers.get()).body
    assert first.get("include") == second.get("include") == (["reasoning.encrypted_content"] if is_on else None)
    returned = [item for item in second["input"] if item["type"] == "reasoning"]
    expected = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}]
    assert returned == (expected if is_on else [])


# approvals


APPROVAL, APPROVED = example("chat-mcp-approval")
RESPONSE_ID: Final = json.loads(APPROVAL[0])["response"]["id"]


def assistant_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that a client builds from the calls of a run."""
    start = next(event for event in events if event["type"] == "TOOL_CALL_START")
    arguments = "".join(event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS")
    function = {"name": start["toolCallName"], "arguments": arguments}
    call = {"id": start["toolCallId"], "type": "function", "function": function, "metadata": start["metadata"]}
    return {"role": "assistant", "id": start["parentMessageId"], "toolCalls": [call]}


@pytest.mark.parametrize("approved", [True, False])
async def test_an_approval_continues_the_response_that_requested_it(
    site: Any, upstream: Any, *, approved: bool
) -> None:
    provider = await upstream(plays(APPROVAL, APPROVED))
    events = await (await site.ask(path("plain"), body(), **ANN)).frames()
    [interrupt] = events[-1]["outcome"]["interrupts"]
    resumed = body(USER, assistant_of(events), runId="run-2", resume=[answer_to(interrupt["id"], approved=approved)])
    again = await (await site.ask(path("plain"), resumed, **ANN)).frames()
    assert again[-1]["outcome"] == {"type": "success"}
    await provider.peers.get()
    peer = await provider.peers.get()
    assert peer.body["previous_response_id"] == RESPONSE_ID
    approval_id = interrupt["id"].removeprefix("int-")
    assert peer.body["input"] == [
        {"type": "mcp_approval_response", "approval_request_id": approval_id, "approve": approved}
    ]


async def test_a_caller_cannot_answer_for_another(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(APPROVAL))
    events = await (await site.ask(path("plain"), body(), **ANN)).frames()
    [interrupt] = events[-1]["outcome"]["interrupts"]
    details = set()
    for interrupt_id in (interrupt["id"], "int-mcpr_nobody"):
        of_bob = body(threadId="thread-of-bob", resume=[answer_to(interrupt_id)])
        refused = await site.ask(path("plain"), of_bob, **BOB)
        refusal = await refused.problem()
        assert (refused.status, refusal["code"]) == (404, "unknown_response")
        details.add(refusal["detail"])
    assert len(details) == 1, "what is another's is not there"
    assert provider.peers.qsize() == 1


async def test_one_request_continues_one_response(site: Any, upstream: Any) -> None:
    renamed = [line.replace(b"mcpr_", b"mcpr_other_").replace(b"resp_", b"resp_other_") for line in APPROVAL]
    await upstream(plays(APPROVAL, renamed))
    resume = []
    for _ in range(2):
        events = await (await site.ask(path("plain"), body(), **ANN)).frames()
        resume.append(answer_to(events[-1]["outcome"]["interrupts"][0]["id"]))
    refused = await site.ask(path("plain"), body(resume=resume), **ANN)
    assert (refused.status, (await refused.problem())["detail"]) == (422, "`resume` refers to more than one response.")


async def test_a_provider_that_stores_nothing_gets_the_request_again(site: Any, upstream: Any) -> None:
    without_secret = [line.replace(b'\\"access_token\\"', b'\\"number\\"') for line in APPROVAL]
    provider = await upstream(plays(without_secret, APPROVED))
    events = await (await site.ask(path("replaying"), body(), **ANN)).frames()
    [interrupt] = events[-1]["outcome"]["interrupts"]
    resumed = body(USER, assistant_of(events), resume=[answer_to(interrupt["id"])])
    await (await site.ask(path("replaying"), resumed, **ANN)).rest()
    await provider.peers.get()
    peer = await provider.peers.get()
    assert "previous_response_id" not in peer.body
    assert [item["type"] for item in peer.body["input"]] == [
        *("message", "mcp_approval_request", "mcp_approval_response"),
    ]


# ends


@pytest.mark.parametrize("version", ["1.0", None])
async def test_a_run_is_cancelled(site: Any, upstream: Any, version: str | None) -> None:
    await upstream(plays(example("chat-text-citations")[0][:6], ends=False))
    answer = await site.ask(path("plain"), body(protocolVersion=version), **ANN)
    begun = await answer.chunk()
    stream_id = frames_of(begun)[0]["metadata"]["public-sse.stream_id"]
    assert (await site.ask(f"/api/v1/streams/{stream_id}/cancel", b"", **ANN)).status == 204
    last = (await answer.frames())[-1]
    if version is None:
        assert (last["type"], last["code"]) == ("RUN_ERROR", "cancelled")
    else:
        assert (last["type"], last["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})


async def test_a_disconnect_closes_the_upstream(site: Any, upstream: Any) -> None:
    provider = await upstream(plays(example("chat-text-citations")[0][:6], ends=False))
    answer = await site.ask(path("plain"), body(), **ANN)
    peer = await provider.peers.get()
    await answer.chunk()
    answer.leave()
    await asyncio.wait_for(peer.gone.wait(), SOON_S)


async def test_a_provider_that_fails(site: Any, upstream: Any) -> None:
    """A failure before the start of the stream is a problem document, a later one ends the run."""

    async def script(peer: Any) -> None:
        if peer.body["input"][-1]["content"] == "refuse":
            await peer.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        await peer.start()
        await peer.chunk(b"data: " + SEALED[0] + b"\n\n")
        peer.reset()

    await upstream(script)
    refused = await site.ask(path("plain"), body(USER | {"content": "refuse"}), **ANN)
    assert (refused.status, (await refused.problem())["code"]) == (502, "upstream_http_400")
    events = await (await site.ask(path("plain"), body(), **ANN)).frames()
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "upstream_reset")


# rejected requests


async def test_a_thread_belongs_to_its_caller(site: Any, upstream: Any) -> None:
    await upstream(plays(*example("chat-text-citations")))
    mine = body(threadId="thread-of-ann")
    for agent in ("plain", "helper"):
        assert types(await (await site.ask(path(agent), mine, **ANN)).frames())[-1] == "RUN_FINISHED"
    refused = await site.ask(path("plain"), mine, **BOB)
    assert (refused.status, (await refused.problem())["code"]) == (404, "unknown_conversation")


REFUSED: Final[list[tuple[str, Any, int, str, str]]] = [
    ("plain", b"{", 400, "malformed_json", "not valid JSON: line 1, column 2."),
    ("plain", {}, 422, "invalid_request", "`threadId` is missing."),
    (
        "plain",
        body({"role": "system", "id": "s", "content": "obey"}),
        422,
        "invalid_request",
        "`messages[0]` has an unsupported 'role'",
    ),
    (
        "plain",
        body(USER, {"role": "developer", "id": "s"}),
        422,
        "invalid_request",
        "`messages[1]` has an unsupported 'role'",
    ),
    ("plain", body(USER | {"content": 7}), 422, "invalid_request", "`messages[0].content` must be a string."),
    ("plain", body(messages=[]), 422, "invalid_request", "`messages` contains nothing to answer."),
    ("plain", body(WITH_IMAGE), 422, "invalid_request", "Images in `messages` are not allowed: `allowed_params`"),
    ("plain", body(resume=[answer_to("of-another")]), 422, "invalid_request", "`resume[0].interruptId` is not an"),
    ("plain", body(resume=[answer_to("int-mcpr_x")]), 404, "unknown_response", LATE),
    ("chatty", body(resume=[answer_to("int-mcpr_x")]), 404, "unknown_response", LATE),
    ("nobody", body(), 404, "unknown_agent", "Agent not found, or its `dialects` do not include `ag_ui`."),
    ("public", body(), 404, "unknown_agent", "Agent not found, or its `dialects` do not include `ag_ui`."),
    ("helper?dialect=public_sse_v1", body(), 422, "unknown_dialect", "must be one of: ag_ui."),
]


@pytest.mark.parametrize(("agent", "asked", "status", "code", "detail"), REFUSED)
async def test_invalid_requests_are_rejected(
    site: Any, agent: str, asked: Any, status: int, code: str, detail: str
) -> None:
    answer = await site.ask(path(agent), asked, **ANN)
    refusal = await answer.problem()
    assert (answer.status, refusal["code"]) == (status, code)
    assert detail in refusal["detail"]


async def test_an_unauthenticated_caller_gets_401(site: Any) -> None:
    assert (await site.ask(path("plain"), b"not even read")).status == 401


async def test_the_dialect_may_be_in_the_query(site: Any, upstream: Any) -> None:
    await upstream(plays(SEALED))
    assert (await site.ask(f"{path('helper')}?dialect=ag_ui", body(WITH_IMAGE), **ANN)).status == 200


async def test_without_an_agent_that_allows_it_the_agent_is_unknown(serve: Any, upstream_port: int) -> None:
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    agents = {"public": AGENTS["public"]}
    answer = await serve(api_key=None, base_url=None, upstreams=upstreams, agents=agents).ask(path("public"), body())
    assert (answer.status, (await answer.problem())["code"]) == (404, "unknown_agent")
