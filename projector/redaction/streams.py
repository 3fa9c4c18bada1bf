"""Cleaners of growing texts: message text, tool code, structured output, the arguments of a call (CONTRACT D23 to D25).

A cleaner applies the steps of a filter to its text and adds notices. The same code cleans whole texts: one `feed` and a
`close` or `finish`. The output after n characters depends on those n characters alone, however they were cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    Gathered,
    Notice,
    bounded,
    cut_text,
    notice,
    render,
)
from projector.redaction.json_filter import JsonStreamFilter, Path
from projector.redaction.ledger import Echo, Ledger, class_of
from projector.redaction.policy import Limits
from projector.redaction.search import Search
from projector.redaction.spellings import ESCAPE, PositionMap, Step, StepWriter
from projector.redaction.text_filter import PIECE_CHARS, Filter, TextFilter, Union, in_pieces
from projector.redaction.value_ends import Registered
from projector.redaction.whole_values import clean_tree, spans_of

_NOTHING: Final[Cleaned[CleanText]] = Cleaned(CleanText(""))
_UNPARSED_MAX_CHARS: Final = 4 * 1024 * 1024
"""Maximum length of arguments that are parsed at the end although their text is truncated; longer ones stay text."""


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
        text = self.held + fragment
        self.held = text[-1:] if codec.HIGH <= text[-1:] < codec.LOW else ""
        return codec.scrub(text[: len(text) - len(self.held)])

    def end(self) -> str:
        text, self.held = self.held, ""
        return codec.scrub(text)


class TextStream:
    """Cleaner of a growing text.

    Args:
        text_filter: decides what is withheld; None: nothing is, and only surrogate pairs are joined.
        ledger: the actions of the policy; None: everything that the filter finds is withheld.
    """

    __slots__ = ("_joiner", "_ledger", "_text", "_writer", "positions")

    def __init__(self, text_filter: Filter | None, ledger: Ledger | None = None) -> None:
        self._text = text_filter
        self._ledger = ledger
        self._joiner = _SurrogateJoiner()
        self._writer = StepWriter()
        self.positions = PositionMap()
        """Positions of the provider's text -> positions of the clean text."""

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return the part that can be shown now."""
        text = fragment if fragment.isascii() and not self._joiner.held else self._joiner.feed(fragment)
        if self._text is None:
            return Cleaned(CleanText(text))
        ledger = self._ledger
        if (ledger is None or not ledger.is_open) and (count := self._text.quick(text)) >= 0:
            self.positions.read += count
            shown = self._writer.show(count, text)
            if ledger is not None:
                ledger.resume(self._writer.held)
            return Cleaned(CleanText(shown))
        return self._cleaned("".join([self._write(self._text.feed(piece), piece) for piece in in_pieces(text)]))

    def feed_run(self, deltas: Sequence[str], start: int, /) -> list[CleanText]:
        """Feed deltas as long as a quick search decides each, and return what each of them shows.

        These are the values that `feed` returns for each, without notices. One is empty if all of its delta is held.
        Fewer deltas may be read than possible.

        Args:
            deltas: valid texts, none of them empty.
            start: position of the first one.
        """
        is_shown = self._text is None and not self._joiner.held
        return [CleanText(delta) for delta in deltas[start:]] if is_shown else []

    @property
    def held(self) -> str:
        """Characters that were read and neither shown nor withheld."""
        return self._writer.held

    @property
    def is_verbatim(self) -> bool:
        """Whether all characters that are not held were shown as they are."""
        return not self.positions.starts and not self._joiner.held

    def take_place_of(self, other: TextStream, /) -> None:
        """Read the same text as another stream, again from its start."""

    def close(self) -> Cleaned[CleanText]:
        """Return the clean text of the characters held at the end."""
        text = self._joiner.end()
        if self._text is None:
            return Cleaned(CleanText(text))
        clean = self._write(self._text.feed(text), text) if text else ""
        return self._cleaned(clean + self._write(self._end(self._text), "", at_end=True))

    def _end(self, text: Filter) -> list[Step]:
        return text.end()

    def _write(self, steps: list[Step], text: str, *, at_end: bool = False) -> str:
        if self._ledger is not None:
            steps = self._ledger.settle(steps, text, at_end=at_end)
        self.positions.add(steps)
        return self._writer.write(steps, text)

    def _cleaned(self, clean: str) -> Cleaned[CleanText]:
        """Return clean text with a notice of the values since the last one."""
        if self._ledger is not None:
            return Cleaned(CleanText(clean), self._ledger.notices())
        marked, self._writer.marked = self._writer.marked, False
        return Cleaned(CleanText(clean), REDACTED_HERE if marked else ())


class Seam:
    """The text that was read last of those that clients join."""

    __slots__ = ("owner",)

    def __init__(self) -> None:
        self.owner: MessageStream | None = None


_SEPARATORS: Final = ("", "\n\n")
"""What clients write between two texts; between the parts of one message nothing."""


class MessageStream(TextStream):
    """Cleaner of a growing text that people read. It goes on where the last text of its seam ends.

    Args:
        search: what is withheld.
        ledger: the actions of the policy.
        seam: the texts that clients join with this one.
        message: names the message of which this text is a part; None: it is a message of its own.
    """

    __slots__ = ("_actions", "_has_begun", "_message", "_own", "_plain", "_seam", "_start")

    def __init__(self, search: Search, ledger: Ledger, seam: Seam | None = None, message: object = None) -> None:
        self._own: list[TextFilter] = [TextFilter(search)]
        """The filters of this text as the continuation of those before, with each separator."""
        super().__init__(self._own[0], ledger)
        self._actions = ledger
        self._plain: TextFilter | None = self._own[0]
        """The filter, if it is the only one and nothing else is held."""
        self._seam = seam
        self._message = message
        self._has_begun = False
        self._start: list[TextFilter] = []  # the filters after the texts before

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return the part that can be shown now."""
        if self._seam is not None and self._seam.owner is not self and fragment:
            self._turn(self._seam)
        if self._plain is not None and fragment.isascii() and (shown := self._plain.shows(fragment)) is not None:
            self.positions.read += len(shown)
            return Cleaned(CleanText(shown))
        self._settle()
        cleaned = super().feed(fragment)
        if isinstance(self._text, Union) and (settled := self._text.settled) is not None:
            self._text, self._own = settled, [settled]
        is_plain = isinstance(self._text, TextFilter) and not self._joiner.held and not self._actions.is_open
        self._plain = self._own[0] if is_plain else None
        return cleaned

    def _settle(self) -> None:
        """Hand over what is held by the filter, which has shown the text before without steps."""
        if self._plain is not None and self._plain.is_quick:
            self._writer.held = self._plain.held
            self._actions.resume(self._plain.held)

    @property
    def held(self) -> str:
        """Characters that were read and neither shown nor withheld."""
        return self._writer.held if self._plain is None or not self._plain.is_quick else self._plain.held

    def feed_run(self, deltas: Sequence[str], start: int, /) -> list[CleanText]:
        """Feed deltas as long as a quick search decides each, and return what each of them shows."""
        plain, seam = self._plain, self._seam
        if plain is None or not (seam is None or seam.owner is self):
            return []
        shown = plain.shows_each(deltas, start)
        self.positions.read += len("".join(shown))
        return shown

    def close(self) -> Cleaned[CleanText]:
        """Return the clean text of the characters held at the end."""
        self._settle()
        plain, self._plain = self._plain, None
        if plain is not None and plain.is_quick and not plain.held:
            self._block_late(self._own)
            return _NOTHING
        return super().close()

    def take_place_of(self, other: TextStream, /) -> None:
        """Read the same text as another stream, again from its start, after the same other texts."""
        if isinstance(other, MessageStream):
            self._has_begun = True
            if self._seam is not None:
                self._seam.owner = self
            self._begin_after(other._start)  # noqa: SLF001 - of this class

    def _turn(self, seam: Seam) -> None:
        """Become the text that was read last."""
        before, seam.owner = seam.owner, self
        if before is None:
            self._has_begun = True
            return
        after = before._following(is_part=self._message is not None and self._message == before._message)  # noqa: SLF001 - of this class
        if self._has_begun:  # clients that join deltas as they arrive see this text after the other one
            self._own = [self._own[0], *after]
            self._settle()
            self._plain = None
            self._text = Union(self._own, len(self._writer.held))
        else:
            self._has_begun = True
            self._begin_after(after)

    def _following(self, *, is_part: bool) -> list[TextFilter]:
        separators = _SEPARATORS[:1] if is_part else _SEPARATORS
        return [own.following(between) for own, between in zip([self._own[0], self._own[-1]], separators, strict=False)]

    def _begin_after(self, start: list[TextFilter]) -> None:
        self._start = start
        if start:
            self._own = [each.fork() for each in start]
            self._text = self._own[0] if len(self._own) == 1 else Union(self._own)
            self._plain = self._own[0] if len(self._own) == 1 else None

    def _end(self, text: Filter) -> list[Step]:
        """Return the steps at the end; copies of the filters go on in the next text."""
        own = self._own
        if self._seam is not None:
            self._own = [each.fork() for each in own]
        steps = text.end()
        self._block_late(own)
        return steps

    def _write(self, steps: list[Step], text: str, *, at_end: bool = False) -> str:
        self._block_late(self._own)
        return super()._write(steps, text, at_end=at_end)

    def _block_late(self, filters: Sequence[TextFilter]) -> None:
        """Block for a value in any of the ways to join the texts; one may be shown already, with the text before."""
        for mark in (*(each.late for each in filters), *(self._text.lost if isinstance(self._text, Union) else ())):
            if mark is not None:
                self._actions.refuse(mark)


_ECHO_MAX_CHARS: Final = 65_536
"""Characters of a request that are searched for values that may pass, from its end: a search blocks other streams."""
_ECHO_TEXT_CHARS: Final = 32
"""A search takes as long to begin as it takes for so many characters."""


def echo_of(search: Search, texts: Iterable[str], key: bytes) -> Echo:
    """Return the values in the texts of a request, in reverse order; the first of these count if it is long."""
    echo = Echo(key)
    room = _ECHO_MAX_CHARS
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            continue
        room -= len(text) + _ECHO_TEXT_CHARS
        if room < 0:
            break
        seen.add(text)
        for start, end, mark in spans_of(search, text):
            if not isinstance(mark, Registered):
                echo.add(class_of(mark), text[start:end])
    return echo


class ArgumentStream:
    """Cleaner of the arguments of one call. The joined deltas equal the text of the result."""

    def __init__(self, search: Search, limits: Limits) -> None:
        self._limits = limits
        self._filter = JsonStreamFilter(search)
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
            self._late_chars += len(text)
            if self._late_chars <= _UNPARSED_MAX_CHARS:
                self._late.add(text)
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

    def _delta(self, shown: str) -> Cleaned[CleanText]:
        """Return clean text as a delta, up to the limit."""
        clean = CleanText(shown)
        self._clean.add(clean)
        if len(clean) <= self._remaining and not self._writer.marked and not self._filter.failed:
            self._remaining -= len(clean)
            return Cleaned(clean)
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
