"""Clean texts that continue each other, as the entries of a log do.

Each is read alone, and all of them as one text, which may be a document or hold a secret that begins in one entry and
ends in another. What either reading withholds is withheld. Unlike the strings of an array, which stream, all entries
are there: nothing of a secret is shown because its end was not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction.clean import MARK, REDACTED_HERE, TRUNCATED_HERE, Cleaned, CleanText
from projector.redaction.detector import Detector
from projector.redaction.json_filter import string_filter
from projector.redaction.readings import Merged
from projector.redaction.steps import Step, in_pieces
from projector.redaction.whole_values import Adjacent, bound

_LEVEL: Final = 1


def clean_continued(detector: Detector, texts: Iterable[str], max_chars: int | None) -> list[Cleaned[CleanText]]:
    """Return the texts, each cleaned and cut to a limit."""
    adjacent = Adjacent(detector)
    joined, merged = string_filter(detector, _LEVEL), Merged(2)
    read: list[tuple[str, bool]] = []  # what was read of each text, and whether that is all
    steps: list[Step] = []
    for text in map(codec.scrub, texts):
        alone = adjacent.filter_of()
        count = shown = 0
        for piece in in_pieces(text):
            found = alone.feed(piece)
            steps += merged.add([joined.feed(piece), found])
            count += len(piece)
            shown += sum(length for length, mark in found if mark is None)
            if max_chars is not None and shown > max_chars:
                break
        is_whole = count == len(text)
        read.append((text[:count], is_whole))
        if is_whole:
            steps += merged.add([[], alone.end()])
            adjacent.leave(alone, text)
        else:
            steps += merged.add([joined.end(), alone.end()])
            adjacent, joined = Adjacent(detector), string_filter(detector, _LEVEL)
    steps += merged.add([joined.end(), []])
    return [_cleaned(text, is_whole, max_chars) for text, is_whole in _applied(steps, read)]


def _applied(steps: list[Step], read: list[tuple[str, bool]]) -> Iterable[tuple[str, bool]]:
    """Yield the texts with the steps over all of them applied; a text that begins withheld has a mark of its own."""
    queue = iter(steps)
    count, mark = next(queue, (0, None))
    last = REDACTED
    for text, is_whole in read:
        parts: list[str] = []
        at = 0
        while at < len(text):
            if not count:
                count, mark = next(queue, (len(text), ""))
                continue
            taken = min(count, len(text) - at)
            if mark is None:
                parts.append(text[at : at + taken])
            elif mark or not at:
                last = mark or last
                parts.append(last)
            count, mark = count - taken, mark and ""
            at += taken
        yield "".join(parts), is_whole


def _cleaned(text: str, is_whole: bool, max_chars: int | None) -> Cleaned[CleanText]:  # noqa: FBT001 - a fact of the text
    cut = bound(text, max_chars)
    truncated = cut.notices or (() if is_whole else TRUNCATED_HERE)
    redacted = REDACTED_HERE if MARK.search(cut.value) else ()
    return Cleaned(cut.value, redacted + truncated)
