"""Rules of texts that stream: what was said in deltas is what `done` and `final` say (CONTRACT D13, D23, D30)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from contracts.public_sse_v1 import (
    FinalEvent,
    Lifecycle,
    MessageDelta,
    OutputItemAdded,
    PublicEvent,
    ReasoningSummaryDelta,
    RefusalDelta,
    RefusalDone,
)
from contracts.stream_rules.notices import is_cut
from contracts.stream_rules.table import Breach

_BLANK_LINE: Final = "\n\n"
_PART_JOINTS: Final[Mapping[str, str]] = {
    "response_text": "",
    "reasoning_summary_text": _BLANK_LINE,
    "refusal_text": _BLANK_LINE,
}
"""The texts of `final`, and what stands between the parts of one item; items are parted by a blank line."""


class StreamedText:
    """A text that comes in deltas and then as a whole; `name` is that of its rules, `<name>_closed` and so on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._deltas: list[str] = []
        self._chars = 0
        self._whole: str | None = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing was said yet."""
        return not self._deltas and self._whole is None

    def delta(self, text: str, *, max_chars: int | None = None) -> list[Breach]:
        """Take a delta; the one that passes `max_chars` is told."""
        if self._whole is not None:
            return [Breach(f"{self._name}_closed", "expected no delta after the whole")]
        before, self._chars = self._chars, self._chars + len(text)
        self._deltas.append(text)
        if max_chars is not None and before <= max_chars < self._chars:
            return [Breach(f"{self._name}_text_chars", f"expected at most {max_chars} characters in all deltas")]
        return []

    def done(self, text: str, *, is_cut: bool = False) -> list[Breach]:
        """Take the whole."""
        if self._whole is not None:
            return [Breach(f"{self._name}_closed", "expected the whole once")]
        self._whole = text
        if self._deltas and not is_cut and "".join(self._deltas) != text:
            return [Breach(f"{self._name}_joined", "expected the whole to be what the deltas make")]
        return []


class _Transcript:
    """The parts of one of final's texts, by slot and index."""

    def __init__(self) -> None:
        self._parts: dict[tuple[int, int], list[str]] = defaultdict(list)

    def add(self, slot: int, index: int, text: str) -> None:
        self._parts[slot, index].append(text)

    def joined(self, part_joint: str) -> set[str]:
        """Give the text as it may be joined: by place, or as it arrived, which D13 leaves open."""
        return {self._join(part_joint, order) for order in (sorted, list)}

    def _join(self, part_joint: str, order: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]) -> str:
        items: dict[int, list[str]] = defaultdict(list)
        for place in order([*self._parts]):
            items[place[0]].append("".join(self._parts[place]))
        texts = [part_joint.join(filter(None, parts)) for parts in items.values()]
        return _BLANK_LINE.join(filter(None, texts))


class TextWatch:
    """Compares refusals with their deltas and, in a stream of one response, `final` with what was said."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[int, int], StreamedText] = {}
        self._said = {name: _Transcript() for name in _PART_JOINTS}
        self._response_ids: set[str] = set()
        self._has_ended = False
        self._is_run = False

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        self._count_responses(event)
        match event:
            case MessageDelta():
                self._said["response_text"].add(event.output_index, event.content_index, event.delta)
            case ReasoningSummaryDelta():
                self._said["reasoning_summary_text"].add(event.output_index, event.summary_index, event.delta)
            case RefusalDelta():
                return self._refusal_delta(event)
            case RefusalDone():
                return self._refusal_done(event)
            case FinalEvent() if not self._is_run:
                return self._final(event)
        return []

    def _count_responses(self, event: PublicEvent) -> None:
        """Note when a second response begins: the texts of `final` are then those of the last one that has any."""
        if event.response_id is not None:
            self._response_ids.add(event.response_id)
        begins = isinstance(event, Lifecycle | OutputItemAdded)
        self._is_run |= len(self._response_ids) > 1 or (begins and self._has_ended)
        self._has_ended |= isinstance(event, Lifecycle) and event.status not in {"queued", "in_progress"}

    def _refusal(self, event: RefusalDelta | RefusalDone) -> StreamedText:
        place = (event.output_index, event.content_index)
        return self._refusals.setdefault(place, StreamedText("refusal"))

    def _refusal_delta(self, event: RefusalDelta) -> list[Breach]:
        found = self._refusal(event).delta(event.delta)
        if not found:
            self._said["refusal_text"].add(event.output_index, event.content_index, event.delta)
        return found

    def _refusal_done(self, event: RefusalDone) -> list[Breach]:
        refusal = self._refusal(event)
        if refusal.is_silent:
            self._said["refusal_text"].add(event.output_index, event.content_index, event.refusal_text)
        return refusal.done(event.refusal_text, is_cut=is_cut(event, "refusal_text"))

    def _final(self, event: FinalEvent) -> list[Breach]:
        found = []
        for name, part_joint in _PART_JOINTS.items():
            ways = self._said[name].joined(part_joint)
            if ways != {""} and not is_cut(event, f"final.{name}") and getattr(event.final, name) not in ways:
                found.append(Breach("final_text", f"expected `final.{name}` to be what was said"))
        return found
