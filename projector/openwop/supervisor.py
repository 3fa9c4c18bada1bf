"""`core.orchestrator.supervisor` with its conformance hooks (RFC 0023 section C): what it decides is configured.

This host has no supervisor that thinks, so a node of this type needs one of the hooks. Both are for conformance only.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from projector.contracts.parts import Maybe
from projector.openwop.contract.parts import Name, OpenWopModel, Share
from projector.openwop.plan import Decision, Node, Run, Step, decision

TYPE_ID: Final = "core.orchestrator.supervisor"

_WORKER_MAX_CHARS: Final = 256

WorkerId: TypeAlias = Annotated[str, Field(min_length=1, max_length=_WORKER_MAX_CHARS)]


class NextWorker(OpenWopModel):
    """Other nodes go on."""

    kind: Literal["next-worker"]
    next_worker_ids: Annotated[list[WorkerId], Field(min_length=1)]
    confidence: Maybe[Share] = None


class AskUser(OpenWopModel):
    """A person is asked."""

    kind: Literal["ask-user"]
    prompt: Name


class Criterion(OpenWopModel):
    """Whether something that was to be reached is."""

    key: Name
    met: bool


class Terminate(OpenWopModel):
    """The run may end."""

    kind: Literal["terminate"]
    reason: Maybe[Name] = None
    confidence: Maybe[Share] = None
    success_criteria: Maybe[list[Criterion]] = None


PendingDecision: TypeAlias = Annotated[NextWorker | AskUser | Terminate, Field(discriminator="kind")]

STUB_DECISION: Final = Terminate(kind="terminate")
"""What is decided where only a confidence is configured."""


class SupervisorConfig(OpenWopModel):
    """The configuration of one node: the decision, how sure the supervisor is of it, or both."""

    mock_confidence: Maybe[Share] = None
    mock_pending_decision: Maybe[PendingDecision] = None

    @model_validator(mode="after")
    def _has_a_hook(self) -> SupervisorConfig:
        if self.mock_confidence is None and self.mock_pending_decision is None:
            raise ValueError(
                "expected `mockConfidence` or `mockPendingDecision`: this host has no supervisor that thinks"
            )
        return self


def plan(config: SupervisorConfig, node: Node, run: Run) -> list[Step]:
    """Give what the node says between its beginning and its end."""
    agent_id = run.redactor.identifier(node.agent_id or f"host:supervisor:{node.node_id}")
    decided = config.mock_pending_decision or STUB_DECISION
    said = getattr(decided, "confidence", None)
    confidence = said if config.mock_confidence is None else config.mock_confidence
    value = decided.model_dump(mode="json", by_alias=True, exclude_none=True)
    return decision(run, node, agent_id, Decision(value, confidence))
