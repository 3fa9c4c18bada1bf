"""What the host says about a stream and its branches: ids, agent, workflow step (seed section 6.2, CONTRACT D9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

WORKFLOW_TEXTS: Final = ("workflow_key", "workflow_run_id", "stage_name", "step_name", "step_agent", "parallel_group")
WORKFLOW_NUMBERS: Final = ("branch_index",)


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Context of one stream; whatever is not given is absent from its events.

    Args:
        stream_id: `stream_` and 32 hexadecimal digits are made where it is None (D2).
        conversation_id: the host's own id of the conversation.
        agent: name of the agent that speaks.
        workflow: the members of section 6.2's `workflow`; unknown ones and wrong types are left out.
    """

    stream_id: str | None = None
    conversation_id: str | None = None
    agent: str | None = None
    workflow: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class BranchContext:
    """What the host says about one branch: one of the responses of a run that may stream side by side.

    Args:
        agent: name of the agent that speaks in it.
        workflow: as in `StreamContext`; its place (stage, parallel group, branch) is that of no other open branch.
        stage: when it has its turn; `final` has the texts of the last stage that has any, in the order of its
        branches. A
            stage of its own where it is None.
        is_optional: whether the run goes on when its response fails.
    """

    agent: str | None = None
    workflow: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    stage: int | None = None
    is_optional: bool = False
