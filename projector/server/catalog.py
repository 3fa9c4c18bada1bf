"""What a server offers: its agents and drop-in routes by name, made from the settings once, ready to be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from projector import Pipeline, StreamContext, build_pipeline
from projector._errors import known_name
from projector.contracts.limits import NAME_MAX_CHARS
from projector.core.pipeline import OnFrame, OutputFormat
from projector.dialects import DIALECTS
from projector.dialects.options import DialectOptions
from projector.redaction.redactor import Redactor
from projector.server.config.agent_settings import AgentSettings, Passthrough
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.config.settings import (
    DEFAULT,
    PASSTHROUGH_APIS,
    Settings,
    Timeouts,
    UpstreamSettings,
)
from projector.server.http.problems import problem
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.openai_upstream import OpenAIUpstream
from projector.server.upstream.protocol import Upstream
from projector.server.upstream.recorder import Recorder, secrets_of

MakeUpstream: TypeAlias = Callable[[UpstreamSettings, Timeouts], Upstream]


_PORTS: Final = {"http": 80, "https": 443}

SHORTHAND_PASSTHROUGH: Final = Passthrough(responses=DEFAULT, chat_completions=DEFAULT)


@dataclass(frozen=True, slots=True)
class Provider:
    """An upstream as it is asked by one of its APIs."""

    name: str
    api: str
    upstream: Upstream
    timeouts: Timeouts
    profile: Mapping[str, object]
    address: tuple[str, int]
    """Host and port, for who reads traces."""


@dataclass(frozen=True, slots=True)
class AgentBinding:
    """What answers a request: an agent, or an upstream that is passed the caller's own body."""

    name: str | None
    """Of the agent."""
    provider: Provider
    settings: AgentSettings
    redactor: Redactor
    default_model: str | None = None
    """Of a body that is passed on, where it names none."""

    def dialect(self, asked: str | None) -> str:
        """Give the dialect of a stream.

        Raises:
            Problem: `asked` is none of those that are spoken here.
        """
        return chosen_dialect(asked, self.settings.dialects)

    def only(self, dialect: str) -> AgentBinding:
        """Give the same binding where the path has chosen the dialect."""
        return replace(self, settings=self.settings.model_copy(update={"dialects": (dialect,)}))

    def stats(
        self,
        dialect: str,
        caller: str,
        body: Mapping[str, object],
        conversation_id: str | None,
        metadata: Mapping[str, str] | None = None,
    ) -> StreamStats:
        """Return the facts of a new stream of this binding; `body` is the request to the provider."""
        provider, model = self.provider, body.get("model")
        return StreamStats(
            dialect=dialect,
            caller=caller,
            agent=self.name,
            upstream=provider.name,
            api=provider.api,
            server_address=provider.address[0],
            server_port=provider.address[1],
            model=model[:NAME_MAX_CHARS] if isinstance(model, str) else "",  # of a passthrough request: untrusted
            conversation_id=conversation_id,
            metadata=metadata or {},
        )

    def pipeline(
        self,
        dialect: str,
        context: StreamContext,
        on_frame: OnFrame,
        *,
        options: DialectOptions | None = None,
        output_format: OutputFormat = "sse",
    ) -> Pipeline:
        """Give the pipeline of one answer."""
        return build_pipeline(
            provider=self.provider.api,
            profile=self.provider.profile,
            dialect=dialect,
            redactor=self.redactor,
            context=context,
            takes_host_events=self.provider.upstream.is_recording,
            on_frame=on_frame,
            options=options,
            output_format=output_format,
        )


def chosen_dialect(asked: str | None, spoken: Sequence[str]) -> str:
    """Give the dialect that was asked for, the first that is spoken where none was.

    Raises:
        Problem: it is none of those that are spoken.
    """
    if asked is not None and asked not in spoken:
        raise problem("unknown_dialect", f"`dialect` must be one of: {', '.join(sorted(spoken))}.")
    return asked or spoken[0]


class Catalog:
    """All bindings of one server."""

    def __init__(self, settings: Settings, make_upstream: MakeUpstream = OpenAIUpstream) -> None:
        upstreams = settings.upstreams or {DEFAULT: _shorthand_upstream(settings)}
        agents = settings.agents or ({} if settings.upstreams else {DEFAULT: _shorthand_agent(settings)})
        passthrough = settings.passthrough or (
            SHORTHAND_PASSTHROUGH if settings.is_loopback and not settings.upstreams else Passthrough()
        )
        self._made = {name: _made(name, named, settings, make_upstream) for name, named in upstreams.items()}
        self._recorder = Recorder(secrets_of(settings))
        self._agents = {name: self._agent(name, agent) for name, agent in agents.items()}
        self.passthrough = {
            route: self._whole(self._made[name], api, passthrough, settings)
            for route, api in PASSTHROUGH_APIS.items()
            if (name := getattr(passthrough, route)) and api in self._made[name].upstream.providers
        }
        """What answers each drop-in route that is on, by the names of `Passthrough`."""

    def agent(self, name: str | None) -> AgentBinding:
        """Give the agent that a request names; one that names none gets the default, or the only one.

        Raises:
            Problem: there is none of this name, or none was named and there is no default.
        """
        if name is not None:
            if name not in self._agents:
                raise problem("unknown_agent")
            return self._agents[name]
        if DEFAULT in self._agents or len(self._agents) == 1:
            return self._agents.get(DEFAULT) or next(iter(self._agents.values()))
        raise problem("invalid_request", "`agent` is missing.")

    @property
    def has_agents(self) -> bool:
        """Whether there is any."""
        return bool(self._agents)

    @property
    def dialects(self) -> frozenset[str]:
        """What at least one agent speaks."""
        return frozenset(dialect for binding in self._agents.values() for dialect in binding.settings.dialects)

    def speaking(self, dialect: str) -> dict[str, AgentBinding]:
        """Give the agents that speak a dialect by their names, as if they spoke no other."""
        return {
            name: binding.only(dialect)
            for name, binding in self._agents.items()
            if dialect in binding.settings.dialects
        }

    async def aclose(self) -> None:
        """Close the connections that the upstreams kept."""
        for provider in self._made.values():
            await provider.upstream.aclose()
        await self._recorder.aclose()

    def provider(self, name: str) -> Provider:
        """Give the upstream of a name.

        Raises:
            UsageError: there is none.
        """
        return self._made[known_name("upstream", name, self._made)]

    def _agent(self, name: str, agent: AgentSettings) -> AgentBinding:
        provider = self._made[agent.upstream]
        if agent.record is not None:
            recorded = self._recorder.upstream(name, agent.record, agent.policy, provider.upstream, provider.profile)
            provider = replace(provider, upstream=recorded)
        return AgentBinding(name, provider, agent, Redactor(agent.policy))

    def _whole(self, made: Provider, api: str, passthrough: Passthrough, settings: Settings) -> AgentBinding:
        provider = replace(made, api=api, profile=made.profile if made.api == api else {})
        agent = AgentSettings(
            upstream=made.name, model=settings.model, dialects=passthrough.dialects or _all_dialects()
        )
        default_model = None if settings.upstreams else settings.model
        return AgentBinding(None, provider, agent, Redactor(passthrough.policy), default_model)


def _made(name: str, named: UpstreamSettings, settings: Settings, make_upstream: MakeUpstream) -> Provider:
    timeouts = settings.timeouts_of(named)
    return Provider(name, named.api, make_upstream(named, timeouts), timeouts, named.profile, _address(named.base_url))


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def _shorthand_upstream(settings: Settings) -> UpstreamSettings:
    return UpstreamSettings(base_url=settings.base_url, api_key=settings.api_key)


def _shorthand_agent(settings: Settings) -> AgentSettings:
    return AgentSettings(upstream=DEFAULT, model=settings.model, dialects=_all_dialects())


def _all_dialects() -> tuple[str, ...]:
    """Return the names of all dialects, the default one first."""
    return (DEFAULT_DIALECT, *(name for name in DIALECTS if name != DEFAULT_DIALECT))
