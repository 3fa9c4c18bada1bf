"""Every recorded stream as an OpenWOP log: valid, and with the content of the public stream."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from tests.corpus.recorded import each_stream, play
from tests.openwop_reader import check_log, content_of

Event = dict[str, Any]

CALLED: Final = frozenset({"function", "mcp"})


@each_stream
def test_the_log_has_the_content_of_the_public_stream(path: Path, provider: str) -> None:
    lines = play(path, provider, "openwop")
    assert check_log(lines) == []
    content = content_of([json.loads(line) for line in lines])
    public = [json.loads(line) for line in play(path, provider, "public_sse_v1")]
    assert sorted(content.texts.values()) == sorted(texts(public))
    calls = {name: call for name, call in content.calls.items() if name in called(public)}
    for member, expected in (("inputs", arguments(public)), ("outcome", outputs(public))):
        assert {name: call[member] for name, call in calls.items() if call.get(member) is not None} == expected
    assert content.status in STANDINGS[standing(public)]


STANDINGS: Final = {
    "completed": {"completed", "waiting-approval"},
    "incomplete": {"completed", "waiting-approval"},
    "refused": {"completed"},
    "failed": {"failed"},
    "cancelled": {"cancelled"},
    "error": {"failed"},
}
"""End of the public stream -> possible states of the run."""


def standing(public: list[Event]) -> str:
    return str(public[-1].get("final", {"status": "error"})["status"])


def texts(public: list[Event]) -> list[str]:
    """Return the text of each message and refusal; text of the terminal only is one message."""
    said: dict[object, str] = defaultdict(str)
    for frame in public:
        if frame["kind"] in {"message.delta", "refusal.delta"}:
            said[frame["kind"], frame["item_id"]] += frame["delta"]
    late = public[-1].get("final", {}).get("response_text", "")
    if late and not any(frame["kind"] == "message.delta" for frame in public):
        said["final"] = late
    return [text for text in said.values() if text]


def called(public: list[Event]) -> set[str]:
    """Return the ids of function and MCP calls; other tools have other inputs."""
    tools = [frame["tool"] for frame in public if frame["kind"] == "tool.status"]
    return {tool["tool_call_id"] for tool in tools if tool["tool_type"] in CALLED}


def arguments(public: list[Event]) -> dict[str, object]:
    """Return the arguments of calls, without those that wait for approval."""
    found: dict[str, object] = {}
    for frame in public:
        tool = frame.get("tool", {})
        source = frame if frame["kind"] == "tool.arguments.done" else tool if tool.get("tool_type") in CALLED else {}
        if source.get("arguments_text") and tool.get("status") != "awaiting_approval":
            call_id = source["tool_call_id"] if source is frame else tool["tool_call_id"]
            found.setdefault(call_id, source.get("arguments_json", source["arguments_text"]))
    return found


def outputs(public: list[Event]) -> dict[str, object]:
    """Return the outputs of successful function and MCP calls."""
    failed = {
        frame["tool"]["tool_call_id"]
        for frame in public
        if frame["kind"] == "tool.status" and frame["tool"]["status"] == "failed"
    }
    return {
        frame["tool_call_id"]: frame["output"]
        for frame in public
        if frame["kind"] == "tool.output"
        and frame["tool_type"] in CALLED
        and frame["output"] is not None
        and frame["tool_call_id"] not in failed
    }
