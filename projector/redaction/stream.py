"""Streaming redaction of the arguments of a call and of growing texts (CONTRACT D23 to D25, D31).

The same code cleans whole texts: `Redactor.arguments` is one `feed` and a `finish`. The output after n characters
depends on those n characters alone, however they were cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from projector.contracts import codec
from projector.redaction.clean import (
    MARK,
    REDACTED_HERE,
    TRUNCATED_HERE,
    CleanArguments,
    Cleaned,
    CleanJson,
    CleanText,
    Notice,
    bounded,
    cut_text,
    notice,
    render,
)
from projector.redaction.content_filter import Filter
from projector.redaction.detector import Detector, Values
from projector.redaction.filters import ValueFilter
from projector.redaction.gathered import Gathered
from projector.redaction.joints import Joint, Rest, at_beginning, at_end
from projector.redaction.json_filter import JsonStreamFilter, Path
from projector.redaction.json_grammar import ESCAPE
from projector.redaction.policy import Limits
from projector.redaction.steps import PIECE_CHARS, PositionMap, Step, StepWriter, in_pieces
from projector.redaction.whole_values import clean_tree

_NOTHING: Final[Cleaned[CleanText]] = Cleaned(CleanText(""))
_UNPARSED_MAX_CHARS: Final = 4 * 1024 * 1024
"""Maximum length of arguments that are parsed at the end although their text is truncated; longer ones stay text."""


_new_tuple: Final = tuple.__new__  # four times as fast as calling the class; used for every token

RUN_TEXT_MAX_CHARS: Final = 1_024
"""Maximum length of a text that is read or shown as one of a run."""


class ArgumentsEnd(NamedTuple):
    """End of a call's arguments: the last delta, and the complete arguments."""

    rest: Cleaned[CleanText]
    arguments: CleanArguments


class _SurrogateJoiner:
    """A decoder that joins surrogate pairs split by fragments; a lone half becomes U+FFFD (CONTRACT D31)."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""

    def feed(self, fragment: str) -> str:
        """Return a fragment as valid text. A high surrogate at its end is held until the next fragment."""
        if not self.held and fragment.isascii():
            return fragment
        text = self.held + fragment
        self.held = text[-1:] if codec.HIGH <= text[-1:] < codec.LOW else ""
        return codec.scrub(text[: len(text) - len(self.held)])

    def end(self) -> str:
        text, self.held = self.held, ""
        return codec.scrub(text)


def _joined(first: Cleaned[CleanText], second: Cleaned[CleanText]) -> Cleaned[CleanText]:
    return Cleaned(CleanText(first.value + second.value), bounded(first.notices + second.notices))


class TextStream:
    """Cleaner of a growing text. Without a filter it only joins surrogate pairs."""

    __slots__ = ("_filter", "_joiner", "_writer", "positions")

    def __init__(self, text_filter: Filter | None) -> None:
        self._filter = text_filter
        self._joiner = _SurrogateJoiner()
        self._writer = StepWriter()
        self.positions = PositionMap()
        """Positions of the provider's text -> positions of the clean text."""

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return the part that can be shown now."""
        if self._filter is None and fragment.isascii() and not self._joiner.held:
            return _new_tuple(Cleaned, (fragment, ()))
        text = self._joiner.feed(fragment)
        if self._filter is None:
            return Cleaned(CleanText(text))
        if (count := self._filter.quick(text)) < 0:
            return self._filtered(self._filter, text)
        self.positions.read += count
        return _new_tuple(Cleaned, (self._writer.show(count, text), ()))

    def feed_run(self, deltas: Sequence[str], start: int, /) -> list[CleanText]:
        """Feed deltas as long as a quick search decides each, and return what each of them shows.

        These are the values that `feed` returns for each, without notices. One is empty if all of its delta is held.
        Fewer deltas may be read than possible.

        Args:
            deltas: valid texts, none of them empty or longer than `RUN_TEXT_MAX_CHARS`; no result is longer, either.
            start: position of the first one.
        """
        shown = [CleanText(delta) for delta in deltas[start : start + self.count_shown(deltas, start)]]
        self.skip(shown)
        return shown

    def count_shown(self, deltas: Sequence[str], start: int, /) -> int:
        """Return how many deltas at least are shown as they are, with nothing held behind each; none is read."""
        return len(deltas) - start if self._filter is None and not self._joiner.held else 0

    def skip(self, deltas: Sequence[str], /) -> None:
        """Read deltas that `count_shown` has counted."""

    @property
    def held(self) -> str:
        """Characters that were read and neither shown nor withheld."""
        return self._writer.held

    @property
    def is_verbatim(self) -> bool:
        """Whether all characters that are not held were shown as they are; False if that is unknown."""
        return False

    def take_place_of(self, other: TextStream, /) -> None:
        """Read the same text as another stream, again from its start."""

    def close(self) -> Cleaned[CleanText]:
        """Return the clean text of the characters held at the end."""
        text = self._joiner.end()
        if self._filter is None:
            return Cleaned(CleanText(text))
        self._writer.marked = False
        clean = self._write(self._filter.feed(text), text) if text else ""
        return self._cleaned(clean + self._write(self._filter.end(), ""))

    def _filtered(self, text_filter: Filter, text: str) -> Cleaned[CleanText]:
        self._writer.marked = False
        parts = [self._write(text_filter.feed(piece), piece) for piece in in_pieces(text)]
        return self._cleaned("".join(parts))

    def _write(self, steps: list[Step], text: str) -> str:
        self.positions.add(steps)
        return self._writer.write(steps, text)

    def _cleaned(self, clean: str) -> Cleaned[CleanText]:
        return Cleaned(CleanText(clean), REDACTED_HERE if self._writer.marked else ())


class ValueStream(TextStream):
    """Cleaner of a growing text from which only registered values are withheld.

    Nearly every fragment is decided by one quick search, with the same result as the filter: all of it is shown, or all
    but a few characters at its end that may begin a value.

    Args:
        values: the registered values.
        joint: the texts that clients join with this one.
    """

    __slots__ = (
        *("_beginning", "_count", "first_rests", "_held", "_is_busy", "_joint", "_openings", "_pending", "_rests"),
        "_values",
    )

    def __init__(self, values: Values, joint: Joint | None = None) -> None:
        self._values = ValueFilter(values)
        self._joint = joint
        self._rests: tuple[Rest, ...] = ()
        """What the text must not continue with, until that is decided."""
        self.first_rests: tuple[Rest, ...] | None = None
        """What it must not begin with; None before its first text."""
        self._pending = ""  # text that may be one of the rests
        self._beginning = values.beginning
        self._openings = values.openings
        self._count = 0  # shown characters that `positions` has not counted
        self._held = ""
        self._is_busy = False  # whether anything is held
        super().__init__(self._values)

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return the part that can be shown now."""
        joint = self._joint
        if joint is not None:
            if joint.owner is not self or self._rests:
                return self._continue(joint, fragment)
            joint.recent = (joint.recent + fragment)[-joint.longest :]
        if not self._is_busy and fragment.isascii() and self._beginning(fragment) is None:
            self._count += len(fragment)
            return _new_tuple(Cleaned, (fragment, ()))
        text = fragment if fragment.isascii() and not self._joiner.held else self._joiner.feed(fragment)
        cleaned = self._search(text)
        self._is_busy = bool(self._held or self._joiner.held)
        return cleaned

    def count_shown(self, deltas: Sequence[str], start: int, /) -> int:
        """Return the number of the next deltas in which no value begins, not even at their ends."""
        joint = self._joint
        if self._is_busy or (joint is not None and (joint.owner is not self or self._rests)):
            return 0
        beginning = self._beginning
        for at in range(start, len(deltas)):
            if beginning(deltas[at]) is not None:
                return at - start
        return len(deltas) - start

    def skip(self, deltas: Sequence[str], /) -> None:
        """Read deltas that `count_shown` has counted."""
        text = "".join(deltas)
        self._count += len(text)
        if self._joint is not None:
            self._joint.add(text)

    def close(self) -> Cleaned[CleanText]:
        """Return the clean text of the characters held at the end."""
        before = self._decide()
        self._hand_over()
        return _joined(before, super().close())

    def take_place_of(self, other: TextStream, /) -> None:
        """Read the same text as another stream, again from its start, after the same other texts."""
        if isinstance(other, ValueStream) and self._joint is not None and other.first_rests is not None:
            self._rests = self.first_rests = other.first_rests
            self._joint.owner = self

    def _continue(self, joint: Joint, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment that follows another text."""
        if not fragment:
            return _NOTHING
        before = _NOTHING
        if joint.owner is not self:
            before = self._decide()
            self._rests = joint.turn(self)
            if self.first_rests is None:
                self.first_rests = self._rests
        joint.add(fragment)
        text = self._pending + self._joiner.feed(fragment)
        found = at_beginning(self._rests, text) if text else None
        self._pending = text if found is None else ""
        cleaned = _NOTHING if found is None else self._after_seam(text, *found)
        self._is_busy = bool(self._held or self._joiner.held)
        return _joined(before, cleaned)

    def _decide(self) -> Cleaned[CleanText]:
        """Return the clean text of what may have been the rest of a value, as no more of it follows."""
        text, self._pending = self._pending, ""
        return self._after_seam(text, *at_end(self._rests, text)) if text else _NOTHING

    def _after_seam(self, text: str, count: int, mark: str) -> Cleaned[CleanText]:
        """Withhold the beginning of a text that is the rest of a value, and search what follows."""
        self._rests = ()
        if not mark:
            return self._search(text)
        self._hand_over()
        self._writer.marked = False
        clean = self._write(self._values.end(), "") + self._write([(count, mark)], text[:count])
        self._held = ""
        return _joined(self._cleaned(clean), self._search(text[count:]))

    def _search(self, new: str) -> Cleaned[CleanText]:
        text = self._held + new if self._held else new
        found = self._beginning(text)
        start = len(text) if found is None else found.start()
        rest = text[start:]
        if rest and rest not in self._openings:
            self._hand_over()
            cleaned = self._filtered(self._values, new)
            self._held = self._values.held
            return cleaned
        self._held = rest
        self._count += start
        return _new_tuple(Cleaned, (text[:start], ()))

    def _hand_over(self) -> None:
        """Bring the filter to the state after the text so far."""
        self._values.held = self._writer.held = self._held
        self.positions.read += self._count
        self._count = 0


class ArgumentStream:
    """Cleaner of the arguments of one call. The joined deltas equal the text of the result."""

    def __init__(self, detector: Detector, limits: Limits) -> None:
        self._limits = limits
        self._filter = JsonStreamFilter(detector)
        self._joiner = _SurrogateJoiner()
        self._writer = StepWriter()
        self._remaining = limits.arguments_text_max_chars
        self._is_cut = False
        self._marked = False
        self._unread = False
        self._clean: Gathered[CleanText] = Gathered()  # all clean text, to be parsed; the deltas are its start
        self._late: Gathered[str] = Gathered()  # fragments beyond the limit, read at the end
        self._late_chars = 0

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return a delta; it is empty after a syntax error or beyond the limit (D23, D24)."""
        text = fragment if fragment.isascii() and not self._joiner.held else self._joiner.feed(fragment)
        if not text or self._filter.failed:
            return _NOTHING
        if self._is_cut:
            self._keep_late(text)
            return _NOTHING
        if (count := self._filter.quick(text)) >= 0:
            return self._delta(self._writer.show(count, text))
        if len(text) <= PIECE_CHARS:
            return self._delta(self._writer.write(self._filter.feed(text), text))
        return self._delta(self._filtered(text))

    def finish(self) -> ArgumentsEnd:
        """Return the end of the arguments; text that is not one complete JSON value gets a notice (D24)."""
        was_whole = not self._filter.failed
        clean = self._filtered(self._late.text + self._joiner.end())
        if not self._filter.failed:
            clean += self._writer.write(self._filter.end(), "")
        rest = _NOTHING
        if self._is_cut:
            self._clean.add(CleanText(clean))
        elif was_whole:
            rest = self._delta(clean)
        parsed = self._parse()
        return ArgumentsEnd(rest, CleanArguments(self._whole(parsed), parsed))

    def _filtered(self, text: str) -> str:
        pieces = in_pieces(text)
        return "".join(
            self._writer.write(self._filter.feed(piece), piece) for piece in pieces if not self._filter.failed
        )

    def _keep_late(self, text: str) -> None:
        self._late_chars += len(text)
        if self._late_chars <= _UNPARSED_MAX_CHARS:
            self._late.add(text)

    def _delta(self, clean: str) -> Cleaned[CleanText]:
        """Return clean text as a delta, up to the limit."""
        if not clean and not self._writer.marked and not self._filter.failed:
            return _NOTHING
        self._clean.add(CleanText(clean))
        if len(clean) <= self._remaining and not self._writer.marked and not self._filter.failed:
            self._remaining -= len(clean)
            return _new_tuple(Cleaned, (clean, ()))
        delta = _cut(clean, self._remaining)
        self._remaining -= len(delta)
        self._is_cut = len(delta) < len(clean)
        notices: tuple[Notice, ...] = ()
        if self._writer.marked and MARK.search(delta):
            self._marked = True
            notices = REDACTED_HERE
        self._writer.marked = False
        if self._is_cut or self._filter.failed:
            notices += TRUNCATED_HERE
        return Cleaned(CleanText(delta), notices) if delta or notices else _NOTHING

    def _parse(self) -> Cleaned[CleanJson] | None:
        """Parse the clean text and apply the limits, if it is an object. Text that was not cleaned is never parsed."""
        if self._filter.failed or not self._filter.complete or self._late_chars > _UNPARSED_MAX_CHARS:
            return None
        try:
            tree = codec.loads_exact(self._clean.text)
        except codec.CodecError:  # deeper than any parser reads, or an integer of thousands of digits
            self._unread = True
            return None
        if not isinstance(tree, dict):
            return None
        bounded_tree = clean_tree(tree, self._limits, self._limits.arguments_json_string_max_chars)
        shown = [path for path in self._filter.withheld if _shows_mark(bounded_tree.value, path)]
        notices = [notice("redacted", render(path)) for path in shown]
        return Cleaned(bounded_tree.value, bounded([*notices, *bounded_tree.notices]))

    def _whole(self, parsed: Cleaned[CleanJson] | None) -> Cleaned[CleanText]:
        """Return the text with the notices that the parsed object does not show (D26)."""
        notices: tuple[Notice, ...] = ()
        if self._marked and not (parsed and all(_shows_mark(parsed.value, path) for path in self._filter.withheld)):
            notices = REDACTED_HERE
        whole = not self._filter.failed and (self._filter.complete or self._filter.blank)
        if self._is_cut or self._unread or not whole:
            notices += TRUNCATED_HERE
        return Cleaned(CleanText(self._clean.text[: self._limits.arguments_text_max_chars - self._remaining]), notices)


def _cut(text: str, max_chars: int) -> str:
    """Return at most `max_chars` of JSON text, without a partial mark or escape at its end."""
    if len(text) <= max_chars:
        return text
    short = cut_text(text, max_chars)
    for escape in ESCAPE.finditer(text, 0, len(short) + _ESCAPE_MAX_CHARS):
        if escape.start() < len(short) < escape.end():
            return text[: escape.start()]
    return short


_ESCAPE_MAX_CHARS: Final = 12


def _shows_mark(tree: object, path: Path) -> bool:
    """Return whether a tree shows a mark at a path: in the value, or in the key of the value."""
    for step in path:
        if isinstance(tree, dict):
            tree = tree.get(step, _ABSENT)
        elif isinstance(tree, list) and isinstance(step, int):
            tree = tree[step] if step < len(tree) else _ABSENT
        else:
            return False
    in_key = tree is not _ABSENT and MARK.search(str(path[-1:])) is not None
    return in_key or (isinstance(tree, str) and MARK.search(tree) is not None)


_ABSENT: Final = object()
