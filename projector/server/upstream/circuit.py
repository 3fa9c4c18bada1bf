"""The health of the targets of a server: circuit breakers, waits that providers ask for, and budgets for retries.

A circuit is closed while its target works. After too many failures it opens: no request is sent, so that a provider
that is down gets no load and a client gets its answer at once. After a while it is half open: one request, the probe,
finds out whether the target works again.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from projector.server.config.config_base import unwrapped
from projector.server.config.upstream_settings import CircuitBreaker
from projector.server.telemetry.logs import log

SHARE_S: Final = 60.0
"""Seconds after which a request no longer counts towards the share of failures."""
BUDGET_MAX: Final = 20.0
"""Retries of an upstream that may follow each other at once."""
BUDGET_PER_S: Final = 2.0
"""Retries per second that are always allowed, so that a server with few requests can repeat them."""
COOLED_MAX_S: Final = 3600.0
"""Longest wait of a provider that is heeded: a longer one is a mistake, or the end of a quota."""


Counts: TypeAlias = dict[tuple[str, ...], int]
"""What failed at upstreams, counted when it happens: name of a metric and its labels -> times."""


class State(IntEnum):
    """State of a circuit; the numbers are those of the metric."""

    CLOSED = 0  # requests are sent
    HALF_OPEN = 1  # one request is sent
    OPEN = 2  # no request is sent


class Signal(IntEnum):
    """What happens to a circuit."""

    SUCCESS = 0  # a request was answered
    FAILURE = 1  # a request failed
    TRIP = 2  # a request failed, and there were too many failures before it
    DUE = 3  # the circuit has been open long enough


TRANSITIONS: Final[Mapping[State, Mapping[Signal, State]]] = {
    State.CLOSED: {Signal.SUCCESS: State.CLOSED, Signal.FAILURE: State.CLOSED, Signal.TRIP: State.OPEN},
    State.OPEN: {Signal.DUE: State.HALF_OPEN},
    State.HALF_OPEN: {Signal.SUCCESS: State.CLOSED, Signal.FAILURE: State.OPEN, Signal.TRIP: State.OPEN},
}
"""State -> signal -> next state; any other signal is ignored."""


class Permit:
    """The right to send one request; its result must be reported, or the permit be released."""

    def __init__(self, circuit: Circuit, period: int) -> None:
        self._circuit: Circuit | None = circuit
        self._period = period

    def report(self, signal: Signal | None, code: str = "") -> None:
        """Report that the target answered, or failed with this code; None if it is not known. Only the first counts."""
        circuit, self._circuit = self._circuit, None
        if circuit is not None:
            circuit.report(self, signal, self._period, code)


class Circuit:
    """The circuit breaker of one target, and the wait that its provider asked for."""

    def __init__(self, upstream: str, model: str, settings: CircuitBreaker, clock: Callable[[], float]) -> None:
        self.settings = unwrapped(settings)
        self.state = State.CLOSED
        self._names = {"upstream": upstream, "model": model or None}
        self._clock = clock
        self._period = 0  # number of the current state; results of requests of an earlier one say nothing about it
        self._failures = 0
        self._recent: deque[tuple[float, bool]] = deque()
        self._due_at = 0.0
        self._cooled_until = 0.0
        self._probe: Permit | None = None

    def wait_s(self) -> float:
        """Return the seconds until a request may be sent: 0 if it may be sent now, at most 1 while a probe runs."""
        if self.state is State.CLOSED or not self.settings.failures:
            return 0.0
        wait_s = max(self._due_at - self._clock(), 0.0)
        return wait_s if self.state is State.OPEN else min(wait_s, 1.0)

    def permit(self) -> Permit | None:
        """Return the permit of a request, None if none may be sent now."""
        if self.wait_s() > 0:
            return None
        if self.state is State.OPEN and self.settings.failures:
            self._apply(Signal.DUE)
        permit = Permit(self, self._period)
        if self.state is State.HALF_OPEN:
            self._probe = permit
            self._due_at = self._clock() + self.settings.open_s  # a model may think for minutes, others need not wait
        return permit

    @property
    def is_cooled(self) -> bool:
        """Whether the provider asked not to be called now."""
        return self._clock() < self._cooled_until

    def cool(self, seconds: float) -> None:
        """Prefer other targets for some seconds."""
        self._cooled_until = max(self._cooled_until, self._clock() + min(seconds, COOLED_MAX_S))

    def use(self, settings: CircuitBreaker) -> None:
        """Change the settings; a circuit that is turned off is closed."""
        self.settings = unwrapped(settings)
        if not settings.failures and self.state is not State.CLOSED:
            self._enter(State.CLOSED)

    def report(self, permit: Permit, signal: Signal | None, period: int, code: str) -> None:
        """Record the result of a permit; None if it is not known."""
        if permit is self._probe:
            self._probe = None
            self._due_at = self._clock()
        if signal is None or period != self._period or not self.settings.failures:
            return
        self._count(is_failure=signal is Signal.FAILURE)
        if self._apply(Signal.TRIP if signal is Signal.FAILURE and self._is_too_much() else signal):
            if self.state is State.OPEN:
                self._due_at = self._clock() + self.settings.open_s
                log.warning("upstream_circuit_opened", **self._names, code=code, open_s=self.settings.open_s)
            else:
                log.info("upstream_circuit_closed", **self._names)

    def _apply(self, signal: Signal) -> bool:
        """Apply a signal; return whether the state changed, which forgets earlier results."""
        state = TRANSITIONS[self.state].get(signal, self.state)
        if state is self.state:
            return False
        self._enter(state)
        return True

    def _enter(self, state: State) -> None:
        self.state = state
        self._period += 1
        self._failures = 0
        self._recent.clear()

    def _count(self, *, is_failure: bool) -> None:
        now, size = self._clock(), 4 * self.settings.failures
        self._failures = self._failures + 1 if is_failure else 0
        self._recent.append((now, is_failure))
        while len(self._recent) > size or self._recent[0][0] < now - SHARE_S:
            self._recent.popleft()

    def _is_too_much(self) -> bool:
        """Return whether the last requests all failed, or half of four times as many within a minute."""
        limit = self.settings.failures
        is_half = len(self._recent) == 4 * limit and sum(failed for _, failed in self._recent) >= 2 * limit
        return self._failures >= limit or is_half


class RetryBudget:
    """Retries of one upstream: a share of its requests, and a few more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = BUDGET_MAX
        self._filled_at = clock()

    def on_request(self, share: float) -> None:
        """Count a request that is sent for the first time."""
        self._left = min(BUDGET_MAX, self._left + share)

    def take(self) -> bool:
        """Use up one retry; return False if there is none left."""
        now = self._clock()
        self._left = min(BUDGET_MAX, self._left + (now - self._filled_at) * BUDGET_PER_S)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Circuits:
    """The circuits and budgets of a server. They outlast a change of the settings."""

    def __init__(self, settings: CircuitBreaker | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._settings = settings or CircuitBreaker()
        self.counts: Counts = defaultdict(int)
        self._circuits: dict[tuple[str, str], Circuit] = {}
        self._budgets: dict[str, RetryBudget] = {}

    def __iter__(self) -> Iterator[tuple[tuple[str, str], Circuit]]:
        """Iterate over upstream and model, and the circuit of this target."""
        return iter(list(self._circuits.items()))

    def use(self, settings: CircuitBreaker, *keys: Collection[tuple[str, str]]) -> None:
        """Change the settings, and forget targets that are in none of the collections of upstream and model."""
        self._settings, targets = settings, set().union(*keys)
        self._circuits = {key: circuit for key, circuit in self._circuits.items() if key in targets}
        for circuit in self._circuits.values():
            circuit.use(settings)
        names = {upstream for upstream, _ in targets}
        self._budgets = {name: budget for name, budget in self._budgets.items() if name in names}

    def circuit(self, upstream: str, model: str) -> Circuit:
        """Return the circuit of a target; the model is empty for those that are not in the configuration."""
        if (upstream, model) not in self._circuits:
            self._circuits[upstream, model] = Circuit(upstream, model, self._settings, self._clock)
        return self._circuits[upstream, model]

    def budget(self, upstream: str) -> RetryBudget:
        """Return the budget of an upstream."""
        if upstream not in self._budgets:
            self._budgets[upstream] = RetryBudget(self._clock)
        return self._budgets[upstream]


def whole_seconds(seconds: float) -> int:
    """Return a wait as the value of `Retry-After`, at least 1."""
    return max(1, math.ceil(seconds))
