"""What agents, workflows and configured nodes have in common: definition, validation of a request, work of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic.alias_generators import to_camel
from starlette.types import Scope

from projector.openwop.event_log import VENDOR, Verbosity, agent_id
from projector.openwop.host.forks import Fork
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_requests import Configurable, RunRequest
from projector.openwop.host.runs import HostRun, Work
from projector.redaction.redactor import Redactor
from projector.server.control.rights import Grant

AGENT_TYPE_ID: Final = f"vendor.{VENDOR}.agent"
"""Node type of agents; `vendor.*` types may emit agent events (RFC 0023 section A)."""
AGENT_NODE_ID: Final = "agent"
"""Id of the only node of a run of an agent."""

Begin: TypeAlias = Callable[[HostRun], Work]
"""Creates the work of a run; raises `Problem` if there is no room for it."""

VERBOSITIES: Final[tuple[Verbosity, ...]] = ("off", "summary", "full")
"""From the least reasoning to the most."""

_SERVER_OPTIONS: Final = ("model", "prompt_overrides")
"""Members of `configurable` that only the server configuration sets."""


class RunnableWorkflow(ABC):
    """An agent, a workflow or configured nodes that can be run; a run may reduce the verbosity of its reasoning."""

    def __init__(self, redactor: Redactor) -> None:
        self.verbosity: Verbosity = redactor.policy.reasoning
        self._redactors = {self.verbosity: redactor}

    def redactor(self, requested: Verbosity | None) -> Redactor:
        """Return the redactor of the requested verbosity, or of the policy's if that is less."""
        verbosity = min(self.verbosity, requested or self.verbosity, key=VERBOSITIES.index)
        if verbosity not in self._redactors:
            self._redactors[verbosity] = self._redactors[self.verbosity].with_reasoning(verbosity)
        return self._redactors[verbosity]

    agents: Sequence[str] = ()
    """Names of the agents that it uses."""

    def is_allowed(self, grant: Grant) -> bool:
        """Return whether a caller may run it; to any other caller it does not exist."""
        return all(map(grant.allows_agent, self.agents))

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the definition in the form of the protocol."""

    def branch(self, fork: Fork, request: RunRequest, caller: str) -> Begin:
        """Return what continues the events of another run, with other options; raise `Problem` if nothing can."""
        del fork, request, caller
        raise HostError("capability_not_provided", "`branch` needs the request of the run, which is not kept.")

    def resume(self, run: HostRun, record: Mapping[str, Any]) -> Work:
        """Return work that continues a run from what its work has recorded; raise `Problem` if there is no room."""
        raise NotImplementedError

    @abstractmethod
    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate the request for a run; raise `Problem` if it is invalid or not allowed for this caller."""


def check_configurable(options: Configurable, *unsupported: str) -> None:
    """Raise `HostError` if a run sets an option of the server configuration, or one that it does not support."""
    for member in (*_SERVER_OPTIONS, *unsupported):
        if getattr(options, member) is not None:
            raise HostError("validation_error", f"`configurable.{to_camel(member)}` cannot be set.")


def node_of(node_id: str, agent: str) -> dict[str, Any]:
    """Return the node of an agent."""
    return {"id": node_id, "typeId": AGENT_TYPE_ID, "name": agent, "agent": {"agentId": agent_id(agent)}}
