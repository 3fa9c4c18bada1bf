"""Everything that may be run, by id."""

from __future__ import annotations

from collections.abc import Mapping

from projector.openwop.host.offers.agent import AgentWorkflow
from projector.openwop.host.offers.offer import Workflow
from projector.openwop.host.offers.planned import PlannedWorkflow
from projector.openwop.host.offers.steps import StepsWorkflow
from projector.openwop.host.settings import OpenWop
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding, WorkflowBinding
from projector.server.http.routes.stream_route import Site


def registry(
    settings: OpenWop, agents: Mapping[str, AgentBinding], workflows: Mapping[str, WorkflowBinding], site: Site
) -> dict[str, Workflow]:
    """Give everything that may be run; the settings have seen to it that no two have one name."""
    redactor = Redactor(Policy())
    return {
        **{name: AgentWorkflow(offer, site) for name, offer in agents.items()},
        **{name: StepsWorkflow(offer, site) for name, offer in workflows.items()},
        **{name: PlannedWorkflow(one, settings, redactor) for name, one in settings.registered().items()},
    }
