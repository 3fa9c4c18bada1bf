"""`/v1/responses/compact`: a conversation that the provider has compacted, redacted, with its state as it came."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.test_ai_sdk_route import ANN, AUTH, BOB
from tests.asgi.test_messages_route import answers

COMPACT: Final = "/v1/responses/compact"
CREDENTIAL: Final = "AKIAIOSFODNN7EXAMPLE"
OWN: Final = "ghp_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zABCD"
STATE: Final = "gAAAAAB" + "q" * 60
BODY: Final = {"model": "m", "input": [{"role": "user", "content": f"Use {OWN}"}], "instructions": "Be brief."}


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "id": "msg_1", "content": [{"type": "input_text", "text": text}]}


def compacted(*items: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10, "input_tokens_details": {"cached_tokens": 0}}
    return {"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": [*items], "usage": usage}


STATED: Final = {"type": "compaction", "id": "cmp_1", "encrypted_content": STATE}


@pytest.fixture
def site_of(serve: Any, upstream_port: int) -> Any:
    def build(api: str = "openai_responses", **members: Any) -> Any:
        upstreams = {"one": {"api": api, "base_url": f"http://localhost:{upstream_port}/v1"}}
        settings = {"api_key": None, "base_url": None, "auth": AUTH, "upstreams": upstreams}
        return serve(**settings, passthrough={"responses": "one"}, **members)

    return build


async def test_the_provider_compacts(site_of: Any, upstream: Any) -> None:
    long = "word " * 50_000
    items = [message("user", f"Use {OWN}"), message("assistant", f"I use {CREDENTIAL}. {long}"), STATED]
    provider = await upstream(answers(compacted(*items) | {"instructions": "no"}))
    site = site_of()
    answer = await site.ask(COMPACT, BODY, **ANN)
    found = json.loads(await answer.rest())
    shown = [message("user", "Use <redacted>"), message("assistant", f"I use <redacted>. {long}"), STATED]
    assert found == compacted(*shown)
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST /v1/responses/compact HTTP/1.1\r\n")
    assert peer.body == BODY


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (answers({"error": {"message": "No.", "code": "not_found"}}, "404 No"), 404, "not_found"),
        (answers({"id": "resp_1"}), 502, "upstream_malformed"),
        (answers({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}), 429, "rate_limit_exceeded"),
        (answers(compacted("text")), 502, "upstream_malformed"),
        (answers(compacted(*[message("user", "a")] * 1_025)), 502, "upstream_response_too_large"),
        (answers(compacted(*[STATED] * 150_000)), 502, "upstream_event_too_large"),
    ],
)
async def test_a_provider_without_it(site_of: Any, upstream: Any, sent: Any, status: int, code: str) -> None:
    await upstream(sent)
    answer = await site_of(retries={"max": 0}).ask(COMPACT, BODY, **ANN)
    assert (answer.status, json.loads(await answer.rest())["error"]["code"]) == (status, code)


async def test_another_api_has_none(site_of: Any, upstream: Any) -> None:
    provider = await upstream(answers(compacted(STATED)))
    answer = await site_of("anthropic_messages").ask(COMPACT, BODY, **ANN)
    assert answer.status == 404
    assert "does not compact conversations" in json.loads(await answer.rest())["error"]["message"]
    assert provider.peers.empty()


async def test_state_of_another_caller_is_refused(site_of: Any, upstream: Any) -> None:
    provider = await upstream(answers(compacted(STATED)))
    site = site_of()
    assert (await site.ask(COMPACT, BODY, **ANN)).status == 200
    await provider.peers.get()
    referring: list[dict[str, Any]] = [
        {"model": "m", "previous_response_id": "resp_of_somebody"},
        {"model": "m", "input": [{"type": "item_reference", "id": "cmp_1"}]},
    ]
    for body in referring:
        assert (await site.ask(COMPACT, body, **BOB)).status in {403, 404}
    assert provider.peers.empty()


async def test_its_tokens_count(site_of: Any, upstream: Any) -> None:
    await upstream(answers(compacted(STATED) | {"usage": {"input_tokens": 9_000, "output_tokens": 9}}))
    site = site_of(callers={"key:ann": {"rate_limits": {"tokens_per_minute": 5_000}}})
    statuses = [(await site.ask(COMPACT, BODY, **caller)).status for caller in (ANN, ANN, BOB)]
    assert statuses == [200, 429, 200]
