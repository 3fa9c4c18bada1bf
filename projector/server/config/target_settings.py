"""Tables for the targets of agents and models: which upstreams serve them, in which order, and when one is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from projector.server.config.config_base import Model, Name, Table

Balance: TypeAlias = Literal["order", "weight"]


class CircuitBreaker(Table):
    """When a target that fails gets no more requests."""

    failures: int = Field(default=5, ge=0, le=1000)
    """Failures in a row after which a [target](operations.md#several-targets) gets no requests; also if half of four
    times as many fail within a minute. 0 for no limit."""
    open_s: float = Field(default=15, gt=0, le=3600)
    """Seconds before one request tries whether the target works again."""


class TargetSettings(Table):
    """A model of an upstream."""

    upstream: Name
    """Name of the upstream."""
    model: Model
    """The upstream's name of the model."""
    weight: int | None = Field(default=None, ge=1, le=1000)
    """Share of the requests, relative to the other targets; 1 by default."""


Targets: TypeAlias = Annotated[tuple[TargetSettings, ...], Field(max_length=16)]


class ModelSettings(Table):
    """A model of the passthrough routes, with the upstreams that serve it."""

    targets: Targets = Field(min_length=1)
    """Upstreams and their names of the model. They turn on the passthrough route of their API."""
    balance: Balance = "order"
    """`order`: the first target that works; `weight`: all targets, by their weights."""

    @model_validator(mode="after")
    def _check_targets(self) -> ModelSettings:
        check_targets(self.targets, self.balance)
        return self


def check_targets(targets: Sequence[TargetSettings], balance: Balance) -> None:
    """Raise `ValueError` for a target that is listed twice, and for a weight that has no effect."""
    places = [(one.upstream, one.model) for one in targets]
    for upstream, model in places:
        if places.count((upstream, model)) > 1:
            raise ValueError(f"`targets`: the model `{model}` of `{upstream}` is listed twice")
    if balance == "order" and any(one.weight is not None for one in targets):
        raise ValueError('`weight` of a target has an effect only with `balance` = "weight"')
