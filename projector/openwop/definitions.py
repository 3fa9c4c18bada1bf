"""Workflow definitions as a host registers them: what it reads of one, and what it refuses before anything runs.

This host runs configured nodes of two types, both for conformance only (`NODE_TYPES`). What it would not act on, such
as a condition of an edge, a variable or a disabled node, is refused rather than passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from projector._validation import FieldPath, invalid_fields
from projector.contracts.parts import Json
from projector.openwop import mock_agent, supervisor
from projector.openwop.contract.mock_agent import MockAgentConfig
from projector.openwop.plan import Node, Run, Step
from projector.openwop.supervisor import SupervisorConfig
from projector.openwop.workflow_definition import WorkflowDefinition, WorkflowNode

CONFORMANCE_PREFIX: Final = "conformance-"


class DefinitionError(ValueError):
    """A workflow that this host does not register; the message names the place, never a value of its configuration."""


Plan: TypeAlias = Callable[[Node, Run], list[Step]]


def _mock_agent(config: Json) -> Plan:
    read = MockAgentConfig.model_validate(config)
    return lambda node, run: mock_agent.plan(read, node, run)


def _supervisor(config: Json) -> Plan:
    read = SupervisorConfig.model_validate(config)
    return lambda node, run: supervisor.plan(read, node, run)


NODE_TYPES: Final[Mapping[str, Callable[[Json], Plan]]] = {
    mock_agent.TYPE_ID: _mock_agent,
    supervisor.TYPE_ID: _supervisor,
}
"""Type of a node -> what reads its configuration; both types are for conformance only."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A workflow that may be run."""

    definition: WorkflowDefinition
    plans: tuple[Plan, ...]

    @property
    def workflow_id(self) -> str:
        """Its id."""
        return self.definition.id

    def steps(self, run: Run) -> list[Step]:
        """Give everything that a run of it says, its first event and its last included."""
        said = [Step("run.started", {"workflowId": self.workflow_id})]
        for node, plan in zip(self.definition.nodes, self.plans, strict=True):
            named = Node(node.id, node.type_id, None if node.agent is None else node.agent.agent_id)
            said.append(Step("node.started", {"nodeId": node.id, "typeId": node.type_id}, node.id))
            said += [_moved(step, len(said)) for step in plan(named, run)]
            said.append(Step("node.completed", {"nodeId": node.id, "outputs": {}}, node.id))
        return [*said, Step("run.completed", {})]


def _moved(step: Step, places: int) -> Step:
    return step if step.answers is None else step._replace(answers=step.answers + places)


def register(document: Mapping[str, Any], *, is_on: bool, has_role: bool) -> Registered:
    """Read a workflow for a host.

    Args:
        document: the definition, as the protocol writes one.
        is_on: whether the host has switched its conformance types on (RFC 0023 section B.2).
        has_role: whether there is a tenant that may run conformance workflows of other names (section B.1).

    Raises:
        DefinitionError: a member that is unknown or out of its range, a type of node that is not run here, or one that
            is for conformance only and not switched on.
    """
    try:
        definition = WorkflowDefinition.model_validate(document)
    except ValidationError as error:
        raise DefinitionError(_first(error, document)) from None
    _check_order(definition)
    for position, node in enumerate(definition.nodes):
        _check_type(f"nodes[{position}].typeId", node, definition.id, is_on=is_on, has_role=has_role)
    return Registered(definition, tuple(_plan(position, node) for position, node in enumerate(definition.nodes)))


def _plan(position: int, node: WorkflowNode) -> Plan:
    try:
        return NODE_TYPES[node.type_id](node.config)
    except ValidationError as error:
        raise DefinitionError(_first(error, node.config, ("nodes", position, "config"))) from None


def _check_type(place: str, node: WorkflowNode, workflow_id: str, *, is_on: bool, has_role: bool) -> None:
    if node.type_id not in NODE_TYPES:
        raise DefinitionError(f"`{place}`: expected one of {', '.join(sorted(NODE_TYPES))}")
    if not is_on:
        raise DefinitionError(f"`{place}`: `{node.type_id}` is for conformance only, which is not switched on")
    if not workflow_id.startswith(CONFORMANCE_PREFIX) and not has_role:
        raise DefinitionError(
            f"`{place}`: expected an id that begins with `{CONFORMANCE_PREFIX}`, or callers who may run such workflows"
        )


def _check_order(definition: WorkflowDefinition) -> None:
    """Refuse what would not run in the order in which the nodes stand."""
    places = {node.id: position for position, node in enumerate(definition.nodes)}
    if len(places) < len(definition.nodes):
        raise DefinitionError("`nodes`: expected each id once")
    for position, edge in enumerate(definition.edges):
        source, target = places.get(edge.source_node_id), places.get(edge.target_node_id)
        if source is None or target is None or source >= target:
            raise DefinitionError(f"`edges[{position}]`: expected it to lead from a node to one that stands after it")


def _first(error: ValidationError, source: object, path: FieldPath = ()) -> str:
    """Return the first invalid field of what stands at a path, without a value."""
    field = invalid_fields(error, source)[0]
    return field._replace(path=(*path, *field.path)).sentence()
