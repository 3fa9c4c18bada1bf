"""The real chats of the AI SDK, versions 5, 6 and 7, use the real route over loopback; the provider is scripted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.asgi.route_clients import BEGINNING, TEXT, Conversations, run_node, settings
from tests.clients.rows_chats import BEHAVIOURS, CHATS

pytestmark = pytest.mark.node

LEVELS: Final = ("5", "6", "7")
SCRIPTS: Final = {"regenerate": [TEXT, TEXT], "image": [TEXT], "resume": [BEGINNING], "stop": [BEGINNING]}


@pytest.fixture
async def played(serve: Any, upstream: Any, upstream_port: int, node_modules: Path) -> Any:
    """Run all conversations of all versions; return their reports and the provider."""
    site = serve(**settings(upstream_port, dialects=["ai_sdk"]))
    provider = Conversations(SCRIPTS)
    await upstream(provider)
    reports = await run_node(node_modules, "ai-sdk-chat.mjs", f"http://127.0.0.1:{site.port}")
    await provider.is_left()
    return reports, provider


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def roles(report: dict[str, Any]) -> list[str]:
    return [message["role"] for message in report["messages"]]


async def test_the_chats_of_each_version(played: Any) -> None:
    reports, provider = played
    text = next(json.loads(line)["text"] for line in TEXT if b"output_text.done" in line)
    for at, level in enumerate(LEVELS):
        report = reports[level]
        refused = report.pop("instruct")
        assert "messages[0]" in refused["errors"][0], "instructions are the server's to write"
        assert {name for name in BEHAVIOURS if report[name] is not None} == CHATS[level].shown
        approved = report.pop("approve")
        for name, chat in report.items():
            assert (chat["errors"], chat["status"]) == ([], "ready"), (level, name)

        assert roles(report["text"]) == ["user", "assistant"] * 2
        assert [text_of(message) for message in report["text"]["messages"]] == ["text", text] * 2
        assert roles(report["regenerate"]) == ["user", "assistant"]
        assert provider.requests["regenerate"][2 * at] == provider.requests["regenerate"][2 * at + 1]

        assert roles(report["tool"]) == ["user", "assistant"], "a result continues the message"
        assert text_of(report["tool"]["messages"][1]) == "The next boats leave at 14:10 and 14:35."
        second = provider.requests["tool"][2 * at + 1]["input"]
        assert [item["type"] for item in second] == ["message", "function_call", "function_call_output"]
        assert second[2]["output"] == '{"colour":"blue"}'

        again = provider.requests["seal"][2 * at + 1]["input"]
        sealed = next(item for item in again if item["type"] == "reasoning")
        assert sealed["summary"] == [{"type": "summary_text", "text": "Opening hours are per branch."}]
        assert sealed["encrypted_content"].startswith("gAAAAABpP-OPAQUE-EXAMPLE")

        [image] = [part for part in provider.requests["image"][at]["input"][0]["content"] if "image_url" in part]
        assert image["image_url"] == "data:image/png;base64,QUJD"
        assert text_of(report["chatty"]["messages"][1])
        assert provider.requests["chatty"][at]["messages"] == [{"role": "user", "content": "chatty"}]
        assert text_of(report["stop"]["messages"][1])
        resumed, first = report["resume"]["messages"], report["resume"]["first"]["messages"]
        assert [text_of(message) for message in resumed] == [text_of(message) for message in first]
        assert len(provider.requests["resume"]) == len(LEVELS), "a reload asks the provider for nothing"
        if approved is not None:
            assert_approved(approved, provider.requests["approve"][2 * (at - 1) :])
    assert "instruct" not in provider.requests


def assert_approved(report: dict[str, Any], requests: list[dict[str, Any]]) -> None:
    assert (report["errors"], roles(report)) == ([], ["user", "assistant"])
    assert text_of(report["messages"][1]) == "Two seats are booked."
    [answer] = requests[1]["input"]
    assert (answer["type"], answer["approve"]) == ("mcp_approval_response", True)
    assert requests[1]["previous_response_id"].startswith("resp_")
