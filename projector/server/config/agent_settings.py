"""Tables for what a request can call: agents, passthrough routes and workflows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue, StringConstraints, create_model, field_validator, model_validator

from projector._errors import UsageError, known_name
from projector.contracts.limits import NAME_MAX_CHARS
from projector.providers import PROVIDERS
from projector.redaction.policy import Policy
from projector.server.config.caller_settings import RateLimits
from projector.server.config.config_base import DEFAULT_DIALECT, NAME_OR_LIST, Dialects, Model, Name, Table
from projector.server.config.upstream_settings import Balance, Targets, TargetSettings, check_targets
from projector.workflows.definition import StepSource, Workflow, workflow_of

ToolName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX_CHARS)]
AllowedParam: TypeAlias = Literal[
    "temperature", "top_p", "max_output_tokens", "reasoning_effort", "verbosity", "previous_response_id", "metadata",
    "images", "files", "history",
]  # fmt: skip

_RESERVED_PARAMETERS: Final = frozenset(
    {
        "model", "input", "messages", "instructions", "tools", "stream", "stream_options", "previous_response_id",
        "conversation", "metadata", "background", "n",
    }
)  # fmt: skip
"""Fields of a provider request that other settings set, or that would make the response other than one stream."""


class KeepingSettings(Table):
    """What is kept of streams."""

    store: Literal["default", "none"] = "default"
    """`default`: streams are [stored](operations.md#stored-streams); `none`: they are not."""
    on_disconnect: Literal["cancel", "continue"] = "cancel"
    """`cancel` ends the stream when its client disconnects; with `continue` it goes on, if it is stored."""


class RecordSettings(Table):
    """Recording of the provider streams of an agent or route, redacted, as cases for `projector replay`."""

    folder: Path
    """Folder for [recordings](recording.md#an-agent-in-production), relative to the working directory."""
    max_streams: int = Field(default=100, gt=0)
    """Streams of this agent or route in the folder, counted at the start."""
    max_stream_bytes: int = Field(default=4 * 1024 * 1024, gt=0)  # long responses with images take half of this
    """Larger streams are not recorded."""


class AgentSettings(KeepingSettings):
    """An agent, which a request selects by name; its settings are never sent to clients."""

    upstream: Name | None = None
    """Name of the upstream."""
    model: Model | None = None
    """Model that requests are sent to."""
    targets: Targets = ()
    """[Several models](operations.md#several-targets) of upstreams instead of one: `upstream`, `model`, `weight`."""
    balance: Balance = "order"
    """`order`: the first target that works; `weight`: all targets, by their weights."""
    instructions: str | None = None
    """System prompt."""
    instructions_file: Path | None = None
    """File with the system prompt."""
    tools: tuple[dict[str, JsonValue], ...] = ()
    """Tool definitions in the format of the upstream API."""
    parameters: dict[str, JsonValue] = {}
    """Additional request fields in the format of the upstream API."""
    policy: Policy = Policy()
    """Redaction policy: `default`, `strict`, or a [table](withheld.md#the-whole-policy)."""
    dialects: Dialects = (DEFAULT_DIALECT,)
    """Dialects that a request may select with `?dialect=`; the first is the default."""
    allowed_params: frozenset[AllowedParam] = frozenset({"previous_response_id", "metadata", "images", "history"})
    """[Parameters](operations.md#configuration) that a request may set."""
    rate_limits: RateLimits = RateLimits()
    """Limits of each caller's use of this agent, in addition to those in `callers`."""
    record: RecordSettings | None = None
    """Without this table nothing is recorded."""
    client_tools: tuple[ToolName, ...] = ()
    """Tools that a client may provide and run; `off` for none."""
    trust_client_approvals: bool = False
    """Accept approvals that this server did not request: [why not](decisions/0008-client-history-is-untrusted.md)."""

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in sorted(_RESERVED_PARAMETERS & parameters.keys()):
            raise ValueError(f"`{name}` cannot be set here; the server sets it")
        return parameters

    @field_validator("client_tools", mode="before")
    @classmethod
    def _parse_off(cls, names: object) -> object:
        return () if names == "off" else names

    @property
    def all_targets(self) -> tuple[TargetSettings, ...]:
        """The targets, also if there is only one."""
        if self.targets:
            return self.targets
        return (TargetSettings.model_validate({"upstream": self.upstream, "model": self.model}),)

    @model_validator(mode="after")
    def _check_targets(self) -> AgentSettings:
        given = [name for name in ("upstream", "model") if getattr(self, name) is not None]
        if self.targets and given:
            raise ValueError(f"`{given[0]}` cannot be combined with `targets`")
        if not self.targets and (self.upstream is None or self.model is None):
            raise ValueError("expected `upstream` and `model`, or `targets`")
        check_targets(self.targets, self.balance)
        return self

    @model_validator(mode="after")
    def _check_client_tools(self) -> AgentSettings:
        for tool in self.tools:
            function = tool.get("function")
            name = function.get("name") if isinstance(function, dict) else tool.get("name")
            if name in self.client_tools:
                raise ValueError(f"`client_tools`: `{name}` is also in `tools`")
        return self


PASSTHROUGH_APIS: Final[Mapping[str, str]] = {
    route.setting: name for name, provider in PROVIDERS.items() if (route := provider.passthrough) is not None
}
"""Field of `Passthrough` -> the API that its upstream must have."""


def can_serve(upstream_api: str, api: str) -> bool:
    """Return whether an upstream can serve the route of an API: it has this API, or requests can be translated."""
    if upstream_api == api:
        return True
    route = PROVIDERS[api].passthrough
    return route is not None and route.request_reader is not None


UpstreamNames: TypeAlias = Annotated[tuple[Name, ...], NAME_OR_LIST, Field(min_length=1)]
"""One name, or a list of names."""


class _Passthrough(KeepingSettings):
    """Routes of the providers' own APIs, which forward the request body; a route without an upstream is off."""

    dialects: Dialects | None = None
    """Dialects that a request may select with `?dialect=`; all by default."""
    policy: Policy = Policy()
    """Redaction policy: `default`, `strict`, or a [table](withheld.md#the-whole-policy)."""
    record: RecordSettings | None = None
    """Without this table nothing is recorded."""

    def upstream_names(self, route: str) -> tuple[str, ...]:
        """Return the upstreams of a route, by a name of `PASSTHROUGH_APIS`."""
        names: tuple[str, ...] | None = getattr(self, route)
        return names or ()


_OF_A_ROUTE: Final = "Upstream of the route, or a list; without a file, on a loopback address, that of `base_url`."
if TYPE_CHECKING:
    Passthrough = _Passthrough
else:  # `responses`, `chat_completions`: a field for each provider with such a route
    Passthrough = create_model(
        "Passthrough",
        __base__=_Passthrough,
        **dict.fromkeys(PASSTHROUGH_APIS, (UpstreamNames | None, Field(None, description=_OF_A_ROUTE))),
    )


class StepSettings(Table):
    """A step of a workflow: one request to one agent."""

    name: Name
    agent: Name
    input: str = Field(default="{{request.message}}", min_length=1, max_length=100_000)
    """Template of the message to the agent; see `projector.workflows.template`."""
    on_failure: Literal["fail", "continue"] = "fail"
    """Whether a failure of the step fails the run."""

    @property
    def source(self) -> StepSource:
        """The step as part of a definition."""
        return StepSource(self.name, self.agent, self.input, is_optional=self.on_failure == "continue")


class StageSettings(Table):
    """Steps that run in parallel."""

    name: Name
    steps: tuple[StepSettings, ...] = Field(min_length=1, max_length=32)


class WorkflowSettings(KeepingSettings):
    """A workflow: stages that run one after another."""

    stages: tuple[StageSettings, ...] = Field(min_length=1, max_length=64)
    """[Stages](workflows.md) in order, each with a `name` and `steps`: `name`, `agent`, `input`, `on_failure`."""
    dialects: Dialects = (DEFAULT_DIALECT,)
    """Dialects that a request may select with `?dialect=`; the first is the default."""
    policy: Policy | None = None
    """Policy of the whole stream; by default that of the agents, if they have the same."""
    max_parallel: int = Field(default=8, gt=0)
    """Concurrent upstream requests of one run."""
    max_input_chars: int = Field(default=200_000, gt=0)  # about a context window
    """Size of the input of one step; longer values are truncated."""
    total_s: float = Field(default=1800, gt=0)
    """Seconds for a run."""

    @property
    def definition(self) -> Workflow:
        """The workflow with its templates parsed."""
        return workflow_of([(stage.name, [step.source for step in stage.steps]) for stage in self.stages])

    @model_validator(mode="after")
    def _check_definition(self) -> WorkflowSettings:
        _ = self.definition
        return self

    def check(self, name: str, agents: Mapping[str, AgentSettings]) -> None:
        """Raise `UsageError` for an unknown agent, or a missing `policy`."""
        used = [agents[known_name(f"agent of workflow `{name}`:", agent, agents)] for agent in self.definition.agents]
        if self.policy is None and any(agent.policy != used[0].policy for agent in used):
            raise UsageError(f"workflow `{name}`: expected a `policy`, because its agents have different ones")
