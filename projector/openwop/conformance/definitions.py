"""Workflow definitions of configured nodes: their models, their registration, and the three of the conformance suite.

The host runs the node types of `NODE_TYPES` only, in the order of the list. Members that it would not honour, such as
edge conditions, variables or disabled nodes, are rejected instead of ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError

from projector._validation import FieldPath, invalid_fields
from projector.contracts import codec
from projector.contracts.parts import Json, Maybe
from projector.openwop.conformance.mock_nodes import NODE_TYPES, NodeConfig, PlannedNode, PlannedRun, Step
from projector.openwop.contract.payloads import AgentId, Id, Name, OpenWopModel

CONFORMANCE_PREFIX: Final = "conformance-"
_TITLE_MAX_CHARS: Final = 256
_WORKFLOW_ID_MAX_CHARS: Final = 128

WorkflowId: TypeAlias = Annotated[str, Field(max_length=_WORKFLOW_ID_MAX_CHARS, pattern=r"^[a-z][a-z0-9_-]*$")]
TypeId: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9._-]*$")]
Title: TypeAlias = Annotated[str, Field(min_length=1, max_length=_TITLE_MAX_CHARS)]
Table: TypeAlias = Annotated[Json, Field(default_factory=dict)]
EmptyTable: TypeAlias = Annotated[Json, Field(default_factory=dict, max_length=0)]


class PinnedAgent(OpenWopModel):
    """Agent that a node is pinned to."""

    agent_id: AgentId
    name: Maybe[Title] = None
    model_class: Maybe[str] = None
    version: Maybe[str] = None


class WorkflowNode(OpenWopModel):
    """A node."""

    id: Id
    type_id: TypeId
    name: Maybe[Name] = None
    position: Maybe[Json] = None
    config: Table
    inputs: EmptyTable
    agent: Maybe[PinnedAgent] = None
    notes: Maybe[str] = None


class WorkflowEdge(OpenWopModel):
    """An edge from a node to a later one."""

    id: Name
    source_node_id: Id
    target_node_id: Id
    label: Maybe[str] = None


class WorkflowTrigger(OpenWopModel):
    """A trigger; runs are started by a request only."""

    id: Name
    type: Literal["manual"]
    enabled: bool = True


class WorkflowDefinition(OpenWopModel):
    """A workflow; its nodes run in the order of the list."""

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


class DefinitionError(ValueError):
    """A workflow that cannot be registered; the message names the position, never a configured value."""


@dataclass(frozen=True, slots=True)
class RegisteredWorkflow:
    """A workflow that can be run, with the parsed configuration of each node."""

    definition: WorkflowDefinition
    configs: tuple[NodeConfig, ...]

    def steps(self, run: PlannedRun) -> list[Step]:
        """Plan all events of a run, from the start to the terminal event."""
        steps = [Step("run.started", {"workflowId": self.definition.id})]
        for node, config in zip(self.definition.nodes, self.configs, strict=True):
            planned = PlannedNode(node.id, None if node.agent is None else node.agent.agent_id)
            steps.append(Step("node.started", {"nodeId": node.id, "typeId": node.type_id}, node.id))
            offset = len(steps)
            steps += [
                step if step.cause is None else step._replace(cause=step.cause + offset)
                for step in config.plan(planned, run)
            ]
            steps.append(Step("node.completed", {"nodeId": node.id, "outputs": {}}, node.id))
        return [*steps, Step("run.completed", {})]


def register(document: Mapping[str, Any], *, is_on: bool, has_role: bool) -> RegisteredWorkflow:
    """Validate a workflow; raise `DefinitionError` if it is invalid or not allowed.

    `is_on` enables conformance node types (RFC 0023 section B.2); `has_role` means that the configuration names the
    callers that may run them (section B.1).
    """
    try:
        definition = WorkflowDefinition.model_validate(document)
    except ValidationError as error:
        raise DefinitionError(_message(error, document)) from None
    _check_order(definition)
    for position, node in enumerate(definition.nodes):
        _check_type(f"nodes[{position}].typeId", node, definition.id, is_on=is_on, has_role=has_role)
    configs = [_config(position, node) for position, node in enumerate(definition.nodes)]
    return RegisteredWorkflow(definition, tuple(configs))


def _config(position: int, node: WorkflowNode) -> NodeConfig:
    try:
        return NODE_TYPES[node.type_id].model_validate(node.config)
    except ValidationError as error:
        raise DefinitionError(_message(error, node.config, ("nodes", position, "config"))) from None


def _check_type(path: str, node: WorkflowNode, workflow_id: str, *, is_on: bool, has_role: bool) -> None:
    if node.type_id not in NODE_TYPES:
        raise DefinitionError(f"`{path}`: expected one of {', '.join(sorted(NODE_TYPES))}")
    if not is_on:
        raise DefinitionError(f"`{path}`: `{node.type_id}` requires `conformance = true`")
    if not workflow_id.startswith(CONFORMANCE_PREFIX) and not has_role:
        raise DefinitionError(
            f"`{path}`: expected a workflow id that begins with `{CONFORMANCE_PREFIX}`, or `conformance_callers`"
        )


def _check_order(definition: WorkflowDefinition) -> None:
    """Check that every edge follows the order of the nodes."""
    positions = {node.id: position for position, node in enumerate(definition.nodes)}
    if len(positions) < len(definition.nodes):
        raise DefinitionError("`nodes`: expected unique ids")
    for position, edge in enumerate(definition.edges):
        source, target = positions.get(edge.source_node_id), positions.get(edge.target_node_id)
        if source is None or target is None or source >= target:
            raise DefinitionError(f"`edges[{position}]`: expected an edge from a node to a later one")


def _message(error: ValidationError, source: object, path: FieldPath = ()) -> str:
    """Describe the first invalid field of the document at a path, without its value."""
    field = invalid_fields(error, source)[0]
    return field._replace(path=(*path, *field.path)).sentence()


def definition(workflow_id: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a definition with all members that the protocol requires."""
    required = {"position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}
    return {
        "id": workflow_id,
        "name": workflow_id,
        "version": "1.0",
        "nodes": [{**required, "name": node["id"], **node} for node in nodes],
        "edges": [],
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
        "variables": [],
        "metadata": {},
        "settings": {},
    }


_FIXTURES: Final[Any] = codec.loads((Path(__file__).parent / "fixtures.json").read_bytes())
FIXTURES: Final[Mapping[str, Mapping[str, Any]]] = {document["id"]: document for document in _FIXTURES}
"""Workflows with the ids of the conformance suite, in our own words: the suite compares texts with those of its own."""


def read_fixtures(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the workflows in the JSON files of a folder, by id; raise `DefinitionError` if it cannot be read.

    Workflows with other node types than `NODE_TYPES` are skipped: a folder of the suite has those of all profiles.
    """
    try:
        documents = [(path.name, codec.loads(path.read_bytes())) for path in sorted(folder.glob("*.json"))]
    except (OSError, codec.CodecError) as error:
        raise DefinitionError(f"`fixtures_dir`: a file cannot be read ({type(error).__name__})") from None
    if not documents:
        raise DefinitionError("`fixtures_dir`: expected a folder with JSON files")
    found: dict[str, Mapping[str, Any]] = {}
    for name, document in documents:
        nodes = document.get("nodes") if isinstance(document, dict) else None
        if not isinstance(nodes, list) or not isinstance(document.get("id"), str):
            raise DefinitionError(f"`fixtures_dir`: expected a workflow in `{name}`")
        if all(isinstance(node, dict) and node.get("typeId") in NODE_TYPES for node in nodes):
            found[document["id"]] = document
    return found
