"""The agents, workflows and passthrough routes of a server, bound to their upstreams once, at startup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from projector import Pipeline, StreamContext, build_pipeline
from projector._errors import known_name
from projector._registry import resolve
from projector.contracts.limits import NAME_MAX_CHARS
from projector.core.pipeline import OutputFormat
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DialectOptions
from projector.providers import PROVIDERS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.config.agent_settings import PASSTHROUGH_APIS, AgentSettings, Passthrough, WorkflowSettings
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.config.secret_values import secret_values
from projector.server.config.settings import DEFAULT, Retries, Settings, Timeouts, UpstreamSettings
from projector.server.http.problems import Problem, problem
from projector.server.streaming.memory import Account
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, Upstream
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.recorder import Recorder, secrets_of
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

    def reader(self, body: Mapping[str, object], stats: StreamStats, account: Account) -> UpstreamReader:
        """Return the reader of one response."""
        if stats.meter is not None:
            stats.meter.on_request(body)
        request = ProviderRequest(self.api, body, stats.trace.headers, stats.stream_id)
        return UpstreamReader(
            self.upstream, request, stats, account, timeouts=self.timeouts, retries=self.retries, name=self.name
        )

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
        """Return the pipeline of one response, or of a run; each step of a run gets a branch of it."""
        return build_pipeline(
            provider=self.api,
            profile=self.profile,
            dialect=stats.dialect,
            redactor=redactor,
            context=context,
            run=is_run,
            takes_host_events=self.upstream.is_recording and not is_run,
            on_frame=stats.on_frame,
            options=options,
            output_format=output_format,
        )


@dataclass(frozen=True, slots=True)
class AgentBinding:
    """An agent, or an upstream that receives the caller's own body."""

    name: str | None
    """Name of the agent; None for a passthrough route."""
    provider: UpstreamBinding
    settings: AgentSettings
    redactor: Redactor
    default_model: str | None = None
    """Model of passthrough requests that name none."""

    @property
    def _models(self) -> set[str]:
        """The names of models in the configuration. Any other one in a passthrough request is the caller's word."""
        aliases = self.provider.models or {}
        return {self.settings.model, *aliases, *aliases.values()}

    def stats(
        self,
        dialect: str,
        caller: str,
        body: Mapping[str, object],
        conversation_id: str | None,
        metadata: Mapping[str, str] | None = None,
    ) -> StreamStats:
        """Return the facts of a new stream; `body` is the request to the provider."""
        provider, model = self.provider, body.get("model")
        return StreamStats(
            dialect=dialect,
            caller=caller,
            agent=self.name,
            upstream=provider.name,
            api=provider.api,
            server_address=provider.address[0],
            server_port=provider.address[1],
            model=model if isinstance(model, str) and model in self._models else "",
            conversation_id=conversation_id,
            metadata=metadata or {},
        )


@dataclass(frozen=True, slots=True)
class PassthroughBinding:
    """The upstreams of a passthrough route; the model of a request selects one."""

    bindings: tuple[AgentBinding, ...]
    """In order; at most one of them accepts every model."""

    @property
    def api(self) -> str:
        """The API of the route."""
        return self.bindings[0].provider.api

    @property
    def dialects(self) -> Sequence[str]:
        """The dialects of the route; the first is the default."""
        return self.bindings[0].settings.dialects

    def binding(self, model: object) -> AgentBinding:
        """Return the first binding that lists a model, else the one for every model; raise `Problem` without one."""
        if model is not None and not isinstance(model, str):
            raise problem("invalid_request", "`model` must be a string.", param="model")
        chosen = next((one for one in self.bindings if model in (one.provider.models or ())), None)
        chosen = chosen or next((one for one in self.bindings if one.provider.models is None), None)
        if chosen is None and model is not None:
            raise unknown_model(model)
        return chosen or self.bindings[0]


@dataclass(frozen=True, slots=True)
class WorkflowBinding:
    """A workflow, its agents and the policy of its streams."""

    name: str
    settings: WorkflowSettings
    definition: Workflow
    agents: Mapping[str, AgentBinding]
    provider: UpstreamBinding
    """Upstream of the first agent."""
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

    def __init__(self, settings: Settings, make_upstream: MakeUpstream = provider_upstream) -> None:
        upstreams = settings.upstreams or {
            DEFAULT: UpstreamSettings(base_url=settings.base_url, api_key=settings.api_key)
        }
        shorthand = AgentSettings(upstream=DEFAULT, model=settings.model, dialects=_all_dialects())
        agents = settings.agents or ({} if settings.upstreams else {DEFAULT: shorthand})
        self._upstreams = {name: _upstream(name, one, settings, make_upstream) for name, one in upstreams.items()}
        self._recorder = Recorder(secrets_of(settings))
        self._secrets = secret_values(settings)
        self.agents = {name: self._agent(name, agent) for name, agent in agents.items()}
        self.workflows = {name: self._workflow(name, workflow) for name, workflow in settings.workflows.items()}
        self.passthrough = {
            route: PassthroughBinding(bindings)
            for route, api in PASSTHROUGH_APIS.items()
            if (bindings := self._passthrough(route, api, settings))
        }
        """The passthrough routes that are on, by the field names of `Passthrough`."""

    def agent(self, name: str | None, is_allowed: Callable[[str], bool] = lambda _: True) -> AgentBinding:
        """Return the agent of this name, or without a name the default or only one; raise `Problem` if not found.

        Other agents than the allowed ones do not exist for the caller.
        """
        agents = {name: agent for name, agent in self.agents.items() if is_allowed(name)}
        if name is not None or not agents:
            if name not in agents:
                raise problem("unknown_agent")
            return agents[name]
        if DEFAULT in agents or len(agents) == 1:
            return agents.get(DEFAULT) or next(iter(agents.values()))
        raise problem("invalid_request", "`agent` is missing.")

    def agents_with(self, dialect: str) -> dict[str, AgentBinding]:
        """Return the agents that have a dialect, by name, each with this one only: the path of a route implies it."""
        return {
            name: replace(agent, settings=agent.settings.model_copy(update={"dialects": (dialect,)}))
            for name, agent in self.agents.items()
            if dialect in agent.settings.dialects
        }

    def upstream(self, name: str) -> UpstreamBinding:
        """Return a configured upstream; raise `UsageError` if there is none of this name."""
        return self._upstreams[known_name("upstream", name, self._upstreams)]

    def redactor(self, policy: Policy) -> Redactor:
        """Return the redactor of a policy, which also withholds the secrets of the configuration (CONTRACT D41)."""
        return Redactor(policy, self._secrets)

    async def aclose(self) -> None:
        """Close the connections of the upstreams, and write pending recordings."""
        for binding in self._upstreams.values():
            await binding.upstream.aclose()
        await self._recorder.aclose()

    def _agent(self, name: str, agent: AgentSettings) -> AgentBinding:
        provider = self._upstreams[agent.upstream]
        if agent.record is not None:
            recorded = self._recorder.upstream(name, agent.record, agent.policy, provider.upstream, provider.profile)
            provider = replace(provider, upstream=recorded)
        return AgentBinding(name, provider, agent, self.redactor(agent.policy))

    def _workflow(self, name: str, workflow: WorkflowSettings) -> WorkflowBinding:
        definition = workflow.definition
        agents = {agent: self.agents[agent] for agent in definition.agents}
        first = next(iter(agents.values()))
        redactor = first.redactor if workflow.policy is None else self.redactor(workflow.policy)
        return WorkflowBinding(name, workflow, definition, agents, first.provider, redactor)

    def _passthrough(self, route: str, api: str, settings: Settings) -> tuple[AgentBinding, ...]:
        """Return the bindings of a passthrough route, one for each of its upstreams that has the API."""
        table, row = settings.passthrough or Passthrough(), PROVIDERS[api].passthrough
        dialects = _passthrough_dialects(table.dialects or _all_dialects(), row.dialect if row else "")
        default_model = None if settings.upstreams else settings.model
        redactor = self.redactor(passthrough_policy(table.policy))
        upstreams = [self._upstreams[name] for name in settings.passthrough_upstreams(route)]
        return tuple(
            AgentBinding(
                None,
                replace(one, api=api, profile=one.profile if one.api == api else {}),
                AgentSettings(upstream=one.name, model=settings.model, dialects=dialects),
                redactor,
                default_model,
            )
            for one in upstreams
            if api in one.upstream.providers
        )


def _upstream(name: str, one: UpstreamSettings, settings: Settings, make_upstream: MakeUpstream) -> UpstreamBinding:
    timeouts, url = settings.timeouts_of(one), urlsplit(one.base_url)
    address = url.hostname or "", url.port or _PORTS[url.scheme]
    return UpstreamBinding(
        name, one.api, make_upstream(one, timeouts), timeouts, settings.retries, one.profile, address, one.models
    )


def _passthrough_dialects(dialects: Sequence[str], own: str) -> tuple[str, ...]:
    """Return the dialects of a passthrough route: that of its API first, if it is allowed (CONTRACT D38)."""
    return tuple(sorted(dialects, key=lambda name: name != own))


def passthrough_policy(policy: Policy) -> Policy:
    """Return the policy of the passthrough routes: their callers are developers, and their clients run the calls.

    Provider messages are shown (CONTRACT D41), and arguments are cut later: half a call would not be of use.
    """
    changes: dict[str, object] = {}
    if policy.error_messages == "auto":
        changes["error_messages"] = "provider"
    limits = {name: chars for name, chars in _PASSTHROUGH_LIMITS.items() if name not in policy.limits.model_fields_set}
    return policy.model_copy(update={**changes, "limits": policy.limits.model_copy(update=limits)})


def _all_dialects() -> tuple[str, ...]:
    """Return the names of all dialects, the default one first."""
    return (DEFAULT_DIALECT, *(name for name in DIALECTS if name != DEFAULT_DIALECT))
