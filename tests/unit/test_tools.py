"""Tool calls from their first status to their end (seed section 9.7, CONTRACT D15 to D19, D28).

A row has a call's events and a summary of their output: `+` and `-` start and end the item, `<...>` is a status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]

SHORT: Final = {
    "output_item.added": "+",
    "tool.arguments.done": "arguments",
    "tool.code.done": "code",
    "tool.output": "output",
    "chunk.done": "image",
}


def on(name: str, item_id: str = "it", **members: object) -> Event:
    return {"type": f"response.{name}", "output_index": 0, "item_id": item_id, **members}


def added(item_type: str, index: int = 0, item_id: str = "it", **members: object) -> Event:
    item = {"type": item_type, "id": item_id, **members}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item_type: str, index: int = 0, item_id: str = "it", **members: object) -> Event:
    return added(item_type, index, item_id, **members) | {"type": "response.output_item.done"}


def output(**members: object) -> Event:
    return {"type": "projector.tool_output", **members}


def completed(*items: Event) -> Event:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(items)}}


def short(said: list[Event]) -> str:
    words = []
    for it in said:
        if it["kind"] == "tool.status":
            words.append(f"<{it['tool']['status']}>")
        elif it["kind"] == "output_item.done":
            words.append("-" if it["status"] == "completed" else f"-{it['status']}")
        elif it["kind"] in SHORT:
            words.append(SHORT[it["kind"]])
    return " ".join(words)


WEB, FILES, CODE, IMAGE, MCP = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
)
LOGS: Final[Event] = {"outputs": [{"type": "logs", "logs": "1"}]}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [added(WEB), on(f"{WEB}.in_progress"), on(f"{WEB}.searching"), on(f"{WEB}.completed"), done(WEB)],
            "+ <in_progress> <searching> <completed> -",
            id="D15-web-search",
        ),
        pytest.param(
            [added(FILES), on(f"{FILES}.searching"), on(f"{FILES}.completed"), done(FILES)],
            "+ <in_progress> <searching> <completed> -",
            id="D15-file-search",
        ),
        pytest.param(
            [
                added(CODE),
                on("code_interpreter_call_code.done", code="1"),
                on(f"{CODE}.interpreting"),
                on(f"{CODE}.completed"),
                done(CODE, **LOGS),
            ],
            "+ <in_progress> code <interpreting> output <completed> -",
            id="D15-the-last-status-waits-for-the-output",
        ),
        pytest.param(
            [
                added(IMAGE),
                on(f"{IMAGE}.generating"),
                on(f"{IMAGE}.partial_image", partial_image_index=0, partial_image_b64="AAAA"),
                on(f"{IMAGE}.partial_image", partial_image_index=1, partial_image_b64="BBBB"),
                done(IMAGE, result="CCCC"),
            ],
            "+ <in_progress> <generating> <partial_image> image image image <completed> -",
            id="D15-image",
        ),
        pytest.param(
            [added(WEB), on(f"{WEB}.searching"), on(f"{WEB}.in_progress"), on(f"{WEB}.searching")],
            "+ <in_progress> <searching>",
            id="D15-no-status-goes-back-or-repeats",
        ),
        pytest.param([on(f"{WEB}.searching")], "+ <in_progress> <searching>", id="D7-unannounced-call"),
        pytest.param([on(f"{WEB}.completed"), done(WEB)], "+ <in_progress> <completed> -", id="only-its-end-is-heard"),
        pytest.param([done(WEB)], "+ <in_progress> <completed> -", id="a-call-without-status-events"),
        pytest.param([added(WEB), completed()], "+ <in_progress> -incomplete", id="D7-never-completed"),
        pytest.param(
            [added(WEB), on(f"{WEB}.completed"), completed()],
            "+ <in_progress> <completed> -incomplete",
            id="completed-but-never-done",
        ),
        pytest.param(
            [added(WEB), completed({"type": WEB, "id": "it", "status": "completed"})],
            "+ <in_progress> <completed> -",
            id="D7-completed-by-the-snapshot",
        ),
        pytest.param([added(WEB), done(WEB, status="failed")], "+ <in_progress> -failed", id="D16-failed"),
        pytest.param(
            [added(WEB), on(f"{WEB}.completed"), done(WEB, status="failed")],
            "+ <in_progress> -failed",
            id="D16-failed-after-all",
        ),
        pytest.param(
            [added(CODE), done(CODE, status="incomplete", **LOGS)],
            "+ <in_progress> output -incomplete",
            id="D16-cut-off",
        ),
        pytest.param(
            [added("function_call", call_id="c", name="f"), done("function_call", arguments="{}"), completed()],
            "+ <in_progress> arguments -",
            id="D17-waits-for-the-client",
        ),
        pytest.param(
            [done("function_call", call_id="c", arguments="{}"), output(call_id="c", output=1)],
            "+ <in_progress> arguments - output <completed>",
            id="D17-the-host-has-an-output",
        ),
        pytest.param(
            [done("function_call", call_id="c", arguments="{}"), output(call_id="c", output="x", status="failed")],
            "+ <in_progress> arguments - output <failed>",
            id="D17-the-function-failed",
        ),
        pytest.param(
            [
                done("function_call", call_id="c", arguments="{}"),
                done("function_call_output", 1, "out", call_id="c", output="1", status="completed"),
            ],
            "+ <in_progress> arguments - + output <completed> -",
            id="D17-an-output-item",
        ),
        pytest.param(
            [added(MCP, name="t"), on("mcp_call.in_progress"), on("mcp_call.in_progress"), done(MCP, arguments="{}")],
            "+ <in_progress> arguments <completed> -",
            id="D18-mcp-without-output",
        ),
        pytest.param(
            [added(MCP), on("mcp_call.completed"), done(MCP, arguments="{}", output="1")],
            "+ <in_progress> arguments output <completed> -",
            id="D18-mcp",
        ),
        pytest.param(
            [added(MCP), on("mcp_call.failed"), done(MCP, status="failed", error="refused")],
            "+ <in_progress> output <failed> -failed",
            id="D18-mcp-failed",
        ),
        pytest.param([done(MCP, error={"code": 1})], "+ <in_progress> output <failed> -", id="D18-mcp-error-alone"),
        pytest.param(
            [added("mcp_approval_request", name="t"), done("mcp_approval_request", name="t", arguments="{}")],
            "+ <awaiting_approval> <awaiting_approval> -",
            id="D18-approval",
        ),
        pytest.param(
            [added("custom_tool_call", call_id="c"), done("custom_tool_call", input="go")],
            "+ <in_progress> arguments -",
            id="D22-a-custom-tool-is-a-function",
        ),
    ],
)
def test_the_order_of_a_call(play: Play, events: list[Event], expected: str) -> None:
    assert short(play(*events)) == expected


def redacted(path: str) -> tuple[str, str]:
    return ("redacted", path)


@pytest.mark.parametrize(
    ("events", "expected", "notices"),
    [
        pytest.param(
            [done(WEB, action={"type": "search", "query": "tides", "sources": [{"url": "https://a.example"}, {}]})],
            {"tool_type": "web_search", "query": "tides", "sources": ["https://a.example"]},
            [],
            id="D19-query-and-sources-of-the-action",
        ),
        pytest.param(
            [done(WEB, action={"queries": ["one", "two"], "url": "https://b.example"})],
            {"tool_type": "web_search", "query": "one", "sources": ["https://b.example"]},
            [],
            id="D19-queries-and-an-opened-page",
        ),
        pytest.param(
            [done(WEB, action={"sources": [{"url": "https://a.example"}, {"url": "file:///etc"}, {"url": 7}]})],
            {"tool_type": "web_search", "sources": ["https://a.example", "<redacted>"]},
            [redacted("tool.sources[1]")],
            id="D28-sources",
        ),
        pytest.param(
            [done(WEB, action={"query": "q" * 2_001})],
            {"tool_type": "web_search", "query": "q" * 2_000},
            [("truncated", "tool.query")],
            id="D27-query",
        ),
        pytest.param(
            [done(WEB, action=None, call_id="ws_7")],
            {"tool_type": "web_search", "tool_call_id": "ws_7"},
            [],
            id="D30-no-action",
        ),
        pytest.param(
            [
                done(
                    FILES,
                    queries=["tides", None],
                    results=[
                        {"file_id": "f", "filename": "a.pdf", "score": 0.5, "text": "x", "vector_store_id": "vs"},
                        {"file_id": "g", "score": None, "attributes": {"author": "B", "api_key": "k"}, "text": None},
                        "x",
                    ],
                )
            ],
            {
                "tool_type": "file_search",
                "queries": ["tides"],
                "results": [
                    {"file_id": "f", "filename": "a.pdf", "score": 0.5, "text": "x"},
                    {"file_id": "g", "attributes": {"author": "B", "api_key": "<redacted>"}},
                ],
            },
            [redacted("tool.results[1].attributes.api_key")],
            id="9.7-results-by-allow-list",
        ),
        pytest.param(
            [done(FILES, results=[{"file_id": f"f{at}", "text": "x" * (1_999 + at)} for at in range(3)])],
            {
                "tool_type": "file_search",
                "results": [{"file_id": f"f{at}", "text": "x" * min(1_999 + at, 2_000)} for at in range(3)],
            },
            [("truncated", "tool.results[2].text")],
            id="8.1-text-of-results",
        ),
        pytest.param(
            [done(FILES, results=[{"file_id": f"f{at}", "text": "x" * at * 300} for at in range(11)])],
            {
                "tool_type": "file_search",
                "results": [{"file_id": "f0"}]
                + [{"file_id": f"f{at}", "text": "x" * min(at * 300, 2_000)} for at in range(1, 10)],
            },
            [("truncated", f"tool.results[{at}].text") for at in (7, 8, 9)] + [("truncated", "tool.results")],
            id="8.1-ten-results",
        ),
        pytest.param(
            [done(FILES, results=[{"file_id": "f", "score": score} for score in (True, "high", 1, 0.25)])],
            {
                "tool_type": "file_search",
                "results": [{"file_id": "f", **score} for score in ({}, {}, {"score": 1}, {"score": 0.25})],
            },
            [],
            id="D30-scores",
        ),
        pytest.param(
            [
                {
                    "type": "response.created",
                    "response": {
                        "status": "in_progress",
                        "tools": [{"type": "x"}, {"type": "code_interpreter", "container": {"type": "auto"}}],
                    },
                },
                done(CODE, container_id="cntr_1"),
            ],
            {"tool_type": "code_interpreter", "container_id": "cntr_1", "container_mode": "auto"},
            [],
            id="9.7-container-auto",
        ),
        pytest.param(
            [
                {
                    "type": "response.created",
                    "response": {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
                },
                done(CODE),
            ],
            {"tool_type": "code_interpreter", "container_mode": "explicit"},
            [],
            id="9.7-container-explicit",
        ),
        pytest.param(
            [on(f"{CODE}.interpreting"), done(CODE, container_id="cntr_1")],
            {"tool_type": "code_interpreter", "container_id": "cntr_1"},
            [],
            id="9.7-container-of-the-finished-item",
        ),
        pytest.param(
            [
                done(
                    IMAGE,
                    revised_prompt="a harbour",
                    output_format="png",
                    size="1024x1024",
                    quality="high",
                    background="opaque",
                    action="generate",
                )
            ],
            {
                "tool_type": "image_generation",
                "format": "png",
                "size": "1024x1024",
                "quality": "high",
                "background": "opaque",
                "revised_prompt": "a harbour",
            },
            [],
            id="9.7-image",
        ),
        pytest.param(
            [done("mcp_approval_request", name="move", server_label="crane", arguments='{"to": 1, "token": "t"}')],
            {
                "tool_type": "mcp",
                "status": "awaiting_approval",
                "tool_name": "move",
                "server_label": "crane",
                "arguments_text": '{"to": 1, "token": "<redacted>"}',
                "arguments_json": {"to": 1, "token": "<redacted>"},
            },
            [redacted("tool.arguments_json.token")],
            id="D18-approval-with-safe-arguments",
        ),
        pytest.param(
            [done("mcp_approval_request", name="move", arguments=None)],
            {"tool_type": "mcp", "status": "awaiting_approval", "tool_name": "move"},
            [],
            id="D18-approval-of-a-call-without-arguments",
        ),
        pytest.param(
            [done(MCP, name="move", server_label="crane")],
            {"tool_type": "mcp", "tool_name": "move", "server_label": "crane"},
            [],
            id="9.7-mcp",
        ),
        pytest.param(
            [done("function_call", call_id="c", name="n" * 257), output(call_id="c", output=1)],
            {"tool_type": "function", "tool_call_id": "c", "name": "n" * 256},
            [],
            id="D27-names",
        ),
    ],
)
def test_the_fields_of_the_last_status(
    play: Play, events: list[Event], expected: Event, notices: list[tuple[str, str]]
) -> None:
    said = [it for it in play(*events) if it["kind"] == "tool.status"][-1]
    assert said["tool"] == {"tool_call_id": "it", "status": "completed", **expected}
    assert [(notice["type"], notice["path"]) for notice in said.get("notices", [])] == notices


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (added(CODE, container_id="cntr_1"), {"tool_type": "code_interpreter", "container_id": "cntr_1"}),
        (added(MCP, name="t", server_label="s"), {"tool_type": "mcp", "tool_name": "t", "server_label": "s"}),
        (added("function_call", name="f", arguments="{}"), {"tool_type": "function", "name": "f"}),
        (added(WEB, action={"query": "tides"}), {"tool_type": "web_search"}),
    ],
    ids=lambda row: row.get("tool_type", ""),
)
def test_the_first_status_says_what_is_known(play: Play, event: Event, expected: Event) -> None:
    first = play(event)[1]["tool"]
    assert first == {"tool_call_id": "it", "status": "in_progress", **expected}


def test_d18_an_approval_says_its_arguments_as_soon_as_they_are_known(play: Play) -> None:
    said = play(added("mcp_approval_request", name="t", arguments='{"a": 1}'), done("mcp_approval_request", name="t"))
    assert [it["tool"]["arguments_json"] for it in said if it["kind"] == "tool.status"] == [{"a": 1}]


def cited(url: str, index: int = 1) -> Event:
    annotation = {"type": "url_citation", "url": url}
    part = {"type": "output_text", "text": "See", "annotations": [annotation]}
    return done("message", index, f"msg{index}", status="completed", content=[part])


LISTED: Final = {"sources": [{"url": "https://a.example"}]}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [done(WEB, action=LISTED), cited("https://b.example")],
            [["https://a.example"], ["https://a.example", "https://b.example"]],
            id="D19-the-only-search",
        ),
        pytest.param(
            [done(WEB), cited("https://b.example")], [None, ["https://b.example"]], id="D19-a-search-without-sources"
        ),
        pytest.param(
            [done(WEB, action=LISTED), cited("https://a.example")], [["https://a.example"]], id="D19-listed-already"
        ),
        pytest.param(
            [done(WEB, action=LISTED), cited("https://b.example"), cited("https://c.example", 2)],
            [["https://a.example"], ["https://a.example", "https://b.example"]],
            id="D19-at-most-one-further-status",
        ),
        pytest.param(
            [done(WEB), cited("ftp://b.example")],
            [None],
            id="D28-a-withheld-address-is-no-source",
        ),
        pytest.param(
            [done(WEB, action=LISTED), done(WEB, 2, "other"), cited("https://b.example")],
            [["https://a.example"], None],
            id="D19-one-of-two-searches",
        ),
        pytest.param([cited("https://b.example")], [], id="D19-no-search"),
    ],
)
def test_what_a_message_cites_is_a_source(play: Play, events: list[Event], expected: list[Any]) -> None:
    said = [it["tool"] for it in play(*events) if it["kind"] == "tool.status" and it["tool"]["status"] == "completed"]
    assert [tool.get("sources") for tool in said] == expected


def test_d19_the_further_status_stands_at_the_end_of_the_citing_message(play: Play) -> None:
    said = play(done(WEB), cited("https://b.example"))
    assert [it["kind"] for it in said[-3:]] == ["message.citation", "tool.status", "output_item.done"]
