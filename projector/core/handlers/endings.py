"""The end of a stream: open items are closed, then exactly one terminal (seed sections 9.12, 9.13; D11 to D14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import Frame
from projector.core.faults import FAULTS, Fault
from projector.core.growing_text import TextPart
from projector.core.handlers import items
from projector.core.lifecycle import RUN_STATUS_ORDER, Verdict
from projector.core.state import StreamState
from projector.core.transcript import COMMENTARY, Item, KeptText, ResponseEnd
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText

OPTIONAL_STATUS: Final = {"failed": "incomplete", "cancelled": "incomplete"}
"""Status of an optional response -> status that counts for the run."""

USAGE: Final[Mapping[str, tuple[str, ...]]] = {
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "total_tokens": ("total_tokens",),
    "cached_input_tokens": ("input_tokens_details", "cached_tokens"),
    "reasoning_output_tokens": ("output_tokens_details", "reasoning_tokens"),
}
"""Member of `final.usage` -> path in the provider's usage (D13)."""


def close_response(state: StreamState) -> list[Frame]:
    """Close every open item, and emit the usage of a response that has not ended: they were cut off (D7)."""
    output: list[Frame] = []
    for item in state.response.items:
        if item.open:
            output += items.close(state, item, {}, None)
    if state.response.is_counted:
        return output
    if state.usage_so_far is not None and (so_far := state.usage_so_far()):
        state.response.usage = so_far
    return output + usage(state, is_cut=True)


def usage(state: StreamState, *, is_cut: bool = False) -> list[Frame]:
    """Emit the private `response.usage`; add the usage to that of the run, unless the response was cut off."""
    counts: dict[str, int] = {}
    for name, (*outer, member) in USAGE.items():
        source = read.mapping_or_empty(state.response.usage, outer[0]) if outer else state.response.usage
        if (count := read.count_or_none(source, member)) is not None:
            counts[name] = count
    state.response.is_counted = True
    if not is_cut:
        state.run.usage |= {name: state.run.usage.get(name, 0) + count for name, count in counts.items()}
    is_known = any(counts.values()) if is_cut else counts  # some providers send zeros until the end
    return [frames.response_usage(counts, is_cut=is_cut)] if is_known else []


def settle(state: StreamState, status: str) -> None:
    """Record what the ended response contributes to the terminal."""
    run, response = state.run, state.response
    in_order = sorted(response.items, key=attrgetter("place"))
    answers = [_nonempty(item.texts) for item in _answers(in_order) if item.texts]
    found = {
        "response_text": [compose.joined(*texts) for texts in answers if texts],
        "refusal_text": [text for item in in_order if item.refusals for text in _nonempty(item.refusals)],
        "reasoning_summary_text": [text for item in in_order if item.summaries for text in _nonempty(item.summaries)],
    }
    kept = {name: compose.paragraphs(texts) for name, texts in found.items() if texts}
    late = [item for item in in_order if item.is_late]
    is_late = {
        "response_text": any(_nonempty(item.texts) for item in late),
        "refusal_text": any(_nonempty(item.refusals) for item in late),
    }
    for name, text in kept.items():
        one = KeptText(text, is_late.get(name, False))
        if run.keep(name, state.stage, state.branch, one) and name == "response_text":
            run.wants_structure = response.wants_structure
    answer = kept.get("response_text", compose.NOTHING).value
    run.ends[state.branch] = ResponseEnd(state.stage, status, answer, "refusal_text" in kept)
    run.statuses.append(OPTIONAL_STATUS.get(status, status) if state.is_optional else status)


def _answers(response_items: list[Item]) -> list[Item]:
    """Return the items without commentary, or all of them if none of the others has text or a refusal (D43)."""
    others = [item for item in response_items if item.phase != COMMENTARY]
    if len(others) == len(response_items):
        return response_items
    has_answer = any(part.text for item in others for part in (*item.texts.values(), *item.refusals.values()))
    return others if has_answer else response_items


def final(state: StreamState) -> list[Frame]:
    """Build the terminal of a stream whose responses have ended."""
    return _final(state, _run_status(state))


def cancelled(state: StreamState) -> list[Frame]:
    """Build the terminal of a stream that the host cancelled, with the text so far."""
    settle(state, "cancelled")
    return _final(state, "cancelled")


def error(state: StreamState, code: str | None = None) -> list[Frame]:
    """Build the terminal of a failed stream: a provider's message by policy (D41), an exception's never (D14)."""
    fault = _fault(state, code)
    message = state.fault_message
    if message is None:
        message = state.redactor.label(fault.message, state.policy.limits.error_message_max_chars)
    shown = Cleaned(state.redactor.identifier(fault.code), state.fault_notices)
    return [frames.error(shown, message, fault.source, is_retryable=fault.is_retryable)]


def leave(state: StreamState) -> list[Frame]:
    """End a branch: close its open items."""
    return [*close_response(state), frames.branch(state.branch, is_over=True)]


def fail_branch(state: StreamState, code: str | None = None) -> list[Frame]:
    """End an optional branch that failed; the run continues."""
    fault = _fault(state, code)
    output = close_response(state)
    settle(state, "failed")
    reason = Cleaned(state.redactor.identifier(fault.code), state.fault_notices)
    return [*output, frames.lifecycle("failed", reason), frames.branch(state.branch, is_over=True)]


def _final(state: StreamState, status: str) -> list[Frame]:
    run = state.run
    texts = {name: state.redactor.rejoined(text) for name, text in run.texts().items()}
    fields: dict[str, frames.Lossy] = dict(texts)
    text = texts.get("response_text")
    if text is not None and run.wants_structure:
        fields["structured_output"] = state.redactor.parsed(text)
    if run.attachments:
        fields["attachments"] = compose.listed(run.attachments, state.policy.limits.container_max_entries)
    late = run.late_texts()
    terminal = frames.final(status, fields, run.usage, has_unknown_items=run.has_unknown_items)
    return [frames.late_texts(late), terminal] if late else [terminal]


def _fault(state: StreamState, code: str | None) -> Fault:
    """Return the fault with a code, else that of the stream; a provider's message belongs to the latter only."""
    if code is not None:
        state.fault, state.fault_message, state.fault_notices = FAULTS[code], None, ()
    return state.fault or FAULTS["internal_error"]


def _run_status(state: StreamState) -> str:
    """Return the status of the run: the worst of its responses; only the last one can make it `refused` (D12)."""
    statuses = set(state.run.statuses)
    if state.run.is_refused:
        statuses.add("refused")
    return next((status for status in RUN_STATUS_ORDER if status in statuses), "completed")


def _nonempty(parts: Mapping[int, TextPart]) -> list[Cleaned[CleanText]]:
    """Return the texts of an item that are not empty, with their notices, in the order of their positions."""
    return [Cleaned(text, part.notices) for _, part in sorted(parts.items()) if (text := part.text)]


TERMINALS: Final[Mapping[Verdict, Callable[[StreamState], list[Frame]]]] = {
    Verdict.FINISH: final,
    Verdict.CANCELLED: cancelled,
    Verdict.FAIL: error,
    Verdict.TRUNCATED: partial(error, code="upstream_truncated"),
    Verdict.EMPTY: partial(error, code="upstream_empty"),
}
"""Verdicts that end the stream -> its last frames."""

BRANCH_ENDS: Final[Mapping[Verdict, Callable[[StreamState], list[Frame]]]] = {
    Verdict.LEAVE: leave,
    Verdict.FAIL_BRANCH: fail_branch,
    Verdict.TRUNCATE_BRANCH: partial(fail_branch, code="upstream_truncated"),
    Verdict.BEGIN_AND_FAIL_BRANCH: fail_branch,
    Verdict.EMPTY_BRANCH: partial(fail_branch, code="upstream_empty"),
}
"""Verdicts that end one branch -> its last frames."""

OF_THE_RUN: Final = frozenset({Verdict.FINISH, Verdict.CANCELLED})
"""Terminals that belong to the run; the others belong to the response that causes them."""
