"""How responses and the run begin and end, and what they cost (CONTRACT D10 to D14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.openwop.contract.parts import VENDOR
from projector.openwop.dialect import calls, messages, nodes
from projector.openwop.dialect.items import Response
from projector.openwop.dialect.run import COMPLETED, Run
from projector.openwop.log import present

UNDER_WAY: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""

STOPPED: Final = frozenset({COMPLETED, "incomplete"})
"""Statuses behind which an approval can still be given."""

FINISH_REASONS: Final[Mapping[str, str]] = {
    "max_output_tokens": "length",
    "length": "length",
    "content_filter": "content_filter",
}
"""Why a response is incomplete -> the protocol's word for it, where it has one."""

OUTPUTS: Final[Mapping[str, str]] = {
    "response_text": "text",
    "refusal_text": "refusal",
    "structured_output": "structuredOutput",
    "attachments": "attachments",
}
"""Member of `final` -> member of the run's outputs. Reasoning is no output."""

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "cached_input_tokens": "cacheReadTokens",
}
"""Member of the usage -> member of `provider.usage`; the first two are required."""

UNKNOWN: Final = "unknown"
"""A provider or a model that nobody named."""

FAILED_MESSAGE: Final = "The response failed."


def on_meta(run: Run, frame: Frame) -> None:
    """Remember the model."""
    run.voice.model = frame.get("model", run.voice.model)


def on_usage(run: Run, frame: Frame) -> None:
    """Say what the call of the model cost, if the provider reported both counts."""
    tokens = {said: frame["usage"][name] for name, said in TOKENS.items() if name in frame["usage"]}
    if tokens.keys() >= {"inputTokens", "outputTokens"}:
        place = {"provider": run.options.provider or UNKNOWN, "model": run.voice.model or UNKNOWN}
        run.say("provider.usage", {**place, **tokens, "nodeId": run.node_id})


def on_lifecycle(run: Run, frame: Frame) -> None:
    """Say the end of a response's text, and what it waits for."""
    status, response = frame["status"], run.voice.response
    if status in UNDER_WAY:
        return
    response.has_ended = True
    response.has_failed = status == "failed"
    if "reason" in frame:
        run.reasons[status] = response.reason = frame["reason"]
    messages.close(run, run.node_id, _finish_reason(response, status))
    if status in STOPPED:
        calls.suspend(run)


def on_final(run: Run, frame: Frame) -> None:
    """Say the end by its status; a run that waits for an approval has none."""
    final, status = frame["final"], frame["final"]["status"]
    text = final.get("response_text", "")
    if text and run.nodes and not run.has_said_text:
        messages.say_unsaid(run, text)
        messages.close(run, run.node_id)
    if status == "cancelled":
        nodes.end(run, "cancelled", {"reason": status})
        run.say("run.cancelled", {"reason": status}, node_id=None)
    elif status == "failed":
        _fail(run, _failure(run.reasons.get(status)), frame)
    elif not run.is_waiting:
        outputs = {said: final[name] for name, said in OUTPUTS.items() if name in final}
        if status != COMPLETED:
            outputs |= present(status=status, reason=run.reasons.get(status))
        nodes.end(run, COMPLETED, {})
        run.say("run.completed", {"outputs": outputs}, node_id=None, notices=frame.get("notices"))


def on_error(run: Run, frame: Frame) -> None:
    """Say that the run failed."""
    error = frame["error"]
    told = {"code": error["code"] or UNKNOWN, "message": error["message"] or FAILED_MESSAGE}
    about = {f"{VENDOR}.source": error["source"]}
    _fail(run, {**told, "retryable": error["is_retryable"], "details": about}, frame)


def on_branch(run: Run, frame: Frame) -> None:
    """Let another branch speak, or say the end of the node of one that is over, unless that waits for an approval."""
    if not frame["is_over"]:
        run.enter(frame["branch"])
        return
    run.speakers.leave(run.branch)
    if run.voice.response.has_failed:
        nodes.leave(run, run.branch, "failed", {"error": _failure(run.voice.response.reason)})
    elif not run.voice.suspended:
        nodes.leave(run, run.branch, COMPLETED, {})


def is_beginning(frame: Frame) -> bool:
    """Tell whether a frame begins a response, now that the one before has ended."""
    kind = frame["kind"]
    return kind == Kind.OUTPUT_ITEM_ADDED or (kind == Kind.LIFECYCLE and frame["status"] in UNDER_WAY)


def begin_response(run: Run) -> None:
    """Take the beginning of another response: of a run that waited, it goes on."""
    run.voice.response = Response()
    calls.resume(run)


def _failure(code: str | None) -> dict[str, Any]:
    """Give the error of a response that failed, with its code; the provider's words about it stay behind."""
    return {"code": code or "failed", "message": FAILED_MESSAGE}


def _fail(run: Run, error: Mapping[str, Any], frame: Frame) -> None:
    nodes.end(run, "failed", {"error": error})
    payload = present(error=error, failedNodeId=run.node_id or None)
    run.say("run.failed", payload, node_id=None, notices=frame.get("notices"))


def _finish_reason(response: Response, status: str) -> str | None:
    if status == COMPLETED:
        return "tool_calls" if response.pending else "stop"
    return FINISH_REASONS.get(response.reason or "") if status == "incomplete" else None
