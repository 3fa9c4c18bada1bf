"""Circuit breakers and retry budgets, with a clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.server.config.upstream_settings import CircuitBreaker
from projector.server.upstream.circuit import (
    BUDGET_MAX,
    BUDGET_PER_S,
    COOLED_MAX_S,
    TRANSITIONS,
    Circuit,
    Circuits,
    Permit,
    RetryBudget,
    Signal,
    State,
    whole_seconds,
)

LIMITS: Final = CircuitBreaker(failures=3, open_s=10)


class Scene:
    """A circuit and its clock. Steps are words: `ok`, `fail`, `wait N`, `begin`, `probe ok`, `probe fail`, `drop`."""

    def __init__(self, limits: CircuitBreaker = LIMITS) -> None:
        self.now = 0.0
        self.circuit = Circuit("one", "m", limits, lambda: self.now)
        self.held: list[Permit] = []

    def run(self, *steps: str) -> State:
        for step in steps:
            word, _, number = step.partition(" ")
            STEPS[word](self, number)
        return self.circuit.state

    def permit(self) -> Permit:
        permit = self.circuit.permit()
        assert permit is not None
        return permit


Step: TypeAlias = Callable[[Scene, str], object]
STEPS: Final[dict[str, Step]] = {
    "ok": lambda scene, _: scene.permit().report(Signal.SUCCESS),
    "fail": lambda scene, _: scene.permit().report(Signal.FAILURE, "upstream_reset"),
    "wait": lambda scene, seconds: setattr(scene, "now", scene.now + float(seconds)),
    "begin": lambda scene, _: scene.held.append(scene.permit()),
    "held-ok": lambda scene, _: scene.held.pop(0).report(Signal.SUCCESS),
    "held-fails": lambda scene, _: scene.held.pop(0).report(Signal.FAILURE, "upstream_reset"),
    "drop": lambda scene, _: scene.held.pop(0).report(None),
}
OPEN: Final = ("fail", "fail", "fail")


@pytest.mark.parametrize(
    ("steps", "state", "wait_s"),
    [
        ((), State.CLOSED, 0),
        (("fail", "fail"), State.CLOSED, 0),
        (OPEN, State.OPEN, 10),
        (("fail", "fail", "ok", "fail", "fail"), State.CLOSED, 0),
        (("fail", "ok") * 5, State.CLOSED, 0),
        (("fail", "ok") * 5 + ("ok", "fail"), State.OPEN, 10),  # half of twelve
        (("fail", "ok") * 5 + ("wait 61", "ok", "fail"), State.CLOSED, 0),
        ((*OPEN, "wait 4"), State.OPEN, 6),
        ((*OPEN, "wait 10"), State.OPEN, 0),  # due, but nothing was sent yet
        ((*OPEN, "wait 10", "begin"), State.HALF_OPEN, 1),
        ((*OPEN, "wait 10", "begin", "drop"), State.HALF_OPEN, 0),
        ((*OPEN, "wait 10", "begin", "wait 9"), State.HALF_OPEN, 1),
        ((*OPEN, "wait 10", "begin", "wait 10"), State.HALF_OPEN, 0),  # the probe takes long
        ((*OPEN, "wait 10", "begin", "wait 10", "begin", "held-ok"), State.CLOSED, 0),
        ((*OPEN, "wait 10", "begin", "wait 10", "begin", "held-fails"), State.OPEN, 10),
        ((*OPEN, "wait 10", "begin", "held-ok"), State.CLOSED, 0),
        ((*OPEN, "wait 10", "begin", "held-fails"), State.OPEN, 10),
        ((*OPEN, "wait 10", "begin", "held-ok", "fail", "fail"), State.CLOSED, 0),
        # results of requests that began before the circuit opened
        (("begin", *OPEN, "held-ok"), State.OPEN, 10),
        (("begin", *OPEN, "wait 10", "begin", "held-ok"), State.HALF_OPEN, 1),
        (("begin", *OPEN, "wait 10", "begin", "held-fails"), State.HALF_OPEN, 1),
        (("begin", *OPEN, "wait 10", "ok", "held-fails"), State.CLOSED, 0),
    ],
)
def test_a_circuit(steps: tuple[str, ...], state: State, wait_s: float) -> None:
    scene = Scene()
    assert scene.run(*steps) is state
    assert scene.circuit.wait_s() == wait_s
    assert (scene.circuit.permit() is None) == (wait_s > 0)


def test_one_probe_at_a_time() -> None:
    scene = Scene()
    scene.run(*OPEN, "wait 10", "begin")
    assert scene.circuit.permit() is None
    scene.run("held-ok")
    assert scene.circuit.permit() is not None
    assert scene.circuit.permit() is not None


def test_the_first_report_of_a_permit_counts() -> None:
    scene = Scene()
    for _ in range(2):
        permit = scene.permit()
        permit.report(Signal.FAILURE, "upstream_reset")
        permit.report(Signal.SUCCESS)
        permit.report(Signal.FAILURE, "upstream_reset")
        permit.report(None)
    assert scene.run("fail") is State.OPEN


def test_a_circuit_that_is_off_never_opens() -> None:
    scene = Scene(CircuitBreaker(failures=0))
    assert scene.run(*OPEN * 5) is State.CLOSED
    scene = Scene()
    scene.run(*OPEN)
    scene.circuit.use(CircuitBreaker(failures=0))
    assert (scene.circuit.state, scene.circuit.wait_s()) == (State.CLOSED, 0)
    assert scene.run(*OPEN) is State.CLOSED


def test_every_state_has_a_row_and_every_signal_an_effect() -> None:
    assert TRANSITIONS.keys() == set(State)
    assert {signal for row in TRANSITIONS.values() for signal in row} == set(Signal)
    assert {state for row in TRANSITIONS.values() for state in row.values()} == set(State)


@given(st.lists(st.sampled_from(["ok", "fail", "begin", "held-ok", "held-fails", "drop", "wait 3", "wait 11"])))
def test_a_circuit_lets_a_request_pass_sooner_or_later(steps: list[str]) -> None:
    scene = Scene()
    for step in steps:
        is_held = step.startswith(("held", "drop"))
        if (is_held and scene.held) or step.startswith("wait") or (not is_held and not scene.circuit.wait_s()):
            scene.run(step)
        assert scene.circuit.wait_s() <= LIMITS.open_s
    while scene.held:
        scene.run("drop")
    assert scene.run("wait 10", "ok") is State.CLOSED


def test_a_wait_that_the_provider_asked_for() -> None:
    scene = Scene()
    scene.circuit.cool(5)
    scene.circuit.cool(1)
    assert (scene.circuit.is_cooled, scene.circuit.wait_s()) == (True, 0)
    scene.now = 5
    assert not scene.circuit.is_cooled
    scene.circuit.cool(10**9)
    scene.now += COOLED_MAX_S
    assert not scene.circuit.is_cooled


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 20), st.integers(0, 60)), max_size=40), st.floats(0, 2))
def test_a_budget_bounds_retries(rounds: list[tuple[float, int, int]], share: float) -> None:
    now, requests, granted = 0.0, 0, 0
    budget = RetryBudget(lambda: now)
    for seconds, sent, retries in rounds:
        now += seconds
        for _ in range(sent):
            budget.on_request(share)
        requests += sent
        granted += sum(budget.take() for _ in range(retries))
        assert granted <= BUDGET_MAX + now * BUDGET_PER_S + requests * share + 1e-6


def test_a_budget_allows_a_share_for_ever() -> None:
    budget = RetryBudget(lambda: 0.0)
    while budget.take():
        pass
    granted = 0
    for _ in range(1000):
        budget.on_request(0.25)
        granted += budget.take()
    assert granted == 250


def test_circuits_outlast_a_change_of_settings() -> None:
    circuits = Circuits(LIMITS, lambda: 0.0)
    one, gone = circuits.circuit("one", "m"), circuits.circuit("two", "m")
    budget = circuits.budget("one")
    for _ in range(3):
        permit = one.permit()
        assert permit is not None
        permit.report(Signal.FAILURE, "upstream_reset")
    circuits.use(CircuitBreaker(failures=9), {("one", "m")}, {("three", "")})
    assert circuits.circuit("one", "m") is one
    assert (one.state, one.settings.failures) == (State.OPEN, 9)
    assert circuits.circuit("two", "m") is not gone
    assert circuits.budget("one") is budget
    assert [key for key, _ in circuits] == [("one", "m"), ("two", "m")]


@pytest.mark.parametrize(("seconds", "expected"), [(0, 1), (0.2, 1), (1.01, 2), (15, 15)])
def test_whole_seconds(seconds: float, expected: int) -> None:
    assert whole_seconds(seconds) == expected
