"""Targets: the models of upstreams that a request can be sent to, and the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from projector.conversation.opaque import Place
from projector.core.intake import MakeStage
from projector.providers import PROVIDERS, profile_of
from projector.server.config.settings import Retries, Timeouts
from projector.server.config.target_settings import Balance
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.circuit import Circuit, RetryBudget
from projector.server.upstream.protocol import Upstream


@dataclass(frozen=True, slots=True)
class UpstreamBinding:
    """An upstream and one of its APIs."""

    name: str
    api: str
    upstream: Upstream
    timeouts: Timeouts
    retries: Retries
    profile: Mapping[str, object]
    address: tuple[str, int]
    """Host and port, for traces."""
    models: Mapping[str, str] | None = None
    """Model of a passthrough request -> the provider's name of it; None if every model is accepted."""


@dataclass(frozen=True, eq=False)
class Target:
    """An upstream and a model of it."""

    provider: UpstreamBinding
    model: str | None
    """The provider's name of the model; None for the one that the request names."""
    circuit: Circuit
    budget: RetryBudget
    weight: int = 1

    @cached_property
    def make_stage(self) -> MakeStage:
        """Returns the stage that reads a response of the upstream."""
        provider = self.provider
        return partial(PROVIDERS[provider.api].stage, profile_of(provider.api, provider.profile))

    @property
    def place(self) -> Place:
        """Where what the target wants back is valid."""
        return Place(self.provider.api, self.provider.name, self.model or "")

    def report_to(self, stats: StreamStats) -> None:
        """Make this the target of a stream in its reports."""
        provider = self.provider
        stats.upstream, stats.api, stats.target_model = provider.name, provider.api, self.model or ""
        stats.server_address, stats.server_port = provider.address
        if self.model is not None:
            stats.model = self.model


BodyOf = Callable[[Target], Mapping[str, object]]
"""Returns the body of the request to a target."""


class TargetList:
    """The targets of an agent or model. With `weight`, each request begins with another one, in smooth turns."""

    def __init__(self, targets: Sequence[Target], balance: Balance = "order") -> None:
        self.targets = tuple(targets)
        self._balance = balance
        self._credits = [0] * len(self.targets)

    @property
    def upstreams(self) -> frozenset[str]:
        """The names of the upstreams."""
        return frozenset(target.provider.name for target in self.targets)

    def in_order(self) -> tuple[Target, ...]:
        """Return the targets in the order in which one request tries them.

        By weight, each target is the first in its share of the requests exactly, spread evenly as in nginx; the others
        follow, the heaviest first.
        """
        if self._balance == "order" or len(self.targets) == 1:
            return self.targets
        for index, target in enumerate(self.targets):
            self._credits[index] += target.weight
        first = self._credits.index(max(self._credits))
        self._credits[first] -= sum(target.weight for target in self.targets)
        others = sorted(self.targets, key=lambda target: -target.weight)
        return (self.targets[first], *(target for target in others if target is not self.targets[first]))
