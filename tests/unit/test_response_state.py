"""The states of a response: every signal in every phase, and every sequence of six signals."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from projector.server.streaming.response_writer import TRANSITIONS, Phase, ResponseState, Signal

SENDS: Final = frozenset({Signal.SEND, Signal.BEAT, Signal.SENT})
DECISIONS: Final = frozenset({Signal.FAIL, Signal.STOP})


@pytest.mark.parametrize(
    ("signals", "phases"),
    [
        pytest.param(
            "SEND SEND BEAT STOP SEND SENT", "COMMITTED COMMITTED COMMITTED CLOSING CLOSING ENDED", id="stream"
        ),
        pytest.param("BEAT FAIL SEND SENT", "COMMITTED CLOSING CLOSING ENDED", id="failed-after-the-status"),
        pytest.param("STOP SEND SENT", "ENDING CLOSING ENDED", id="whole"),
        pytest.param("FAIL", "REFUSED", id="failed-before-the-status"),
        pytest.param("BREAK", "REFUSED", id="broken-before-the-status"),
        pytest.param("STOP BREAK", "ENDING REFUSED", id="no-end-before-the-status"),
        pytest.param("SEND STOP BREAK", "COMMITTED CLOSING GONE", id="no-end-after-the-status"),
        pytest.param("LEAVE", "GONE", id="left-before-the-status"),
        pytest.param("SEND LEAVE", "COMMITTED GONE", id="left"),
        pytest.param("STOP LEAVE", "ENDING GONE", id="left-at-a-whole-end"),
        pytest.param("SEND STOP LEAVE", "COMMITTED CLOSING GONE", id="left-at-the-end"),
        pytest.param("FAIL LEAVE", "REFUSED GONE", id="left-when-refused"),
        pytest.param("SENT", "ignored", id="ignored-before-the-status"),
        pytest.param("SEND BREAK SENT", "COMMITTED ignored ignored", id="ignored-in-a-stream"),
        pytest.param("STOP BEAT FAIL STOP SENT", "ENDING ignored ignored ignored ignored", id="ignored-at-a-whole-end"),
        pytest.param("SEND STOP BEAT FAIL STOP", "COMMITTED CLOSING ignored ignored ignored", id="ignored-at-the-end"),
    ],
)
def test_walks(signals: str, phases: str) -> None:
    state = ResponseState()
    seen = [state.phase.name if state.apply(Signal[name]) else "ignored" for name in signals.split()]
    assert seen == phases.split()


@pytest.mark.parametrize(("phase", "accepted"), [("REFUSED", "LEAVE"), ("ENDED", ""), ("GONE", "")])
def test_after_the_end(phase: str, accepted: str) -> None:
    assert [signal.name for signal in TRANSITIONS[Phase[phase]]] == accepted.split()


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
@pytest.mark.parametrize("signal", Signal, ids=lambda signal: signal.name)
def test_a_signal_is_accepted_or_changes_nothing(phase: Phase, signal: Signal) -> None:
    state = ResponseState()
    state.phase = phase
    accepted = state.accepts(signal)
    assert state.apply(signal) == accepted
    assert accepted or state.phase is phase


def test_every_sequence_of_signals() -> None:
    """The status is committed or refused, never both; the end is decided once; after the end nothing is accepted."""
    for signals in itertools.product(Signal, repeat=6):
        state, phases, decisions = ResponseState(), [Phase.PENDING], 0
        for signal in signals:
            is_accepted = state.apply(signal)
            decisions += is_accepted and signal in DECISIONS
            if phases[-1] in {Phase.REFUSED, Phase.ENDED, Phase.GONE}:
                assert not (is_accepted and signal in SENDS)
            phases.append(state.phase)
        assert decisions <= 1
        if Phase.REFUSED in phases:
            assert not {Phase.COMMITTED, Phase.CLOSING, Phase.ENDED} & set(phases)
        if Phase.ENDED in phases:
            assert Phase.CLOSING in phases
            assert phases[-1] is Phase.ENDED


def test_every_phase_can_end() -> None:
    ends = {Phase.REFUSED, Phase.ENDED, Phase.GONE}
    for phase in set(Phase) - ends:
        assert TRANSITIONS[phase][Signal.LEAVE] is Phase.GONE
        reached = {phase}
        while more := {after for one in reached for after in TRANSITIONS[one].values()} - reached:
            reached |= more
        assert Phase.ENDED in reached
