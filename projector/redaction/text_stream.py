"""The cleaner of text that people read, delta by delta (CONTRACT D40).

Nearly every delta is decided by one expression, the gate: it finds the first position where a credential or a value of
a class may begin, or the end of the text may begin one. Text before it is shown at once. What only the end of a text
cuts off is held here; all else is decided by `ProseFilter`, with the same result: its steps depend on the characters
read so far alone.

Texts that clients join share a `Seam`: a text that begins behind another one is searched as its continuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText, Notice, bounded, counted_notice
from projector.redaction.content_filter import Carry
from projector.redaction.rules import TextClass
from projector.redaction.steps import ChainedMap, Step, StepWriter, in_pieces
from projector.redaction.stream import RUN_TEXT_MAX_CHARS, TextStream
from projector.redaction.text_filter import BEFORE_CHARS, ClassFilter, ProseFilter
from projector.redaction.text_gate import Decided, Prose
from projector.redaction.text_ledger import Echo, Ledger, class_of

_RECENT_MAX_CHARS: Final = 4 * BEFORE_CHARS
_new_tuple: Final = tuple.__new__  # as in `projector.redaction.stream`
_UNFINISHED_ESCAPE: Final = r"[\\%=\[&][0-9A-Za-z;#]{0,13}\Z"
_UNFINISHED: Final = re.compile(_UNFINISHED_ESCAPE)


class Ending(NamedTuple):
    """How a text ends, for the text that clients join with it."""

    text: str
    """The last characters that were read."""
    value: Carry | None
    """The credential inside which the text ends, if it may continue in the next text."""
    is_clear: bool
    """Whether the gate decided all of it, so that it goes on in the next text as within one."""


_NOTHING_BEFORE: Final = Ending("", None, is_clear=True)


class Seam:
    """The text that was read last of those that clients join."""

    __slots__ = ("owner",)

    def __init__(self) -> None:
        self.owner: ProseStream | None = None


class ProseStream(TextStream):
    """Cleaner of a growing text that people read.

    Args:
        prose: what is withheld.
        seam: the texts that clients join with this one.
        echo: values that the caller sent.
        is_json: whether the text is JSON.
    """

    __slots__ = (
        *("_count", "_echo", "_gate", "_has_begun", "_is_alone", "_is_clear", "_is_idle", "_ledger", "_lookups"),
        *("_pending", "_prose", "_quiet", "_recent", "_rules", "_seam", "_special", "_words", "before"),
    )

    def __init__(
        self, prose: Prose, seam: Seam | None = None, echo: Echo | None = None, *, is_json: bool = False
    ) -> None:
        self._rules = prose
        self._prose: ProseFilter | None = prose.filter(is_json=True) if is_json else None
        """Reads what the gate cannot; most texts need none."""
        super().__init__(None)
        self._gate = gate = prose.gate
        self._words, self._quiet = gate.words, gate.quiet
        self._lookups = gate.steps.get, gate.results.get, gate.context
        self._special = gate.special
        self._echo = echo
        self._ledger: Ledger | None = None
        self._seam = seam or Seam()
        self._is_alone = seam is None
        self._has_begun = False
        self.before = _NOTHING_BEFORE
        """The text of the seam behind which this text began."""
        self._recent = " "
        """The end of the text that was shown; of all that was read, if not idle."""
        self._pending = ""
        """Characters that may begin a value, which `ProseFilter` has not read."""
        self._count = 0  # shown characters that `positions` has not counted
        self._is_idle = not is_json
        self._is_clear = False
        """Whether the text was closed when the gate had decided all of it."""

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return the part that can be shown now."""
        if not self._is_idle or self._seam.owner is not self:
            return self._slowly(fragment)
        recent = self._recent
        text = self._pending + fragment
        if recent[-1] == " " or (text[:1] == " " and recent[-1] in self._quiet):
            decided = self._words.get(text) or self._decide(recent, self._pending, fragment)
        else:
            decided = self._decide(recent, self._pending, fragment)
        if decided is None:
            return self._slowly(fragment)
        cleaned, self._pending = decided
        shown = cleaned[0]
        self._count += len(shown)
        whole = recent + shown
        self._recent = whole if len(recent) < _RECENT_MAX_CHARS else whole[-BEFORE_CHARS:]
        return cleaned

    def feed_run(self, deltas: Sequence[str], start: int, /) -> list[CleanText]:
        """Feed deltas as long as the gate decides each, and return what each of them shows."""
        if not self._is_idle or self._seam.owner is not self:
            return []
        step_of, result_of, context = self._lookups
        shown: list[CleanText] = []
        recent, pending = self._recent, self._pending
        joined = 0
        is_closed = self._gate.is_closed(recent[-1], pending) if pending else recent[-1] in self._quiet
        for delta in deltas[start:] if start else deltas:
            step = step_of(delta) if is_closed else None
            if step is not None:
                text, rest = step
                shown.append(CleanText(pending + text) if pending else text)
                pending = rest
                continue
            if len(pending) + len(delta) > RUN_TEXT_MAX_CHARS:
                break
            before = shown[-1] if shown else recent
            if len(before) < context:
                before = recent = self._passed(recent, shown[joined:])
                joined = len(shown)
            result = result_of(before[-context:] + pending + delta) if len(before) >= context else None
            if result is None:
                recent = self._passed(recent, shown[joined:])
                joined = len(shown)
                decided = self._decide(recent, pending, delta)
                if decided is None:
                    break
                text, rest = decided[0][0], decided[1]
                result = text, rest, self._gate.is_closed((recent + text)[-1], rest)
                self._gate.keep(recent, pending + delta, result)
            text, rest, closes = result
            shown.append(text)
            if is_closed and closes:
                self._gate.keep_step(delta, CleanText(text[len(pending) :]), rest)
            is_closed, pending = closes, rest
        self._recent, self._pending = self._passed(recent, shown[joined:] if joined else shown), pending
        return shown

    def count_shown(self, _deltas: Sequence[str], _start: int, /) -> int:
        """Return 0: only `feed_run` searches."""
        return 0

    def close(self) -> Cleaned[CleanText]:
        """Return the clean text of the characters held at the end."""
        text = self._pending + self._joiner.end()
        cleaned = compose.NOTHING
        self._is_clear = self._is_idle and not text
        if not self._is_clear:
            self._enter()
            prose = self._reader()
            parts = [self._settled(prose.feed(text), text)] if text else []
            parts.append(self._settled(prose.end(), "", at_end=True))
            cleaned = self._counted("".join(parts))
        self._recent = (self._recent + text)[-BEFORE_CHARS:]
        self._is_idle = False
        if self._is_alone:
            self._seam.owner = None  # only a garbage collection would free the cycle
        return cleaned

    def take_place_of(self, other: TextStream, /) -> None:
        """Read the same text as another stream, again from its start, after the same other texts."""
        if isinstance(other, ProseStream):
            self._seam.owner = self
            self._begin_after(other.before)

    @property
    def held(self) -> str:
        """Characters that were read and neither shown nor withheld."""
        return self._pending + super().held

    @property
    def is_verbatim(self) -> bool:
        """Whether all characters that are not held were shown as they are; False if that is unknown."""
        return not self.positions.has_marks and not self._joiner.held

    @property
    def ending(self) -> Ending:
        """How the text ends."""
        value = None if self._is_idle or self._prose is None else self._prose.open_value
        return Ending(self._recent + self._pending, value, self._is_clear)

    def _passed(self, recent: str, shown: list[CleanText]) -> str:
        """Return the end of the text behind texts that are shown, and count these."""
        text = "".join(shown)
        self._count += len(text)
        whole = recent + text
        return whole if len(whole) <= _RECENT_MAX_CHARS else whole[-BEFORE_CHARS:]

    def _decide(self, recent: str, pending: str, fragment: str) -> Decided | None:
        """Decide a fragment behind what is held; None if the gate cannot."""
        text = pending + fragment
        cut = text.rfind(" ") + 1 if pending else 0  # words by themselves are decided once
        first, last = text[:cut], text[cut:]
        head = self._words.get(first) if cut and recent[-1] == " " else None
        tail = self._words.get(last) if head and not head[1] else None
        if tail is None:
            if not (fragment.isascii() or self._special(fragment) is None):
                return None
            head = self._gate.decide(recent, first) if cut else None
            if head is None or head[1]:
                return self._gate.decide(recent, text)
            tail = self._gate.decide(recent + first, last)
        return tail and (_new_tuple(Cleaned, (first + tail[0][0], ())), tail[1])

    def _slowly(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment that the gate cannot read, or that begins or continues behind another text."""
        if fragment and self._seam.owner is not self:
            owner, self._seam.owner = self._seam.owner, self
            if not self._has_begun:
                self._begin_after(_NOTHING_BEFORE if owner is None else owner.ending)
            if self._is_idle:
                return self.feed(fragment)
        return self._search(self._pending + self._joiner.feed(fragment))

    def _begin_after(self, before: Ending) -> None:
        """Begin behind a text that was shown, perhaps inside a credential."""
        self._has_begun = True
        self.before = before
        text, value, is_clear = before
        if not text.strip():
            return
        self._recent = text
        if is_clear or (value is None and self._gate.shows_all(text)):
            return
        if value is not None and not self._rules.withholds_end(text):
            self._reader().begin_in(value)  # it begins before what is kept of the text
        else:
            self._reader().continue_after(text)
        self._is_idle = False

    def _enter(self) -> None:
        """Leave the gate: `ProseFilter` reads what follows."""
        self._pending = ""
        self.positions.read += self._count
        self._count = 0
        if self._is_idle:
            self._reader().resume(self._recent)

    def _reader(self) -> ProseFilter:
        """Return the filter that reads what the gate cannot; it is created for the first such text."""
        if self._prose is None:
            self._prose = self._rules.filter()
        return self._prose

    def _actions(self) -> Ledger:
        """Return the ledger, created for the first text that the gate cannot read."""
        if self._ledger is None:
            self._ledger = Ledger(self._rules.actions, self._echo)
        return self._ledger

    def _search(self, text: str) -> Cleaned[CleanText]:
        """Search text that the gate cannot decide."""
        self._enter()
        prose = self._reader()
        parts = [self._settled(prose.feed(piece), piece) for piece in in_pieces(text)]
        self._leave((self._recent + text)[-BEFORE_CHARS:])
        return self._counted("".join(parts))

    def _leave(self, recent: str) -> None:
        """Return to the gate if all that is held can be read again."""
        prose, ledger = self._reader(), self._actions()
        shown = None if self._joiner.held or ledger.is_open else prose.shown_before_held(recent)
        self._is_idle = (
            shown is not None
            and _UNFINISHED.search(shown) is None
            and self._special(shown[-2:] + self._writer.held) is None
        )
        self._recent = recent
        if self._is_idle:
            self._recent = shown or " "
            self._pending, self._writer.held = self._writer.held, ""
            prose.drop_held()
            ledger.drop_held()

    def _settled(self, steps: list[Step], text: str, *, at_end: bool = False) -> str:
        steps = self._actions().settle(steps, text, at_end=at_end)
        self.positions.add(steps)
        return self._writer.write(steps, text)

    def _counted(self, clean: str) -> Cleaned[CleanText]:
        """Return clean text with a notice of the values since the last one."""
        withheld, shown = self._actions().tally
        if not withheld and not shown:
            return _new_tuple(Cleaned, (clean, ()))
        notice = counted_notice(withheld, shown)
        withheld.clear()
        shown.clear()
        return Cleaned(CleanText(clean), (notice,))


class SecondStream(TextStream):
    """Cleaner of a growing text behind another cleaner, that of registered values or of JSON."""

    __slots__ = ("first", "second")

    def __init__(self, first: TextStream, second: ProseStream) -> None:
        super().__init__(None)
        self.first = first
        self.second = second
        second.positions = self.positions = ChainedMap(first.positions)

    def feed(self, fragment: str) -> Cleaned[CleanText]:
        """Read a fragment and return the part that can be shown now."""
        cleaned = self.first.feed(fragment)
        return _noted(self.second.feed(cleaned.value), cleaned.notices)

    def feed_run(self, deltas: Sequence[str], start: int, /) -> list[CleanText]:
        """Feed deltas as long as the first cleaner shows each at once, and the second one decides it quickly."""
        count = self.first.count_shown(deltas, start)
        shown = self.second.feed_run(deltas[start : start + count], 0) if count else []
        self.first.skip(deltas[start : start + len(shown)])
        return shown

    def close(self) -> Cleaned[CleanText]:
        """Return the clean text of the characters held at the end."""
        cleaned = self.first.close()
        return _noted(compose.joined(self.second.feed(cleaned.value), self.second.close()), cleaned.notices)

    @property
    def held(self) -> str:
        """Characters that were read and neither shown nor withheld."""
        return self.second.held + self.first.held

    def take_place_of(self, other: TextStream, /) -> None:
        """Read the same text as another stream, again from its start, after the same other texts."""
        if isinstance(other, SecondStream):
            self.first.take_place_of(other.first)
            self.second.take_place_of(other.second)


def _noted(cleaned: Cleaned[CleanText], notices: tuple[Notice, ...]) -> Cleaned[CleanText]:
    return Cleaned(cleaned.value, bounded([*notices, *cleaned.notices])) if notices else cleaned


_ECHO_MAX_CHARS: Final = 65_536
"""Characters of a request that are searched for values that may pass, from its end: a search blocks other streams."""


def echo_of(prose: Prose, texts: Iterable[str], key: bytes) -> Echo:
    """Return the values in the texts of a request; the last texts count if it is long."""
    echo = Echo(key)
    room = _ECHO_MAX_CHARS
    for text in reversed([*texts]):
        if len(text) > room:
            break
        room -= len(text)
        words = prose.filter()
        mark, value, at = "", "", 0
        for count, step in (*words.feed(text), *words.end(), (0, None)):
            part = text[at : at + count]
            at += count
            if step == "" and mark:
                value += part
                continue
            if mark:
                echo.add(class_of(mark), value)
            mark, value = step or "", part
    return echo


def clean_class(row: TextClass, text: str) -> str:
    """Return a whole text without the values of one class."""
    classes = ClassFilter((row,), None)
    return StepWriter().write(classes.feed(text) + classes.end(), text)
