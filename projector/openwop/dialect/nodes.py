"""Nodes and agents, read off the context of the frames: who speaks now, and whom that succeeds (CONTRACT D9).

A node is a step of the workflow, or all of the run where the context names no step. It ends when its place goes on to
another step, when the workflow goes where the place does not lead, or with its branch.
"""

from __future__ import annotations

from collections.abc import Mapping

from projector.core.canonical import Frame
from projector.dialects.workflow import BranchPosition, position_of
from projector.openwop import agents, shortened
from projector.openwop.dialect import messages
from projector.openwop.dialect.items import Node, Place
from projector.openwop.dialect.run import NODE_ID, TYPE_ID, Run
from projector.openwop.log import agent_id as id_of
from projector.openwop.log import present


def follow(run: Run, frame: Frame) -> None:
    """Say what a changed context ends, hands over and begins."""
    context = (run.branch, frame.get("workflow"), frame.get("agent"))
    if context == run.context:
        return
    run.context = context
    workflow = frame.get("workflow", {})
    position, name = position_of(workflow)
    place = run.branch or position
    for other in _left(run, place, name):
        leave(run, other, "completed", {})
    node = run.nodes.get(place)
    node_id = run.node_id = _free(run, name) if node is None else node.id
    speaker = frame.get("agent", workflow.get("step_agent"))
    run.agent_id = id_of(speaker) if speaker else f"host:model:{node_id}"
    before = run.speakers.follow(place, run.agent_id) if speaker else None
    if before is not None:
        run.say("agent.handoff", agents.handoff(before, run.agent_id), node_id=None)
    if node is None:
        _start(run, place, Node(name, node_id))


def leave(run: Run, place: Place, how: str, members: Mapping[str, object]) -> None:
    """Say the end of the node at a place, if one is open: `completed`, `failed` or `cancelled`."""
    if place not in run.nodes:
        return
    node_id = run.nodes.pop(place).id
    messages.close(run, node_id)
    run.say(f"node.{how}", {"nodeId": node_id, **members}, node_id=node_id)


def end(run: Run, how: str, members: Mapping[str, object]) -> None:
    """Say the end of every node."""
    for place in list(run.nodes):
        leave(run, place, how, members)


def _left(run: Run, place: Place, name: str) -> list[Place]:
    """Give the places that are left by going on to a step; branches leave nothing but what they themselves had open."""
    at = run.nodes.get(place)
    left: list[Place] = [place] if at is not None and at.name != name else []
    if isinstance(place, BranchPosition):
        left += [
            other
            for other in run.nodes
            if isinstance(other, BranchPosition) and other != place and not place.is_beside(other)
        ]
    return left


def _free(run: Run, name: str) -> str:
    """Give the id of a node: the step's name, else the caller's, else ours; with a number where it is taken."""
    wanted = name or run.options.node_id or NODE_ID
    taken = {node.id for node in run.nodes.values()}
    given, number = shortened(wanted), 1
    while given in taken:
        number += 1
        given = shortened(f"{wanted}~{number}")
    return given


def _start(run: Run, place: Place, node: Node) -> None:
    run.nodes[place] = node
    attempt = run.starts[node.id]
    run.starts[node.id] += 1
    payload = {"nodeId": node.id, "typeId": run.options.type_id or TYPE_ID}
    run.say("node.started", payload | present(attempt=attempt or None))
