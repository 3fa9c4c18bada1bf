"""Targets: the models of upstreams that a request can be sent to, their order, and what follows when one fails.

A request may be sent again only while no byte of a response has been used. `REMEDIES` decides by the failure. A request
goes to each target once, without a pause, before it is repeated; repetitions wait, and are limited by the settings and
by the budget of the upstream.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

from projector.conversation.opaque import Place
from projector.core.faults import FAULTS
from projector.core.intake import MakeStage
from projector.providers import PROVIDERS, profile_of
from projector.server.config.upstream_settings import Balance, CircuitBreaker, Retries, Timeouts
from projector.server.telemetry.logs import log
from projector.server.telemetry.stream_stats import StreamStats, code_label, reason_label
from projector.server.upstream.circuit import Circuit, Circuits, Counts, Permit, RetryBudget, Signal, whole_seconds
from projector.server.upstream.protocol import Ask, ProviderRequest, Upstream, UpstreamError


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
    counts: Counts = field(default_factory=partial(defaultdict, int))
    """Of all targets of a server."""

    @cached_property
    def profile(self) -> Any:
        """How the server of the upstream differs from others with its API."""
        return profile_of(self.provider.api, self.provider.profile)

    @cached_property
    def make_stage(self) -> MakeStage:
        """Returns the stage that reads a response of the upstream."""
        return partial(PROVIDERS[self.provider.api].stage, self.profile)

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


CIRCUIT_OPEN: Final = "circuit_open"
"""Reason of a request that was not sent."""
RETRY_AFTER: Final = "retry_after"
"""Reason of a request that was not sent to a target, because its provider asked to wait."""
STATE_LOST: Final = "state_lost"
"""Reason of a request that the provider refused because it wants back what it sent with earlier calls."""
LOST: Final = (
    "What the provider wants back with earlier calls of this conversation is not known here: it has expired, is at "
    "another server without a shared store, or is from another model or upstream. Begin the turn again."
)
"""The message of such a refusal."""
_WANTED: Final = re.compile("thought.?signature|thinking|reasoning|encrypted", re.IGNORECASE)
"""Words of such a refusal."""


class Remedy(NamedTuple):
    """What may follow a failure before the first byte of the response."""

    repeats: bool
    """Whether the same target may get the request again."""
    fails_over: bool
    """Whether another target may get it."""
    is_counted: bool
    """Whether the failure counts towards opening the circuit."""


_BROKEN: Final = Remedy(repeats=True, fails_over=True, is_counted=True)
_SLOW: Final = Remedy(repeats=False, fails_over=True, is_counted=True)  # the client has waited long enough
_LIMITED: Final = Remedy(repeats=True, fails_over=True, is_counted=False)  # the target works, and asked to wait
_ITS_OWN: Final = Remedy(repeats=False, fails_over=True, is_counted=False)  # key, account or model of the target
_BUSY: Final = Remedy(repeats=True, fails_over=False, is_counted=False)

_PERMANENT: Final = frozenset({"upstream_http_501", "upstream_http_505"})
"""Server errors that the same request always gets. CONTRACT D14 calls them retryable, as all of 5xx."""


class _Remedies(dict[str, Remedy]):
    """Nothing follows a failure that has no entry: the request itself is refused."""

    def __missing__(self, _code: str, /) -> Remedy:
        return Remedy(repeats=False, fails_over=False, is_counted=False)


REMEDIES: Final[Mapping[str, Remedy]] = _Remedies(
    {
        "upstream_unreachable": _BROKEN,
        "upstream_timeout_connect": _BROKEN,
        "upstream_reset": _BROKEN,
        "upstream_malformed": _SLOW,
        "upstream_timeout_first_byte": _SLOW,
        **{f"upstream_http_{status}": _ITS_OWN for status in (401, 402, 403, 404, 410)},
        "upstream_http_408": _BROKEN,
        "upstream_http_409": _BUSY,
        "upstream_http_425": _BUSY,
        "upstream_http_429": _LIMITED,
        **{code: _BROKEN for status in range(500, 600) if (code := f"upstream_http_{status}") not in _PERMANENT},
    }
)
"""Code of a failure -> what may follow."""


def pause_before(error: UpstreamError, attempt: int, retries: Retries, chance: float) -> float | None:
    """Return the seconds to wait before a target gets a request again, None if it may not.

    The provider's `Retry-After` counts, up to `max_backoff_s`; a longer one is passed on to the client. Otherwise the
    wait doubles with each attempt (from 1), with a jitter of a quarter, so that clients do not return all at once;
    `chance` is a random number from 0 to 1.
    """
    may_help = error.fault.is_retryable and error.should_retry is not False
    if not REMEDIES[error.fault.code].repeats or not may_help or attempt > retries.max:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= retries.max_backoff_s else None
    return min(retries.initial_backoff_s * 2.0 ** (attempt - 1), retries.max_backoff_s) * (1 - chance / 4)


Step: TypeAlias = tuple[Target, float]
"""The target of the next attempt, and the seconds before it."""


class Attempts:
    """The attempts of one request, over its targets in their order."""

    def __init__(
        self,
        targets: Sequence[Target],
        body_of: BodyOf,
        stats: StreamStats,
        is_lost: Callable[[Target], bool] | None = None,
        ask: Ask = "response",
        bodies: dict[Target, Mapping[str, object]] | None = None,
    ) -> None:
        self.target = targets[0]
        """The target of the current attempt; before the first one, the preferred target."""
        self.targets = sorted(targets, key=lambda one: one.circuit.is_cooled) if len(targets) > 1 else targets
        """In the order in which they are tried; those whose provider asked to wait are the last."""
        self._body_of = body_of
        self._bodies = bodies or {}
        """Those that were made."""
        self._is_lost = is_lost
        self._ask = ask
        self._stats = stats
        self._retries = self.target.provider.retries
        self._errors: dict[Target, UpstreamError] = {}
        self._tried: dict[Target, int] = defaultdict(int)
        self._repeated = 0
        self._is_refused = False

    def first(self) -> Step:
        """Return the first attempt; raise `UpstreamError` if no target may get requests."""
        for target in self.targets:
            if not target.circuit.wait_s():
                if target is not self.target:
                    reason = CIRCUIT_OPEN if self.target.circuit.wait_s() else RETRY_AFTER
                    self._report_failover(UpstreamError(FAULTS["upstream_unavailable"], reason=reason), target)
                return target, 0
        wait_s = min(target.circuit.wait_s() for target in self.targets)
        error = UpstreamError(FAULTS["upstream_unavailable"], whole_seconds(wait_s), reason=CIRCUIT_OPEN)
        raise self.counted(error)

    def counted(self, error: UpstreamError) -> UpstreamError:
        """Count a failure of the current target, and return it."""
        code, target = error.fault.code, self.target
        labels = target.provider.name, code_label(code), reason_label(code, error.reason)
        target.counts["projector_upstream_failures", *labels] += 1
        self._stats.upstream_codes.add(code)
        return error

    def begin(self, target: Target) -> Permit | None:
        """Begin an attempt; return None if the target may not get requests any more."""
        permit = target.circuit.permit()
        if permit is not None:
            if target not in self._tried:
                target.budget.on_request(self._retries.budget_share)
            self._tried[target] += 1
            self.target = target
        return permit

    def request(self) -> ProviderRequest:
        """Return the request to the current target."""
        stats, body = self._stats, self._bodies.get(self.target)
        stats.attempts += 1
        stats.provider_request_id = None
        if body is None:
            body = self._bodies[self.target] = self._body_of(self.target)
        if stats.meter is not None and sum(self._tried.values()) == 1:
            stats.meter.on_request(body)
        api = self.target.provider.api
        headers = {**stats.trace.headers, **stats.caller_headers.get(api, {})}
        return ProviderRequest(api, body, headers, stats.stream_id, self._ask, stats.on_provider_request_id)

    def release(self) -> None:
        """Drop the request: a byte of the response was used, so it is not sent again."""
        del self._body_of, self._bodies
        self._is_lost = None

    def after(self, error: UpstreamError, permit: Permit, chance: float) -> Step | None:
        """Report a failure of the current target; return the next attempt, None if there is none.

        `chance` is a random number from 0 to 1.
        """
        remedy, failed = REMEDIES[error.fault.code], self.target
        if remedy.is_counted and failed not in self._errors:  # failures of one request have one cause, and count once
            permit.report(Signal.FAILURE, error.fault.code)
        elif not remedy.is_counted and error.failure is not None:
            permit.report(Signal.SUCCESS)
        if error.retry_after_s:
            failed.circuit.cool(error.retry_after_s)
        self._errors[failed] = error
        for other in self.targets if remedy.fails_over else ():
            if other not in self._tried and not other.circuit.wait_s():
                self._report_failover(error, other)
                return other, 0
        return self._repeat(chance) if remedy.repeats or remedy.fails_over else None

    def end(self, error: UpstreamError) -> None:
        """Mark the last error if the client should not repeat the request either, and explain it if state is lost."""
        failure = error.failure
        if (
            failure is not None
            and failure.status == HTTPStatus.BAD_REQUEST
            and self._is_lost is not None
            and _WANTED.search(failure.message or "")
            and self._is_lost(self.target)
        ):
            error.fault = error.fault._replace(message=LOST)
            error.failure = replace(failure, message=f"{LOST} The provider: {failure.message}")
            error.reason = STATE_LOST
        is_over = self._is_refused or self._repeated >= self._retries.max
        is_used_up = is_over and REMEDIES[error.fault.code].repeats
        if is_used_up or not error.fault.is_retryable or error.fault.code in _PERMANENT:
            error.should_retry = False

    def _repeat(self, chance: float) -> Step | None:
        """Return the target that gets the request again: the one that got it least often."""
        pauses = {
            target: pause_s
            for target in self.targets
            if target in self._errors
            and (pause_s := pause_before(self._errors[target], self._repeated + 1, self._retries, chance)) is not None
            and not target.circuit.wait_s()
        }
        if not pauses:
            return None
        target = min(pauses, key=lambda one: self._tried[one])
        if not target.budget.take():
            target.counts["projector_upstream_retries_refused", target.provider.name] += 1
            self._is_refused = True
            return None
        self._repeated += 1
        return target, pauses[target]

    def _report_failover(self, error: UpstreamError, other: Target) -> None:
        stats, failed = self._stats, self.target.provider.name
        self.target.counts["projector_upstream_failovers", failed, code_label(error.fault.code)] += 1
        log.warning(
            "upstream_failover",
            stream_id=stats.stream_id,
            request_id=stats.request_id,
            upstream=failed,
            code=error.fault.code,
            reason=error.reason,
            to=other.provider.name,
            model=other.model,
        )


def attempts_of(provider: UpstreamBinding, body_of: BodyOf, stats: StreamStats) -> Attempts:
    """Return the attempts of a request that has one target, without a circuit breaker."""
    circuits = Circuits(CircuitBreaker(failures=0))
    target = Target(provider, None, circuits.circuit(provider.name, ""), circuits.budget(provider.name))
    return Attempts([target], body_of, stats)
