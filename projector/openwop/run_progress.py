"""Start and end of nodes, responses, branches and the run, handoffs and token usage (CONTRACT D9 to D14).

A node is a step of the workflow, or the whole run if the frame context names no step. It ends when its position moves
on to another step, when the workflow leaves the position, or with its branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.dialects.frame_writer import BranchPosition, position_of
from projector.openwop import event_log
from projector.openwop.content import close_blocks, close_text, emit_final_text, resume, suspend
from projector.openwop.event_log import VENDOR, present, shortened
from projector.openwop.log_state import (
    COMPLETED,
    NODE_ID,
    TYPE_ID,
    UNKNOWN,
    LogState,
    OpenNode,
    Position,
    ResponseState,
)

ACTIVE_STATUSES: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""

RESUMABLE_STATUSES: Final = frozenset({COMPLETED, "incomplete"})
"""Final statuses after which an approval can still be given."""

FINISH_REASONS: Final[Mapping[str, str]] = {
    "max_output_tokens": "length",
    "length": "length",
    "content_filter": "content_filter",
}
"""Reason of an incomplete response -> finish reason of the protocol, where there is one."""

OUTPUTS: Final[Mapping[str, str]] = {
    "response_text": "text",
    "refusal_text": "refusal",
    "structured_output": "structuredOutput",
    "attachments": "attachments",
}
"""Member of `final` -> member of the run's outputs; reasoning is not an output."""

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "cached_input_tokens": "cacheReadTokens",
}
"""Member of the usage -> member of `provider.usage`; the first two are required."""

FAILED_MESSAGE: Final = "The response failed."


def follow_context(state: LogState, frame: Frame) -> None:
    """Emit the node ends, handoffs and node starts that a changed context implies."""
    context = (state.branch_number, frame.get("workflow"), frame.get("agent"))
    if context == state.context:
        return
    state.context = context
    workflow = frame.get("workflow", {})
    workflow_position, name = position_of(workflow)
    position = state.branch_number or workflow_position
    for other in _left_positions(state, position, name):
        leave_node(state, other, COMPLETED, {})
    node = state.nodes.get(position)
    node_id = state.node_id = _free_node_id(state, name) if node is None else node.id
    agent = frame.get("agent", workflow.get("step_agent"))
    state.agent_id = event_log.agent_id(agent) if agent else f"host:model:{node_id}"
    before = state.agents.follow(position, state.agent_id) if agent else None
    if before is not None:
        state.emit("agent.handoff", event_log.handoff(before, state.agent_id), node_id=None)
    if node is None:
        _start_node(state, position, OpenNode(name, node_id))


def leave_node(state: LogState, position: Position, outcome: str, members: Mapping[str, object]) -> None:
    """Emit the end (`completed`, `failed` or `cancelled`) of the node at a position, if one is open."""
    if position not in state.nodes:
        return
    node_id = state.nodes.pop(position).id
    close_blocks(state, node_id)
    close_text(state, node_id)
    state.emit(f"node.{outcome}", {"nodeId": node_id, **members}, node_id=node_id)


def end_nodes(state: LogState, outcome: str, members: Mapping[str, object]) -> None:
    """Emit the end of every open node."""
    for position in list(state.nodes):
        leave_node(state, position, outcome, members)


def _left_positions(state: LogState, position: Position, name: str) -> list[Position]:
    """Return the positions of the nodes that end when a step starts; a branch ends only its own node."""
    at = state.nodes.get(position)
    left: list[Position] = [position] if at is not None and at.name != name else []
    if isinstance(position, BranchPosition):
        left += [
            other
            for other in state.nodes
            if isinstance(other, BranchPosition) and other != position and not position.is_beside(other)
        ]
    return left


def _free_node_id(state: LogState, name: str) -> str:
    """Return an unused node id: the name of the step, of the options, or the default, numbered if it is taken."""
    wanted = name or state.options.node_id or NODE_ID
    taken = {node.id for node in state.nodes.values()}
    node_id, number = shortened(wanted), 1
    while node_id in taken:
        number += 1
        node_id = shortened(f"{wanted}~{number}")
    return node_id


def _start_node(state: LogState, position: Position, node: OpenNode) -> None:
    state.nodes[position] = node
    attempt = state.starts[node.id]
    state.starts[node.id] += 1
    payload = {"nodeId": node.id, "typeId": state.options.type_id or TYPE_ID}
    state.emit("node.started", payload | present(attempt=attempt or None))


def on_meta(state: LogState, frame: Frame) -> None:
    """Record the model."""
    state.branch.model = frame.get("model", state.branch.model)


def on_usage(state: LogState, frame: Frame) -> None:
    """Emit the usage of a model call, if the provider reported input and output tokens."""
    tokens = {name: frame["usage"][member] for member, name in TOKENS.items() if member in frame["usage"]}
    if tokens.keys() >= {"inputTokens", "outputTokens"}:
        source = {"provider": state.options.provider or UNKNOWN, "model": state.branch.model or UNKNOWN}
        state.emit("provider.usage", {**source, **tokens, "nodeId": state.node_id})


def on_lifecycle(state: LogState, frame: Frame) -> None:
    """Emit the end of the text of a response that has ended, and its suspensions."""
    status, response = frame["status"], state.branch.response
    if status in ACTIVE_STATUSES:
        return
    response.has_ended = True
    response.has_failed = status == "failed"
    if "reason" in frame:
        state.reasons[status] = response.reason = frame["reason"]
    close_text(state, state.node_id, _finish_reason(response, status))
    if status in RESUMABLE_STATUSES:
        suspend(state)


def on_final(state: LogState, frame: Frame) -> None:
    """Emit the end of the run by its status; a run with a pending interrupt does not complete."""
    final, status = frame["final"], frame["final"]["status"]
    text = final.get("response_text", "")
    if text and state.nodes and not state.has_text:
        emit_final_text(state, text)
        close_text(state, state.node_id)
    if status == "cancelled":
        end_nodes(state, "cancelled", {"reason": status})
        state.emit("run.cancelled", {"reason": status}, node_id=None)
    elif status == "failed":
        _fail(state, _failure(state.reasons.get(status)), frame)
    elif not state.is_waiting:
        outputs = {name: final[member] for member, name in OUTPUTS.items() if member in final}
        if status != COMPLETED:
            outputs |= present(status=status, reason=state.reasons.get(status))
        end_nodes(state, COMPLETED, {})
        state.emit("run.completed", {"outputs": outputs}, node_id=None, notices=frame.get("notices"))


def on_error(state: LogState, frame: Frame) -> None:
    """Emit the failure of the run."""
    error = frame["error"]
    payload = {"code": error["code"] or UNKNOWN, "message": error["message"] or FAILED_MESSAGE}
    details = {f"{VENDOR}.source": error["source"]}
    _fail(state, {**payload, "retryable": error["is_retryable"], "details": details}, frame)


def on_branch(state: LogState, frame: Frame) -> None:
    """Switch to another branch, or emit the end of the node of an ended branch without pending interrupts."""
    if not frame["is_over"]:
        state.enter(frame["branch"])
        return
    state.agents.leave(state.branch_number)
    if state.branch.response.has_failed:
        error = _failure(state.branch.response.reason)
        leave_node(state, state.branch_number, "failed", {"error": error})
    elif not state.branch.suspended:
        leave_node(state, state.branch_number, COMPLETED, {})


def starts_response(frame: Frame) -> bool:
    """Return whether a frame starts a response, given that the previous one has ended."""
    kind = frame["kind"]
    return kind == Kind.OUTPUT_ITEM_ADDED or (kind == Kind.LIFECYCLE and frame["status"] in ACTIVE_STATUSES)


def start_response(state: LogState) -> None:
    """Start another response; pending interrupts resume."""
    state.branch.response = ResponseState()
    resume(state)


def _failure(code: str | None) -> dict[str, Any]:
    """Return the error of a failed response: its code, without the provider's message."""
    return {"code": code or "failed", "message": FAILED_MESSAGE}


def _fail(state: LogState, error: Mapping[str, Any], frame: Frame) -> None:
    end_nodes(state, "failed", {"error": error})
    payload = present(error=error, failedNodeId=state.node_id or None)
    state.emit("run.failed", payload, node_id=None, notices=frame.get("notices"))


def _finish_reason(response: ResponseState, status: str) -> str | None:
    if status == COMPLETED:
        return "tool_calls" if response.pending else "stop"
    return FINISH_REASONS.get(response.reason or "") if status == "incomplete" else None
