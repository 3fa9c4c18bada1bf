"""Outputs of tools (seed section 9.10, CONTRACT D17, D18, D20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]

HIDDEN: Final = "<redacted>"


def done(item_type: str, index: int = 0, **members: object) -> Event:
    item = {"type": item_type, "id": f"it{index}", "call_id": "call", **members}
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def outputs(said: list[Event]) -> list[Event]:
    return [it for it in said if it["kind"] == "tool.output"]


def answered(output: object, item_type: str = "function_call_output", **members: object) -> list[Event]:
    return [done("function_call", arguments="{}"), done(item_type, 1, output=output, **members)]


def ran(*results: object) -> list[Event]:
    return [done("code_interpreter_call", outputs=list(results))]


@pytest.mark.parametrize(
    ("events", "tool_type", "output", "notices"),
    [
        pytest.param(answered("sunny"), "function", "sunny", [], id="D17-text"),
        pytest.param(answered("1", "custom_tool_call_output"), "function", "1", [], id="D22-of-a-custom-tool"),
        pytest.param(
            answered([{"type": "input_text", "text": "sunny"}]),
            "function",
            [{"type": "input_text", "text": "sunny"}],
            [],
            id="D17-a-list",
        ),
        pytest.param(
            answered({"sky": "blue", "token": "t"}),
            "function",
            {"sky": "blue", "token": HIDDEN},
            [("redacted", "output.token")],
            id="secrets",
        ),
        pytest.param(
            answered("x" * 8_001), "function", "x" * 8_000, [("truncated", "output")], id="8.1-strings-of-outputs"
        ),
        pytest.param(
            answered({"a": [2**64, float("nan"), True, None]}),
            "function",
            {"a": [str(2**64), None, True, None]},
            [],
            id="D31-numbers",
        ),
        pytest.param([done("mcp_call", output='{"a": 1}')], "mcp", '{"a": 1}', [], id="D18-mcp"),
        pytest.param([done("mcp_call", error="refused")], "mcp", {"error": "refused"}, [], id="D18-mcp-error"),
        pytest.param([done("mcp_call", output="x", error="late")], "mcp", "x", [], id="D18-mcp-output-before-error"),
        pytest.param(
            ran({"type": "logs", "logs": "1\n"}, {"type": "image", "url": "https://a.example/p.png"}, None),
            "code_interpreter",
            [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "https://a.example/p.png"}],
            [],
            id="D20-logs-and-images",
        ),
        pytest.param(
            ran({"type": "image", "url": "data:image/png;base64,AAAA"}),
            "code_interpreter",
            [{"type": "image", "url": HIDDEN}],
            [("redacted", "output[0].url")],
            id="D28-data-urls",
        ),
        pytest.param(
            ran({"type": "files", "files": [{"file_id": "f", "filename": "a.csv", "secret": "s"}, 5], "extra": 1}),
            "code_interpreter",
            [{"type": "files", "files": [{"file_id": "f", "filename": "a.csv"}]}],
            [],
            id="D20-files-by-allow-list",
        ),
        pytest.param(
            ran({"type": "logs", "logs": "x" * 8_001}),
            "code_interpreter",
            [{"type": "logs", "logs": "x" * 8_000}],
            [("truncated", "output[0].logs")],
            id="8.1-logs",
        ),
        pytest.param(
            ran(
                {"type": "logs", "logs": "ghp" + "_a1B2c3D4e5F6"},
                {"type": "image", "url": "https://a.example/p.png"},
                {"type": "logs", "logs": "a1B2c3D4e5F6a1B2c3D4e5F6 end"},
            ),
            "code_interpreter",
            [
                {"type": "logs", "logs": HIDDEN},
                {"type": "image", "url": "https://a.example/p.png"},
                {"type": "logs", "logs": f"{HIDDEN} end"},
            ],
            [("redacted", "output[0].logs"), ("redacted", "output[2].logs")],
            id="D25-a-credential-in-two-entries",
        ),
        pytest.param(ran({}), "code_interpreter", [{}], [], id="D30-an-output-without-members"),
    ],
)
def test_outputs(
    play: Play, events: list[Event], tool_type: str, output: object, notices: list[tuple[str, str]]
) -> None:
    said = outputs(play(*events))
    assert len(said) == 1
    assert said[0]["tool_type"] == tool_type
    assert said[0]["tool_call_id"] == "call"
    assert said[0]["output_index"] == 0
    assert said[0]["output"] == output
    assert [(notice["type"], notice["path"]) for notice in said[0].get("notices", [])] == notices


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(ran(), id="no-results"),
        pytest.param([done("code_interpreter_call", outputs=None)], id="D3-null"),
        pytest.param([done("code_interpreter_call", outputs={"a": 1})], id="D30-no-list"),
        pytest.param([done("mcp_call", output=None, error=None)], id="mcp-without-output"),
        pytest.param([done("web_search_call", output="x")], id="a-search-has-none"),
    ],
)
def test_calls_without_output(play: Play, events: list[Event]) -> None:
    assert outputs(play(*events)) == []


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ("completed", "completed"),
        ("failed", "failed"),
        ("incomplete", "failed"),
        (None, "completed"),
        ([], "completed"),
    ],
)
def test_d17_the_output_item_says_how_the_call_ended(play: Play, status: object, ended: str) -> None:
    said = play(*answered("x", status=status))
    assert [it["tool"]["status"] for it in said if it["kind"] == "tool.status"][-1] == ended


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        pytest.param([done("function_call_output", output="x")], "function_call_output without its call", id="no-call"),
        pytest.param(
            [done("custom_tool_call_output", call_id=None)], "custom_tool_call_output without its call", id="no-call-id"
        ),
        pytest.param(
            [*answered("x"), done("function_call_output", 2, output="y")],
            "second output of a call",
            id="D17-a-call-has-one-output",
        ),
    ],
)
def test_outputs_that_nobody_asked_for(open_stream: Callable[..., Any], events: list[Event], counted: str) -> None:
    stream = open_stream()
    assert len(outputs(stream.feed(*events))) == len(events) // 2
    assert stream.dropped == {counted: 1}


def test_d27_at_most_a_thousand_entries_of_64_levels(play: Play) -> None:
    deep: object = "x"
    for _ in range(70):
        deep = [deep]
    said = outputs(play(*answered({"many": list(range(1_001)), "deep": deep})))[0]
    assert said["output"]["many"] == list(range(1_000))
    assert {notice["type"] for notice in said["notices"]} == {"truncated"}
    assert "output.many" in {notice["path"] for notice in said["notices"]}
