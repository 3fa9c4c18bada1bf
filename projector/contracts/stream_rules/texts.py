"""Rules of texts that stream: what was said in deltas is what `done` and `final` say (CONTRACT D13, D23, D30)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from projector.contracts.public_sse_v1 import (
    FinalEvent,
    Lifecycle,
    MessageDelta,
    OutputItemAdded,
    PublicEvent,
    ReasoningSummaryDelta,
    RefusalDelta,
    RefusalDone,
)
from projector.contracts.stream_rules.notices import is_cut
from projector.contracts.stream_rules.places import Place, place_of
from projector.contracts.stream_rules.table import Breach

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
        self._items: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, slot: int, index: int, text: str) -> None:
        self._items[slot][index].append(text)

    def stands_in(self, text: str, part_joint: str) -> bool:
        """Tell whether a text is made of the items, in any order, which D13 leaves open.

        It may be longer: a snapshot of the provider fills what was never streamed.
        """
        items = [{index: "".join(deltas) for index, deltas in parts.items()} for parts in self._items.values()]
        least = _BLANK_LINE.join(filter(None, (part_joint.join(filter(None, parts.values())) for parts in items)))
        return len(text) >= len(least) and all(
            _holds(text, parts.values()) or _holds(text, [parts[index] for index in sorted(parts)]) for parts in items
        )


def _holds(text: str, parts: Iterable[str]) -> bool:
    """Tell whether the parts stand in the text, one after the other."""
    end = 0
    for part in parts:
        start = text.find(part, end)
        if start < 0:
            return False
        end = start + len(part)
    return True


class TextWatch:
    """Compares refusals with their deltas and, in a stream of one response, `final` with what was said."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[int, int], StreamedText] = {}
        self._said = {name: _Transcript() for name in _PART_JOINTS}
        self._response_ids: set[str] = set()
        self._places: set[Place] = set()
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
        if begins:
            self._places.add(place_of(event))
        self._is_run |= len(self._response_ids) > 1 or len(self._places) > 1 or (begins and self._has_ended)
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
            text = getattr(event.final, name) or ""
            if not self._said[name].stands_in(text, part_joint) and not is_cut(event, f"final.{name}"):
                found.append(Breach("final_text", f"expected `final.{name}` to hold what was said"))
        return found
