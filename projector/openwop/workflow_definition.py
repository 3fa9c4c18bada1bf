"""The shape of a workflow definition, as far as this host reads one; whatever else one may hold is refused."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from projector.contracts.parts import Json, Maybe
from projector.openwop.contract.parts import AgentId, Id, Name, OpenWopModel

_NAME_MAX_CHARS: Final = 256
_ID_MAX_CHARS: Final = 128

WorkflowId: TypeAlias = Annotated[str, Field(max_length=_ID_MAX_CHARS, pattern=r"^[a-z][a-z0-9_-]*$")]
TypeId: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9._-]*$")]
Title: TypeAlias = Annotated[str, Field(min_length=1, max_length=_NAME_MAX_CHARS)]
Table: TypeAlias = Annotated[Json, Field(default_factory=dict)]
NoTable: TypeAlias = Annotated[Json, Field(default_factory=dict, max_length=0)]


class AgentRef(OpenWopModel):
    """The agent that a node is pinned to."""

    agent_id: AgentId
    name: Maybe[Title] = None
    model_class: Maybe[str] = None
    version: Maybe[str] = None


class WorkflowNode(OpenWopModel):
    """One node."""

    id: Id
    type_id: TypeId
    name: Maybe[Name] = None
    position: Maybe[Json] = None
    config: Table
    inputs: NoTable
    agent: Maybe[AgentRef] = None
    notes: Maybe[str] = None


class WorkflowEdge(OpenWopModel):
    """That one node comes before another."""

    id: Name
    source_node_id: Id
    target_node_id: Id
    label: Maybe[str] = None


class WorkflowTrigger(OpenWopModel):
    """What starts a run: a request, and nothing else."""

    id: Name
    type: Literal["manual"]
    enabled: bool = True


class WorkflowDefinition(OpenWopModel):
    """One workflow; its nodes run one after the other, in the order in which they stand."""

    id: WorkflowId
    name: Maybe[Title] = None
    version: Name = "1.0"
    description: Maybe[str] = None
    nodes: Annotated[list[WorkflowNode], Field(min_length=1)]
    edges: Annotated[list[WorkflowEdge], Field(default_factory=list)]
    triggers: Annotated[list[WorkflowTrigger], Field(default_factory=list)]
    variables: Annotated[list[Json], Field(default_factory=list, max_length=0)]
    metadata: Table
    settings: Table
