"""The demo upstream: every scenario has an example, and ends as its example does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from projector import build_pipeline
from projector.providers import PROVIDERS
from projector.server.process import demo_flags
from projector.server.upstream.demo import APIS, SCENARIOS, DemoUpstream
from projector.server.upstream.protocol import ProviderRequest


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("hello", "completed"),
        ("Search the news for me", "completed"),
        ("Call a tool", "completed"),
        ("Draw a picture", "completed"),
        ("refuse this", "refused"),
        ("please FAIL", None),
    ],
)
async def test_a_message_chooses_the_scenario(serve: Any, message: str, status: str | None) -> None:
    answer = await serve(demo=True, api_key=None, base_url="http://127.0.0.1:9").ask(body={"message": message})
    frames = await answer.frames()
    assert len(frames) > 3
    assert frames[-1].get("final", {}).get("status") == status
    assert frames[-1]["kind"] == ("error" if status is None else "final")


# API, and what the example of secrets must not show
@pytest.mark.parametrize(
    ("api", "secret"),
    [
        ("default", "harbour-master-7781"),
        ("openai_responses", "harbour-master-7781"),
        ("openai_chat", "not-for-pages"),
        ("anthropic_messages", "ODNN7EXAMPLE"),
        ("gemini", "QYLPMN5HNXKZ7TEW"),
    ],
)
async def test_the_agent_of_an_api_plays_each_of_its_topics(serve: Any, api: str, secret: str) -> None:
    site = serve(demo=True, **demo_flags(0), demo_pace_s=0)
    provider = PROVIDERS[api if api in APIS else "openai_responses"]
    for row in SCENARIOS:
        if row.topic not in provider.demo:
            continue
        frames = await (await site.ask(body={"message": row.words[0] or "hello", "agent": api})).frames()
        ends = [one["kind"] for one in frames if one["kind"] in {"final", "error"}]
        expected = "error" if row.topic in {"failure", "truncated"} else "final"
        assert ends == [frames[-1]["kind"]] == [expected], row.topic
        if row.topic == "secret":
            said = "".join(one.get("delta", "") for one in frames)
            assert "<redacted>" in said
            assert secret not in said + json.dumps(frames)


async def test_approve_plays_a_call_that_waits_for_approval_each_time_another_one(serve: Any) -> None:
    site, ids = serve(demo=True, api_key=None, base_url="http://127.0.0.1:9"), []
    for _ in range(2):  # a chat may ask for two, and answer both
        frames = await (await site.ask(body={"message": "Approve it"})).frames()
        asked = [one["item_id"] for one in frames if one.get("tool", {}).get("status") == "awaiting_approval"]
        assert len(set(asked)) == 1
        ids += asked[:1]
    assert ids[0] != ids[1]


def test_the_page_lists_the_words() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- ([a-z, ]+): ", page.partition("## The demo")[2].partition("\n## ")[0], re.MULTILINE)
    assert rows == [*(", ".join(row.words) for row in SCENARIOS[:-1]), "anything else"]


@pytest.mark.parametrize("api", APIS)
def test_every_scenario_has_its_example(api: str) -> None:
    examples, named = DemoUpstream().examples[api], PROVIDERS[api].demo
    assert all(examples[name] for name in named.values())
    assert {"text"} <= named.keys() <= {row.topic for row in SCENARIOS}


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        ("", b"response.created"),
        (None, b"response.created"),
        ([], b"response.created"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "search"}]}], b"response.created"),
    ],
)
async def test_every_request_plays_an_example(asked: object, begins: bytes) -> None:
    async with DemoUpstream(pace_s=0).open(ProviderRequest("openai_responses", {"input": asked})) as chunks:
        assert begins in await anext(aiter(chunks))


async def test_an_approval_in_the_other_api_plays_an_example_too() -> None:
    body = {"messages": [{"type": "mcp_approval_response"}]}
    async with DemoUpstream(pace_s=0).open(ProviderRequest("openai_chat", body)) as chunks:
        assert b"chat.completion.chunk" in await anext(aiter(chunks))


FUNCTIONS = [{"type": "function", "name": "departures", "parameters": {}}]
CHAT_FUNCTIONS = [{"type": "function", "function": {"name": "get_weather"}}]


TOOL = {"role": "user", "content": "Call a tool"}


@pytest.mark.parametrize(
    ("api", "body", "plays"),
    [
        ("openai_responses", {"input": "Call a tool"}, "call and text"),
        ("openai_responses", {"input": [TOOL], "tools": FUNCTIONS}, "call"),
        ("openai_responses", {"input": [{"type": "function_call_output"}], "tools": FUNCTIONS}, "text"),
        ("openai_chat", {"messages": [TOOL], "tools": CHAT_FUNCTIONS}, "call"),
        ("openai_chat", {"messages": [{"role": "tool", "content": "4"}], "tools": CHAT_FUNCTIONS}, "text"),
        ("anthropic_messages", {"messages": [TOOL]}, "call"),
        ("anthropic_messages", {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "text"),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": "Call a tool"}]}]}, "call"),
        ("gemini", {"contents": [{"role": "user", "parts": [{"functionResponse": {}}]}]}, "text"),
    ],
)
async def test_a_client_that_runs_its_functions_gets_one_response_at_a_time(
    api: str, body: dict[str, Any], plays: str
) -> None:
    async with DemoUpstream(pace_s=0).open(ProviderRequest(api, body)) as chunks:
        played = b"".join([chunk async for chunk in chunks])
    signs = {
        "call": (b'"type":"function_call"', b'"tool_calls":[', b'"type":"tool_use"', b'"functionCall":'),
        "text": (b"boats leave", b" at 13:05", b" no ship sails", b"The harbour "),
    }
    assert " and ".join(name for name, of in signs.items() if any(sign in played for sign in of)) == plays


@pytest.mark.parametrize("word", sorted({row.words[0] for row in SCENARIOS} - {"fail", "truncate"}))
@pytest.mark.parametrize(("provider", "tools"), [("openai_responses", FUNCTIONS), ("openai_chat", CHAT_FUNCTIONS)])
async def test_every_example_for_a_request_with_functions_is_whole(provider: str, tools: Any, word: str) -> None:
    body = {"input": word, "messages": [{"role": "user", "content": word}], "tools": tools}
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", output_format="ndjson")
    async with DemoUpstream(pace_s=0).open(ProviderRequest(provider, body)) as chunks:
        said = b"".join([pipeline.feed(chunk) async for chunk in chunks]) + pipeline.close()
    last = json.loads(said.splitlines()[-1])
    assert last["kind"] == "final", last


async def test_every_example_can_be_cancelled(serve: Any) -> None:
    site = serve(demo=True, api_key=None, base_url="http://127.0.0.1:9")
    answer = await site.ask()
    await answer.chunk()
    answer.leave()
    assert await site.is_quiet()
