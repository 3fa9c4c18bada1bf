"""The state of a log as JSON, while its run waits for a person: another process continues the log with it.

All responses have ended, so there are no open texts, reasoning blocks or calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from projector.openwop.dialect.log_state import (
    BranchState,
    LogState,
    OpenNode,
    ResponseState,
    Suspension,
    position_in,
    recorded_position,
)
from projector.openwop.event_log import EventLog


def record(state: LogState) -> dict[str, Any]:
    """Return the state of a log."""
    return {
        "run_id": state.log.run_id,
        "sequence": state.log.sequence,
        "nodes": [[recorded_position(position), *node] for position, node in state.nodes.items()],
        "starts": dict(state.starts),
        "agents": state.agents.record(),
        "node_id": state.node_id,
        "has_text": state.has_text,
        "branches": {str(number): _branch_record(branch) for number, branch in state.branches.items()},
        "reasons": state.reasons,
        "interrupts": state.interrupts,
    }


def restore(state: LogState, record: Mapping[str, Any]) -> None:
    """Set the state of a new log."""
    state.log = EventLog(record["run_id"])
    state.log.sequence = record["sequence"]
    state.nodes = {position_in(position): OpenNode(*node) for position, *node in record["nodes"]}
    state.starts = Counter(record["starts"])
    state.agents.restore(record["agents"])
    state.node_id, state.has_text = record["node_id"], record["has_text"]
    state.branches = {int(number): _branch(branch) for number, branch in record["branches"].items()}
    state.branch = state.branches[0]
    state.reasons = dict(record["reasons"])
    state.interrupts = record["interrupts"]


def _branch_record(branch: BranchState) -> dict[str, Any]:
    response = branch.response
    return {
        "model": branch.model,
        "response": [response.has_failed, response.has_ended, response.reason],
        "suspended": branch.suspended,
    }


def _branch(record: Mapping[str, Any]) -> BranchState:
    suspended = [Suspension(*one) for one in record["suspended"]]
    return BranchState(record["model"], ResponseState(*record["response"]), suspended)
