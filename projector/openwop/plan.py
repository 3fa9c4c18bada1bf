"""What a planned node says: steps, in order, before anything is said. Pure: ids are made from the run's.

A host writes each step as an event of the run's log. Where a step is `node.suspended` it waits for a person, and goes on
with the next step when the answer is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from contracts.openwop.parts import KEY_MAX_CHARS, Verbosity
from redaction.mint import Redactor

DEFAULT_THRESHOLD: Final = 0.7
"""Below it a decision waits for a person (RFC 0002 section F)."""


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


def escalates(confidence: float | None, threshold: float) -> bool:
    """Tell whether a decision waits for a person: only one that is said to be less sure than the threshold."""
    return confidence is not None and math.isfinite(confidence) and confidence < threshold


def decision(run: Run, node: Node, agent_id: str, decided: Decision) -> list[Step]:
    """Give `agent.decided`, and the suspension after it where the decision escalates (RFC 0023 section B, step 4)."""
    limits = run.redactor.policy.limits
    shown = run.redactor.json(decided.value, string_max_chars=limits.output_string_max_chars).value
    payload: dict[str, Any] = {"agentId": agent_id, "decision": shown}
    if decided.confidence is not None:
        payload["confidence"] = decided.confidence
    said = [Step("agent.decided", payload, node.node_id)]
    if decided.confidence is not None and escalates(decided.confidence, run.threshold):
        said.append(_suspension(run, node, agent_id, decided.confidence))
    return said


def _suspension(run: Run, node: Node, agent_id: str, observed: float) -> Step:
    """Give what both the schema (`nodeId`, `interruptId`) and RFC 0023 (`reason` and numbers) ask for."""
    return Step(
        "node.suspended",
        {
            "nodeId": node.node_id,
            "interruptId": f"int_{run.run_id}_{node.node_id}",
            "kind": "low-confidence",
            "key": f"{run.run_id}:{node.node_id}:0"[:KEY_MAX_CHARS],
            "reason": "low-confidence",
            "agentId": agent_id,
            "threshold": run.threshold,
            "observed": observed,
        },
        node.node_id,
    )
