r"""Strings that follow each other, in an array or a log, are also read as one text (`Carry`).

What a string ends with may become a secret with what follows: the beginning of a token, a key without its value. This
end is the carry. The next string is then read by up to three filters, and what one of them withholds is withheld:

    alone     as any string
    pieces    behind the carry: a text that was cut anywhere, `["ghp_a1B2", "c3D4.."]`
    lines     behind the carry and a line end: a text that was cut into its lines, `["password: |", "  hunter2"]`

What was shown before stays shown. A string that leaves nothing undecided, as most do, costs one search more.
"""

from __future__ import annotations

import re
from typing import Final

from projector.redaction.content_filter import Carry, ContentFilter
from projector.redaction.detector import Detector
from projector.redaction.filters import PlainText, plain_filter
from projector.redaction.readings import Merged
from projector.redaction.spellings import MAY_BE_SPELLED, UNFINISHED, as_read
from projector.redaction.steps import Step
from projector.redaction.value_contexts import ANNOUNCE_CHARS
from projector.redaction.value_places import BEFORE_CHARS

_CARRY_CHARS: Final = 256
"""Undecided characters that a string leaves at most. A longer text is decided in the string that holds it."""


class Neighbour:
    """The filter of a string behind another one: `alone` reads the string, the others what it continues.

    Most words that may begin a secret, as `t` may begin `token`, do not with the next character. Until that is known
    the string is held, and if nothing continues it is read alone.
    """

    def __init__(self, alone: ContentFilter, detector: Detector, after: Carry) -> None:
        self._alone = alone
        self._detector = detector
        self._after = after
        self._begins = [*map(_Beginning, *zip(*_ways(after), strict=True))] if _ways(after) else []
        self._content = ""  # until it is known what continues
        self._is_known = False
        self._pieces: PlainText | None = None
        self._lines: PlainText | None = None
        self._others: list[PlainText] = []
        self._filters: list[ContentFilter] = [alone]
        self._merged = Merged(1)

    @property
    def settled(self) -> ContentFilter | None:
        """Filter that can replace this one once the string is known to be read alone."""
        return self._alone if self._is_known and len(self._filters) == 1 else None

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps (`Filter.quick`)."""
        return self._alone.quick(text) if self.settled is not None else -1

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if self._is_known:
            return self._read(text)
        self._content += text
        fates = [begin.fate(self._detector, self._content) for begin in self._begins]
        return [] if None in fates else self._begin(fates)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the string."""
        steps = self._begin([begin.fate(self._detector, self._content) is not False for begin in self._begins])
        return steps + (self._alone.end() if len(self._filters) == 1 else self._merged.add(_each_end(self._filters)))

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return an empty mark, which drops the text, if it continues a secret; None if it may be shown."""
        return next((mark for each in self._filters if (mark := each.mark_of_rest(rest)) is not None), None)

    def carry(self) -> Carry:
        """Return what the string leaves to the next one, after `end`."""
        alone, pieces, lines = (each.carry() if each else Carry() for each in (self._alone, self._pieces, self._lines))
        undecided = _undecided(pieces if pieces.text else alone, lines if lines.lines else alone)
        found = (each.in_list() for each in (pieces, lines, alone, *(each.carry() for each in self._others)))
        taken = [each._replace(text="", lines="") for each in found if each.reader is not None or each.tail is not None]
        taken.sort(key=lambda each: each.reader is None or not each.reader.is_private_key)
        first, *others = taken or [Carry()]
        return undecided._replace(
            key=first.key, reader=first.reader, tail=first.tail, is_cut=first.is_cut, others=tuple(others[:_MAX_OTHERS])
        )

    def _begin(self, fates: list[bool | None]) -> list[Step]:
        """Create the filters of what the string may continue, and read what was held."""
        if self._is_known:
            return []
        self._is_known = True
        after, content, self._content = self._after, self._content, ""
        alive = {begin.way for begin, fate in zip(self._begins, fates, strict=True) if fate}
        self._pieces = _behind(self._detector, after.text if "pieces" in alive else "")
        self._lines = _behind(self._detector, after.lines + "\n" if "lines" in alive else "")
        self._others = [_after(self._detector, other) for other in after.others]
        self._filters += [each for each in (self._pieces, self._lines, *self._others) if each is not None]
        self._merged = Merged(len(self._filters))
        return self._read(content) if content else []

    def _read(self, text: str) -> list[Step]:
        if len(self._filters) == 1:
            return self._alone.feed(text)
        return self._merged.add([each.feed(text) for each in self._filters])


def _each_end(filters: list[ContentFilter]) -> list[list[Step]]:
    return [each.end() for each in filters]


class _Beginning:
    """What a string may continue: `text` and its last `count` characters, which may begin a secret."""

    def __init__(self, way: str, text: str, count: int) -> None:
        self.way = way
        self._text = text[-count - 1 :] if len(text) > count else f" {text}"
        self._count = count
        self._read = 0
        self._fate: bool | None = None if 0 < count <= _OPEN_MAX_CHARS else True

    def fate(self, detector: Detector, content: str) -> bool | None:
        """Return whether a secret may continue in a string that begins with a content; None if more must be read.

        It is decided character by character, so that it does not matter how the string arrives.
        """
        while self._fate is None and self._read < min(len(content), _LOOK_CHARS):
            self._read += 1
            if detector.values and detector.values.beginning_at_end(self._text) != "":
                self._fate = True
                break
            shown = detector.shown(self._text + content[: self._read], 1, at_end=False)
            if shown < 0 or self._read == _LOOK_CHARS:
                self._fate = True
            elif shown > self._count:
                self._fate = False
        return self._fate


_OPEN_MAX_CHARS: Final = 24
_LOOK_CHARS: Final = 24
"""A beginning that is longer, or is still one after so many characters, is read by a filter."""


def _ways(after: Carry) -> list[tuple[str, str, int]]:
    ways = [("pieces", after.text, after.open_chars)] if after.text else []
    return [*ways, ("lines", after.lines + "\n", 0)] if after.lines else ways


_MAX_OTHERS: Final = 2
"""Maximum number of further values that may continue; each costs one more filter."""


def _after(detector: Detector, carry: Carry) -> PlainText:
    plain = plain_filter(detector)
    plain.begin_after(carry)
    return plain


def _behind(detector: Detector, text: str) -> PlainText | None:
    """Return a filter that continues after a text that was shown; None if nothing in the text is undecided."""
    if not text:
        return None
    plain = plain_filter(detector)
    plain.continue_after(text)
    return plain if plain.held or _LOGIN.search(text, max(0, len(text) - BEFORE_CHARS)) is not None else None


_LOGIN: Final = re.compile(r"(?<![A-Za-z])(?:login|user|account)[ \t]+[^\s\"'`]{1,64}\s*\Z")
"""The end of a line behind which a password needs no separator: `["  login me", "  password hunter2"]` (netrc)."""


def _undecided(pieces: Carry, lines: Carry) -> Carry:
    """Return a carry with the text of two others, without what is too long."""
    is_short = len(pieces.text) <= _CARRY_CHARS
    return Carry(
        text=pieces.text if is_short else "",
        open_chars=pieces.open_chars,
        lines=lines.lines if len(lines.lines) <= _CARRY_CHARS else "",
    )


def carry_after(carry: Carry | None, text: str) -> Carry | None:
    """Return what a string leaves, with a login at its end as context of the next line."""
    if carry is not None and not carry.is_nothing:
        return carry
    return None if len(text) > ANNOUNCE_CHARS or _LOGIN.search(text) is None else Carry(lines=text)


def announcing(key: str, carry: Carry | None) -> Carry:
    """Return what a string leaves that is a sensitive key, and may be a piece of a secret nevertheless."""
    if carry is None:
        return Carry(key)
    other = carry._replace(text="", lines="", others=())
    return carry._replace(
        key=key, reader=None, tail=None, others=(*([] if other.is_nothing else [other]), *carry.others)
    )


def neighbour(alone: ContentFilter, detector: Detector, after: Carry | None) -> ContentFilter:
    """Return the filter of a string behind another one, given the filter of the string alone."""
    return Neighbour(alone, detector, after) if after is not None and after.is_undecided else alone


def passes_after(detector: Detector, after: Carry | None, text: str) -> bool:
    """Return whether quick searches show that a plain string continues nothing that another one left."""
    if after is None:
        return True
    if after.key or after.reader or after.tail or after.others:
        return False
    return all(_Beginning(*way).fate(detector, text) is False for way in _ways(after))


def carry_of(detector: Detector, text: str) -> Carry | None:
    """Return what a plain string leaves of which `passes_after` and `Detector.passes` are true."""
    if (carry := _carry_of_spelled(detector, text[-BEFORE_CHARS:])) is not None:
        return carry
    count = detector.undecided(text)
    if not count:
        return None
    left = text[max(0, len(text) - count - BEFORE_CHARS) :]
    carry = _undecided(*[Carry(text=left, lines=lines_of(detector, left, count), open_chars=count)] * 2)
    return None if carry.is_nothing else carry


def _carry_of_spelled(detector: Detector, text: str) -> Carry | None:
    """Return what the end of a text leaves if a secret may begin in it as it is read, or a spelling is unfinished."""
    if MAY_BE_SPELLED.search(text) is None:
        return None
    read = as_read(text)
    is_open = UNFINISHED.search(text) is not None or (read != text and detector.undecided(read) > 0)
    return Carry(text=text, lines=text) if is_open else None


def lines_of(detector: Detector, text: str, count: int) -> str:
    """Return a text if a line end behind it leaves its last characters undecided, else an empty one."""
    if 0 < count <= _OPEN_MAX_CHARS and len(text) > count:
        shown = detector.shown(text[-count - 1 :] + "\n", 1, at_end=False)
    else:
        shown = detector.shown(f" {text}\n", 1, at_end=False) - (len(text) - count)
    return "" if shown > count else text
