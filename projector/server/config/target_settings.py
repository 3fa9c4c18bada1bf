"""Tables for the targets of agents and models: which upstreams serve them, in which order, and when one is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import Field, model_validator

from projector._errors import UsageError, known_name
from projector.providers import DEFAULT_PROVIDER
from projector.server.config.config_base import Model, Name, Table

Balance: TypeAlias = Literal["order", "weight"]


class CircuitBreaker(Table):
    """When a target that fails gets no more requests."""

    failures: int = Field(5, ge=0, le=1000)
    """Requests that must fail one after another until a target gets no more of them; also if half of four times as
    many fail within a minute. 0 for no limit."""
    open_s: float = Field(15, gt=0, le=3600)
    """Seconds without requests, before one is sent to find out whether the target works again."""


class TargetSettings(Table):
    """A model of an upstream."""

    upstream: Name
    """Name of the upstream."""
    model: Model
    """The upstream's name of the model."""
    weight: int | None = Field(None, ge=1, le=1000)
    """Share of the requests, relative to the other targets; 1 by default."""


Targets: TypeAlias = Annotated[tuple[TargetSettings, ...], Field(max_length=16)]


class ModelSettings(Table):
    """A model of the passthrough routes, with the upstreams that serve it."""

    targets: Targets = Field(min_length=1)
    """Upstreams and their names of the model."""
    balance: Balance = "order"
    """`order`: the first target that works; `weight`: all targets, by their weights."""

    @model_validator(mode="after")
    def _check_targets(self) -> ModelSettings:
        check_targets(self.targets, self.balance)
        return self


class _Upstream(Protocol):
    @property
    def api(self) -> str: ...


_UpstreamT = TypeVar("_UpstreamT", bound=_Upstream)


class _Place(NamedTuple):
    """A target without its weight."""

    upstream: str
    model: str


def check_targets(targets: Sequence[TargetSettings], balance: Balance) -> None:
    """Raise `ValueError` for a target that is listed twice, and for a weight that has no effect."""
    places = [_Place(one.upstream, one.model) for one in targets]
    for place in places:
        if places.count(place) > 1:
            raise ValueError(f"`targets`: the model `{place.model}` of `{place.upstream}` is listed twice")
    if balance == "order" and any(one.weight is not None for one in targets):
        raise ValueError('`weight` of a target has an effect only with `balance` = "weight"')


def upstream_of(name: str, upstream: str, upstreams: Mapping[str, _UpstreamT | None]) -> _UpstreamT | None:
    """Return an upstream that a setting names; raise `UsageError` if it is unknown."""
    if upstream not in upstreams and None in upstreams.values():
        place = f"`[upstreams.{upstream}]`"
        raise UsageError(f"unknown upstream of {name}: `{upstream}`; no upstreams are configured: add {place}")
    return upstreams[known_name(f"upstream of {name}:", upstream, upstreams)]


def api_of(name: str, names: Iterable[str], upstreams: Mapping[str, _Upstream | None]) -> str:
    """Return the API of the upstreams of targets; an upstream that is None has the default one.

    Raises:
        UsageError: an upstream is unknown, or they have different APIs.
    """
    apis: dict[str, str] = {}
    for upstream in names:
        row = upstream_of(name, upstream, upstreams)
        apis.setdefault(row.api if row is not None else DEFAULT_PROVIDER, upstream)
    if len(apis) > 1:
        (first, one), (second, other), *_ = apis.items()
        raise UsageError(f"{name}: expected targets with the same api: `{one}` has `{first}`, `{other}` has `{second}`")
    return next(iter(apis))
