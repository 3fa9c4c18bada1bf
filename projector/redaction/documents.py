r"""The incremental JSON cleaner: JSON text in, steps over that text out (CONTRACT D23 to D25).

The text is never rebuilt: along the tables of `projector.redaction.grammar` each character is said as it stands or
withheld. Four
things make it wait, each bounded, and nothing else does:

    an escape that is not finished               at most 11 characters
    what may become a credential                 until it can or cannot (`projector.redaction.filters`)
    a number that may become a registered one    until it can or cannot (`projector.redaction.numbers`)
    the value of a sensitive key                 for ever: a mark stands for all of it, and the grammar finds its end

Strings are searched with their escapes decoded and said in the provider's spelling: `in_raw` turns steps over decoded
characters into steps over escapes. So `sk-\u0061...` is the credential that it spells, and a key counts as it reads.


A string that holds JSON is a document again, one escape level down: `redaction.strings` feeds what it decodes into an
inner `JsonSieve`, whose steps come back through the same door.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction import grammar
from projector.redaction.detector import Detector
from projector.redaction.filters import ContentSieve, Step, plain_sieve, whole
from projector.redaction.grammar import Act, Expect
from projector.redaction.numbers import NumberSieve
from projector.redaction.rules import Verdict
from projector.redaction.step_buffer import Spoken
from projector.redaction.strings import OPENERS, StringSieve

Place: TypeAlias = tuple[str | int, ...]

_MAX_PLACES: Final = 64
"""More places than an event has notices, and deeper ones than a tree of the contract has."""
_MAY_BE_JSON: Final = frozenset(" \t\n\r") | OPENERS


class JsonSieve:
    """One JSON document, piece by piece. After `failed` it takes no more; `rest` is what it did not read.

    `withheld` are the places of marks in the outermost document, as keys and indexes.
    """

    def __init__(self, detector: Detector, level: int = 0) -> None:
        self._detector = detector
        self._level = level
        self._read: Callable[[JsonSieve, str, int], int] = JsonSieve._between
        self._expect = Expect.VALUE
        self._closers: list[str] = []
        self._path: list[str | int] = []
        self._verdict = Verdict.PLAIN  # of the key whose value comes next
        self._muted_at: int | None = None  # how many containers were open where a withheld value began
        self._key: list[str] | None = None
        self._string: ContentSieve | None = None
        self._string_begins = False
        self._number = NumberSieve(detector.values)
        self._literal = ""
        self._pending = ""  # an unfinished escape
        self._spoken = Spoken()
        self.withheld: dict[Place, None] = {}  # a set in order
        self.failed = False
        self.rest = ""

    @property
    def blank(self) -> bool:
        """Whether nothing but blanks was read."""
        return self._expect is Expect.VALUE and not self._closers and self._read is JsonSieve._between

    @property
    def complete(self) -> bool:
        """Whether one whole value was read; blanks may stand around it."""
        return self._expect is Expect.NOTHING

    def seal(self, rest: str, /) -> str | None:
        """Give what stands for all that follows, if reading stops before `rest`; None when that may be plain text."""
        if self._muted_at is not None or (self._string is not None and self._string.seal(rest) is not None):
            return ""
        verdict = self._verdict if self._key is None else self._detector.keys.verdict("".join(self._key))
        return None if verdict is Verdict.PLAIN else REDACTED

    def feed(self, text: str, /) -> list[Step]:
        """Take a piece; give the steps that are certain now."""
        text = self._pending + text
        self._pending = ""
        at = 0
        while at < len(text) and not self.failed:
            at = self._read(self, text, at)
        if self.failed:
            self.rest = text[at:]
        return self._spoken.taken()

    def end(self) -> list[Step]:
        """Take the end of the text; give the steps over what was held."""
        self._flush_string()
        self._spoken.say(len(self._pending))
        self._pending = ""
        if self._read is JsonSieve._in_number:
            self._spoken.cover(self._number.end(at_end=True), "")
            if self._number.whole:
                self._end_value()
        return self._spoken.taken()

    def _remember(self) -> None:
        """Keep the place of a mark."""
        self._spoken.marked = False
        if self._level == 0 and len(self.withheld) < _MAX_PLACES:
            self.withheld[tuple(self._path[:_MAX_PLACES])] = None

    # between values

    def _between(self, text: str, at: int) -> int:
        act = grammar.GRAMMAR[self._expect].get(text[at])
        if act is not None:
            self._ACTS[act](self, text[at])
            return at + 1
        blanks = grammar.BLANKS.match(text, at)
        end = blanks.end() if blanks else at
        self._spoken.say(end - at)
        self.failed = end == at
        return end

    def _begin(self, char: str) -> None:
        """Say the first character of a value, or the mark in its place."""
        verdict, self._verdict = self._verdict, Verdict.PLAIN
        counts = verdict is Verdict.SENSITIVE_UNLESS_NUMBER and char in grammar.NUMBER_START
        if verdict is Verdict.PLAIN or counts or self._muted_at is not None:
            self._spoken.say(1)
        else:
            self._spoken.step(1, f'"{REDACTED}"')
            self._remember()
            self._muted_at = len(self._closers)
            self._spoken.muted = True

    def _end_value(self) -> None:
        self._read = JsonSieve._between
        if self._muted_at == len(self._closers):
            self._muted_at = None
            self._spoken.muted = False
        if self._spoken.marked:
            self._remember()
        self._expect = grammar.AFTER_VALUE[self._closers[-1]] if self._closers else Expect.NOTHING

    def _open(self, char: str) -> None:
        self._begin(char)
        closer, step, self._expect = grammar.CONTAINERS[char]
        self._closers.append(closer)
        self._path.append(step)

    def _close(self, _char: str) -> None:
        self._spoken.say(1)
        self._closers.pop()
        self._path.pop()
        self._end_value()

    def _next(self, _char: str) -> None:
        self._spoken.say(1)
        step = self._path[-1]
        self._path[-1] = step + 1 if isinstance(step, int) else step
        self._expect = Expect.VALUE if isinstance(step, int) else Expect.KEY

    def _colon(self, _char: str) -> None:
        self._spoken.say(1)
        self._expect = Expect.VALUE

    # strings

    def _key_string(self, _char: str) -> None:
        self._spoken.say(1)
        self._read = JsonSieve._in_string
        self._key = []
        self._string_begins = True

    def _value_string(self, char: str) -> None:
        self._begin(char)
        self._read = JsonSieve._in_string
        self._string_begins = True

    def _in_string(self, text: str, at: int) -> int:
        if self._string_begins:
            self._string_begins = False
            if (end := self._at_once(text, at)) > at:
                return end
        run = grammar.STRING_RUN.match(text, at)
        end = run.end() if run else at
        if end > at:
            self._content(text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._close_string()
            return end + 1
        if grammar.UNFINISHED_ESCAPE.match(text, end):
            self._pending = text[end:]
            return len(text)
        self._flush_string()
        self.failed = True
        return end

    def _at_once(self, text: str, at: int) -> int:
        """Read a string that is whole in this piece and plainly clean, the usual one; else make its sieve."""
        run = grammar.PLAIN_RUN.match(text, at)
        end = run.end() if run else at
        content = text[at:end]
        closed = text[end : end + 1] == '"'
        if closed and self._key is None and self._muted_at is None:
            closed = content[:1] not in _MAY_BE_JSON
        if closed and (self._muted_at is not None or self._detector.passes(content)):
            self._key = None if self._key is None else [content]
            self._spoken.say(end - at)
            self._close_string()
            return end + 1
        if self._muted_at is not None:
            self._string = None
        elif self._key is not None:
            self._string = plain_sieve(self._detector)
        else:
            self._string = StringSieve(self._detector, self._level + 1, JsonSieve)
        return at

    def _content(self, raw: str) -> None:
        decoded = raw if "\\" not in raw else codec.scrub(codec.loads(f'"{raw}"'))
        if self._key is not None:
            self._key.append(decoded)
        if self._string is None:
            self._spoken.say(len(raw))
            return
        self._spoken.spell(self._string.feed(decoded), raw)
        if isinstance(self._string, StringSieve) and (settled := self._string.settled) is not None:
            self._string = settled

    def _flush_string(self) -> None:
        if self._string is not None:
            self._spoken.spell(self._string.end(), "")

    def _close_string(self) -> None:
        self._flush_string()
        self._spoken.say(1)
        self._string = None
        if self._key is None:
            self._end_value()
            return
        key, self._key = "".join(self._key), None
        self._verdict = self._detector.keys.verdict(key)
        self._path[-1] = key
        if self._spoken.marked:
            self._path[-1] = whole(self._detector, key)
            self._remember()
        self._read = JsonSieve._between
        self._expect = Expect.COLON

    # numbers and literals

    def _number_begins(self, char: str) -> None:
        self._read = JsonSieve._in_number
        self._number = NumberSieve(self._detector.values)
        self._number.read(char, 0)
        if self._verdict is Verdict.SENSITIVE or self._muted_at is not None:
            self._begin(char)
        else:
            self._verdict = Verdict.PLAIN
            self._spoken.cover(self._number.feed(char), char)

    def _in_number(self, text: str, at: int) -> int:
        end = self._number.read(text, at)
        self._spoken.cover(self._number.feed(text[at:end]), text[at:end])
        if end < len(text):
            self._spoken.cover(self._number.end(at_end=False), "")
            self.failed = not self._number.whole
            if not self.failed:
                self._end_value()
        return end

    def _literal_begins(self, char: str) -> None:
        self._begin(char)
        self._read = JsonSieve._in_literal
        self._literal = grammar.LITERALS[char][1:]

    def _in_literal(self, text: str, at: int) -> int:
        self.failed = text[at] != self._literal[0]
        if self.failed:
            return at
        self._spoken.say(1)
        self._literal = self._literal[1:]
        if not self._literal:
            self._end_value()
        return at + 1

    _ACTS: ClassVar[dict[Act, Callable[[JsonSieve, str], None]]] = {
        Act.OPEN: _open,
        Act.CLOSE: _close,
        Act.KEY_STRING: _key_string,
        Act.VALUE_STRING: _value_string,
        Act.NUMBER: _number_begins,
        Act.LITERAL: _literal_begins,
        Act.COLON: _colon,
        Act.NEXT: _next,
    }
