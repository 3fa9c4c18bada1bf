"""Branches of a run in OpenWOP: parallel nodes, each with its own response, agent and approvals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from projector.core.context import BranchContext, StreamContext
from projector.core.faults import FAULTS
from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from tests.openwop_reader import check_log

Event = dict[str, Any]

CREATED: Final = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "model": "m-1"}}
COMPLETED: Final = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
APPROVAL: Final = {
    "type": "response.output_item.done",
    "output_index": 0,
    "item": {"type": "mcp_approval_request", "id": "mcpr_1", "name": "book", "server_label": "s", "arguments": "{}"},
}


def thought(text: str) -> Event:
    return {"type": "response.reasoning_text.delta", "item_id": "rs", "output_index": 0, "delta": text}


def text(words: str) -> Event:
    return {"type": "response.output_text.delta", "item_id": "msg", "output_index": 1, "delta": words}


class Branches:
    """A run of two interleaved branches, `one` and `two`."""

    def __init__(self, agents: tuple[str | None, str | None] = ("one", "two"), *, is_optional: bool = True) -> None:
        self._pipeline = build_pipeline(
            provider="openai_responses",
            dialect="openwop",
            policy=Policy(reasoning="full", text="off"),
            context=StreamContext(stream_id="r", agent="lead"),
            run=True,
            input_format="ndjson",
            output_format="ndjson",
            clock=lambda: 1_765_800_000.0,
        )
        places = [{"stage_name": "s", "parallel_group": "g", "branch_index": number} for number in (0, 1)]
        self.branches = [
            self._pipeline.branch(BranchContext(agent, place, stage=0, is_optional=is_optional))
            for agent, place in zip(agents, places, strict=True)
        ]
        self._said = b""

    def lead(self, *events: Mapping[str, object]) -> None:
        """Emit text in the main branch, before the branches split."""
        for event in events:
            self._said += self._pipeline.feed(json.dumps(event).encode() + b"\n")

    def say(self, branch: int, *events: Mapping[str, object]) -> None:
        for event in events:
            self._said += self.branches[branch].feed(json.dumps(event).encode() + b"\n")

    def close(self, branch: int, fault: str | None = None) -> None:
        self._said += self.branches[branch].close(None if fault is None else FAULTS[fault])

    def stop(self, branch: int) -> None:
        self._said += self.branches[branch].stop()

    def end(self) -> list[Event]:
        """Close the run and return its log after checking it."""
        lines = (self._said + self._pipeline.close()).splitlines()
        assert check_log(lines) == []
        return [json.loads(line) for line in lines]


def shown(said: list[Event], *types: str) -> list[tuple[str, Any]]:
    """Return node and text of the events of some types."""
    words = ("delta", "reasoning", "chunk")
    return [
        (event.get("nodeId", ""), next((event["payload"][name] for name in words if name in event["payload"]), None))
        for event in said
        if event["type"] in types
    ]


def test_blocks_of_two_agents_interleave() -> None:
    run = Branches()
    run.say(0, CREATED, thought("a"))
    run.say(1, CREATED, thought("x"))
    run.say(0, thought("b"), COMPLETED)
    run.say(1, thought("y"), COMPLETED)
    said = run.end()
    assert shown(said, "agent.reasoning.delta", "agent.reasoned") == [
        ("s#0", "a"),
        ("s#1", "x"),
        ("s#0", "b"),
        ("s#0", "ab"),
        ("s#1", "y"),
        ("s#1", "xy"),
    ]
    deltas = [event["payload"] for event in said if event["type"] == "agent.reasoning.delta"]
    assert [(delta["agentId"], delta["sequence"]) for delta in deltas] == [
        ("one", 0),
        ("two", 0),
        ("one", 1),
        ("two", 1),
    ]


def test_one_agent_in_two_branches_has_a_block_in_each() -> None:
    run = Branches(("one", "one"))
    run.say(0, CREATED, thought("a"))
    run.say(1, CREATED, thought("x"))
    run.say(0, thought("b"), COMPLETED)
    run.say(1, thought("y"))
    run.close(0)
    assert shown(run.end(), "agent.reasoning.delta", "agent.reasoned") == [
        ("s#0", "a"),
        ("s#1", "x"),
        ("s#0", "b"),
        ("s#0", "ab"),
        ("s#1", "y"),
        ("s#1", "xy"),
    ]


def test_each_branch_ends_its_own_text_and_node() -> None:
    run = Branches()
    run.say(0, CREATED, text("a"))
    run.say(1, CREATED, text("x"))
    run.say(0, COMPLETED)
    run.close(0)
    run.say(1, text("y"), COMPLETED)
    run.close(1)
    said = run.end()
    steps = [(event["type"], event["nodeId"]) for event in said if event["type"].startswith("node.")]
    assert steps == [
        ("node.started", "s#0"),
        ("node.started", "s#1"),
        ("node.completed", "s#0"),
        ("node.completed", "s#1"),
    ]
    assert [words for _, words in shown(said, "output.chunk")] == ["a", "x", "", "y", ""]
    assert said[-1]["payload"]["outputs"]["text"] == "a\n\nxy"


def test_a_failed_branch_fails_its_node_only() -> None:
    run = Branches()
    run.say(0, CREATED, text("a"))
    run.say(1, CREATED, text("x"))
    run.close(0, "upstream_reset")
    run.say(1, COMPLETED)
    said = run.end()
    failed = [event["payload"] for event in said if event["type"] == "node.failed"]
    assert failed == [{"nodeId": "s#0", "error": {"code": "upstream_reset", "message": "The response failed."}}]
    assert said[-1]["type"] == "run.completed"


def test_the_end_of_an_incomplete_branch_has_its_reason() -> None:
    run = Branches()
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    run.say(0, CREATED, text("a"), {"type": "response.incomplete", "response": cut})
    run.say(1, CREATED, text("x"), COMPLETED)
    outputs = run.end()[-1]["payload"]["outputs"]
    assert (outputs["status"], outputs["reason"]) == ("incomplete", "max_output_tokens")


def test_a_failed_required_branch_ends_the_run() -> None:
    run = Branches(is_optional=False)
    run.say(0, CREATED, text("a"))
    run.say(1, CREATED, thought("x"))
    run.close(0, "upstream_reset")
    said = run.end()
    assert [event["type"] for event in said[-3:]] == ["node.failed", "node.failed", "run.failed"]
    assert [words for _, words in shown(said, "agent.reasoned")] == ["x"]


def test_an_approval_is_resumed_in_its_own_branch() -> None:
    run = Branches()
    run.say(0, CREATED, APPROVAL, COMPLETED)
    run.say(1, CREATED, text("x"), COMPLETED)
    said = run.end()
    assert [event["nodeId"] for event in said if event["type"] == "node.suspended"] == ["s#0"]
    assert not [event for event in said if event["type"] in {"node.resumed", "run.completed"}]


def test_a_branch_without_output_has_no_node() -> None:
    run = Branches()
    run.say(0, CREATED, text("a"), COMPLETED)
    run.stop(1)
    assert [event["nodeId"] for event in run.end() if event["type"] == "node.started"] == ["s#0"]


def test_truncated_text_has_the_model_of_its_branch() -> None:
    run = Branches(is_optional=False)
    run.say(0, {"type": "response.created", "response": {"status": "in_progress", "model": "m-0"}}, text("a"))
    run.say(1, CREATED, text("x"))
    run.close(1, "upstream_reset")
    last = [event["payload"] for event in run.end() if event["type"] == "output.chunk"][-2:]
    assert [(chunk["nodeId"], chunk["isLast"], chunk["meta"]["model"]) for chunk in last] == [
        ("s#0", True, "m-0"),
        ("s#1", True, "m-1"),
    ]


def handoffs(said: list[Event]) -> list[tuple[str, str]]:
    payloads = [event["payload"] for event in said if event["type"] == "agent.handoff"]
    return [(payload["fromAgentId"], payload["toAgentId"]) for payload in payloads]


def test_branches_take_over_from_the_same_agent() -> None:
    run = Branches()
    run.lead(CREATED, text("go"), COMPLETED)
    run.say(0, CREATED, text("a"))
    run.say(1, CREATED, text("x"))
    run.say(0, text("b"), COMPLETED)
    assert handoffs(run.end()) == [("lead", "one"), ("lead", "two")]


def test_a_branch_takes_over_from_an_ended_branch() -> None:
    run = Branches()
    run.say(0, CREATED, text("a"), COMPLETED)
    run.close(0)
    run.say(1, CREATED, text("x"), COMPLETED)
    run.close(1)
    run.lead(CREATED, text("done"), COMPLETED)
    assert handoffs(run.end()) == [("one", "two"), ("two", "lead")]
