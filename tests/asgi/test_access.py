"""Access control over real sockets: callers cannot use the streams, responses and conversations of others."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import pytest

from projector.dialects import DIALECTS
from projector.server.ownership import LATE
from tests.asgi.conftest import plays

AUTH = {"api_keys": {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("ann", "bob")}}
ANN = {"authorization": "Bearer ann"}
BOB = {"authorization": "Bearer bob"}
CHAT = "/api/v1/chat/stream"


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/api/v1/streams/stream_1/cancel"])
async def test_an_unauthenticated_caller_gets_401_on_every_path(serve: Any, path: str) -> None:
    answer = await serve(auth=AUTH).ask(path, b"not even read")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert await answer.error_code() == ("invalid_api_key" if path == "/v1/responses" else "unauthenticated")


@pytest.mark.parametrize("header", [{}, {"x_api_key": "ann"}, {"authorization": "ann"}, {"authorization": "Basic ann"}])
async def test_a_401_names_the_header_of_the_key(serve: Any, header: dict[str, str]) -> None:
    answer = await serve(auth=AUTH).ask(**({"authorization": ""} | header))
    assert (await answer.problem())["detail"] == (
        "A valid API key or token is required, sent as `Authorization: Bearer KEY`."
    )


async def test_a_request_must_name_one_of_several_agents(serve: Any) -> None:
    """Without their names: the caller may not use all of them."""
    agents = {name: {"upstream": "default", "model": "m"} for name in ("one", "two", "hidden")}
    answer = await serve(agents=agents).ask(body={"message": "a"})
    problem = await answer.problem()
    assert (answer.status, problem["code"]) == (422, "invalid_request")
    assert problem["detail"] == "`agent` is missing: this server has several agents, and none is named `default`."


APPROVED: Final = [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}]


@pytest.mark.parametrize(
    ("sent", "detail"),
    [("a", "`previous_response_id`: response not found."), (APPROVED, LATE)],
    ids=["message", "approval"],
)
async def test_an_unknown_previous_response_is_named(serve: Any, sent: Any, detail: str) -> None:
    body = {"previous_response_id": "resp_of_nobody"}
    own = {"message": sent} if isinstance(sent, str) else {"input": sent}
    assert (await (await serve().ask(body=body | own)).problem())["detail"] == detail
    error = await (await serve().ask("/v1/responses", {"model": "m", "input": sent, **body})).openai_error()
    assert (error["message"], error["param"]) == (detail, "previous_response_id")


async def test_a_stream_belongs_to_its_caller(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(plays(text_events[:3], ends=False))
    site = serve(auth=AUTH)
    answer = await site.ask(**ANN)
    await answer.chunk()
    path = f"/api/v1/streams/{answer.headers['x-stream-id']}/cancel"
    assert [(await site.ask(path, b"", **who)).status for who in (BOB, ANN)] == [404, 204]
    assert (await answer.frames())[-1]["final"]["status"] == "cancelled"


async def test_a_previous_response_belongs_to_its_caller(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(plays(text_events))
    site = serve(auth=AUTH)
    response_id = (await (await site.ask(**ANN)).frames())[-1]["response_id"]
    for path, body in (
        (CHAT, {"message": "go on", "previous_response_id": response_id}),
        (
            "/v1/responses?dialect=public_sse_v1",
            {"model": "m", "input": "go on", "previous_response_id": response_id},
        ),
    ):
        refused = await site.ask(path, body, **BOB)
        assert (refused.status, await refused.error_code()) == (404, "unknown_response")
        assert (await (await site.ask(path, body, **ANN)).frames())[-1]["kind"] == "final"
    assert provider.peers.qsize() == 3


async def test_after_a_restart_no_response_can_be_continued(serve: Any, upstream: Any, text_events: Any) -> None:
    """The same applies to another replica, where the owner of the response is unknown."""
    provider = await upstream(plays(text_events))
    response_id = (await (await serve(auth=AUTH).ask(**ANN)).frames())[-1]["response_id"]
    another = serve(auth=AUTH, heartbeat_s=14)
    for who in (ANN, BOB):
        refused = await another.ask(CHAT, {"message": "go on", "previous_response_id": response_id}, **who)
        assert (refused.status, (await refused.problem())["code"]) == (404, "unknown_response")
    assert provider.peers.qsize() == 1


@pytest.mark.parametrize(
    ("member", "status", "code"),
    [
        ({"conversation": "conv_of_the_provider"}, 404, "unknown_conversation"),
        ({"conversation": {"id": "conv_of_the_provider"}}, 404, "unknown_conversation"),
        ({"conversation": ["conv_of_the_provider"]}, 400, "invalid_request"),
        ({"conversation": {"id": ["conv_of_the_provider"]}}, 400, "invalid_request"),
        ({"conversation": "c" * 257}, 400, "invalid_request"),
        ({"previous_response_id": ["resp_1"]}, 400, "invalid_request"),
        ({"previous_response_id": {"id": "resp_1"}}, 400, "invalid_request"),
    ],
)
async def test_a_passthrough_caller_cannot_use_ids_of_others(
    serve: Any, upstream: Any, member: dict[str, object], status: int, code: str
) -> None:
    provider = await upstream(plays([]))
    site = serve(auth=AUTH)
    if "conversation" in member:  # a claim of the name on the other route changes nothing
        (await site.ask(CHAT, {"message": "hi", "conversation_id": "conv_of_the_provider"}, **ANN)).leave()
        await provider.peers.get()
    refused = await site.ask("/v1/responses", {"input": "hi", **member}, **ANN)
    assert (refused.status, await refused.error_code()) == (status, code)
    assert provider.peers.empty()


async def test_a_refused_request_takes_no_conversation(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(plays(text_events))
    site = serve(auth=AUTH)
    asked = {"message": "hi", "conversation_id": "conv_of_tomorrow"}
    statuses = [
        (await site.ask(CHAT + query, asked, **who)).status for query, who in (("?extensions=x", BOB), ("", ANN))
    ]
    assert statuses == [422, 200]


async def test_a_passthrough_request_requires_a_model(serve: Any, upstream: Any, upstream_port: int) -> None:
    provider = await upstream(plays([]))
    one = {"one": {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": "sk-one"}}
    site = serve(api_key=None, base_url=None, upstreams=one, passthrough={"responses": "one"})
    refused = await site.ask("/v1/responses", {"input": "hi"})
    assert (refused.status, (await refused.openai_error())["message"]) == (400, "`model` is missing.")
    await (await site.ask("/v1/responses", {"input": "hi", "model": "m"})).rest()
    assert (await provider.peers.get()).body["model"] == "m"


async def test_a_conversation_belongs_to_its_caller(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(plays(text_events))
    site = serve(auth=AUTH)
    body = {"message": "hi", "conversation_id": "conv_of_ann"}
    frames = await (await site.ask(CHAT, body, **ANN)).frames()
    assert {frame["conversation_id"] for frame in frames} == {"conv_of_ann"}
    refused = await site.ask(CHAT, body, **BOB)
    assert (refused.status, (await refused.problem())["code"]) == (404, "unknown_conversation")
    refused = await site.ask("/v1/responses", {"input": "hi", "conversation": {"id": "conv_of_ann"}}, **BOB)
    assert refused.status == 404


async def test_the_settings_of_an_agent_are_not_sent_to_clients(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    provider = await upstream(plays(text_events))
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"one": {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": "sk-one"}},
        agents={
            "helper": {
                "upstream": "one",
                "model": "gpt-x",
                "instructions": "the secret sauce",
                "tools": [{"type": "t"}],
            }
        },
    )
    output = await (await site.ask(body={"message": "hi", "agent": "helper"})).rest()
    assert b"secret sauce" not in output
    assert b'"agent":"helper"' in output
    peer = await provider.peers.get()
    assert peer.body == {
        "model": "gpt-x",
        "instructions": "the secret sauce",
        "tools": [{"type": "t"}],
        "input": "hi",
        "stream": True,
    }
    refused = await site.ask(body={"message": "hi", "agent": "other"})
    assert (refused.status, (await refused.problem())["code"]) == (404, "unknown_agent")
    assert (await site.ask("/v1/responses", {"input": "hi"})).status == 404  # off unless configured
    refused = await site.ask(f"{CHAT}?dialect=openresponses", {"message": "hi"})
    assert (await refused.problem())["code"] == "unknown_dialect"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_agent_settings_repeated_by_the_provider_are_not_sent_to_clients(
    serve: Any, upstream: Any, upstream_port: int, dialect: str
) -> None:
    """Every response of the Responses API repeats the instructions and tools of its request."""
    secret = {"instructions": "the secret sauce", "tools": [{"type": "function", "name": "secret_tool"}]}
    response = {"id": "resp_1", "model": "gpt-x", "status": "in_progress", "output": [], **secret}
    text = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": "Hi"}

    async def script(peer: Any) -> None:
        assert {name: peer.body[name] for name in secret} == secret
        await peer.start()
        await peer.event({"type": "response.created", "response": response})
        await peer.event(text)
        await peer.event({"type": "response.completed", "response": {**response, "status": "completed"}})
        await peer.end()

    await upstream(script)
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"one": {"base_url": f"http://localhost:{upstream_port}/v1"}},
        agents={"helper": {"upstream": "one", "model": "gpt-x", "dialects": list(DIALECTS), **secret}},
        openwop={},
    )
    output = await (await site.ask(f"{CHAT}?dialect={dialect}")).rest()
    assert b"Hi" in output
    assert b"secret" not in output
    described = await (await site.get("/openapi.json")).rest()
    assert b"the secret sauce" not in described
    assert b"secret_tool" not in described


async def test_a_chat_upstream_gets_requests_in_its_format(serve: Any, upstream: Any, upstream_port: int) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(
            b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
            b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n'
            b"data: [DONE]\n\n"
        )
        await peer.end()

    provider = await upstream(script)
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"local": {"api": "openai_chat", "base_url": f"http://localhost:{upstream_port}/v1"}},
        agents={"default": {"upstream": "local", "model": "llama", "instructions": "Be short."}},
    )
    final = (await (await site.ask(body={"message": "hi"})).frames())[-1]["final"]
    assert (final["status"], final["response_text"], final["usage"]["output_tokens"]) == ("completed", "Hi", 2)
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST /v1/chat/completions ")
    assert peer.body == {
        "model": "llama",
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
        "stream": True,
    }


@pytest.mark.parametrize(
    ("origins", "allowed"), [([], None), (["https://a.example"], "https://a.example"), (["https://b.example"], None)]
)
async def test_pages_of_allowed_origins_can_read_responses(
    serve: Any, upstream: Any, text_events: Any, origins: list[str], allowed: str | None
) -> None:
    await upstream(plays(text_events))
    answer = await serve(cors_origins=origins).ask(origin="https://a.example")
    assert answer.headers.get("access-control-allow-origin") == allowed
    await answer.rest()


async def test_the_openapi_document_contains_the_enabled_routes(serve: Any) -> None:
    document = json.loads(await (await serve(passthrough={}).get("/openapi.json")).rest())
    assert "/api/v1/chat/stream" in document["paths"]
    assert "/v1/responses" not in document["paths"]
