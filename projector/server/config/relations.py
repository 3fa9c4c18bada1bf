"""Rules about several settings, checked once each of them is valid by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from projector.server.config.agent_settings import PASSTHROUGH_APIS, AgentSettings, can_serve
from projector.server.config.caller_settings import ROUTES, caller_checks
from projector.server.config.config_base import DEFAULT, SHORTHAND
from projector.server.config.extensions import EXTENSIONS
from projector.server.config.target_settings import api_of, upstream_of

if TYPE_CHECKING:
    from projector.server.config.settings import Settings, UpstreamSettings

_Check: TypeAlias = Callable[[], object]
"""Raises `ValueError` if a rule is broken."""


def broken_rules(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with settings that do not fit together, a line for each."""
    for check in _checks(settings):
        try:
            check()
        except ValueError as error:
            yield str(error)


def check_access(settings: Settings) -> None:
    """Raise `ValueError` if everyone could use the server from another machine."""
    if not settings.is_loopback and not settings.auth.is_on:
        raise ValueError("`host` must be a loopback address unless callers are configured in `auth`")


def _checks(settings: Settings) -> Iterator[_Check]:
    upstreams: Mapping[str, UpstreamSettings | None] = settings.upstreams or {DEFAULT: None}
    agents: Mapping[str, AgentSettings | None] = settings.agents or ({} if settings.upstreams else {DEFAULT: None})
    yield partial(check_access, settings)
    yield partial(_check_ports, settings)
    for name in sorted(SHORTHAND.keys() & settings.model_fields_set if settings.upstreams else ()):
        yield partial(_check_shorthand, settings, name)
    for name, agent in settings.agents.items():
        yield partial(api_of, f"agent `{name}`", [one.upstream for one in agent.all_targets], upstreams)
    for name, model in settings.models.items():
        yield partial(_check_model, name, [one.upstream for one in model.targets], upstreams)
    for name, workflow in settings.workflows.items():
        yield partial(workflow.check, name, agents)
    for extension in settings.extensions:
        yield partial(extension.check, agents, settings.workflows)
    dialects = {f"agent `{name}`": agent.dialects for name, agent in settings.agents.items()}
    dialects |= {f"workflow `{name}`": workflow.dialects for name, workflow in settings.workflows.items()}
    for name in EXTENSIONS:
        for what, used in dialects.items() if getattr(settings, name) is None else ():
            yield partial(_check_dialect, what, name, used)
    for route, api in PASSTHROUGH_APIS.items():
        yield partial(_check_route, settings, route, api, upstreams)
    yield partial(_check_passthrough, settings)
    yield from _caller_checks(settings, agents, upstreams)


def _check_ports(settings: Settings) -> None:
    if settings.admin is not None and settings.admin.port == settings.port != 0:
        raise ValueError("`admin.port` must not be the same as `port`")


def _check_shorthand(settings: Settings, name: str) -> None:
    """Refuse a setting of the shorthand beside `upstreams`; the text of a file is reported as the file."""
    if f"{name}_file" not in settings.model_fields_set:
        tables = [*getattr(settings, SHORTHAND[name])]
        place = f"[{SHORTHAND[name]}.{tables[0] if len(tables) == 1 else 'NAME'}]"
        raise ValueError(f"`{name}` cannot be combined with `upstreams`: it belongs in `{place}`")


def _check_model(name: str, used: list[str], upstreams: Mapping[str, UpstreamSettings | None]) -> None:
    api = api_of(f"model `{name}`", used, upstreams)
    if api not in PASSTHROUGH_APIS.values():
        raise ValueError(f"model `{name}`: there is no passthrough route for the api `{api}`")


def _check_dialect(what: str, name: str, used: tuple[str, ...]) -> None:
    """Check that the dialect of an extension is used with it only: a host announces what it supports."""
    if name in used:
        raise ValueError(f"{what}: the dialect `{name}` requires the table `{name}`")


def _check_route(settings: Settings, route: str, api: str, upstreams: Mapping[str, UpstreamSettings | None]) -> None:
    """Check the upstreams of a passthrough route: each has its API, and all but the last a list of models."""
    for_any_model: str | None = None
    for name in settings.passthrough_upstreams(route):
        upstream = upstream_of(f"`passthrough.{route}`", name, upstreams)
        if upstream is not None and not can_serve(upstream.api, api):
            raise ValueError(f"`passthrough.{route}`: expected an upstream with api `{api}`, not `{name}`")
        if upstream is not None and upstream.models is not None:
            continue
        if for_any_model is not None:
            raise ValueError(
                f"`passthrough.{route}`: `{name}` would never be used, because `{for_any_model}` accepts every"
                " model; set `models` of an upstream"
            )
        for_any_model = name


def _check_passthrough(settings: Settings) -> None:
    is_on = bool(settings.models) or any(map(settings.passthrough_upstreams, PASSTHROUGH_APIS))
    if settings.passthrough is not None and settings.passthrough.model_fields_set and not is_on:
        raise ValueError(f"`passthrough`: expected an upstream: `{'` or `'.join(PASSTHROUGH_APIS)}`")


def _caller_checks(
    settings: Settings, agents: Mapping[str, object], upstreams: Mapping[str, UpstreamSettings | None]
) -> Iterator[_Check]:
    names = {name for route in PASSTHROUGH_APIS for name in settings.passthrough_upstreams(route)}
    offered = [None if (one := upstreams.get(name)) is None else one.models for name in sorted(names)]
    offered.append(dict.fromkeys(settings.models, ""))
    models = None if None in offered else sorted({name for models in offered for name in models or ()})
    known = {"agents": [*agents], "workflows": settings.workflows, "routes": ROUTES, "models": models}
    workflows = {name: one.definition.agents for name, one in settings.workflows.items()}
    return caller_checks(settings.callers, settings.auth.caller_names, known, workflows)
