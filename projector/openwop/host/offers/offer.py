"""What may be run, as the host sees it, and what all kinds of it share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from pydantic.alias_generators import to_camel
from starlette.types import Scope

from projector.openwop.event_log import Verbosity, agent_id
from projector.openwop.host.asked import Configurable, RunRequest
from projector.openwop.host.names import AGENT_TYPE_ID
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run, Work

Begin: TypeAlias = Callable[[Run], Work]
"""Gives the work of a run; raises `Problem` where there is no room for it."""

VERBOSITIES: Final[tuple[Verbosity, ...]] = ("off", "summary", "full")
"""From the least that is told of reasoning to the most."""

_NOT_SETTABLE: Final = ("model", "prompt_overrides")
"""What the server decides, as members of `configurable`."""


class Workflow(Protocol):
    """Something that may be run."""

    @property
    def verbosity(self) -> Verbosity:
        """The most that it tells of reasoning."""
        ...

    def document(self) -> dict[str, Any]:
        """Give its definition, as the protocol writes one."""
        ...

    def prepare(self, asked: RunRequest, caller: str, scope: Scope) -> Begin:
        """Read what a run is asked.

        Raises:
            Problem: it may not be asked so, or not by this caller.
        """
        ...


def least(policy: Verbosity, asked: Verbosity | None) -> Verbosity:
    """Give the verbosity of a run, which may tell less of its reasoning than the policy allows and never more."""
    return min(policy, asked or policy, key=VERBOSITIES.index)


def refuse_what_is_not_settable(asked: Configurable, *further: str) -> None:
    """Refuse what would change what the server decides.

    Args:
        asked: by the run.
        further: members that this kind of run cannot set either.

    Raises:
        Refusal: something of it is said.
    """
    for member in (*_NOT_SETTABLE, *further):
        if getattr(asked, member) is not None:
            raise Refusal("validation_error", f"`configurable.{to_camel(member)}` cannot be set here.")


def node_of(node_id: str, agent: str) -> dict[str, Any]:
    """Give the node that asks an agent."""
    return {"id": node_id, "typeId": AGENT_TYPE_ID, "name": agent, "agent": {"agentId": agent_id(agent)}}


def definition(workflow_id: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Give a definition with every member that the protocol requires; nodes run in the order in which they stand."""
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
