"""Settings of the shell: their names, defaults and bounds. How they are read is in `projector.server.config.loading`.

A setting is a field of `Settings` or of one of its tables. Every field is listed in `docs/operations.md`. A field
`X_file` names a file that holds `X`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    SecretStr,
    SerializeAsAny,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from projector._errors import known_name
from projector.contracts.limits import NAME_MAX_CHARS
from projector.providers import profile_of
from projector.redaction.policy import Policy
from projector.server.config.auth import Auth
from projector.server.config.config_base import (
    DEFAULT_DIALECT,
    BaseUrl,
    Dialects,
    Name,
    Table,
    names_a_host,
    written_as,
)
from projector.server.config.workflows import WorkflowSettings
from projector.server.extensions import EXTENSIONS, ExtensionSettings

DEFAULT: Final = "default"
"""The agent that answers where a request names none, and the name of what the shorthand configures."""

ToolName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX_CHARS)]
Origin: TypeAlias = Annotated[
    str, written_as(r"https?://[^/@\s?#*]+", "an origin, such as https://app.example: scheme and host, perhaps a port")
]
Api: TypeAlias = Literal["openai_responses", "openai_chat"]
AllowedParam: TypeAlias = Literal[
    "temperature",
    "top_p",
    "max_output_tokens",
    "reasoning_effort",
    "verbosity",
    "previous_response_id",
    "metadata",
    "images",
]

_OWN_FIELDS: Final = frozenset(
    {
        "model", "input", "messages", "instructions", "tools", "stream", "stream_options", "previous_response_id",
        "conversation", "metadata", "background", "n",
    }
)  # fmt: skip
"""What a request to a provider says by other means, or what would make its answer something else than one stream."""

_DAY_S: Final = 86_400
"""Of every time-out the longest: what is longer is a mistake, and the system's own timers do not take it."""
_KEY: Final = re.compile(r"[!-~]+")
_PROXY: Final = re.compile(r"https?://[^\s/?#]+/?")

SHORTHAND: Final = frozenset({"api_key", "api_key_file", "base_url", "model"})

PASSTHROUGH_APIS: Final[Mapping[str, Api]] = {"responses": "openai_responses", "chat_completions": "openai_chat"}
"""Fields of `Passthrough`, and what their upstreams must speak."""


def _fits_a_header(key: SecretStr) -> SecretStr:
    if not _KEY.fullmatch(key.get_secret_value()):
        raise ValueError("expected printable ASCII without blanks: the provider is shown it in a header")
    return key


ApiKey: TypeAlias = Annotated[SecretStr, AfterValidator(_fits_a_header)]


class UpstreamTimeouts(Table):
    """How long a provider may take, in seconds; each limit ends the stream with a code of its own."""

    connect_s: float = Field(5, gt=0, le=_DAY_S)
    """TCP and TLS; a healthy upstream needs well under one."""
    first_byte_s: float = Field(120, gt=0, le=_DAY_S)
    """From the request to the first byte of the answer; a model may think before it speaks."""
    idle_s: float = Field(120, gt=0, le=_DAY_S)
    """Between two reads; reasoning models fall silent for a minute."""
    total_s: float = Field(1800, gt=0, le=_DAY_S)
    """The whole answer; longer than any seen, short enough to free what hangs."""


class Timeouts(UpstreamTimeouts):
    """How long others may take, in seconds. An upstream's own table wins."""

    body_s: float = Field(30, gt=0, le=_DAY_S)
    """The client: for the head of a request, and from there to the end of its body."""
    client_stall_timeout_s: float = Field(60, gt=0, le=_DAY_S)
    """How long a client may take nothing of what waits for it before it counts as gone."""


class Retries(Table):
    """When a request to the upstream is made again; only before the first byte of its answer."""

    max: int = Field(2, ge=0)
    """After the first attempt; what the OpenAI clients do."""
    initial_backoff_s: float = Field(0.5, gt=0)
    max_wait_s: float = Field(5, gt=0)
    """A person waits: an upstream that wants a longer pause is reported instead."""


class Limits(Table):
    """How much requests may cost: one, those of one caller, all together."""

    max_body_bytes: int = Field(8 * 1024 * 1024, gt=0)
    """One request; a photo in base64 fits."""
    max_memory_bytes: int = Field(512 * 1024 * 1024, gt=0)
    """Bodies, unfinished events and waiting output of all streams; see `projector.server.streaming.memory`."""
    max_streams: int = Field(1000, gt=0)
    """At once; each needs two file descriptors and some 100 KB."""
    max_streams_per_caller: int | None = Field(None, gt=0)
    """At once of one caller; None where everybody is one, as behind a reverse proxy."""


class UpstreamSettings(Table):
    """One provider: where it is and how it is spoken to."""

    api: Api = "openai_responses"
    base_url: BaseUrl = "https://api.openai.com/v1"
    api_key: ApiKey | None = None
    """None for an upstream that needs none."""
    api_key_file: Path | None = None
    proxy: SecretStr | None = None
    """What it is reached through: `http://user:password@host:port`. The variables that other programs take a proxy from
    are not looked at, unless this is a reference to one."""
    timeouts: UpstreamTimeouts = UpstreamTimeouts()
    """Where it says nothing, the table of all upstreams counts."""
    profile: dict[str, JsonValue] = {}
    """How it differs from others of its kind, by the names of `projector.providers`."""

    @field_validator("proxy")
    @classmethod
    def _is_a_proxy(cls, proxy: SecretStr | None) -> SecretStr | None:
        url = proxy.get_secret_value() if proxy is not None else None
        if url is not None and not (_PROXY.fullmatch(url) and names_a_host(url)):
            raise ValueError("expected http://host:port, perhaps with user:password@ before the host")
        return proxy

    @model_validator(mode="after")
    def _has_a_profile(self) -> UpstreamSettings:
        profile_of(self.api, self.profile)
        return self


class RecordSettings(Table):
    """Where an agent's provider streams are kept, redacted, as cases that `projector replay` plays."""

    folder: Path
    """Seen from where the server was started."""
    max_streams: int = Field(100, gt=0)
    """Of this agent in the folder; then no more are kept, until some are taken away and the server starts again."""
    max_stream_bytes: int = Field(4 * 1024 * 1024, gt=0)
    """A larger stream is not kept; those of long answers with images are half as large."""


class AgentSettings(Table):
    """What a browser may choose by name: everything here stays on the server."""

    upstream: Name
    model: str = Field(min_length=1)
    instructions: str | None = None
    instructions_file: Path | None = None
    tools: tuple[dict[str, JsonValue], ...] = ()
    """In the words of the upstream's API."""
    parameters: dict[str, JsonValue] = {}
    """Further members of the request, in the words of the upstream's API."""
    policy: Policy = Policy()
    dialects: Dialects = (DEFAULT_DIALECT,)
    """What a request may choose by `?dialect=`; the first where it chooses none."""
    allowed_params: frozenset[AllowedParam] = frozenset({"previous_response_id", "metadata", "images"})
    """What of its own a request may say beside text."""
    record: RecordSettings | None = None
    """None: nothing is kept."""
    client_tools: tuple[ToolName, ...] = ()
    """Which tools an AG-UI client may bring along and run; `off` is none."""
    replays_approvals: bool = False
    """Whether an AG-UI client's word stands for what it approves; see docs/decisions/0008."""

    @field_validator("parameters")
    @classmethod
    def _are_no_other_settings(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in sorted(_OWN_FIELDS & parameters.keys()):
            raise ValueError(f"`{name}` is not a parameter: the server itself says it")
        return parameters

    @field_validator("client_tools", mode="before")
    @classmethod
    def _off_is_none(cls, names: object) -> object:
        return () if names == "off" else names

    @model_validator(mode="after")
    def _tools_of_clients_have_names_of_their_own(self) -> AgentSettings:
        for tool in self.tools:
            function = tool.get("function")
            name = function.get("name") if isinstance(function, dict) else tool.get("name")
            if name in self.client_tools:
                raise ValueError(f"client_tools: `{name}` is a tool of the agent")
        return self


class Passthrough(Table):
    """Which upstream answers the routes that pass a caller's whole body on; a route without one is off."""

    responses: Name | None = None
    """`/v1/responses`."""
    chat_completions: Name | None = None
    """`/v1/chat/completions`."""
    dialects: Dialects | None = None
    """None: all."""
    policy: Policy = Policy()
    """Of both routes."""


class Settings(Table):
    """Everything the shell can be told; the defaults serve one OpenAI upstream on loopback."""

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    """0 lets the system choose."""
    api_key: ApiKey | None = None
    """With `base_url` and `model` the shorthand for one upstream and one agent, where no upstream is named."""
    api_key_file: Path | None = None
    base_url: BaseUrl = "https://api.openai.com/v1"
    model: str = Field("gpt-5.4-mini", min_length=1)
    """What the agent of the shorthand asks, and drop-in requests that name no model."""
    heartbeat_s: float = Field(15, gt=0)
    """Silence before a comment is sent; nginx cuts after 60 s."""
    grace_s: float = Field(20, ge=0)
    """What running streams get after SIGTERM; with what follows it stays under the 30 s that orchestrators wait."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    auth: Auth = Auth()
    cors_origins: tuple[Origin, ...] = ()
    """Whose pages may read the answers; a page of our own origin needs none."""
    limits: Limits = Limits()
    upstreams: dict[Name, UpstreamSettings] = {}
    agents: dict[Name, AgentSettings] = {}
    passthrough: Passthrough | None = None
    """None: both routes for the shorthand on loopback, else none."""
    workflows: dict[Name, WorkflowSettings] = {}
    openwop: SerializeAsAny[ExtensionSettings] | None = None
    """None: the server is not an OpenWOP host."""

    def timeouts_of(self, upstream: UpstreamSettings) -> Timeouts:
        """Give the time-outs of an upstream: its own, else those of all."""
        return self.timeouts.model_copy(update=upstream.timeouts.model_dump(exclude_unset=True))

    @property
    def extensions(self) -> list[ExtensionSettings]:
        """The tables of the extensions that are configured."""
        return [table for name in EXTENSIONS if (table := getattr(self, name)) is not None]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @field_validator(*EXTENSIONS, mode="before")
    @classmethod
    def _validate_extension(cls, table: object, info: ValidationInfo) -> ExtensionSettings | None:
        return None if table is None else EXTENSIONS[info.field_name or ""].model_validate(table)

    @model_validator(mode="after")
    def _is_guarded(self) -> Settings:
        if not self.is_loopback and not self.auth.is_on:
            raise ValueError("host: expected a loopback address, or callers in `auth`")
        return self

    @model_validator(mode="after")
    def _names_exist(self) -> Settings:
        upstreams: Mapping[str, UpstreamSettings | None] = self.upstreams or {DEFAULT: None}
        for name, agent in self.agents.items():
            known_name(f"upstream of agent `{name}`", agent.upstream, upstreams)
        agents: Mapping[str, AgentSettings | None] = self.agents or ({} if self.upstreams else {DEFAULT: None})
        for name, workflow in self.workflows.items():
            workflow.check(name, agents)
        for extension in self.extensions:
            extension.check(agents, self.workflows)
        for name in sorted(SHORTHAND & self.model_fields_set if self.upstreams else ()):
            raise ValueError(f"`{name}` belongs to an upstream or an agent where upstreams are named")
        for route, api in PASSTHROUGH_APIS.items():
            named: str | None = getattr(self.passthrough, route, None)
            upstream = upstreams[known_name(f"upstream of passthrough.{route}", named, upstreams)] if named else None
            if upstream is not None and upstream.api != api:
                raise ValueError(f"passthrough.{route}: expected an upstream with api `{api}`")
        return self
