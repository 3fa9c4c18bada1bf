"""Everything that may be run, by id."""

from __future__ import annotations

from collections.abc import Mapping

from projector._errors import UsageError
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
    """Give everything that may be run.

    Raises:
        UsageError: two of them have one id.
    """
    redactor = Redactor(Policy())
    kinds: tuple[Mapping[str, Workflow], ...] = (
        {name: AgentWorkflow(offer, site) for name, offer in agents.items()},
        {name: StepsWorkflow(offer, site) for name, offer in workflows.items()},
        {name: PlannedWorkflow(one, settings, redactor) for name, one in settings.registered().items()},
    )
    found: dict[str, Workflow] = {}
    for kind in kinds:
        for name in found.keys() & kind.keys():
            raise UsageError(f"openwop: expected one agent or workflow of the name `{name}`")
        found |= kind
    return found
