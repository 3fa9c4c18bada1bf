"""The demo upstream: every scenario has an example, and ends as its example does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from projector.server.upstream.demo import DEFAULT_SCENARIO, SCENARIOS, DemoUpstream
from projector.server.upstream.protocol import ProviderRequest

pytestmark = pytest.mark.timeout(15)


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


async def test_approve_plays_a_call_that_waits_for_approval(serve: Any) -> None:
    answer = await serve(demo=True, api_key=None, base_url="http://127.0.0.1:9").ask(body={"message": "Approve it"})
    statuses = [frame["tool"]["status"] for frame in await answer.frames() if frame["kind"] == "tool.status"]
    assert "awaiting_approval" in statuses


def test_the_page_lists_the_words() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z, ]+) \| ", page.partition("## The demo")[2].partition("\n## ")[0], re.MULTILINE)
    assert rows[1:] == [*(", ".join(words) for words, _ in SCENARIOS), "anything else"]


def test_every_scenario_has_its_example() -> None:
    examples = DemoUpstream().examples
    assert {DEFAULT_SCENARIO, *(name for _, name in SCENARIOS)} <= examples.keys()
    assert all(examples[name] for _, name in SCENARIOS)


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


async def test_every_example_can_be_cancelled(serve: Any) -> None:
    site = serve(demo=True, api_key=None, base_url="http://127.0.0.1:9")
    answer = await site.ask()
    await answer.chunk()
    answer.leave()
    assert await site.is_quiet()
