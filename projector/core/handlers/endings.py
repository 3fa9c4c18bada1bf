"""How a stream ends: closers, then exactly one terminal (seed sections 9.12 and 9.13, CONTRACT D11 to D14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from projector.contracts.kinds import Kind
from projector.core import frames
from projector.core.canonical import Frame
from projector.core.faults import FAULTS, Fault
from projector.core.handlers import items
from projector.core.lifecycle import RUN_STATUS_ORDER, Verdict
from projector.core.parts import TextPart
from projector.core.state import StreamState
from projector.core.transcript import End
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText

GONE_ON: Final = {"failed": "incomplete", "cancelled": "incomplete"}
"""What the end of a response is to a run that goes on without it."""


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
    for name, text in said.items():
        if text.value and run.keep(name, state.stage, state.branch, text) and name == "response_text":
            run.wants_structure = response.wants_structure
    run.ends[state.branch] = End(state.stage, status, said["response_text"].value, bool(said["refusal_text"].value))
    run.statuses.append(GONE_ON.get(status, status) if state.is_optional else status)


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


def leave(state: StreamState) -> list[Frame]:
    """Say that nothing more comes of a branch."""
    return [*close_items(state), frames.branch(state.branch, is_over=True)]


def fail_branch(state: StreamState) -> list[Frame]:
    """Say that the response of a branch failed, where the run goes on without it."""
    fault = state.fault or FAULTS["internal_error"]
    said = close_items(state)
    settle(state, "failed")
    code = state.redactor.identifier(fault.code)
    return [*said, frames.lifecycle("failed", code), frames.branch(state.branch, is_over=True)]


def truncate_branch(state: StreamState) -> list[Frame]:
    """Say that the response of a branch ended before it was complete."""
    state.fault = FAULTS["upstream_truncated"]
    return fail_branch(state)


def empty_branch(state: StreamState) -> list[Frame]:
    """Say that the response of a branch never began."""
    state.fault = FAULTS["upstream_empty"]
    return fail_branch(state)


def abandoned(added: Frame) -> Frame:
    """Give the end of an item as it was announced, without asking redaction again."""
    return {**added, "kind": Kind.OUTPUT_ITEM_DONE.value, "status": "incomplete"}


def collapsed(fault: Fault) -> Frame:
    """Give the terminal that says a fault of ours, without asking redaction again."""
    code, message = compose.own_words(fault.code), Cleaned(compose.own_words(fault.message))
    return frames.error(code, message, fault.source, is_retryable=fault.is_retryable)


def _final(state: StreamState, status: str) -> list[Frame]:
    run = state.run
    texts = run.texts()
    fields: dict[str, frames.Lossy] = dict(texts)
    text = texts.get("response_text")
    if text is not None and run.wants_structure:
        fields["structured_output"] = state.redactor.parsed(text.value)
    if run.attachments:
        fields["attachments"] = compose.listed(run.attachments, state.policy.limits.container_max_entries)
    return [frames.final(status, fields, run.usage)]


def _run_status(state: StreamState) -> str:
    """Give the status of the run: the gravest of its responses, refused by the last only (D12)."""
    statuses = set(state.run.statuses)
    if state.run.is_refused:
        statuses.add("refused")
    return next((status for status in RUN_STATUS_ORDER if status in statuses), "completed")


def _spoken(parts: Iterable[TextPart]) -> list[Cleaned[CleanText]]:
    """Give the texts that are not empty, with what is missing from them."""
    return [Cleaned(part.text, part.notices) for part in parts if part.text]


TERMINALS: Final[Mapping[Verdict, Callable[[StreamState], list[Frame]]]] = {
    Verdict.FINISH: final,
    Verdict.CANCELLED: cancelled,
    Verdict.FAIL: error,
    Verdict.TRUNCATED: truncated,
    Verdict.EMPTY: empty,
}
"""Verdicts that end the stream -> what is said last."""

BRANCH_ENDS: Final[Mapping[Verdict, Callable[[StreamState], list[Frame]]]] = {
    Verdict.LEAVE: leave,
    Verdict.FAIL_BRANCH: fail_branch,
    Verdict.TRUNCATE_BRANCH: truncate_branch,
    Verdict.BEGIN_AND_FAIL_BRANCH: fail_branch,
    Verdict.EMPTY_BRANCH: empty_branch,
}
"""Verdicts that end one branch -> what is said last of it."""

OF_THE_RUN: Final = frozenset({Verdict.FINISH, Verdict.CANCELLED})
"""Terminals that belong to no response; the others belong to the one that brings them."""
