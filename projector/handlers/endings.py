"""How a stream ends: closers, then exactly one terminal (seed sections 9.12 and 9.13, CONTRACT D11 to D14)."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.kinds import Kind
from projector import frames
from projector.canonical import Frame
from projector.faults import FAULTS, Fault
from projector.handlers import items
from projector.lifecycle import RUN_STATUS_ORDER
from projector.parts import TextPart
from projector.state import StreamState
from redaction import compose
from redaction.clean import Cleaned, CleanText


def close_items(state: StreamState) -> list[Frame]:
    """Close every item that is still open; they were cut off (D7)."""
    said: list[Frame] = []
    for item in state.response.items:
        if item.open:
            said += items.close(state, item, {}, None)
    return said


def settle(state: StreamState, status: str) -> None:
    """Remember what the ended response leaves for the terminal."""
    run, response = state.run, state.response
    texts = [compose.joined(*_spoken(item.texts.values())) for item in response.items]
    said = {
        "response_text": compose.paragraphs(text for text in texts if text.value),
        "refusal_text": compose.paragraphs(_spoken(part for item in response.items for part in item.refusals.values())),
        "reasoning_summary_text": compose.paragraphs(
            _spoken(part for item in response.items for part in item.summaries.values())
        ),
    }
    run.texts.update({name: text for name, text in said.items() if text.value})
    if said["response_text"].value:
        run.wants_structure = response.wants_structure
    run.refused_last = bool(said["refusal_text"].value and not said["response_text"].value)
    run.statuses.append(status)


def final(state: StreamState) -> list[Frame]:
    """Say the terminal of a stream whose responses have ended."""
    return _final(state, _run_status(state))


def cancelled(state: StreamState) -> list[Frame]:
    """Say the terminal of a stream that the host ended, with the text so far."""
    settle(state, "cancelled")
    return _final(state, "cancelled")


def error(state: StreamState) -> list[Frame]:
    """Say the terminal of a failed stream; a provider's words pass redaction, an exception's never leave (D14)."""
    fault = state.fault or FAULTS["internal_error"]
    code = state.redactor.identifier(fault.code)
    message = state.redactor.label(state.fault_message or fault.message, state.policy.limits.error_message_max_chars)
    return [frames.error(code, message, fault.source, is_retryable=fault.is_retryable)]


def truncated(state: StreamState) -> list[Frame]:
    """Say the terminal of a stream that ended before its response."""
    state.fault = FAULTS["upstream_truncated"]
    return error(state)


def empty(state: StreamState) -> list[Frame]:
    """Say the terminal of a stream that ended before it began."""
    state.fault = FAULTS["upstream_empty"]
    return error(state)


def abandon(added: Iterable[Frame], fault: Fault) -> list[Frame]:
    """Close items as they were announced and say a fault of ours, all without asking redaction again."""
    done = {"kind": Kind.OUTPUT_ITEM_DONE.value, "status": "incomplete"}
    code, message = compose.own_words(fault.code), Cleaned(compose.own_words(fault.message))
    error_frame = frames.error(code, message, fault.source, is_retryable=fault.is_retryable)
    return [*({**frame, **done} for frame in added), error_frame]


def _final(state: StreamState, status: str) -> list[Frame]:
    run = state.run
    fields: dict[str, frames.Lossy] = dict(run.texts)
    text = run.texts.get("response_text")
    if text is not None and run.wants_structure:
        fields["structured_output"] = state.redactor.parsed(text.value)
    if run.attachments:
        fields["attachments"] = compose.listed(run.attachments, state.policy.limits.container_max_entries)
    return [frames.final(status, fields, run.usage)]


def _run_status(state: StreamState) -> str:
    """Give the status of the run: the gravest of its responses, refused by the last only (D12)."""
    statuses = set(state.run.statuses)
    if state.run.refused_last and state.run.statuses[-1] == "completed":
        statuses.add("refused")
    return next((status for status in RUN_STATUS_ORDER if status in statuses), "completed")


def _spoken(parts: Iterable[TextPart]) -> list[Cleaned[CleanText]]:
    """Give the texts that are not empty, with what is missing from them."""
    return [Cleaned(part.text, part.notices) for part in parts if part.text]
