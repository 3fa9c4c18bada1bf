"""Minimal inputs that once broke the pipeline, one row each, found by `make fuzz`.

To add one: run `make fuzz`, take the lines that it prints, shorten them while they still fail, and describe the error.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from projector.recording.replay import CaseSettings

Event = dict[str, Any]

RUN: Final = CaseSettings(run=True)
HOST: Final = CaseSettings(host_events=True)


class FoundCase(NamedTuple):
    """One input, and the error that it caused."""

    was: str
    events: list[object]
    settings: CaseSettings = CaseSettings()
    text: str | None = None
    """Expected `response_text` of `final`, if it was wrong."""


def added(index: int, **item: object) -> Event:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: object) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def status(name: str, **response: object) -> Event:
    return {"type": f"response.{name}", "response": response}


def delta(name: str, text: str, **members: object) -> Event:
    return {"type": f"response.{name}.delta", "delta": text, **members}


FOUND: Final = (
    # wrong types
    FoundCase("an unhashable format type: internal_error", [status("created", text={"format": {"type": []}})]),
    FoundCase("an unhashable status: internal_error", [status("completed", status={})]),
    FoundCase(
        "an unhashable status of an output item: internal_error",
        [
            added(0, type="function_call", call_id="c"),
            done(1, type="function_call_output", call_id="c", output="x", status=["failed"]),
        ],
    ),
    FoundCase("a negative sequence number was said", [delta("output_text", "a", sequence_number=-1)]),
    FoundCase(
        "a huge sequence number was said as text", [delta("output_text", "a", sequence_number=10**40, x=float("nan"))]
    ),
    # status and end
    FoundCase(
        "queued after in_progress",
        [status("in_progress", status="in_progress"), status("queued", status="queued")],
    ),
    FoundCase(
        "an ended status before the end, and then text",
        [status("in_progress", id="r", status="completed"), delta("output_text", "a")],
    ),
    FoundCase("failed, then completed", [status("created", status="failed"), status("completed")]),
    FoundCase("incomplete, then completed", [status("queued", status="incomplete"), status("completed")]),
    FoundCase(
        "an item after the end of a run's response: a second response of the same id",
        [status("completed", id="r"), done(0, type="message"), status("completed", id="r")],
        RUN,
    ),
    FoundCase(
        "the same, with another status",
        [status("in_progress", id="r"), status("failed"), done(0, type="x"), status("completed", id="r", output=[{}])],
        RUN,
    ),
    FoundCase(
        "two responses without ids that end at once were taken for one",
        [status("completed"), {"type": "projector.next_response"}, status("incomplete")],
        CaseSettings(run=True, host_events=True),
    ),
    FoundCase(
        "the same, with one status twice",
        [status("completed"), {"type": "projector.next_response"}, status("completed")],
        CaseSettings(run=True, host_events=True),
    ),
    FoundCase(
        "a response that only repeated its end was said again",
        [status("completed", id="r"), {"type": "projector.next_response"}, status("failed", id="r")],
        CaseSettings(run=True, host_events=True),
    ),
    # items
    FoundCase(
        "the snapshot filled a closed message, before what was said",
        [
            added(1, type="message"),
            added(1, type="other"),
            delta("output_text", "said"),
            status("completed", output=[{"type": "message", "content": [{"type": "output_text", "text": "late"}]}]),
        ],
        text="said",
    ),
    FoundCase(
        "the same with a refusal",
        [
            added(0, type="message"),
            added(0, type="other"),
            delta("refusal", "I'"),
            status("completed", output=[{"type": "message", "content": [{"type": "refusal", "refusal": "I'm"}]}]),
        ],
    ),
    FoundCase(
        "text was said twice where content_index lies beyond the finished content",
        [
            added(1, type="message"),
            delta("output_text", "a", output_index=1, content_index=1),
            done(1, type="message", content=[{"type": "output_text", "text": "a"}]),
            status("completed"),
        ],
        text="a",
    ),
    # tools
    FoundCase(
        "code of a web search",
        [
            {"type": "response.web_search_call.in_progress", "output_index": 0},
            delta("code_interpreter_call_code", "print", output_index=0),
        ],
    ),
    FoundCase(
        "an image format of code",
        [
            delta("code_interpreter_call_code", "x", output_index=0),
            {
                "type": "response.image_generation_call.partial_image",
                "output_index": 0,
                "partial_image_b64": "iVBO",
                "output_format": "png",
            },
        ],
    ),
    FoundCase(
        "a function completed by the end of a search",
        [
            delta("custom_tool_call_input", "x", output_index=0),
            {"type": "response.file_search_call.completed", "output_index": 0},
            done(0, type="custom_tool_call"),
        ],
    ),
    FoundCase(
        "arguments after the output",
        [
            added(0, type="function_call", call_id="c"),
            {"type": "projector.tool_output", "call_id": "c", "output": 1},
            done(0, type="function_call", arguments="{}"),
        ],
        HOST,
    ),
    FoundCase(
        "the host's output of a hosted tool that is closed",
        [
            added(1, type="image_generation_call", call_id="c"),
            done(1, type="image_generation_call"),
            {"type": "projector.tool_output", "call_id": "c", "output": 1},
        ],
        HOST,
    ),
    FoundCase(
        "an output item for a search that was closed as a function",
        [
            {"type": "response.web_search_call.in_progress", "output_index": 0},
            done(0, type="function_call", call_id="c"),
            done(1, type="function_call_output", call_id="c", output="x"),
        ],
    ),
    FoundCase(
        "a function that gives nothing",
        [done(0, type="function_call", call_id="c"), {"type": "projector.tool_output", "call_id": "c"}],
        HOST,
    ),
    FoundCase(
        "the host's output of an MCP call, and then its own",
        [
            added(0, type="mcp_call", id="m"),
            {"type": "projector.tool_output", "item_id": "m", "output": 1},
            done(0, type="mcp_call", id="m", output="x"),
        ],
        HOST,
    ),
    FoundCase(
        "code that was held back came after its outputs",
        [
            delta("code_interpreter_call_code", "1 / 0", output_index=1),
            done(1, type="code_interpreter_call", outputs=[{"type": "logs", "logs": "ZeroDivisionError"}]),
        ],
    ),
    # checker
    FoundCase(
        "a response that ended in another workflow step than it started in, followed by one with its ID",
        [
            {"type": "projector.context", "workflow": {"stage_name": "s", "parallel_group": "g", "branch_index": 0}},
            status("in_progress", id="r", status="in_progress"),
            {"type": "projector.context", "workflow": {"stage_name": "s"}},
            status("completed", id="r", status="completed"),
            {"type": "projector.next_response"},
            {"type": "projector.context", "workflow": {"stage_name": "s", "parallel_group": "g", "branch_index": 0}},
            status("in_progress", id="r", status="in_progress"),
        ],
        CaseSettings(run=True, host_events=True),
    ),
    FoundCase(
        "a response that ended in a branch without a position, beside an open item of the main branch",
        [
            {"type": "projector.branch", "branch": "b", "agent": "a"},
            added(0, type="message", id="one"),
            {"type": "projector.branch"},
            status("in_progress", id="r", status="in_progress"),
            added(0, type="message", id="two"),
            {"type": "projector.branch", "branch": "b"},
            done(0, type="message", id="one"),
            status("completed", id="s", status="completed"),
            {"type": "projector.branch_end"},
            {"type": "projector.branch"},
            done(0, type="message", id="two"),
        ],
        CaseSettings(run=True, host_events=True),
    ),
    FoundCase(
        "the same without response IDs, beside a branch with a position",
        [
            {"type": "projector.branch", "branch": "c", "agent": "c", "workflow": {"stage_name": "s"}},
            added(0, type="message", id="three"),
            {"type": "projector.branch", "branch": "b", "agent": "a"},
            added(0, type="message", id="one"),
            {"type": "projector.branch"},
            added(0, type="message", id="two"),
            {"type": "projector.branch", "branch": "b"},
            done(0, type="message", id="one"),
            status("completed", status="completed"),
            {"type": "projector.branch_end"},
            {"type": "projector.branch"},
            done(0, type="message", id="two"),
        ],
        CaseSettings(run=True, host_events=True),
    ),
    FoundCase(
        "an optional branch without a step failed, and the run went on",
        [
            {"type": "projector.branch", "branch": "b", "agent": "a", "is_optional": True},
            status("failed", id="r", status="failed"),
            {"type": "projector.branch_end"},
            {"type": "projector.branch", "branch": "c", "agent": "c", "workflow": {"stage_name": "s"}},
            status("completed", id="s", status="completed"),
        ],
        CaseSettings(run=True, host_events=True),
    ),
    # bounds
    FoundCase(
        "an MCP error one level too deep",
        [done(0, type="mcp_call", error={"type": json.loads("[" * 64 + "]" * 64)})],
    ),
    FoundCase(
        "notices of places that a smaller frame no longer has",
        [
            added(0, type="function_call", call_id="c"),
            {"type": "projector.tool_output", "call_id": "c", "output": {"a": ["é" * 9_000] * 60}},
        ],
        HOST,
    ),
    FoundCase(
        "a frame over the budget, by its notices",
        [
            added(0, type="function_call", call_id="c"),
            {"type": "projector.tool_output", "call_id": "c", "output": {"a": ["x" * 8_000] * 50}},
        ],
        HOST,
    ),
)
