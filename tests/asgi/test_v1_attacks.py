"""Hostile callers of `/v1/...`: no request is a failure of the server, selects what it may not, or carries its headers.

Only JSON that the server has parsed is sent to a provider, with the server's own headers, to the URL of the settings.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import random
from typing import Any, Final

import pytest

from tests.asgi.conftest import Answer
from tests.property.soundness import EFFORT

pytestmark = pytest.mark.timeout(300 if EFFORT == 1 else 600)

KEYS: Final = {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("ann", "bob")}
ANN: Final = {"authorization": "Bearer ann"}
BOB: Final = {"authorization": "Bearer bob"}
RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"
VALID: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"model": "small", "input": "hi"},
    CHAT: {"model": "small", "messages": [{"role": "user", "content": "hi"}]},
}
KEY: Final = "sk-of-the-server-0123456789"

VALUES: Final[tuple[bytes, ...]] = (
    b"null",
    b"true",
    b"false",
    b"0",
    b"-1",
    b"1e999",
    b"1.5",
    b"9" * 5000,
    b"NaN",
    b"-Infinity",
    b'""',
    b'"x"',
    b'"' + b"x" * 100_000 + b'"',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\xf0\x9f\xa6\x86"',
    b'"\xff"',
    b'"\\uFFFF\\u202e\\r\\nx: y"',
    b"[]",
    b"[null]",
    b"[[[]]]",
    b"[{}]",
    b"{}",
    b'{"id":{}}',
    b'{"id":"x"}',
    b'{"":null}',
    b'{"\\ud800":1}',
    b"[" * 2000 + b"]" * 2000,
    b"[" * 150_000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b'{"include_usage":[]}',
    b'{"include_usage":"true"}',
    b'{"include_usage":1e999}',
    b'{"include_usage":null,"include_obfuscation":{}}',
    b'[{"type":"message","role":["user"],"content":{"a":[]}}]',
    b'[{"role":"user","content":[{"type":"image_url","image_url":{"url":7}}]}]',
    b'[{"type":"function_call_output","call_id":[],"output":{}}]',
)
MEMBERS: Final = (
    "model", "stream", "stream_options", "input", "messages", "previous_response_id", "conversation", "tools",
    "tool_choice", "metadata", "include", "store", "background", "n", "instructions", "text", "response_format",
)  # fmt: skip


async def answers(peer: Any) -> None:
    """Answer with the stream of the route: one text."""
    await peer.start()
    if b"chat/completions" in peer.head.split(b"\r\n")[0]:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        await peer.event({**chunk, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]})
    else:
        item = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        }
        await peer.event({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
        await peer.event({"type": "response.output_item.done", "output_index": 0, "item": item})
        await peer.event({"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}})
    await peer.end()


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    base_url = f"http://localhost:{upstream_port}/v1"
    models = {"small": "provider-small"}
    upstreams = {
        "one": {"base_url": base_url, "api_key": KEY, "models": models},
        "two": {"api": "openai_chat", "base_url": base_url, "api_key": KEY, "models": models},
    }
    passthrough = {"responses": "one", "chat_completions": "two"}
    return serve(
        api_key=None,
        base_url=None,
        auth={"api_keys": KEYS},
        upstreams=upstreams,
        passthrough=passthrough,
        retries={"max": 0},
    )


async def status_of(answer: Answer) -> tuple[int, bytes]:
    data = await answer.rest()
    await answer.closed()
    return answer.status, data


def with_member(path: str, name: str, value: bytes) -> bytes:
    """Return a body in which a member has a value, which need not be JSON."""
    others = {key: member for key, member in VALID[path].items() if key != name}
    head = json.dumps(others).encode()[:-1]
    return head + (b", " if others else b"") + json.dumps(name).encode() + b": " + value + b"}"


@pytest.mark.parametrize("path", VALID)
@pytest.mark.parametrize("member", MEMBERS)
async def test_no_value_of_a_member_is_a_failure_of_the_server(
    site: Any, upstream: Any, path: str, member: str
) -> None:
    provider = await upstream(answers)
    for value in VALUES:
        answer = await site.ask(path, with_member(path, member, value), **ANN)
        status, data = await status_of(answer)
        assert status in {200, 400, 404, 413}, (value[:80], status, data[:300])
        if status != 200:
            assert json.loads(data)["error"].keys() == {"message", "type", "param", "code"}
    while not provider.peers.empty():
        sent = (await provider.peers.get()).body
        assert sent["model"] == "provider-small"
        assert sent["stream"] is True


@pytest.mark.parametrize("path", VALID)
async def test_no_random_change_of_a_body_is_a_failure_of_the_server(site: Any, upstream: Any, path: str) -> None:
    """Bytes are replaced, removed and repeated; what remains valid JSON is a request like any other."""
    await upstream(answers)
    chance = random.Random(1)
    whole = json.dumps(VALID[path] | {"stream": True, "stream_options": {"include_usage": True}}).encode()
    for _ in range(150 * EFFORT):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(body))
            piece = chance.choice(
                [b"", b'"', b"{", b"[", b"]", b",", b"\\", b"\xff", b"\0", bytes(body[at : at + 9]) * 2]
            )
            body[at : at + chance.randint(0, 3)] = piece
        status, data = await status_of(await site.ask(path, bytes(body), **ANN))
        assert status in {200, 400, 404}, (bytes(body), status, data[:300])


@pytest.mark.parametrize("path", VALID)
async def test_headers_and_query_of_a_caller_stay_here(site: Any, upstream: Any, path: str) -> None:
    provider = await upstream(answers)
    hostile = {
        "host": "evil.example",
        "x_forwarded_host": "evil.example",
        "forwarded": "host=evil.example",
        "openai_organization": "org-evil",
        "api_key": "evil",
        "x_api_key": "evil",
        "cookie": "a=evil",
        "proxy_authorization": "evil",
        "user_agent": "evil",
        "accept_encoding": "evil",
        "x_request_id": "evil evil",
    }
    query = "?base_url=http://evil.example&api_key=evil&model=evil&upstream=evil&dialect=public_sse_v1"
    for target in (path, path + query.replace("&dialect=public_sse_v1", ""), f"http://evil.example{path}"):
        status, data = await status_of(await site.ask(target, VALID[path], **ANN, **hostile))
        assert status == 200, data
        peer = await provider.peers.get()
        assert b"evil" not in peer.head
        assert peer.header(b"authorization") == f"Bearer {KEY}".encode()
        assert peer.head.startswith(b"POST /v1/" + path.removeprefix("/v1/").encode() + b" HTTP/1.1\r\n")


@pytest.mark.parametrize("path", VALID)
@pytest.mark.parametrize(
    "name",
    ["authorization", "x-request-id", "traceparent", "content-type", "accept", "origin", "x-a", "host", "cookie"],
)
async def test_no_header_is_a_failure_of_the_server(site: Any, upstream: Any, path: str, name: str) -> None:
    await upstream(answers)
    for value in (
        "\xff\xfe",
        "x" * 9000,
        ',,,;="',
        "00-" + "0" * 32 + "-" + "0" * 16 + "-zz",
        "\t",
        "Bearer \xff",
        "%00",
    ):
        headers = {"authorization": "Bearer ann", name: value}
        data = json.dumps(VALID[path]).encode()
        fields = {"host": "test", "content-type": "application/json", "content-length": str(len(data)), **headers}
        lines = [f"POST {path} HTTP/1.1", *(f"{key}: {one}" for key, one in fields.items())]
        answer = await sent(site, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)
        assert (await status_of(answer))[0] < 500, value


async def sent(site: Any, data: bytes) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=2**24)
    writer.write(data)
    answer = Answer(reader, writer)
    await answer.read_head()
    return answer


@pytest.mark.parametrize("path", VALID)
@pytest.mark.parametrize(
    "query",
    ["dialect=%FF", "dialect=a&dialect=b", "extensions=", "extensions=TRUE", "%", "dialect[]=x", "=&&=", "a" * 9000],
)
async def test_no_query_is_a_failure_of_the_server(site: Any, upstream: Any, path: str, query: str) -> None:
    await upstream(answers)
    assert (await status_of(await site.ask(f"{path}?{query}", VALID[path], **ANN)))[0] < 500


@pytest.mark.parametrize("path", VALID)
async def test_the_last_of_duplicate_members_is_checked_and_sent(site: Any, upstream: Any, path: str) -> None:
    provider = await upstream(answers)
    for first, second in itertools.permutations(("big", "small")):
        members = json.dumps(VALID[path])[1:-1].replace('"model": "small", ', "")
        body = f'{{"model": "{first}", {members}, "mod\\u0065l": "{second}"}}'.encode()
        status, _ = await status_of(await site.ask(path, body, **ANN))
        assert status == (200 if second == "small" else 404)
    peer = await provider.peers.get()
    assert peer.body["model"] == "provider-small"
    assert provider.peers.empty()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *((path, name) for path in VALID for name in ("Model", "MODEL", "\u017ftream", "Stream_Options")),
        (RESPONSES, "Previous_Response_ID"),
        (RESPONSES, "CONVERSATION"),
    ],
)
async def test_members_that_a_provider_may_take_for_others_are_refused(
    site: Any, upstream: Any, path: str, name: str
) -> None:
    """Servers in Go, such as Ollama's, ignore the case of names: `Model` would select a model that is not offered."""
    provider = await upstream(answers)
    answer = await site.ask(path, VALID[path] | {name: "resp_of_another"}, **ANN)
    error = await answer.openai_error()
    assert (answer.status, error["param"]) == (400, name)
    assert provider.peers.empty()


# what belongs to another caller


async def respond(site: Any, **headers: str) -> None:
    status, data = await status_of(await site.ask(RESPONSES, VALID[RESPONSES], **headers))
    assert (status, json.loads(data)["id"]) == (200, "resp_1")


REFERENCES: Final[tuple[Any, ...]] = (
    {"type": "item_reference", "id": "msg_1"},
    {"id": "msg_1"},
    {"type": None, "id": "msg_1"},
    {"type": "Item_Reference", "id": "msg_1"},
)


@pytest.mark.parametrize("reference", REFERENCES)
async def test_an_item_belongs_to_the_caller_whose_response_has_it(site: Any, upstream: Any, reference: Any) -> None:
    """The AI SDK refers to items of earlier responses, so references are no error by themselves."""
    provider = await upstream(answers)
    body = VALID[RESPONSES] | {"input": [{"role": "user", "content": "hi"}, reference]}
    assert (await site.ask(RESPONSES, body | {"input": [{**reference, "id": "msg_0"}]}, **ANN)).status == 404
    await respond(site, **ANN)
    await provider.peers.get()
    refused = await site.ask(RESPONSES, body, **BOB)
    assert (refused.status, (await refused.openai_error())["code"]) == (404, "unknown_response")
    assert provider.peers.empty()
    if str(reference.get("type") or "item_reference") == "item_reference":
        assert (await status_of(await site.ask(RESPONSES, body, **ANN)))[0] == 200
        assert (await provider.peers.get()).body["input"] == body["input"]


@pytest.mark.parametrize("given", ["resp_1", "resp_0", " resp_1", "resp_1\0"])
async def test_a_response_belongs_to_its_caller(site: Any, upstream: Any, given: str) -> None:
    provider = await upstream(answers)
    await respond(site, **ANN)
    await provider.peers.get()
    refused = await site.ask(RESPONSES, VALID[RESPONSES] | {"previous_response_id": given}, **BOB)
    assert (refused.status, (await refused.openai_error())["code"]) == (404, "unknown_response")
    assert provider.peers.empty()
