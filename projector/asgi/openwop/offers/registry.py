"""Everything that may be run, by id."""

from __future__ import annotations

from collections.abc import Mapping

from projector.asgi.catalog import Offer
from projector.asgi.openwop.offers.agent import AgentWorkflow
from projector.asgi.openwop.offers.offer import Workflow
from projector.asgi.openwop.offers.planned import PlannedWorkflow
from projector.asgi.openwop.offers.steps import StepsWorkflow
from projector.asgi.openwop.settings import OpenWop
from projector.asgi.routes.stream import Site
from projector.asgi.workflows.offers import WorkflowOffer
from redaction.mint import Redactor
from redaction.policy import Policy


def registry(
    settings: OpenWop, agents: Mapping[str, Offer], workflows: Mapping[str, WorkflowOffer], site: Site
) -> dict[str, Workflow]:
    """Give everything that may be run; the settings have seen to it that no two have one name."""
    redactor = Redactor(Policy())
    return {
        **{name: AgentWorkflow(offer, site) for name, offer in agents.items()},
        **{name: StepsWorkflow(offer, site) for name, offer in workflows.items()},
        **{name: PlannedWorkflow(one, settings, redactor) for name, one in settings.registered().items()},
    }
