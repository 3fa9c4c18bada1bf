"""Gemini behind the server: strict fakes of its API, for every client API, and its errors with their waits."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.conftest import SSE_HEAD, Peer
from tests.asgi.test_returned_state import CLIENTS, IMAGE, REASONING, SECRET, STEPS, TURNS, Step, settings

SIGNATURE: Final = "CiQB0e2Kb5kq3d9sU0lHTkFUVVJFLW9mLWEtY2FsbA=="
KEY: Final = "AIza-test-key-of-nobody"
TARGET: Final = b"POST /v1beta/models/m:streamGenerateContent?alt=sse "


def mistakes(peer: Peer) -> list[str]:
    """Return why the provider would refuse a request."""
    line = peer.head.partition(b"\r\n")[0]
    found = [] if line.startswith(TARGET) else [f"sent to {line!r}"]
    found += [] if peer.header(b"x-goog-api-key") == KEY.encode() else ["no key"]
    found += ["a key in the URL"] if KEY.encode() in line or peer.header(b"authorization") else []
    wanted: list[dict[str, Any]] = []
    for content in peer.body["contents"]:
        responses = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        answered = [{"id": one.get("id"), "name": one["name"]} for one in responses]
        if answered != wanted or (responses and len(responses) < len(content["parts"])):
            found.append(f"answers {answered} of {wanted}")
        calls = [part for part in content["parts"] if "functionCall" in part]
        found += [] if not calls or content["role"] == "model" else ["a call of the user"]
        wanted = [{name: call["functionCall"].get(name) for name in ("id", "name")} for call in calls]
        for at, call in enumerate(calls):
            if call.get("thoughtSignature") != (None if at else SIGNATURE):
                found.append(f"call {at} has the signature {call.get('thoughtSignature')}")
    return found + (["a call without its answer"] if wanted else [])


async def strict(peer: Peer) -> None:
    """Play `TURNS` by the number of answers, and reply to each mistake with 400."""
    if found := mistakes(peer):
        await refuse(peer, 400, {"code": 400, "message": "; ".join(found), "status": "INVALID_ARGUMENT"})
        return
    parts = [part for content in peer.body["contents"] for part in content["parts"]]
    calls = TURNS[{0: 0, 2: 1}.get(sum("functionResponse" in part for part in parts), 2)]
    chunks: list[list[dict[str, Any]]] = [[{"text": REASONING, "thought": True}]]
    for at, (call_id, name) in enumerate(calls):
        signature = {} if at else {"thoughtSignature": SIGNATURE}
        chunks.append([{"functionCall": {"id": call_id, "name": name, "args": {}}, **signature}])
    await peer.start()
    for one in chunks if calls else [*chunks, [{"text": "Done."}]]:
        await peer.event({"candidates": [{"content": {"role": "model", "parts": one}}], "responseId": "r1"})
    await peer.event({"candidates": [{"finishReason": "STOP"}], "responseId": "r1"})
    await peer.end()


async def refuse(peer: Peer, status: int, error: dict[str, Any]) -> None:
    text = json.dumps([{"error": error}]).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    await peer.send(head.encode() + text)


def configured(port: int, **agent: Any) -> dict[str, Any]:
    given = settings("", **agent)
    upstream = {"api": "gemini", "base_url": f"http://localhost:{port}/v1beta", "api_key": KEY}
    return given | {"upstreams": {"one": upstream}}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_conversation_of_three_turns(serve: Any, upstream: Any, upstream_port: int, client: str) -> None:
    scripted = await upstream(strict)
    site = serve(**configured(upstream_port))
    row = CLIENTS[client]
    steps: list[Step] = []
    for more, calls in zip(STEPS, [*TURNS, []], strict=True):
        steps += more
        answer = await site.ask(row.path, row.body(steps))
        text = (await answer.rest()).decode()
        assert answer.status == 200, text
        assert SECRET not in text
        assert SIGNATURE not in text
        assert all(call_id in text for call_id, _ in calls)
        assert ("Done." in text) is (not calls)
    peers = [await scripted.peers.get() for _ in STEPS]
    assert [mistakes(peer) for peer in peers] == [[]] * len(STEPS)
    assert IMAGE.rpartition(",")[2] in json.dumps(peers[-1].body)


async def test_an_array_is_read_as_it_arrives(serve: Any, upstream: Any, upstream_port: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD.replace(b"text/event-stream", b"application/json"))
        await peer.chunk(b'[{\n "candidates": [{"content": {"parts": [{"text": "Early in the morning, "}]}}]\n}\n')
        await peer.gone.wait()

    await upstream(script)
    site = serve(**configured(upstream_port))
    answer = await site.ask()
    shown = b""
    while b"Early in" not in shown:  # the array has no end
        shown += await answer.chunk()
    answer.leave()


async def test_an_error_asks_for_a_wait(serve: Any, upstream: Any, upstream_port: int) -> None:
    async def script(peer: Peer) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.4s"}
        error = {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [info]}
        await refuse(peer, 429, error)

    await upstream(script)
    site = serve(**configured(upstream_port), retries={"max": 0})
    answer = await site.ask("/v1/responses", {"model": "m", "stream": True, "input": "Hi"})
    assert (answer.status, answer.headers.get("retry-after")) == (429, "13")
    assert "resource_exhausted" in (await answer.rest()).decode()
