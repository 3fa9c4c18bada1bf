"""Exceptions of a run, by class name, as faults of its stream (CONTRACT D12, D14).

A run that its own limits stop is not an error of the server, so these ends have their own codes. The text of an
exception is never published, except the error that a provider itself reported. Exceptions of the model's client are
mapped by `client_failures`, as those of any other source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault
from projector.providers.client_failures import client_failure

_ROWS: Final = (
    Fault("run_max_turns", "server", "The run exceeded its maximum number of turns.", is_retryable=False),
    Fault("run_guardrail", "server", "A guardrail stopped the run.", is_retryable=False),
    Fault("run_model_behavior", "provider", "The run could not use the model's response.", is_retryable=False),
)
RUN_FAULTS: Final[Mapping[str, Fault]] = {row.code: row for row in _ROWS}

Verdict: TypeAlias = Fault | CanonicalEvent | None
"""A fault, or the provider's own error as its event, or None if the responses of the run have already ended."""

Phase: TypeAlias = Literal["idle", "open", "completed", "incomplete", "failed", "awaited"]
"""State of a run: nothing has begun, a response is open, or how the last one ended; `awaited` after a further request
to the model."""

ENDS: Final[Mapping[str, Phase]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "failed",
}
"""Event that ends a response -> state of the run after it."""

MISBEHAVIOR: Final[Mapping[Phase, Fault]] = {
    "completed": RUN_FAULTS["run_model_behavior"],
    "awaited": FAULTS["upstream_truncated"],
}
"""State -> what `ModelBehaviorError` means in it, if not the end that a response already had. The SDK raises it for a
response that was truncated or never came, for one that ended badly, and for a complete one that it cannot use."""


JUDGES: Final[Mapping[str, Callable[[BaseException, Phase], Verdict]]] = {
    # the runner
    "MaxTurnsExceeded": lambda _error, _phase: RUN_FAULTS["run_max_turns"],
    "ModelBehaviorError": lambda _error, phase: MISBEHAVIOR.get(phase),
    "ModelRefusalError": lambda _error, _phase: None,
    "ModelTimeoutError": lambda _error, _phase: FAULTS["upstream_timeout_total"],
    "InputGuardrailTripwireTriggered": lambda _error, _phase: RUN_FAULTS["run_guardrail"],
    "OutputGuardrailTripwireTriggered": lambda _error, _phase: RUN_FAULTS["run_guardrail"],
    "ToolInputGuardrailTripwireTriggered": lambda _error, _phase: RUN_FAULTS["run_guardrail"],
    "ToolOutputGuardrailTripwireTriggered": lambda _error, _phase: RUN_FAULTS["run_guardrail"],
    # the model's client; the others are in `client_failures`
    "JSONDecodeError": lambda _error, phase: FAULTS[
        "internal_error" if phase in ENDS.values() else "upstream_malformed"
    ],
}
"""Class of an exception, or its first listed base class -> how the run ends."""


def judge(error: BaseException, phase: Phase) -> Verdict:
    """Return what an exception of a run means to its stream; `internal_error` for unlisted classes."""
    for kind in type(error).__mro__:
        if kind.__name__ in JUDGES:
            return JUDGES[kind.__name__](error, phase)
    failure = client_failure(error, has_begun=phase == "open")
    if failure is None:
        return FAULTS["internal_error"]
    return {"type": "error", **failure.last} if failure.last is not None and "error" in failure.last else failure.fault
