"""The real AG-UI clients use the real route of a real server, over loopback; the provider is scripted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.asgi.route_clients import BEGINNING, TEXT, Conversations, run_node, settings
from tests.clients.rows_chats import AG_UI

pytestmark = pytest.mark.node

SCRIPTS: Final = {"cancel": [BEGINNING], "leave": [BEGINNING]}


@pytest.fixture
async def played(request: Any, serve: Any, upstream: Any, upstream_port: int, node_modules: Path) -> Any:
    """Run all conversations of a client; return its reports and the provider."""
    site = serve(**settings(upstream_port, dialects=["ag_ui"], client_tools=["pick_colour"]))
    provider = Conversations(SCRIPTS)
    await upstream(provider)
    url = f"http://127.0.0.1:{site.port}"
    reports = await run_node(node_modules, "ag-ui-route.mjs", AG_UI[request.param].package, url)
    await provider.is_left()
    return request.param, reports, provider


def outcomes(report: dict[str, Any]) -> list[str | None]:
    return [end.get("outcome", {}).get("type") for end in report["ends"]]


def text_of(report: dict[str, Any]) -> list[str]:
    said = [message for message in report["messages"] if message["role"] == "assistant"]
    return [message["content"] for message in said if message.get("content")]


@pytest.mark.parametrize("played", AG_UI, indirect=True)
async def test_a_client_converses(played: Any) -> None:
    client, reports, provider = played
    refused = reports.pop("instruct")
    assert "422" in refused["thrown"], "instructions are the server's to write"
    assert "instruct" not in provider.requests
    assert {"stop" if name == "cancel" else name for name in reports} - {"chatty", "leave"} == AG_UI[client].shown
    for name, report in reports.items():
        assert (report["thrown"], report["warnings"]) == (None, []), name

    text = next(json.loads(line)["text"] for line in TEXT if b"output_text.done" in line)
    assert text_of(reports["text"]) == [text, text], "the second answer has the ids of the first"
    assert outcomes(reports["text"]) == ["success", "success"]
    assert text_of(reports["chatty"]) != []
    assert provider.requests["chatty"][0]["messages"] == [{"role": "user", "content": "text"}]

    second = provider.requests["tool"][1]
    assert [item["type"] for item in second["input"]] == ["message", "function_call", "function_call_output"]
    assert second["input"][2]["output"] == "blue"
    assert [tool["name"] for tool in second["tools"]] == ["pick_colour"]
    assert text_of(reports["tool"]) == ["The next boats leave at 14:10 and 14:35."]

    assert outcomes(reports["approve"]) == ["interrupt", "success"]
    assert text_of(reports["approve"]) == ["Two seats are booked."]
    [answer] = provider.requests["approve"][1]["input"]
    assert (answer["type"], answer["approve"]) == ("mcp_approval_response", True)
    assert provider.requests["approve"][1]["previous_response_id"].startswith("resp_")

    again = provider.requests["seal"][1]["input"]
    assert [item["type"] for item in again] == ["message", "reasoning", "message", "message"]
    assert again[1]["encrypted_content"].startswith("gAAAAABpP-OPAQUE-EXAMPLE-SECOND"), (
        "the first led to a call without a result"
    )
    assert again[1]["summary"] == [{"type": "summary_text", "text": "Opening hours are per branch."}]

    if client == "1.0.0":
        assert outcomes(reports["cancel"]) == ["cancelled"]
    else:
        assert [end["code"] for end in reports["cancel"]["ends"]] == ["cancelled"]
