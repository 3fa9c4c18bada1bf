"""The search of a policy: where in a text something begins that is withheld, and where it ends.

A `Search` is stateless and shared by all streams. Each of its `finds` is a function of a text, a position and whether
more text may follow. Its answer is a value, text that is undecided until more of it is there, or nothing. So an answer
never depends on how the text was cut.

    Values          registered values and secrets of the configuration
    Formats         credentials by their form, and values of sensitive words by their context (`assignments`);
                    READERS decide where the value of a form ends that a pattern cannot tell: tokens, keys, options
    RunSearch       credentials with a mark in the middle
    TextSearch      classes of personal data

`shown` answers the same question for nearly every delta with few expressions: nothing begins in it, or only its end may
begin something.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache, partial
from typing import Final

from projector.contracts.kinds import REDACTED
from projector.redaction import patterns
from projector.redaction import value_shapes as shapes
from projector.redaction.assignments import BEFORE_CHARS, Decide, Take, after_key, argument, mixed_string
from projector.redaction.format_search import PLAIN_CHARS, FormatSearch, RunSearch
from projector.redaction.patterns import CONTEXT_CHARS, PREFIX_CHARS, WORD, alternatives, last_class, pieces, sequence
from projector.redaction.policy import CREDENTIALS, Policy
from projector.redaction.registered import OPEN_CHARS, SECRET_MIN_CHARS, Values
from projector.redaction.rules import LOOKALIKES, Format, KeyRules, Rules, TextClass, merged
from projector.redaction.spellings import INVISIBLE, MAY_BE_SPELLED, PLAIN, SPELLED, unfinished_from
from projector.redaction.text_search import ASSIGNED, FENCE, TextSearch, looks_back, search_of
from projector.redaction.value_ends import (
    BEGIN_OF_KEY,
    Cursor,
    Found,
    More,
    PrivateKey,
    Registered,
    Reported,
    Tail,
    Value,
    Wrapped,
)
from projector.redaction.value_shapes import BLANKS, Place, is_key_name

Find = Callable[..., Found | None]
"""Return what begins first in a text, at or after a position; `at_end` if no more text follows."""

_DECIDE_CHARS: Final = 1_024
"""Characters after a key that are held at most until it is decided."""
_AT_ONCE_MAX_CHARS: Final = 256
"""A longer whole text is left to a filter, which reads no more than is shown, and does not read it twice."""
_STEPS: Final = (64, 8, 1)
"""A decision is tried with each of the first 8 characters, then at every 8th up to 64, then at every 64th: each attempt
costs."""


# decisions about values that no key announces: what follows a scheme or a command, and private keys

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]*+")
_TOKEN_CHARS: Final = 20


def bearer(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about what follows `Bearer`."""
    word = cursor.run(_TOKEN).rstrip(".")
    is_long = len(word) >= _TOKEN_CHARS and not shapes.is_name(word)
    is_secret = (is_long or shapes.has_secret_shape(word)) and not is_key_name(word, keys)
    return Take(0, Tail(_TOKEN)) if is_secret and not shapes.is_empty(word) else None


def basic(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Decide about what follows `Basic`: the base64 of a name, a colon and a password."""
    word = cursor.run(_TOKEN)
    found = _ENCODED.match(word)
    decoded = base64.b64decode(found[0]) if found else b""
    is_login = b":" in decoded[1:] and min(decoded) >= ord(" ")
    return Take(0, Tail(_TOKEN)) if is_login or shapes.is_random(word.rstrip(".")) else None


_ENCODED: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})+")


def code(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about an authorization code: long, with digits and letters of both cases, or with more digits."""
    return Take(0, Tail(_CODE)) if _is_code(cursor, cursor.run(_CODE).rstrip("."), keys) else None


def _is_code(cursor: Cursor, word: str, keys: KeyRules) -> bool:
    """Return whether a word is a code; at the end of a text a shorter one may be the beginning of one."""
    digits = sum(map(str.isdigit, word))
    is_mixed = any(map(str.islower, word)) and any(map(str.isupper, word))
    is_cut = is_mixed and cursor.at == len(cursor.text)
    is_long = len(word) >= (_NEVER_MORE if is_cut else _CODE_CHARS) and digits >= (1 if is_mixed else _CODE_DIGITS)
    longest = max(word.split("."), key=len)  # a name of a file may end in one
    return is_long and shapes.has_secret_shape(longest) and not is_key_name(word, keys)


_CODE: Final = re.compile(r"[A-Za-z0-9_%./~=-]*+")
_CODE_CHARS: Final = 16
_NEVER_MORE: Final = 6
_CODE_DIGITS: Final = 4


def protocols(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about the subprotocols of a WebSocket: from one that is a token on, the list is withheld."""
    cursor.run(_NAME_END)
    while True:
        start = cursor.at
        word = cursor.run(_PROTOCOL)
        if _is_code(cursor, word, keys):
            return Take(start, Tail(_PROTOCOLS))
        if not cursor.run(_BETWEEN):
            return None


_NAME_END: Final = re.compile(r"[ \t\"'\\:]*+")
_PROTOCOL: Final = re.compile(r"[A-Za-z0-9!#$%&*+.^_`|~/=-]*+")
_PROTOCOLS: Final = re.compile(r"[A-Za-z0-9!#$%&*+.^_`|~/=, -]*+")
_BETWEEN: Final = re.compile(r"[, \t]*+")
_PEM_HEAD: Final = re.compile(r"[- A-Za-z0-9]{0,96}+")


def pem(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Withhold a private key in PEM."""
    head = BEGIN_OF_KEY.match(cursor.run(_PEM_HEAD))
    return Take(0, PrivateKey()) if head is not None and head[1] else None


_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]{0,88}+")
_ENCODED_HEAD_CHARS: Final = 48


def encoded_pem(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Withhold the base64 of a private key, or of its PEM."""
    word = cursor.run(_BASE64).partition("=")[0]  # `b64decode` refuses some texts with `=` inside
    head = base64.b64decode(word[: len(word) // 4 * 4])
    is_public = b"BEGIN" in head and b"PRIVATE" not in head and len(word) >= _ENCODED_HEAD_CHARS
    return None if is_public else Take(0, Wrapped(_TOKEN))


def option(flag: str, cursor: Cursor, _before: str, _keys: KeyRules, *, is_joined: bool = False) -> Take | None:
    """Decide about the argument of an option among the words of a command; `is_joined` if no blank precedes it."""
    has_options = False
    for count in range(_WORDS_MAX):
        start = cursor.at
        word = _shell_word(cursor)
        if word.startswith(flag) if is_joined else word == flag:
            cursor.at = start + len(flag)
            if is_joined and cursor.peek().isspace():
                return None
            return argument(cursor)
        has_options = has_options or word.startswith("-")
        is_prose = count >= _OPERANDS_MAX and not has_options
        if is_prose or not word or not cursor.run(BLANKS):
            return None
    return None


def _shell_word(cursor: Cursor) -> str:
    """Return a word of a command with its quotes, and move after it; an empty text if a quote is not closed."""
    start = cursor.at
    cursor.run(_WORD)
    while (quote := cursor.peek()) and quote in _IN_QUOTES:
        cursor.at += 1
        cursor.run(_IN_QUOTES[quote])
        if cursor.peek() != quote:
            return ""
        cursor.at += 1
        cursor.run(_WORD)
    return cursor.text[start : cursor.at]


_WORD: Final = re.compile(r"[^\s;&|\"'`]*+")
_IN_QUOTES: Final = {quote: re.compile(f"[^{quote}\r\n]{{0,96}}+") for quote in "\"'"}
_WORDS_MAX: Final = 24
_OPERANDS_MAX: Final = 2
"""Words before the first option of a command. More are prose: `mysql is a database`."""


def second(cursor: Cursor, before: str, keys: KeyRules, *, is_mixed: bool = False) -> Take | None:
    """Decide about the second of two strings in quotes, of which the first is a name without blanks."""
    if not cursor.sequence(_FIRST) or cursor.peek() not in _IN_QUOTES:
        return None
    return mixed_string(cursor, Place(before, "password", keys)) if is_mixed else argument(cursor)


_FIRST: Final = tuple(
    (re.compile(f"{atom}{{0,{most}}}+"), least, most)
    for atom, least, most in (("[\"'`]", 1, 1), (r"[^\s\"'`]", 1, 64), ("[\"'`]", 1, 1), (",", 1, 1), (r"\s", 0, 64))
)


READERS: Final[Mapping[str, Decide]] = {
    "key": after_key,
    "bearer": bearer,
    "basic": basic,
    "code": code,
    "protocols": protocols,
    "pem": pem,
    "encoded-pem": encoded_pem,
    **{f"option-{flag}": partial(option, f"-{flag}") for flag in "pPwakA"},
    "second": second,
    "mixed-second": partial(second, is_mixed=True),
    "joined-p": partial(option, "-p", is_joined=True),
}
"""Name of a reader in the rule files -> its decision."""


# formats


class Formats:
    """The credential formats of a policy with its sensitive words, ready for searching."""

    def __init__(self, keys: KeyRules, rows: Iterable[Format]) -> None:
        self.keys = keys
        self.rows = tuple(rows)
        self.runs = RunSearch([row for row in self.rows if row.is_run])
        self._anchored = [row for row in self.rows if not row.is_run]

    @cached_property
    def live(self) -> FormatSearch:
        """Search in text that may continue."""
        return FormatSearch(self._anchored, self.keys.beginnings, self.keys.apart, at_end=False)

    @cached_property
    def last(self) -> FormatSearch:
        """Search in complete text."""
        return FormatSearch(self._anchored, self.keys.beginnings, self.keys.apart, at_end=True)

    @cached_property
    def encoded(self) -> re.Pattern[str]:
        """The expression for a text that ends in the base64 of a private key."""
        ways = [way for row in self.rows if row.value == "encoded-pem" for way in alternatives(row.anchor)]
        begins = f"(?=[{''.join(way[0] for way in ways)}])" if ways else "(?!)"  # one check for most characters
        return re.compile(rf"{begins}(?:{'|'.join(sequence(pieces(way)) for way in ways)})[A-Za-z0-9+/=]*+\Z")

    @cached_property
    def of_prose(self) -> Formats:
        """The formats for text that people read, where a sensitive word announces nothing.

        Sentences end with the dot or colon that some anchors begin with, so these begin with the character after it.
        """
        return Formats(self.keys, [_in_prose(row) for row in self.rows if WORD not in row.anchor])

    def find(self, text: str, start: int, *, at_end: bool, waits: bool = True) -> Found | None:
        """Return the first credential or value of a sensitive word, or text that may become one.

        With `waits` some characters are not decided about before more of them are there, because each attempt costs.
        """
        found = self._anchored_value(text, start, at_end=at_end, waits=waits)
        run = self.runs.first(text, start, at_end=at_end)
        if run is None or (found is not None and found.start <= run[0]):
            if found is None or run is None or found.mark is not None:
                return found
            return found._replace(shown=min(found.shown, run[0]))  # the run may decide, and a key be in it
        at, end, row = run
        return Found(at, at, len(text) + 1, None) if row is None else Found(at, at, end, REDACTED)

    def _anchored_value(self, text: str, start: int, *, at_end: bool, waits: bool) -> Found | None:
        """Return what begins with the anchor of a format."""
        search = self.last if at_end else self.live
        plain = undisguised(text)
        at = start
        while (found := search.first(plain, at)) is not None:
            row, begin = found.row, found.withheld
            if row is None:
                return Found(found.start, found.start, len(text) + 1, None)
            if not row.value:
                is_cut = at_end and _run_of(row, is_cut=True).fullmatch(text, found.end) is not None
                run = _run_of(row, is_cut=is_cut)
                end = len(text) if is_cut else found.end
                return Found(found.start, begin, end, REDACTED, Value(Tail(run), self.encoded, text[begin:end]))
            value = self._value(row, text, begin, at_end=at_end, waits=waits)
            if value is not None:
                return value._replace(start=found.start)
            at = begin if row.keep_anchor else found.end
        return None

    def _value(self, row: Format, text: str, begin: int, *, at_end: bool, waits: bool) -> Found | None:
        """Return the value after an anchor, if the reader of its format finds that it is a secret."""
        after = text[begin : begin + _DECIDE_CHARS]
        is_whole = at_end or len(after) == _DECIDE_CHARS
        step = next(step for step in _STEPS if step <= max(len(after), 1)) if waits else 1
        if not is_whole:
            after = after[: len(after) - len(after) % step]
        cursor = Cursor(after, is_whole=is_whole)
        try:
            take = READERS[row.value](cursor, text[max(0, begin - BEFORE_CHARS) : begin], self.keys)
        except More:
            return Found(begin, begin, begin + len(after) + step, None)
        if take is None:
            return None
        return Found(begin, begin + take.start, begin + take.start, REDACTED, Value(take.end, self.encoded))


@lru_cache(maxsize=1_024)
def _run_of(row: Format, *, is_cut: bool) -> re.Pattern[str]:
    """Return the expression for the characters of a credential after its shortest form.

    The end of a text may cut a credential off before its shortest form (`is_cut`): then all characters of its pattern
    may follow, not only those of its tail.
    """
    atoms = [row.tail or last_class(row.pattern)]
    if is_cut:
        atoms += [piece.atom for way in alternatives(row.pattern) for piece in pieces(way)]
    return re.compile(f"(?:{'|'.join(dict.fromkeys(atoms))}|)*+")


_DOT: Final = re.compile(r"^(?:[,;:!]|\\[.?])(?![{?])")
"""A dot or colon at the start of an anchor."""


def _in_prose(row: Format) -> Format:
    shortest = min(map(patterns.shortest_length, alternatives(row.pattern)))
    ways = [(way, _DOT.sub("", way)) for way in alternatives(row.anchor)]
    anchor = "|".join(rest if patterns.shortest_length(rest) + shortest >= PREFIX_CHARS else way for way, rest in ways)
    return row if anchor == row.anchor else row._replace(anchor=anchor, inside_words=False)


@lru_cache(maxsize=64)
def _compiled(own: Rules, add: tuple[str, ...], remove: tuple[str, ...], off: frozenset[str]) -> Formats:
    """Return the formats of a policy, compiled once. The cache holds no registered value and so no secret."""
    rules = merged(own)
    return Formats(KeyRules(add, remove, rules), [row for row in rules.formats if row.name not in off])


DISGUISES: Final[dict[int, str | int]] = {
    **LOOKALIKES,
    **dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), "_"),
}
_DISGUISE: Final = re.compile(f"[{''.join(map(chr, DISGUISES))}{INVISIBLE}]")
_NOT_PLAIN: Final = re.compile(f"[^{re.escape(PLAIN_CHARS)}]")
_DISGUISE_OR_PLAIN: Final = re.compile(f"[{''.join(map(chr, {*DISGUISES, *PLAIN}))}{INVISIBLE}]")


def undisguised(text: str) -> str:
    """Return a text of the same length in which words have ASCII letters and hyphens, and `_` for what is invisible."""
    return text if text.isascii() or _DISGUISE.search(text) is None else text.translate(DISGUISES)


_NO_KEYS: Final = KeyRules(rules=Rules())


class Search:
    """A policy and the secrets of the configuration, ready for searching.

    It searches the texts of tools, `of_prose` text that people read, `of_classes` structured outputs, and `of_values`
    finds registered values only.
    """

    rows: tuple[TextClass, ...] = ()
    """Classes of personal data that are searched for."""
    reported: frozenset[str] = frozenset()
    """Names of classes that are shown and only reported."""
    context: int = BEFORE_CHARS
    """Number of characters before a position on which the answer depends."""
    formats_of_code: Formats | None = None
    """The search of tools, for values of sensitive words in fenced code; None if that is not searched."""
    _formats: Formats | None

    def __init__(self, policy: Policy, secrets: Iterable[str] = ()) -> None:
        self._formats = formats = _compiled(
            policy.own_rules, policy.sensitive_keys_add, policy.sensitive_keys_remove, policy.formats_off
        )
        self.keys = formats.keys
        registered = (
            (row.value.get_secret_value(), f"[REDACTED:{row.id}]" if row.id else REDACTED) for row in policy.registered
        )
        self.values = Values(registered, [value for value in secrets if len(value) >= SECRET_MIN_CHARS])
        self.crossing = self.values.crossing()

    def of_prose(self, actions: Mapping[str, str], rows: Iterable[TextClass]) -> Search:
        """Return the search of text that people read.

        Args:
            actions: class -> action; `credentials` among them.
            rows: the rules of all classes.
        """
        formats = self._formats if CREDENTIALS in actions else None
        search = self._other(formats and formats.of_prose, self.values)
        search.formats_of_code = formats
        search.rows = tuple(row for row in rows if row.name in actions)
        search.reported = frozenset(name for name, action in actions.items() if action == "report")
        search.context = max(CONTEXT_CHARS, *map(looks_back, (*search.rows, FENCE))) + 1
        return search

    def of_classes(self, rows: tuple[TextClass, ...], reported: frozenset[str]) -> Search:
        """Return a search for classes of personal data too."""
        search = self._other(self._formats, self.values)
        search.rows, search.reported = rows, reported - {CREDENTIALS}
        return search

    def of_values(self, values: Values) -> Search:
        """Return a search for registered values and nothing else; no key is sensitive."""
        search = self._other(None, values)
        search.keys, search.context = _NO_KEYS, 1
        return search

    def _other(self, formats: Formats | None, values: Values) -> Search:
        search = Search.__new__(Search)
        search._formats, search.values, search.keys, search.crossing = formats, values, self.keys, self.crossing  # noqa: SLF001 - of this class
        return search

    @cached_property
    def finds(self) -> tuple[tuple[Find, type[str]], ...]:
        """The searches for what is withheld, in order of precedence of their marks, with the type of these."""
        kind = Reported if CREDENTIALS in self.reported else str
        return (
            *(((self.values.find, Registered),) if self.values else ()),
            *(((self._formats.find, kind),) if self._formats is not None else ()),
        )

    @cached_property
    def classes(self) -> TextSearch | None:
        """The search for the classes, and for fences where their code is read; None if there is neither."""
        rows = self.rows if self.formats_of_code is None else (*self.rows, FENCE)
        return search_of(rows) if rows else None

    def compile(self) -> None:
        """Compile what is otherwise compiled on first use; it takes about half a second for all formats."""
        if self._formats is not None:
            self._formats.live.compile()
            self._formats.last.compile()
            _ = self._formats.encoded
        _ = self.classes
        if self.formats_of_code is not None:
            search_of((ASSIGNED,))

    def is_assigned(self, text: str, at: int) -> bool:
        """Return whether a character of code is in the value of a sensitive word, as the search of tools finds it."""
        formats, start = self.formats_of_code, 0
        while formats is not None and (found := formats.find(text, start, at_end=True)) is not None:
            start = found.end if found.rest is None else found.end + found.rest.feed(text[found.end :])[0]
            if at < start:
                return found.shown <= at
        return False

    def format_of(self, text: str, at: int, start: int, end: int) -> Format | None:
        """Return the format of the credential between two positions of a complete text, searched from `at` on."""
        plain, formats = undisguised(text), self._formats
        if formats is None:
            return None
        while (found := formats.last.first(plain, at)) is not None and found.start < end:
            if found.end >= start:
                return found.row
            at = found.start + 1
        run = formats.runs.first(text, start, at_end=True)
        return run[2] if run is not None and run[0] < end else None

    def is_clean(self, text: str) -> bool:
        """Return whether a complete text is shown as it is; False if only a filter can tell."""
        return not text or self.shown(f" {text}", 1, is_whole=True) == len(text) + 1

    @cached_property
    def words(self) -> dict[str, int] | None:
        """Texts of a blank and a word, as most deltas are -> what was decided about them.

        None where a class has no check, because any word may be a value of it then, and no value is kept.
        """
        return {} if all(row.check for row in self.rows) else None

    @cached_property
    def _special(self) -> re.Pattern[str] | None:
        """Characters that are read as others; None where only registered values are searched for."""
        return _DISGUISE_OR_PLAIN if self.rows else _DISGUISE if self._formats is not None else None

    def shown(self, text: str, start: int, *, is_whole: bool = False) -> int:
        """Return the position up to which a text is shown whatever follows; -1 if only a filter can tell.

        `start`, at least 1, is where the new text begins. With `is_whole` nothing follows, and a short text is decided.
        """
        formats, end = self._formats, len(text)
        is_run, is_plain = False, _NOT_PLAIN.search(text, start - CONTEXT_CHARS) is None
        if not is_plain:
            if MAY_BE_SPELLED.search(text, start) is not None and (
                SPELLED.search(text, start) is not None or unfinished_from(text, start) < end
            ):
                return -1
            special = None if text.isascii() else self._special
            if special is not None and special.search(text, start - CONTEXT_CHARS) is not None:
                return -1
            is_run = formats is not None and formats.runs.may_begin(text, start) >= 0
        near = None if self.classes is None else self.classes.near(text, start)
        if near is not None:
            if near.end() < end:
                return -1
            end = near.start()
        if formats is not None:
            quick = -1 if is_run else (formats.last if is_whole else formats.live).quick(text, start, is_plain=is_plain)
            is_short = is_whole and end <= _AT_ONCE_MAX_CHARS
            if quick < 0 and not (is_short and formats.find(text, start, at_end=True) is None):
                return -1
            end = end if quick < 0 else min(end, quick)
        if end >= 0 and self.values.longest:
            at = self.values.may_begin(text, start)
            end = end if at < 0 else min(end, at) if len(text) - at < OPEN_CHARS else -1
        return -1 if is_whole and end < len(text) else end
