"""What the runner's exceptions are to the stream, by the names of their classes (CONTRACT D12, D14).

A run that its own limits stop is no mistake of anybody: such ends have codes of their own. No word of an exception is
ever said, but for what a provider itself reported as its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault, http_status_fault

_ROWS: Final = (
    Fault("run_max_turns", "server", "The run took more turns than it may.", is_retryable=False),
    Fault("run_guardrail", "server", "A guardrail stopped the run.", is_retryable=False),
    Fault("run_model_behavior", "provider", "The model did what the run could not follow.", is_retryable=False),
)
RUN_FAULTS: Final[Mapping[str, Fault]] = {row.code: row for row in _ROWS}
"""Faults that only a run has."""

Verdict: TypeAlias = Fault | CanonicalEvent | None
"""A fault; the provider's own error as its event; None where the responses of the run have said their end."""

Phase: TypeAlias = Literal["idle", "open", "completed", "incomplete", "failed", "awaited"]
"""Where a run stands: nothing has begun, a response is under way, or how the last one ended; `awaited` where the model
has been asked again since."""

ENDS: Final[Mapping[str, Phase]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""Events that end a response -> where the run stands then."""

Judge: TypeAlias = Callable[[BaseException, Phase], Verdict]

MISBEHAVIOR: Final[Mapping[Phase, Verdict]] = {
    "idle": None,
    "open": None,
    "completed": RUN_FAULTS["run_model_behavior"],
    "incomplete": None,
    "failed": None,
    "awaited": FAULTS["upstream_truncated"],
}
"""What the SDK's `ModelBehaviorError` is: it raises the same for a response that was cut off or never came, for one
that ended badly, and for a whole one that it cannot use."""


def _guardrail(_error: BaseException, _phase: Phase) -> Verdict:
    return RUN_FAULTS["run_guardrail"]


def _max_turns(_error: BaseException, _phase: Phase) -> Verdict:
    return RUN_FAULTS["run_max_turns"]


def _refusal(_error: BaseException, _phase: Phase) -> Verdict:
    return None


def _model_behavior(_error: BaseException, phase: Phase) -> Verdict:
    return MISBEHAVIOR[phase]


def _model_timeout(_error: BaseException, _phase: Phase) -> Verdict:
    return FAULTS["upstream_timeout_total"]


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


def _malformed(_error: BaseException, phase: Phase) -> Verdict:
    return FAULTS["internal_error" if phase in ENDS.values() else "upstream_malformed"]


JUDGES: Final[Mapping[str, Judge]] = {
    # the runner
    "MaxTurnsExceeded": _max_turns,
    "ModelBehaviorError": _model_behavior,
    "ModelRefusalError": _refusal,
    "ModelTimeoutError": _model_timeout,
    "InputGuardrailTripwireTriggered": _guardrail,
    "OutputGuardrailTripwireTriggered": _guardrail,
    "ToolInputGuardrailTripwireTriggered": _guardrail,
    "ToolOutputGuardrailTripwireTriggered": _guardrail,
    # the model's client
    "APIStatusError": _http_status,
    "APIConnectionError": _connection,
    "APIError": _provider_error,
    "JSONDecodeError": _malformed,
}
"""The class of an exception, or the first of its bases that is here -> what it means."""

OURS: Final[Mapping[str, str]] = {
    "AgentsException": "nothing more is known of it",
    "UserError": "a tool or a setting of the host failed",
    "ToolTimeoutError": "a tool of the host took too long",
    "MCPToolCancellationError": "a tool of the host was cancelled",
}
"""Exceptions of the runner that are faults of the host, `internal_error`, as are all that no table names; and why."""

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
    # the system
    "ConnectionRefusedError": "upstream_unreachable",
    "ConnectionError": "upstream_reset",
}
"""What a failed connection is, by what it was made from; the innermost that is here counts."""


def judge(error: BaseException, phase: Phase) -> Verdict:
    """Say what an exception of a run is to its stream; `internal_error` where nothing more is known."""
    for kind in type(error).__mro__:
        if kind.__name__ in JUDGES:
            return JUDGES[kind.__name__](error, phase)
    return FAULTS["internal_error"]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
