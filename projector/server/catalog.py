"""The agents, workflows and passthrough routes of a server, bound to their upstreams once, at startup."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from projector import Pipeline, StreamContext
from projector._errors import known_name
from projector._registry import resolve
from projector.contracts.limits import NAME_MAX_CHARS
from projector.core.pipeline import OutputFormat
from projector.dialects.descriptor import DEFAULT_OPTIONS, DialectOptions
from projector.providers import PROVIDERS
from projector.providers.descriptor import PassthroughRoute
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.config.agent_settings import (
    PASSTHROUGH_APIS,
    AgentSettings,
    KeepingSettings,
    Passthrough,
    RecordSettings,
    WorkflowSettings,
    can_serve,
)
from projector.server.config.config_base import DEFAULT, unwrapped
from projector.server.config.settings import Settings, secret_values
from projector.server.config.upstream_settings import Timeouts, UpstreamSettings
from projector.server.http.problems import Problem, problem
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.circuit import Circuits
from projector.server.upstream.protocol import Upstream
from projector.server.upstream.recorder import Recorder, secrets_of
from projector.server.upstream.targets import Target, TargetList, UpstreamBinding
from projector.store.protocol import new_stream_id
from projector.workflows.definition import Workflow

MakeUpstream: TypeAlias = Callable[[UpstreamSettings, Timeouts], Upstream]


_PORTS: Final = {"http": 80, "https": 443}


_PASSTHROUGH_LIMITS: Final = dict.fromkeys(
    ("arguments_text_max_chars", "arguments_json_string_max_chars", "output_string_max_chars"), 1_000_000
)
"""Limits for pages that show a call. A client that runs it needs the whole call, often with a file as an argument."""


def provider_upstream(settings: UpstreamSettings, timeouts: Timeouts) -> Upstream:
    """Return the upstream that the descriptor of the provider names."""
    make: MakeUpstream = resolve(PROVIDERS[settings.api].upstream)
    return make(settings, timeouts)


@dataclass(frozen=True, slots=True)
class AgentBinding:
    """An agent, or a model or an upstream of a passthrough route, which receives the caller's own body."""

    name: str | None
    """Name of the agent; None for a passthrough route."""
    targets: TargetList
    settings: AgentSettings
    redactor: Redactor
    default_model: str | None = None
    """Model of passthrough requests that name none."""

    @property
    def provider(self) -> UpstreamBinding:
        """The upstream of the first target. All targets have its API."""
        return self.targets.targets[0].provider

    def stats(
        self,
        dialect: str,
        caller: str,
        body: Mapping[str, object],
        conversation_id: str | None,
        metadata: Mapping[str, str] | None = None,
        stream_id: str | None = None,
    ) -> StreamStats:
        """Return the facts of a new stream; `body` is the request to the first target.

        Its model is left out if it is not in the configuration: then it is the caller's word.
        """
        target, model = self.targets.targets[0], body.get("model")
        aliases = target.provider.models or {}
        is_known = isinstance(model, str) and (model == self.settings.model or model in {*aliases, *aliases.values()})
        stats = StreamStats(
            stream_id=stream_id or new_stream_id(),
            dialect=dialect,
            caller=caller,
            agent=self.name,
            model=str(model) if is_known else "",
            conversation_id=conversation_id,
            metadata=metadata or {},
        )
        target.report_to(stats)
        return stats

    def pipeline(
        self,
        redactor: Redactor,
        stats: StreamStats,
        context: StreamContext,
        *,
        options: DialectOptions | None = None,
        output_format: OutputFormat,
        is_run: bool = False,
    ) -> Pipeline:
        """Return the pipeline of one response, or of a run; each step of a run gets a branch of it.

        `build_pipeline` would check for each stream what was checked with the configuration.
        """
        provider = self.provider
        return Pipeline(
            provider=PROVIDERS[provider.api],
            profile=self.targets.targets[0].profile,
            dialect=stats.dialect,
            redactor=redactor,
            context=context,
            run=is_run,
            input_format="sse",
            output_format=output_format,
            takes_host_events=provider.upstream.is_recording and not is_run,
            clock=time.time,
            options=options or DEFAULT_OPTIONS,
            on_frame=stats.on_frame,
            on_deltas=stats.on_deltas,
            on_output=None,
        )


@dataclass(frozen=True, slots=True)
class PassthroughBinding:
    """The models and upstreams of a passthrough route; the model of a request selects one."""

    api: str
    route: PassthroughRoute
    dialects: Sequence[str]
    """The dialects of the route; the first is the default."""
    models: Mapping[str, AgentBinding]
    """Models with targets of their own, by name."""
    bindings: tuple[AgentBinding, ...]
    """Upstreams in order; at most one of them accepts every model."""

    def binding(self, model: object) -> AgentBinding:
        """Return the model of this name, else the first upstream that lists it, else the one for every model.

        Raises:
            Problem: there is none.
        """
        if model is not None and not isinstance(model, str):
            raise problem("invalid_request", "`model` must be a string.", param="model")
        if model is not None and model in self.models:
            return self.models[model]
        chosen = next((one for one in self.bindings if model in (one.provider.models or ())), None)
        chosen = chosen or next((one for one in self.bindings if one.provider.models is None), None)
        if chosen is None and model is not None:
            raise unknown_model(model)
        return chosen or next(iter((*self.bindings, *self.models.values())))


@dataclass(frozen=True, slots=True)
class WorkflowBinding:
    """A workflow, its agents and the policy of its streams."""

    name: str
    settings: WorkflowSettings
    definition: Workflow
    agents: Mapping[str, AgentBinding]
    first: AgentBinding
    """The first agent; its API is that of the stream until a step says otherwise."""
    redactor: Redactor


def unknown_model(model: str) -> Problem:
    """Return the problem of a model that is not offered."""
    name = model[:NAME_MAX_CHARS]
    return problem("model_not_found", f"The model `{name}` does not exist, or is not offered here.", param="model")


def chosen_dialect(requested: str | None, dialects: Sequence[str]) -> str:
    """Return the requested dialect, or the first without a request; raise `Problem` if it is not allowed."""
    if requested is not None and requested not in dialects:
        raise problem("unknown_dialect", f"`dialect` must be one of: {', '.join(sorted(dialects))}.")
    return requested or dialects[0]


class Catalog:
    """All bindings of one server."""

    def __init__(
        self, settings: Settings, make_upstream: MakeUpstream = provider_upstream, circuits: Circuits | None = None
    ) -> None:
        self._circuits = circuits or Circuits(settings.circuit_breaker)
        self.keys: set[tuple[str, str]] = set()
        """Upstream and model of each target; the model is empty for those that are not in the configuration."""
        self._upstreams = {
            name: _upstream(name, one, settings, make_upstream) for name, one in settings.all_upstreams.items()
        }
        self._recorder = Recorder(secrets_of(settings))
        self._secrets = secret_values(settings)
        self.agents = {name: self._agent(name, agent) for name, agent in settings.all_agents.items()}
        self.workflows = {name: self._workflow(name, workflow) for name, workflow in settings.workflows.items()}
        self.passthrough = {
            route: binding
            for route, api in PASSTHROUGH_APIS.items()
            if (binding := self._passthrough(route, api, settings)) is not None
        }
        """The passthrough routes that are on, by the field names of `Passthrough`."""

    def agent(self, name: str | None, is_allowed: Callable[[str], bool] = lambda _: True) -> AgentBinding:
        """Return the agent of this name, or without a name the default or only one; raise `Problem` if not found.

        Other agents than the allowed ones do not exist for the caller.
        """
        chosen = DEFAULT if name is None else name
        if chosen in self.agents and is_allowed(chosen):
            return self.agents[chosen]
        agents = [agent for one, agent in self.agents.items() if is_allowed(one)] if name is None else []
        if not agents:
            raise problem("unknown_agent")
        if len(agents) == 1:
            return agents[0]
        detail = f"`agent` is missing: this server has several agents, and none is named `{DEFAULT}`."
        raise problem("invalid_request", detail)

    def agents_with(self, dialect: str) -> dict[str, AgentBinding]:
        """Return the agents that have a dialect, by name, each with this one only: the path of a route implies it."""
        return {
            name: replace(agent, settings=unwrapped(agent.settings, dialects=(dialect,)))
            for name, agent in self.agents.items()
            if dialect in agent.settings.dialects
        }

    def upstream(self, name: str) -> UpstreamBinding:
        """Return a configured upstream; raise `UsageError` if there is none of this name."""
        return self._upstreams[known_name("upstream", name, self._upstreams)]

    def redactor(self, policy: Policy) -> Redactor:
        """Return the redactor of a policy, which also withholds the secrets of the configuration (CONTRACT D41)."""
        return Redactor(policy, self._secrets)

    def compile(self) -> None:
        """Compile the rules of all policies: on first use, it would hold the event loop."""
        bindings = list(self.agents.values())
        for route in self.passthrough.values():
            bindings += (*route.bindings, *route.models.values())
        for redactor in (*(one.redactor for one in bindings), *(one.redactor for one in self.workflows.values())):
            redactor.compile()

    async def aclose(self) -> None:
        """Close the connections of the upstreams, and write pending recordings."""
        for binding in self._upstreams.values():
            await binding.upstream.aclose()
        await self._recorder.aclose()

    def _target(self, provider: UpstreamBinding, model: str | None, weight: int | None = None) -> Target:
        self.keys.add((provider.name, model or ""))
        circuits = self._circuits
        circuit, budget = circuits.circuit(provider.name, model or ""), circuits.budget(provider.name)
        return Target(provider, model, circuit, budget, weight or 1, circuits.counts)

    def _agent(self, name: str, agent: AgentSettings) -> AgentBinding:
        providers = {one.upstream: self._upstreams[one.upstream] for one in agent.all_targets}
        for key, one in providers.items():  # recordings have several APIs: that of an agent is its name
            if one.upstream.is_recording and name in one.upstream.providers:
                providers[key] = _of_api(one, name)
        providers = self._recorded(name, agent.record, agent.policy, providers)
        targets = [self._target(providers[one.upstream], one.model, one.weight) for one in agent.all_targets]
        return AgentBinding(name, TargetList(targets, agent.balance), unwrapped(agent), self.redactor(agent.policy))

    def _recorded(
        self, name: str, record: RecordSettings | None, policy: Policy, providers: Mapping[str, UpstreamBinding]
    ) -> dict[str, UpstreamBinding]:
        """Return upstreams that record their streams, if the settings say so."""
        if record is None:
            return dict(providers)
        copies = self._recorder.copies(name, record, policy)
        return {
            key: replace(one, upstream=copies.upstream(one.upstream, one.profile)) for key, one in providers.items()
        }

    def _workflow(self, name: str, workflow: WorkflowSettings) -> WorkflowBinding:
        definition = workflow.definition
        agents = {agent: self.agents[agent] for agent in definition.agents}
        first = next(iter(agents.values()))
        redactor = first.redactor if workflow.policy is None else self.redactor(workflow.policy)
        return WorkflowBinding(name, workflow, definition, agents, first, redactor)

    def _passthrough(self, route: str, api: str, settings: Settings) -> PassthroughBinding | None:
        """Return a passthrough route with its models, and its upstreams that have the API; None if it is off."""
        table, row = settings.passthrough or Passthrough(), PROVIDERS[api].passthrough
        if row is None:
            return None
        allowed = table.dialects or settings.all_dialects
        dialects = tuple(sorted(allowed, key=lambda name: name != row.dialect))  # that of the API (CONTRACT D38)
        redactor = self.redactor(passthrough_policy(table.policy))
        named = [self._upstreams[name] for name in settings.passthrough_upstreams(route)]
        # the one upstream without a table has the API of each route that its provider has
        upstreams = [
            _of_api(one, api) if not settings.upstreams and api in one.upstream.providers else one for one in named
        ]
        models = settings.models.items()
        own = {name: one for name, one in models if self._upstreams[one.targets[0].upstream].api == api}
        targets = {one.upstream: self._upstreams[one.upstream] for model in own.values() for one in model.targets}
        recorded = self._recorded(route, table.record, table.policy, targets | {one.name: one for one in upstreams})
        keeping = {name: getattr(table, name) for name in KeepingSettings.model_fields}
        agent = unwrapped(
            AgentSettings(upstream=DEFAULT, model=settings.model, dialects=dialects, record=table.record, **keeping)
        )
        bindings = tuple(
            AgentBinding(
                None,
                TargetList([self._target(one, None)]),
                agent,
                redactor,
                None if settings.upstreams else settings.model,
            )
            for one in (recorded[one.name] for one in upstreams)
            if can_serve(one.api, api)
        )
        served: dict[str, AgentBinding] = {}
        for name, model in own.items():
            found = [self._target(recorded[one.upstream], one.model, one.weight) for one in model.targets]
            served[name] = AgentBinding(None, TargetList(found, model.balance), agent, redactor)
        return PassthroughBinding(api, row, dialects, served, bindings) if bindings or served else None


def _upstream(name: str, one: UpstreamSettings, settings: Settings, make_upstream: MakeUpstream) -> UpstreamBinding:
    timeouts, url = settings.timeouts_of(one), urlsplit(one.base_url)
    address = url.hostname or "", url.port or _PORTS[url.scheme]
    upstream, retries = make_upstream(one, timeouts), unwrapped(settings.retries)
    return UpstreamBinding(name, one.api, upstream, unwrapped(timeouts), retries, one.profile, address, one.models)


def _of_api(one: UpstreamBinding, api: str) -> UpstreamBinding:
    """Return the shorthand upstream with one of the APIs below its address."""
    return replace(one, api=api, profile=one.profile if one.api == api else {})


def passthrough_policy(policy: Policy) -> Policy:
    """Return the policy of the passthrough routes: their callers are developers, and their clients run the calls.

    Provider messages are shown (CONTRACT D41), and arguments are cut later: half a call would not be of use.
    """
    changes: dict[str, object] = {}
    if policy.error_messages == "auto":
        changes["error_messages"] = "provider"
    limits = {name: chars for name, chars in _PASSTHROUGH_LIMITS.items() if name not in policy.limits.model_fields_set}
    return policy.model_copy(update={**changes, "limits": policy.limits.model_copy(update=limits)})
