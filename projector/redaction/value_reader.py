r"""The reader of one value behind a sensitive word, wherever text is not JSON from its first character.

A format of the rule files with a `value` names one of the `READERS`. The search for formats (`patterns`) finds its
anchor, a sensitive word or a scheme such as `Bearer`; the reader then has two phases:

    deciding   `after_key` and the other functions of `READERS` read the separator and the beginning of the value with
               a `Cursor`, which asks for more text where it must. Nothing is shown before the decision. At most
               `_DECIDE_CHARS` are held: a value that is longer is decided by these.
    taken      a mark stands for the value, and an extent finds its end (`value_extents`).

If the value is no secret (`value_shapes`), the filter searches the held text as any other: a value may contain another
key. The contexts, which text may stand between a key and its value and which values count there, are entries of
`redaction/formats/contexts.toml`, in order of precedence. The first context that matches decides.

    key      separator   value
    password =           "hunter2"           quotes: everything but placeholders, templates and prose
    password :           {user: .., ..}      brackets: if a string in them is a secret
    password :           |                   a block of YAML: everything
    password =           hunter2             bare: what has the shape of a secret; in an environment and behind options
                                             everything but placeholders
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Final, NamedTuple

from projector.contracts.kinds import REDACTED
from projector.redaction import value_contexts, value_tokens
from projector.redaction.cursor import Cursor, More
from projector.redaction.rules import KeyRules
from projector.redaction.value_extents import Balanced, Extent, Fenced, KeyFile, PrivateKey, Quoted
from projector.redaction.value_places import Decide, Take

if TYPE_CHECKING:
    import re

    from projector.redaction.steps import Step

_DECIDE_CHARS: Final = 1_024
"""Characters behind a key that are held at most until it is decided."""
_EACH_CHARS: Final = 64
_STEP_CHARS: Final = 64
"""A decision is tried with each of the first characters, then at every so many, because each attempt costs."""


class Reading(NamedTuple):
    """What a reader made of a piece: steps, and the text behind the value; None while the value continues."""

    steps: list[Step]
    rest: str | None


class ValueReader:
    """The reader of one value. Its text begins with `anchor`, which is withheld too."""

    __slots__ = ("_before", "_decide", "_extent", "_held", "_is_unmarked", "_key_file", "_keys", "_tried", "anchor")

    def __init__(self, reader: str, before: str, anchor: str, keys: KeyRules) -> None:
        self.anchor = anchor
        self._decide = READERS[reader]
        self._before = before
        self._keys = keys
        self._held = ""
        self._extent: Extent | None = None
        self._is_unmarked = False
        self._key_file = KeyFile()
        self._tried = -1  # number of characters of the last attempt to decide

    @property
    def is_taken(self) -> bool:
        """Whether the value is a secret."""
        return self._extent is not None

    @property
    def continues(self) -> bool:
        """Whether the value continues in the next string of a list: its end is still to come, or it has two already."""
        return isinstance(self._extent, _WITH_END) or self._key_file.rest is not None or self._decide in _BEHIND_A_CUT

    @property
    def passing(self) -> re.Pattern[str] | None:
        """The class of a credential before this string if all that was read may be a further piece of it."""
        is_behind = self._decide is value_tokens.after_cut and not self.is_taken
        return value_tokens.class_of_piece(self._before, self._held) if is_behind else None

    @property
    def is_private_key(self) -> bool:
        """Whether the value is a private key of several lines, which ends with its last line only."""
        return isinstance(self._key_file.rest or self._extent, PrivateKey)

    @property
    def held(self) -> int:
        """Number of characters that no step covers yet."""
        return len(self._held)

    @property
    def undecided(self) -> str:
        """The text that was read; empty once the value is known to be a secret."""
        return "" if self.is_taken else self._held

    def fork(self) -> ValueReader:
        """Return a reader in the same state."""
        twin = copy(self)
        twin._extent = deepcopy(self._extent)  # noqa: SLF001 - of this class
        twin._key_file = copy(self._key_file)  # noqa: SLF001
        return twin

    def again(self) -> ValueReader:
        """Return a reader of the next string, for which a new mark stands."""
        reader = ValueReader("key", "", "", self._keys)
        reader._extent, reader._is_unmarked = self._key_file.rest or self._extent, True
        if self._key_file.rest is None:
            reader._key_file = copy(self._key_file)  # the first line of a private key may be in several strings
        return reader

    def feed(self, text: str, /) -> Reading:
        """Read a piece."""
        return self._read(self._held + text, is_whole=False)

    def end(self) -> Reading:
        """Decide at the end of the text."""
        text, self._held = self._held, ""
        if self._extent is not None and not self._ends_with(text):
            return Reading([(len(text), REDACTED if self._is_unmarked else "")] if text else [], None)
        reading = self._read(text, is_whole=True)
        text, self._held = self._held, ""
        if self._ends_with(text):
            return Reading(reading.steps, text)
        if text:
            reading.steps.append((len(text), ""))
        return reading

    def _ends_with(self, text: str) -> bool:
        """Return whether the value ends before a text if nothing follows."""
        return isinstance(self._extent, Quoted) and self._extent.ends_with(text)

    def _decided(self, text: str, *, is_whole: bool) -> Take | None:
        """Return the decision about a value; raise `More` if it needs more text."""
        short = text[:_DECIDE_CHARS]
        is_whole = is_whole or len(short) == _DECIDE_CHARS
        if not is_whole and len(short) > _EACH_CHARS:
            short = short[: len(short) - len(short) % _STEP_CHARS]
        if len(short) == self._tried and not is_whole:
            raise More
        self._tried = len(short)
        return self._decide(Cursor(short, is_whole=is_whole), self._before, self._keys)

    def _read(self, text: str, *, is_whole: bool) -> Reading:
        steps: list[Step] = []
        if self._extent is None:
            try:
                take = self._decided(text, is_whole=is_whole)
            except More:
                self._held = text
                return Reading([], None)
            if take is None:
                self._held = ""
                count = len(self.anchor)
                return Reading([(count, None)] if count else [], text[count:])
            if take.start:
                steps.append((take.start, None))
            steps.append((0, REDACTED))
            text = text[take.start :]
            self._extent = take.extent
        count, is_end = self._extent.feed(text)
        self._key_file.read(text[:count])
        if is_end and self._key_file.rest is not None:
            self._extent = self._key_file.rest
            more, is_end = self._extent.feed(text[count:])
            count += more
        if self._is_unmarked and count:
            steps.append((0, REDACTED))
            self._is_unmarked = False
        if count:
            steps.append((count, ""))
        self._held = "" if is_end else text[count:]
        return Reading(steps, text[count:] if is_end else None)


_WITH_END: Final = (PrivateKey, Quoted, Fenced, Balanced)
_BEHIND_A_CUT: Final = (value_tokens.after_cut, value_tokens.rest)

READERS: Final[Mapping[str, Decide]] = {
    "key": value_contexts.after_key,
    "bearer": value_tokens.bearer,
    "basic": value_tokens.basic,
    "code": value_tokens.code,
    "protocols": value_tokens.protocols,
    "pem": value_tokens.pem,
    "encoded-pem": value_tokens.encoded_pem,
    "argument": value_tokens.argument,
    "entry": value_contexts.after_entry,
    "tail": value_tokens.after_cut,
    "rest": value_tokens.rest,
}
"""Name of a reader in the rule files -> its decision."""
