"""Rules of responses: their status, and their streamed texts (CONTRACT D10 to D13, D23, D30).

Responses follow each other in each branch of a run; a stream without a workflow has one branch. Branches are
identified by their position in the workflow. Items that are open in a branch when a response ends there belong to
that response. A response is identified by its ID; a `lifecycle` without ID belongs to the response before it (the ID
may not be known yet, and some providers send none). Some servers give every response of a run the same ID: a status
after an end status then starts another response.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from projector.contracts import public_sse_v1 as events
from projector.contracts.kinds import RUNNING
from projector.contracts.parts import FunctionTool
from projector.contracts.stream_rules.table import Finding
from projector.contracts.stream_rules.values import is_truncated


class BranchKey(NamedTuple):
    """The branch of a run that an event belongs to; all None if the stream has no workflow (seed section 6.2)."""

    stage: str | None = None
    group: str | None = None
    branch: int | None = None


def branch_key(event: events.PublicEvent) -> BranchKey:
    """Return the branch of an event."""
    if (workflow := event.workflow) is None:
        return BranchKey()
    return BranchKey(workflow.stage_name, workflow.parallel_group, workflow.branch_index)


_WEIGHTS: Final[Mapping[str, int]] = {
    **dict.fromkeys(RUNNING, 0),
    "completed": 0,
    "incomplete": 1,
    "refused": 2,
    "failed": 3,
    "cancelled": 4,
}
"""The status of a run is the heaviest status of its responses (D12)."""


class _Branch:
    def __init__(self) -> None:
        self.last: events.Lifecycle | None = None
        """Last `lifecycle` of the current response."""
        self.open: dict[int, str | None] = {}
        """Slots of open items, and the IDs of their responses."""


class LifecycleRules:
    """Rules of the status of each response, branch by branch."""

    def __init__(self) -> None:
        self._branches: dict[BranchKey, _Branch] = defaultdict(_Branch)
        self._heaviest = "completed"
        self._overdue: set[int] = set()
        """Slots of items that were open when their response ended."""

    def check(self, event: events.PublicEvent, /) -> list[Finding]:
        """Check the next event."""
        branch = self._branches[branch_key(event)]
        match event:
            case events.Lifecycle():
                return self._lifecycle(event, branch)
            case events.FinalEvent():
                return self._final(event.final.status)
            case events.ToolOutput(tool_type="function") | events.ToolStatus(tool=FunctionTool()):
                return []
            case events.OutputItemAdded():
                branch.open[event.output_index] = event.response_id
                if branch.last is not None and _is_end(branch.last):
                    branch.last = None
            case events.OutputItemDone():
                for other in self._branches.values():  # the host may have changed the context of its response
                    other.open.pop(event.output_index, None)
        if isinstance(event, events.ItemEvent) and event.output_index in self._overdue:
            return [Finding("lifecycle_last", f"expected no further event of item {event.output_index}")]
        return []

    def _lifecycle(self, event: events.Lifecycle, branch: _Branch) -> list[Finding]:
        last, branch.last = branch.last, event
        self._heaviest = max(self._heaviest, _run_status(event), key=_WEIGHTS.__getitem__)
        if _is_end(event):
            known = {None, event.response_id}
            if branch_key(event) == BranchKey() and len(self._branches) > 1:
                known.remove(None)  # without a position, the item may belong to another branch
            self._overdue |= {slot for slot, response_id in branch.open.items() if response_id in known}
            for other in self._branches.values():  # where it was in progress before the host changed its context
                if other is not branch and other.last is not None and other.last.response_id == event.response_id:
                    other.last = None
        if last is None or last.response_id not in {None, event.response_id}:
            return []  # the first of its response
        if _is_end(last) and (last.response_id is None or not _is_end(event)):
            return []  # the first of another response
        if last.status == event.status:
            return [Finding("lifecycle_repeats", f"expected another status than `{last.status}`")]
        if _is_end(last):
            return [Finding("lifecycle_order", f"expected no `{event.status}` after `{last.status}`")]
        return []

    def _final(self, status: str) -> list[Finding]:
        heaviest = self._heaviest
        if len(self._branches) > 1 and _WEIGHTS[heaviest] > _WEIGHTS["incomplete"]:
            heaviest = "incomplete"  # the response may have been an optional branch
        if _WEIGHTS[status] < _WEIGHTS[heaviest]:
            return [Finding("final_status", f"expected no `{status}` after a response that is `{heaviest}`")]
        return []


def _run_status(event: events.Lifecycle) -> str:
    """Return the least status of the run after this response; a workflow may continue without a failed step."""
    is_step = event.workflow is not None and event.workflow.step_name is not None
    return "incomplete" if is_step and _WEIGHTS[event.status] > _WEIGHTS["incomplete"] else event.status


def _is_end(event: events.Lifecycle) -> bool:
    return event.status not in RUNNING


# texts

_BLANK_LINE: Final = "\n\n"
_SEPARATORS: Final[Mapping[str, str]] = {
    "response_text": "",
    "reasoning_summary_text": _BLANK_LINE,
    "refusal_text": _BLANK_LINE,
}
"""Texts of `final`, and the separator between the parts of one item; items are separated by a blank line."""


class StreamedText:
    """A text sent as deltas and then as a whole; `name` is the prefix of its rules (`<name>_closed`, ...)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._deltas: list[str] = []
        self._chars = 0
        self._whole: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no text was sent yet."""
        return not self._deltas and self._whole is None

    def delta(self, text: str, *, max_chars: int | None = None) -> list[Finding]:
        """Check a delta; the one that exceeds `max_chars` is reported."""
        if self._whole is not None:
            return [Finding(f"{self._name}_closed", "expected no delta after the complete text")]
        before, self._chars = self._chars, self._chars + len(text)
        self._deltas.append(text)
        if max_chars is not None and before <= max_chars < self._chars:
            return [Finding(f"{self._name}_text_chars", f"expected at most {max_chars} characters in all deltas")]
        return []

    def done(self, text: str, *, is_truncated: bool = False) -> list[Finding]:
        """Check the whole text."""
        if self._whole is not None:
            return [Finding(f"{self._name}_closed", "expected the complete text once")]
        self._whole = text
        if self._deltas and not is_truncated and "".join(self._deltas) != text:
            return [Finding(f"{self._name}_joined", "expected the complete text to equal the joined deltas")]
        return []


class _Transcript:
    """Parts of one text of `final`, by slot and index."""

    def __init__(self) -> None:
        self._items: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, slot: int, index: int, text: str) -> None:
        self._items[slot][index].append(text)

    def is_contained_in(self, text: str, separator: str) -> bool:
        """Return whether a text holds the items in the order of their slots (D13, D43).

        The text may be longer: a snapshot of the provider fills what was never streamed.
        """
        end = 0
        for texts in self._in_order():
            start = end + len(_BLANK_LINE) if end else 0
            ends = [_end_of(text, order, separator, start) for order in _orders(texts)]
            if max(ends) < 0:
                return False
            end = min(one for one in ends if one >= 0)
        return True

    def is_without_items(self, text: str, separator: str) -> bool:
        """Return whether a text is made of some of the items, in the order of their slots.

        Messages with commentary are left out of `response_text` (D43); the public stream does not mark them.
        """
        ends = {0}
        for texts in self._in_order():
            for joined in {separator.join(order) for order in _orders(texts)}:
                starts = {0, *(end + len(_BLANK_LINE) for end in ends if end and text.startswith(_BLANK_LINE, end))}
                ends |= {start + len(joined) for start in starts if text.startswith(joined, start)}
        return len(text) in ends

    def _in_order(self) -> Iterator[dict[int, str]]:
        """Yield the parts that are not empty of each item that has any, by index."""
        for _, parts in sorted(self._items.items()):
            if texts := {index: text for index, deltas in parts.items() if (text := "".join(deltas))}:
                yield texts


def _orders(texts: Mapping[int, str]) -> list[list[str]]:
    """Return the parts of an item in the order of their arrival, and in that of their indexes."""
    return [list(texts.values()), [texts[index] for index in sorted(texts)]]


def _end_of(text: str, parts: Iterable[str], separator: str, start: int) -> int:
    """Return where the parts end that a text holds one after the other, -1 if it does not hold them."""
    end = start
    for part in parts:
        at = text.find(part, end)
        if at < 0:
            return -1
        end = at + len(part) + len(separator)
    return end - len(separator)


class TextRules:
    """Rules that compare refusals with their deltas and, with one response, `final` with the streamed texts."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[int, int], StreamedText] = {}
        self._streamed = {name: _Transcript() for name in _SEPARATORS}
        self._response_ids: set[str] = set()
        self._places: set[BranchKey] = set()
        self._has_ended = False
        self._is_run = False

    def check(self, event: events.PublicEvent, /) -> list[Finding]:
        """Check the next event."""
        self._count_responses(event)
        match event:
            case events.MessageDelta():
                self._streamed["response_text"].add(event.output_index, event.content_index, event.delta)
            case events.ReasoningSummaryDelta():
                self._streamed["reasoning_summary_text"].add(event.output_index, event.summary_index, event.delta)
            case events.RefusalDelta():
                return self._refusal_delta(event)
            case events.RefusalDone():
                return self._refusal_done(event)
            case events.FinalEvent() if not self._is_run:
                return self._final(event)
        return []

    def _count_responses(self, event: events.PublicEvent) -> None:
        """Count responses: with several, the texts of `final` are those of the last one that has text."""
        if event.response_id is not None:
            self._response_ids.add(event.response_id)
        begins = isinstance(event, events.Lifecycle | events.OutputItemAdded)
        if begins:
            self._places.add(branch_key(event))
        self._is_run |= len(self._response_ids) > 1 or len(self._places) > 1 or (begins and self._has_ended)
        self._has_ended |= isinstance(event, events.Lifecycle) and _is_end(event)

    def _refusal(self, event: events.RefusalDelta | events.RefusalDone) -> StreamedText:
        place = (event.output_index, event.content_index)
        return self._refusals.setdefault(place, StreamedText("refusal"))

    def _refusal_delta(self, event: events.RefusalDelta) -> list[Finding]:
        found = self._refusal(event).delta(event.delta)
        if not found:
            self._streamed["refusal_text"].add(event.output_index, event.content_index, event.delta)
        return found

    def _refusal_done(self, event: events.RefusalDone) -> list[Finding]:
        refusal = self._refusal(event)
        if refusal.is_empty:
            self._streamed["refusal_text"].add(event.output_index, event.content_index, event.refusal_text)
        return refusal.done(event.refusal_text, is_truncated=is_truncated(event, "refusal_text"))

    def _final(self, event: events.FinalEvent) -> list[Finding]:
        found = []
        for name, separator in _SEPARATORS.items():
            text = getattr(event.final, name) or ""
            streamed = self._streamed[name]
            if streamed.is_contained_in(text, separator) or is_truncated(event, f"final.{name}"):
                continue
            is_answer = name == "response_text" and bool(text or event.final.refusal_text)
            if not is_answer or not streamed.is_without_items(text, separator):
                found.append(Finding("final_text", f"expected `final.{name}` to contain the streamed text"))
        return found
