"""The states of a response: every signal in every phase, and every sequence of six signals."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from projector.server.streaming.response_writer import TRANSITIONS, Phase, ResponseState, Signal

SENDS: Final = frozenset({Signal.SEND, Signal.BEAT, Signal.SENT})
DECISIONS: Final = frozenset({Signal.FAIL, Signal.STOP})


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
