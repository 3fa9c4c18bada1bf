"""Start and end of responses, branches and the run, and token usage (CONTRACT D10 to D14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.openwop.dialect import nodes, tool_calls
from projector.openwop.dialect.content import close_text, emit_final_text
from projector.openwop.dialect.log_state import COMPLETED, LogState, ResponseState
from projector.openwop.event_log import VENDOR, present

ACTIVE_STATUSES: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""

RESUMABLE_STATUSES: Final = frozenset({COMPLETED, "incomplete"})
"""Final statuses after which an approval can still be given."""

FINISH_REASONS: Final[Mapping[str, str]] = {
    "max_output_tokens": "length",
    "length": "length",
    "content_filter": "content_filter",
}
"""Reason of an incomplete response -> finish reason of the protocol, where there is one."""

OUTPUTS: Final[Mapping[str, str]] = {
    "response_text": "text",
    "refusal_text": "refusal",
    "structured_output": "structuredOutput",
    "attachments": "attachments",
}
"""Member of `final` -> member of the run's outputs; reasoning is not an output."""

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "cached_input_tokens": "cacheReadTokens",
}
"""Member of the usage -> member of `provider.usage`; the first two are required."""

UNKNOWN: Final = "unknown"
"""Provider or model without a name."""

FAILED_MESSAGE: Final = "The response failed."


def on_meta(state: LogState, frame: Frame) -> None:
    """Record the model."""
    state.branch.model = frame.get("model", state.branch.model)


def on_usage(state: LogState, frame: Frame) -> None:
    """Emit the usage of a model call, if the provider reported input and output tokens."""
    tokens = {name: frame["usage"][member] for member, name in TOKENS.items() if member in frame["usage"]}
    if tokens.keys() >= {"inputTokens", "outputTokens"}:
        source = {"provider": state.options.provider or UNKNOWN, "model": state.branch.model or UNKNOWN}
        state.emit("provider.usage", {**source, **tokens, "nodeId": state.node_id})


def on_lifecycle(state: LogState, frame: Frame) -> None:
    """Emit the end of the text of a response that has ended, and its suspensions."""
    status, response = frame["status"], state.branch.response
    if status in ACTIVE_STATUSES:
        return
    response.has_ended = True
    response.has_failed = status == "failed"
    if "reason" in frame:
        state.reasons[status] = response.reason = frame["reason"]
    close_text(state, state.node_id, _finish_reason(response, status))
    if status in RESUMABLE_STATUSES:
        tool_calls.suspend(state)


def on_final(state: LogState, frame: Frame) -> None:
    """Emit the end of the run by its status; a run with a pending interrupt does not complete."""
    final, status = frame["final"], frame["final"]["status"]
    text = final.get("response_text", "")
    if text and state.nodes and not state.has_text:
        emit_final_text(state, text)
        close_text(state, state.node_id)
    if status == "cancelled":
        nodes.end(state, "cancelled", {"reason": status})
        state.emit("run.cancelled", {"reason": status}, node_id=None)
    elif status == "failed":
        _fail(state, _failure(state.reasons.get(status)), frame)
    elif not state.is_waiting:
        outputs = {name: final[member] for member, name in OUTPUTS.items() if member in final}
        if status != COMPLETED:
            outputs |= present(status=status, reason=state.reasons.get(status))
        nodes.end(state, COMPLETED, {})
        state.emit("run.completed", {"outputs": outputs}, node_id=None, notices=frame.get("notices"))


def on_error(state: LogState, frame: Frame) -> None:
    """Emit the failure of the run."""
    error = frame["error"]
    payload = {"code": error["code"] or UNKNOWN, "message": error["message"] or FAILED_MESSAGE}
    details = {f"{VENDOR}.source": error["source"]}
    _fail(state, {**payload, "retryable": error["is_retryable"], "details": details}, frame)


def on_branch(state: LogState, frame: Frame) -> None:
    """Switch to another branch, or emit the end of the node of an ended branch without pending interrupts."""
    if not frame["is_over"]:
        state.enter(frame["branch"])
        return
    state.agents.leave(state.branch_number)
    if state.branch.response.has_failed:
        error = _failure(state.branch.response.reason)
        nodes.leave(state, state.branch_number, "failed", {"error": error})
    elif not state.branch.suspended:
        nodes.leave(state, state.branch_number, COMPLETED, {})


def starts_response(frame: Frame) -> bool:
    """Return whether a frame starts a response, given that the previous one has ended."""
    kind = frame["kind"]
    return kind == Kind.OUTPUT_ITEM_ADDED or (kind == Kind.LIFECYCLE and frame["status"] in ACTIVE_STATUSES)


def start_response(state: LogState) -> None:
    """Start another response; pending interrupts resume."""
    state.branch.response = ResponseState()
    tool_calls.resume(state)


def _failure(code: str | None) -> dict[str, Any]:
    """Return the error of a failed response: its code, without the provider's message."""
    return {"code": code or "failed", "message": FAILED_MESSAGE}


def _fail(state: LogState, error: Mapping[str, Any], frame: Frame) -> None:
    nodes.end(state, "failed", {"error": error})
    payload = present(error=error, failedNodeId=state.node_id or None)
    state.emit("run.failed", payload, node_id=None, notices=frame.get("notices"))


def _finish_reason(response: ResponseState, status: str) -> str | None:
    if status == COMPLETED:
        return "tool_calls" if response.pending else "stop"
    return FINISH_REASONS.get(response.reason or "") if status == "incomplete" else None
