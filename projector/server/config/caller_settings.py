"""Tables for what callers may use, and how much."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints

from projector._errors import known_name
from projector.providers import PROVIDERS
from projector.server.config.config_base import Table, matching
from projector.server.extensions import EXTENSIONS

EVERY_CALLER: Final = "default"
"""Table of the callers without a table of their own."""
ALL: Final = "*"
"""In a list of names: everything."""

CHAT: Final = "chat"
WORKFLOWS: Final = "workflows"
AG_UI: Final = "ag_ui"
AI_SDK: Final = "ai_sdk"
"""Routes of the clients of a dialect have its name."""
PASSTHROUGH: Final = tuple(one.passthrough.setting for one in PROVIDERS.values() if one.passthrough is not None)
ROUTES: Final = (CHAT, WORKFLOWS, AG_UI, AI_SDK, *PASSTHROUGH, *EXTENSIONS)
"""Names of routes."""

_COUNT_MAX: Final = 10**12
"""More than any budget, and exact as a float."""

CallerName: TypeAlias = Annotated[
    str,
    matching(r"default|(key|token|group):.+", "`default`, `key:NAME`, `token:NAME` or `group:NAME`"),
]
Names: TypeAlias = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1)], ...],
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names),
]
"""Names that are checked by `check_callers`; a single one needs no list."""
_Count: TypeAlias = Annotated[int, Field(gt=0, le=_COUNT_MAX)]


class RateLimits(Table):
    """Limits of one caller; without a number there is no limit."""

    requests_per_minute: _Count | None = None
    """Requests per minute."""
    requests_per_day: _Count | None = None
    """Requests per day."""
    tokens_per_minute: _Count | None = None
    """Tokens per minute, input and output together."""
    tokens_per_day: _Count | None = None
    """Tokens per day."""


class CallerSettings(Table):
    """What a caller may use, and how much. What is not set is as in the table `default`."""

    agents: Names | None = None
    """Agents that the caller may use, also within workflows; `*` for all."""
    workflows: Names | None = None
    """Workflows that the caller may use, if it may use their agents; `*` for all."""
    models: Names | None = None
    """Models that the caller may use on the passthrough routes, by their names in requests; `*` for all."""
    routes: Names | None = None
    """Routes that the caller may use: `chat`, `workflows`, `ag_ui`, `ai_sdk`, `responses`, `chat_completions`,
    `openwop`; `*` for all."""
    rate_limits: RateLimits = RateLimits()

    def over(self, other: CallerSettings) -> CallerSettings:
        """Return these settings, with those of another table where nothing is set."""
        own = {name: value for name in _RIGHTS if (value := getattr(self, name)) is not None}
        limits = other.rate_limits.model_copy(update=self.rate_limits.model_dump(exclude_none=True))
        return other.model_copy(update={**own, "rate_limits": limits})


_RIGHTS: Final = ("agents", "workflows", "models", "routes")


def check_callers(
    callers: Mapping[str, CallerSettings], names: Iterable[str], known: Mapping[str, Collection[str] | None]
) -> None:
    """Raise `ValueError` for a caller, agent, workflow, route or model that is not configured.

    Args:
        callers: the tables.
        names: callers that may have a table; one that ends with `:` stands for all that begin so.
        known: field of a table -> what it may name; None if that is not known.
    """
    for caller, table in callers.items():
        if caller != EVERY_CALLER and f"{caller.partition(':')[0]}:" not in names:
            known_name("caller", caller, [EVERY_CALLER, *names])
        for field, choices in known.items():
            chosen = getattr(table, field)
            if choices is None or chosen is None:
                continue
            for name in sorted(set(chosen) - {ALL}):
                known_name(f"name in `{field}` of caller `{caller}`:", name, choices)


def check_workflows(callers: Mapping[str, CallerSettings], workflows: Mapping[str, Iterable[str]]) -> None:
    """Raise `ValueError` if a caller has a workflow without one of its agents; `workflows` are names and agents."""
    default = callers.get(EVERY_CALLER, CallerSettings())
    for caller, table in callers.items():
        agents = table.over(default).agents
        for workflow in workflows.keys() & set(table.workflows or ()):
            missing = set() if agents is None or ALL in agents else set(workflows[workflow]) - set(agents)
            if missing:
                raise ValueError(
                    f"caller `{caller}`: workflow `{workflow}` uses agents that are not in `agents`:"
                    f" `{'`, `'.join(sorted(missing))}`"
                )
