"""Nodes and agents, read off the context of the frames: who speaks now, and whom that succeeds (CONTRACT D9).

A node is a step of the workflow, or all of the run where the context names no step. It ends when its lane goes on to
another step, or when the workflow goes where the lane does not lead.
"""

from __future__ import annotations

from collections.abc import Mapping

from projector.canonical import Frame
from projector.dialects.openwop import messages
from projector.dialects.openwop.run import TYPE_ID, Run, node_name
from projector.dialects.workflow import Lane, place_of
from projector.openwop import agents
from projector.openwop.log import agent_id as id_of
from projector.openwop.log import present


def follow(run: Run, frame: Frame) -> None:
    """Say what a changed context ends, hands over and begins."""
    workflow, agent = frame.get("workflow"), frame.get("agent")
    if workflow is run.workflow and agent is run.agent:
        return
    run.workflow, run.agent = workflow, agent
    workflow = workflow or {}
    lane, name = place_of(workflow)
    node_id = node_name(run.caller, name)
    for other, said in list(run.nodes.items()):
        if not (other == lane and said == node_id) and not lane.is_beside(other):
            _end(run, other, "completed", {})
    run.node_id = node_id
    speaker = agent or workflow.get("step_agent")
    run.agent_id = id_of(speaker) if speaker else f"host:model:{node_id}"
    before = run.speakers.follow(lane, run.agent_id) if speaker else None
    if before is not None:
        run.say("agent.handoff", agents.handoff(before, run.agent_id), node_id=None)
    if lane not in run.nodes:
        _start(run, lane)


def end(run: Run, how: str, members: Mapping[str, object]) -> None:
    """Say the end of every node: `completed`, `failed` or `cancelled`."""
    for lane in list(run.nodes):
        _end(run, lane, how, members)


def _start(run: Run, lane: Lane) -> None:
    run.nodes[lane] = run.node_id
    attempt = run.starts[run.node_id]
    is_known = run.caller.first_sequence > 0 and not run.starts
    run.starts[run.node_id] += 1
    if not is_known:  # a log that goes on has said so of its first node
        payload = {"nodeId": run.node_id, "typeId": run.caller.type_id or TYPE_ID}
        run.say("node.started", payload | present(attempt=attempt or None))


def _end(run: Run, lane: Lane, how: str, members: Mapping[str, object]) -> None:
    node_id = run.nodes.pop(lane)
    messages.close(run, node_id)
    run.say(f"node.{how}", {"nodeId": node_id, **members}, node_id=node_id)
