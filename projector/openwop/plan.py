"""What a planned node says: steps, in order, before anything is said. Pure: ids are made from the run's.

A host writes each step as an event of the run's log. Where a step is `node.suspended` it waits for a person, and goes
on with the next step when the answer is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from projector.openwop import agents
from projector.openwop.contract.parts import Verbosity
from projector.openwop.escalation import DEFAULT_THRESHOLD, is_low
from projector.redaction.redactor import Redactor


class Step(NamedTuple):
    """One event to be said."""

    type: str
    payload: Mapping[str, Any]
    node_id: str | None = None
    answers: int | None = None
    """Which step of the plan caused it, by its place."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a plan has to know of its run.

    Args:
        run_id: of the run.
        redactor: what is withheld from everything that is said.
        threshold: below this confidence a decision waits for a person.
        verbosity: how much of the reasoning is told.
    """

    run_id: str
    redactor: Redactor
    threshold: float = DEFAULT_THRESHOLD
    verbosity: Verbosity = "full"


@dataclass(frozen=True, slots=True)
class Node:
    """What a plan has to know of its node: its id and type, and the agent that it is pinned to."""

    node_id: str
    type_id: str
    agent_id: str | None = None


class Decision(NamedTuple):
    """What an agent decided, and how sure it is; None where it does not say."""

    value: object
    confidence: float | None


def decision(run: Run, node: Node, agent_id: str, decided: Decision) -> list[Step]:
    """Give `agent.decided`, and the suspension after it where the decision escalates (RFC 0023 section B, step 4)."""
    value = shown(decided.value, run)
    said = [Step("agent.decided", agents.decided(agent_id, value, decided.confidence), node.node_id)]
    if decided.confidence is not None and is_low(decided.confidence, run.threshold):
        suspension = agents.low_confidence(
            node.node_id,
            f"int_{run.run_id}_{node.node_id}",
            agents.interrupt_key(run.run_id, node.node_id, 0),
            agent_id,
            threshold=run.threshold,
            observed=decided.confidence,
            decision=value,
        )
        said.append(Step("node.suspended", suspension, node.node_id))
    return said


def shown(value: object, run: Run) -> object:
    """Give a tree as it may be shown."""
    return run.redactor.json(value, string_max_chars=run.redactor.policy.limits.output_string_max_chars).value
