"""Nodes and agents, derived from the context of the frames (CONTRACT D9).

A node is a step of the workflow, or the whole run if the context names no step. It ends when its position moves on to
another step, when the workflow leaves the position, or with its branch.
"""

from __future__ import annotations

from collections.abc import Mapping

from projector.core.canonical import Frame
from projector.dialects.workflow import BranchPosition, position_of
from projector.openwop import agent_payloads, event_log
from projector.openwop.dialect.content import close_text
from projector.openwop.dialect.log_state import COMPLETED, NODE_ID, TYPE_ID, LogState, OpenNode, Position
from projector.openwop.event_log import present, shortened


def follow(state: LogState, frame: Frame) -> None:
    """Emit the node ends, handoffs and node starts that a changed context implies."""
    context = (state.branch_number, frame.get("workflow"), frame.get("agent"))
    if context == state.context:
        return
    state.context = context
    workflow = frame.get("workflow", {})
    workflow_position, name = position_of(workflow)
    position = state.branch_number or workflow_position
    for other in _left(state, position, name):
        leave(state, other, COMPLETED, {})
    node = state.nodes.get(position)
    node_id = state.node_id = _free_id(state, name) if node is None else node.id
    agent = frame.get("agent", workflow.get("step_agent"))
    state.agent_id = event_log.agent_id(agent) if agent else f"host:model:{node_id}"
    before = state.agents.follow(position, state.agent_id) if agent else None
    if before is not None:
        state.emit("agent.handoff", agent_payloads.handoff(before, state.agent_id), node_id=None)
    if node is None:
        _start(state, position, OpenNode(name, node_id))


def leave(state: LogState, position: Position, outcome: str, members: Mapping[str, object]) -> None:
    """Emit the end (`completed`, `failed` or `cancelled`) of the node at a position, if one is open."""
    if position not in state.nodes:
        return
    node_id = state.nodes.pop(position).id
    close_text(state, node_id)
    state.emit(f"node.{outcome}", {"nodeId": node_id, **members}, node_id=node_id)


def end(state: LogState, outcome: str, members: Mapping[str, object]) -> None:
    """Emit the end of every open node."""
    for position in list(state.nodes):
        leave(state, position, outcome, members)


def _left(state: LogState, position: Position, name: str) -> list[Position]:
    """Return the positions whose nodes end when a step starts; a branch ends only its own node."""
    at = state.nodes.get(position)
    left: list[Position] = [position] if at is not None and at.name != name else []
    if isinstance(position, BranchPosition):
        left += [
            other
            for other in state.nodes
            if isinstance(other, BranchPosition) and other != position and not position.is_beside(other)
        ]
    return left


def _free_id(state: LogState, name: str) -> str:
    """Return an unused node id: the name of the step, of the options, or the default, numbered if it is taken."""
    wanted = name or state.options.node_id or NODE_ID
    taken = {node.id for node in state.nodes.values()}
    node_id, number = shortened(wanted), 1
    while node_id in taken:
        number += 1
        node_id = shortened(f"{wanted}~{number}")
    return node_id


def _start(state: LogState, position: Position, node: OpenNode) -> None:
    state.nodes[position] = node
    attempt = state.starts[node.id]
    state.starts[node.id] += 1
    payload = {"nodeId": node.id, "typeId": state.options.type_id or TYPE_ID}
    state.emit("node.started", payload | present(attempt=attempt or None))
