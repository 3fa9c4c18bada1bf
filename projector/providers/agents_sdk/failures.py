"""Exceptions of a run, by class name, as faults of its stream (CONTRACT D12, D14).

A run that its own limits stop is not an error of the server, so these ends have their own codes. The text of an
exception is never published, except the error that a provider itself reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault, http_status_fault

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

CAUSES: Final[Mapping[str, str]] = {
    # httpx
    "ConnectTimeout": "upstream_timeout_connect",
    "TimeoutException": "upstream_timeout_idle",
    "ConnectError": "upstream_unreachable",
    "ReadError": "upstream_reset",
    "RemoteProtocolError": "upstream_reset",
    # aiohttp
    "ConnectionTimeoutError": "upstream_timeout_connect",
    "ClientConnectorError": "upstream_unreachable",
    "ClientPayloadError": "upstream_reset",
    "ClientConnectionError": "upstream_reset",
    # the operating system
    "ConnectionRefusedError": "upstream_unreachable",
    "ConnectionError": "upstream_reset",
}
"""Class in the causes of a failed connection -> fault code; the innermost that is listed counts."""


def _http_status(error: BaseException, _phase: Phase) -> Verdict:
    status = getattr(error, "status_code", None)
    return http_status_fault(status) if isinstance(status, int) else FAULTS["provider_error"]


def _connection(error: BaseException, _phase: Phase) -> Verdict:
    code = "upstream_unreachable"
    for cause in _causes(error):
        code = next((CAUSES[kind.__name__] for kind in type(cause).__mro__ if kind.__name__ in CAUSES), code)
    return FAULTS[code]


def _provider_error(error: BaseException, _phase: Phase) -> Verdict:
    return {"type": "error", "code": getattr(error, "code", None), "message": getattr(error, "message", None)}


def _unreadable(_error: BaseException, phase: Phase) -> Verdict:
    return FAULTS["internal_error" if phase in ENDS.values() else "upstream_malformed"]


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
    # the model's client
    "APIStatusError": _http_status,
    "APIConnectionError": _connection,
    "APIError": _provider_error,
    "JSONDecodeError": _unreadable,
}
"""Class of an exception, or its first listed base class -> how the run ends."""

HOST_FAULTS: Final[Mapping[str, str]] = {
    "AgentsException": "nothing more specific is known",
    "UserError": "a tool or a setting of the host failed",
    "ToolTimeoutError": "a tool of the host took too long",
    "MCPToolCancellationError": "a tool of the host was cancelled",
}
"""Exceptions of the runner that are `internal_error`, as all unlisted ones are -> why."""


def judge(error: BaseException, phase: Phase) -> Verdict:
    """Return what an exception of a run means to its stream; `internal_error` for unlisted classes."""
    judges = (JUDGES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in JUDGES)
    return next(judges, lambda *_: FAULTS["internal_error"])(error, phase)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
