"""Sequences of signals through the lifecycle table; tests/contract/test_tables.py checks that it is complete."""

from __future__ import annotations

import pytest

from projector.core.handlers.endings import BRANCH_ENDS
from projector.core.lifecycle import (
    BRANCH_TRANSITIONS,
    OPTIONAL_BRANCH_TRANSITIONS,
    RUN_STATUS_ORDER,
    TRANSITIONS,
    Phase,
    Signal,
    Transitions,
    Verdict,
)
from projector.core.projector import BEGINNINGS, TERMINALS

ROWS = [(phase, signal, *row) for phase, signals in TRANSITIONS.items() for signal, row in signals.items()]
BRANCH_ROWS = [
    (phase, signal, *row)
    for rows in (BRANCH_TRANSITIONS, OPTIONAL_BRANCH_TRANSITIONS)
    for phase, signals in rows.items()
    for signal, row in signals.items()
]


@pytest.mark.parametrize(
    ("signals", "verdicts"),
    [
        pytest.param("PROGRESS RESPONSE_END RUN_CLOSE", "BEGIN SETTLE FINISH", id="one-response"),
        pytest.param(
            "PROGRESS RESPONSE_END NEXT PROGRESS RESPONSE_END RUN_CLOSE",
            "BEGIN SETTLE IGNORE BEGIN SETTLE FINISH",
            id="D12-run",
        ),
        pytest.param("RESPONSE_END RUN_CLOSE", "BEGIN_AND_SETTLE FINISH", id="the-end-is-the-first-that-is-heard"),
        pytest.param("EOF PROGRESS", "EMPTY IGNORE", id="D12-empty"),
        pytest.param("HOST RUN_CLOSE", "EMIT EMPTY", id="D12-the-host-alone-begins-nothing"),
        pytest.param("DROPPED EOF", "BEGIN TRUNCATED", id="D12-an-event-that-is-not-said-is-an-event"),
        pytest.param("PROGRESS EOF FAULT", "BEGIN TRUNCATED IGNORE", id="D12-truncated"),
        pytest.param("PROGRESS NEXT NEXT", "BEGIN TRUNCATED IGNORE", id="D12-truncated-by-the-next-response"),
        pytest.param("PROGRESS FAULT RESPONSE_END", "BEGIN FAIL IGNORE", id="D11-nothing-after-a-fault"),
        pytest.param("PROGRESS CANCEL CANCEL", "BEGIN CANCELLED IGNORE", id="D11-nothing-after-cancel"),
        pytest.param(
            "BEGINNING RESPONSE_END BEGINNING RESPONSE_END EOF",
            "BEGIN SETTLE BEGIN SETTLE FINISH",
            id="D12-a-recorded-run",
        ),
        pytest.param("RESPONSE_END PROGRESS EOF", "BEGIN_AND_SETTLE IGNORE FINISH", id="too-late-for-its-response"),
        pytest.param("RESPONSE_END DROPPED EOF", "BEGIN_AND_SETTLE IGNORE FINISH", id="a-late-keepalive"),
        pytest.param("RESPONSE_END RESPONSE_END HOST FAULT", "BEGIN_AND_SETTLE IGNORE EMIT FAIL", id="settled"),
        pytest.param("NEXT EOF", "IGNORE EMPTY", id="the-next-response-alone-begins-nothing"),
        pytest.param("FAULT EOF", "FAIL IGNORE", id="D11-a-fault-is-the-first"),
        pytest.param("STOP EOF", "CANCELLED IGNORE", id="stopped-before-it-begins"),
        pytest.param(
            "PROGRESS PROGRESS HOST DROPPED BEGINNING RESPONSE_END",
            "BEGIN EMIT EMIT IGNORE EMIT SETTLE",
            id="within-a-response",
        ),
        pytest.param("PROGRESS RUN_CLOSE EOF", "BEGIN TRUNCATED IGNORE", id="D12-truncated-by-the-host"),
        pytest.param("PROGRESS STOP EOF", "BEGIN CANCELLED IGNORE", id="stopped"),
        pytest.param("RESPONSE_END RESPONSE_END EOF", "BEGIN_AND_SETTLE IGNORE FINISH", id="two-ends"),
        pytest.param("RESPONSE_END CANCEL EOF", "BEGIN_AND_SETTLE CANCELLED IGNORE", id="cancelled-between-responses"),
        pytest.param("RESPONSE_END STOP EOF", "BEGIN_AND_SETTLE CANCELLED IGNORE", id="stopped-between-responses"),
        pytest.param(
            f"CANCEL {' '.join(signal.name for signal in Signal)} EOF",
            f"CANCELLED {'IGNORE ' * len(Signal)} IGNORE",
            id="D11-nothing-after-the-end",
        ),
    ],
)
def test_walks(signals: str, verdicts: str) -> None:
    phase, heard = Phase.IDLE, []
    for name in signals.split():
        phase, verdict = TRANSITIONS[phase][Signal[name]]
        heard.append(verdict.name)
    assert heard == verdicts.split()


@pytest.mark.parametrize(("phase", "signal", "to", "verdict"), ROWS)
def test_a_stream_ends_with_a_terminal_and_only_so(phase: Phase, signal: Signal, to: Phase, verdict: Verdict) -> None:
    ends = to is Phase.ENDED and phase is not Phase.ENDED
    assert ends == (verdict in TERMINALS), signal.name


@pytest.mark.parametrize(("phase", "signal", "to", "verdict"), BRANCH_ROWS)
def test_a_branch_ends_with_the_run_or_alone(phase: Phase, signal: Signal, to: Phase, verdict: Verdict) -> None:
    ends = to is Phase.ENDED and phase is not Phase.ENDED
    assert ends == (verdict in TERMINALS or verdict in BRANCH_ENDS), signal.name


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.OPEN, Phase.SETTLED])
def test_no_failure_of_an_optional_branch_ends_the_run(phase: Phase) -> None:
    for signal in (Signal.EOF, Signal.FAULT, Signal.STOP):
        assert OPTIONAL_BRANCH_TRANSITIONS[phase][signal][1] in BRANCH_ENDS


@pytest.mark.parametrize(
    ("rows", "signals", "verdicts"),
    [
        pytest.param(BRANCH_TRANSITIONS, "PROGRESS RESPONSE_END EOF", "BEGIN SETTLE LEAVE", id="whole"),
        pytest.param(BRANCH_TRANSITIONS, "PROGRESS EOF", "BEGIN TRUNCATED", id="cut-off"),
        pytest.param(BRANCH_TRANSITIONS, "PROGRESS FAULT", "BEGIN FAIL", id="failed"),
        pytest.param(BRANCH_TRANSITIONS, "PROGRESS RESPONSE_END FAULT", "BEGIN SETTLE LEAVE", id="a-late-fault"),
        pytest.param(BRANCH_TRANSITIONS, "PROGRESS STOP FAULT", "BEGIN LEAVE IGNORE", id="stopped"),
        pytest.param(BRANCH_TRANSITIONS, "STOP FAULT", "LEAVE IGNORE", id="stopped-before-it-begins"),
        pytest.param(BRANCH_TRANSITIONS, "RESPONSE_END STOP", "BEGIN_AND_SETTLE LEAVE", id="stopped-late"),
        pytest.param(OPTIONAL_BRANCH_TRANSITIONS, "STOP", "LEAVE", id="optional-stopped-before-it-begins"),
        pytest.param(OPTIONAL_BRANCH_TRANSITIONS, "PROGRESS STOP", "BEGIN LEAVE", id="optional-stopped"),
        pytest.param(
            OPTIONAL_BRANCH_TRANSITIONS, "RESPONSE_END STOP", "BEGIN_AND_SETTLE LEAVE", id="optional-stopped-late"
        ),
        pytest.param(OPTIONAL_BRANCH_TRANSITIONS, "PROGRESS EOF", "BEGIN TRUNCATE_BRANCH", id="optional-cut-off"),
        pytest.param(OPTIONAL_BRANCH_TRANSITIONS, "EOF", "EMPTY_BRANCH", id="optional-empty"),
        pytest.param(
            OPTIONAL_BRANCH_TRANSITIONS, "PROGRESS FAULT PROGRESS", "BEGIN FAIL_BRANCH IGNORE", id="optional-failed"
        ),
        pytest.param(OPTIONAL_BRANCH_TRANSITIONS, "FAULT", "BEGIN_AND_FAIL_BRANCH", id="optional-unreachable"),
        pytest.param(
            OPTIONAL_BRANCH_TRANSITIONS, "PROGRESS NEXT", "BEGIN TRUNCATE_BRANCH", id="optional-next-too-early"
        ),
    ],
)
def test_walks_of_a_branch(rows: Transitions, signals: str, verdicts: str) -> None:
    phase, heard = Phase.IDLE, []
    for name in signals.split():
        phase, verdict = rows[phase][Signal[name]]
        heard.append(verdict.name)
    assert heard == verdicts.split()


@pytest.mark.parametrize(("phase", "signal", "to", "verdict"), [*ROWS, *BRANCH_ROWS])
def test_verdicts_agree_with_phases(phase: Phase, signal: Signal, to: Phase, verdict: Verdict) -> None:
    if verdict is Verdict.EMIT:
        assert to is phase, "the projector's short way stays in its phase"
    if verdict in BEGINNINGS:
        assert phase is not Phase.OPEN, f"{signal.name} would forget an open response"


def test_d12_the_gravest_status_of_a_run_comes_first() -> None:
    assert RUN_STATUS_ORDER == ("cancelled", "failed", "refused", "incomplete", "completed")
