"""What a reader of an OpenWOP log has at its end (texts, calls, thoughts, status), and the violations in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from projector.contracts.stream_rules.table import Violation, check_lines
from projector.openwop.checker import LogChecker


@dataclass
class Content:
    """The content of a log."""

    texts: dict[str, str] = field(default_factory=dict)
    """Text by channel, or by node."""
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Payloads of a call and its return by its ID."""
    thoughts: list[str] = field(default_factory=list)
    """Deltas of each block, joined."""
    closings: list[str] = field(default_factory=list)
    status: str = "pending"


def content_of(events: Iterable[Mapping[str, Any]]) -> Content:
    """Return the content of a log."""
    found, open_blocks = Content(), dict[tuple[str, str], str]()
    for event in events:
        kind, payload = event["type"], event["payload"]
        if kind == "output.chunk" and payload["chunk"]:
            place = payload.get("channel", payload["nodeId"])
            found.texts[place] = found.texts.get(place, "") + payload["chunk"]
        elif kind in {"agent.toolCalled", "agent.toolReturned"}:
            found.calls[payload["callId"]] = found.calls.get(payload["callId"], {}) | payload
        elif kind == "agent.reasoning.delta":
            block = (payload["agentId"], event["nodeId"])
            open_blocks[block] = open_blocks.get(block, "") + payload["delta"]
        elif kind == "agent.reasoned":
            found.closings.append(payload["reasoning"])
            found.thoughts.append(open_blocks.pop((payload["agentId"], event["nodeId"]), payload["reasoning"]))
        elif kind in {"run.started", "node.resumed"}:
            found.status = "running"
        elif kind == "node.suspended":
            found.status = "waiting-approval"
        elif kind.startswith("run."):
            found.status = kind.removeprefix("run.")
    assert open_blocks == {}
    return found


def check_log(lines: Iterable[bytes | str]) -> list[Violation]:
    """Check a whole log and return its violations in order; lines are numbered from 1."""
    return check_lines(LogChecker(), lines)
