r"""The reader of one value behind a sensitive word, wherever text is not JSON from its first character.

A format of the rule files with a `value` names one of the `READERS`. The search for formats (`patterns`) finds its
anchor, a sensitive word or a scheme such as `Bearer`; the reader then has two phases:

    deciding   `_after_key` and the other functions of `READERS` read the separator and the beginning of the value with
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

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from projector.contracts.kinds import REDACTED
from projector.redaction import patterns, value_shapes
from projector.redaction.cursor import Cursor, More
from projector.redaction.rules import Context, KeyRules, Verdict, shipped
from projector.redaction.value_extents import (
    Balanced,
    Block,
    Extent,
    Fenced,
    Header,
    Line,
    PrivateKey,
    Quoted,
    Rest,
    Tail,
    Word,
)

if TYPE_CHECKING:
    from projector.redaction.steps import Step

BEFORE_CHARS: Final = 96
"""Characters before a key that a reader looks at."""
_DECIDE_CHARS: Final = 1_024
"""Characters behind a key that are held at most until it is decided."""
_MACROS: Final[Mapping[str, str]] = {
    "QUOTES": r"[\"'`\\\])}]{0,16}",
    "BLANKS": r"[ \t]{0,512}",
    "SPACES": r"[ \t\r\n]{0,512}",
    "GAP": r"[ \t]{1,512}",
}
"""Names in the separators of contexts."""


class Take(NamedTuple):
    """The decision to withhold a value from `start` on."""

    start: int
    extent: Extent


class Reading(NamedTuple):
    """What a reader made of a piece: steps, and the text behind the value; None while the value continues."""

    steps: list[Step]
    rest: str | None


class Place(NamedTuple):
    """Where a value stands: the text before its key, the key, and the words that make keys sensitive."""

    head: str
    key: str
    keys: KeyRules
    verdict: Verdict = Verdict.SENSITIVE
    link: str = ""

    @property
    def line(self) -> str:
        """The text before the key on its line."""
        return self.head[max(self.head.rfind("\n"), self.head.rfind("\r")) + 1 :]

    @property
    def begins_line(self) -> bool:
        """Whether the key is the first word of its line."""
        return _LINE_START.fullmatch(self.line) is not None

    @property
    def is_parameter(self) -> bool:
        """Whether the key is a parameter of an address or a form."""
        return self.head[-1:] in ("?", "&") and bool(self.head)

    @property
    def is_variable(self) -> bool:
        """Whether the key is a variable of an environment, directly before its value."""
        return self.link == "=" and self.key == self.key.upper()


Decide: TypeAlias = Callable[[Cursor, str, KeyRules], "Take | None"]


class ValueReader:
    """The reader of one value. Its text begins with `anchor`, which is withheld too."""

    __slots__ = ("_before", "_decide", "_extent", "_held", "_is_unmarked", "_keys", "anchor")

    def __init__(self, reader: str, before: str, anchor: str, keys: KeyRules) -> None:
        self.anchor = anchor
        self._decide = READERS[reader]
        self._before = before
        self._keys = keys
        self._held = ""
        self._extent: Extent | None = None
        self._is_unmarked = False

    @property
    def is_taken(self) -> bool:
        """Whether the value is a secret."""
        return self._extent is not None

    @property
    def continues(self) -> bool:
        """Whether the value continues in the next string of a list, as the lines of a private key do."""
        return isinstance(self._extent, PrivateKey)

    @property
    def held(self) -> int:
        """Number of characters that are not decided."""
        return 0 if self._extent is not None else len(self._held)

    def again(self) -> ValueReader:
        """Return a reader of the next string, for which a new mark stands."""
        reader = ValueReader("key", "", "", self._keys)
        reader._extent, reader._is_unmarked = self._extent, True
        return reader

    def feed(self, text: str, /) -> Reading:
        """Read a piece."""
        return self._read(self._held + text, is_whole=False)

    def end(self) -> Reading:
        """Decide at the end of the text."""
        text, self._held = self._held, ""
        if self._extent is not None:
            return Reading([(len(text), "")] if text else [], None)
        reading = self._read(text, is_whole=True)
        if self._held:
            reading.steps.append((len(self._held), ""))
            self._held = ""
        return reading

    def _read(self, text: str, *, is_whole: bool) -> Reading:
        steps: list[Step] = []
        if self._extent is None:
            try:
                short = text[:_DECIDE_CHARS]
                cursor = Cursor(short, is_whole=is_whole or len(short) == _DECIDE_CHARS)
                take = self._decide(cursor, self._before, self._keys)
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
        if self._is_unmarked and text:
            steps.append((0, REDACTED))
            self._is_unmarked = False
        count, is_end = self._extent.feed(text)
        if count:
            steps.append((count, ""))
        self._held = "" if is_end else text[count:]
        return Reading(steps, text[count:] if is_end else None)


# contexts


class _Row(NamedTuple):
    context: Context
    before: re.Pattern[str]
    key: re.Pattern[str]
    ways: tuple[tuple[tuple[re.Pattern[str], int, int], ...], ...]


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(row, re.compile(rf"(?:{row.before})\Z"), re.compile(row.key, re.IGNORECASE), tuple(_ways(row.link)))
        for row in shipped().contexts
    )


def _ways(link: str) -> list[tuple[tuple[re.Pattern[str], int, int], ...]]:
    """Return the alternatives of a separator, each as a sequence of classes with their counts."""
    ways = []
    for way in patterns.alternatives(link):
        spelled = "".join(_MACROS.get(item, item) for item in way.split(" "))
        ways.append(tuple(map(_compiled, patterns.pieces(spelled, ignore_case=True))))
    return ways


def _compiled(piece: patterns.Piece) -> tuple[re.Pattern[str], int, int]:
    return re.compile(f"{piece.atom}{{0,{piece.most}}}+"), piece.least, piece.most


_LINE_START: Final = re.compile(
    r"[ \t>+|#*-]*(?:(?:export|set|setx|ENV|ARG|let|var|const|local|declare -x)[ \t]+)?[$@]?"
)
_KEY_BEFORE: Final = re.compile(r"[\w.\-\u200b-\u200d\u00ad\ufeff]*\Z")
_KEY_REST: Final = re.compile(r"[\w.\-\u200b-\u200d\u00ad\ufeff]{0,64}+")
_KEY_MAX_CHARS: Final = 64


def _after_key(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about the value behind a sensitive word."""
    rest = cursor.run(_KEY_REST)
    left = _KEY_BEFORE.search(before, max(0, len(before) - _KEY_MAX_CHARS))
    begin = left[0] if left else ""
    key = (begin + rest).strip("-.")
    verdict = keys.verdict(key)
    if verdict is Verdict.PLAIN or len(rest) == _KEY_MAX_CHARS:
        return None
    dashes = len(begin) - len(begin.lstrip("-"))
    place = Place(before[: len(before) - len(begin) + dashes], key, keys, verdict)
    start = cursor.at
    for row in _rows():
        if row.before.search(place.head) is None or row.key.search(key) is None:
            continue
        for way in row.ways:
            if cursor.sequence(way):
                place = place._replace(link=cursor.text[start : cursor.at])
                return _VALUES[row.context.value](cursor, place)
    return None


# values

_BLANKS: Final = re.compile(r"[ \t]*+")
_SPACES: Final = re.compile(r"[ \t\r\n]*+")
_SLASHES: Final = re.compile(r"\\*+")
_BARE: Final = re.compile(r"[^\s\"'`,;<>]*+")
_BARE_LINE: Final = re.compile(r"\S*+")
_QUOTES: Final = "\"'`"
_PREFIXES: Final = frozenset(
    {"b", "u", "r", "f", "br", "rb", "fr", "rf", "n", "l", "u8", "e", "x", "q", "@", "$@", "$", "@$"}
)
"""Letters before a quote, compared in lower case: Python, SQL, C, PostgreSQL, Objective-C, C#, shell."""
_WRAPPERS: Final = re.compile(
    r"(?:(?:new\s)?(?:[A-Za-z_]+(?:\.|::))*(?:Some|Ok|Just|Secret\w*|String|Str|bytes|str|from|Password|Box|Rc|Arc|of|"
    r"to_string|Buffer|SecureString|Sensitive|Redacted|Literal|literal|unquote|text|quote)\()+",
)
"""Calls around a literal that keep it."""
_CALL: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*!?[(\[].*", re.DOTALL)
_DOTTED: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[.,:;)\]}]*")
_MIXED: Final = re.compile(r"(?=[^.(\[]*[a-z])(?=[^.(\[]*[A-Z])[A-Za-z_]*[0-9]")
_CLOSES_A_CALL: Final = re.compile(r"[)\]][A-Za-z0-9]")
_OPERATORS: Final = frozenset({"or", "||", "??", "?:"})
_OPERATOR: Final = re.compile(r"[a-z|?:]{0,3}+")
_TYPE: Final = re.compile(r"[A-Za-z_][\w.\[\]|?]*")
_TAG: Final = re.compile(r"[&!][\w!./-]*+")
_ANY_QUOTED_MIN: Final = 1


def _assigned(cursor: Cursor, place: Place) -> Take | None:
    """Decide about what follows `=` or `:`."""
    cursor.run(_BLANKS)
    if cursor.peek() in ("\n", "\r"):
        return _next_line(cursor, place)
    return _value(cursor, place)


def _next_line(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value on the lines behind its key: in quotes if the key is in quotes, or a block of YAML."""
    start = cursor.at
    cursor.run(_SPACES)
    if cursor.peek() in ("{", "[", "(") or (cursor.peek() in tuple(_QUOTES) and place.link[:1] in tuple(_QUOTES)):
        return _value(cursor, place)
    if ":" not in place.link or not place.begins_line:
        return None
    cursor.at = start
    return _indented(cursor)


_LINE: Final = re.compile(r"[^\n\r]*+")
_LINE_END: Final = re.compile(r"[\r\n]*+")
_YAML_LINE: Final = re.compile(r"[ \t]+(?:- +)?(?:[\"']?[\w.-]+[\"']?: +)?[\"']?([^\s\"']+)[\"']?[ \t]*")


def _indented(cursor: Cursor) -> Take | None:
    """Take an indented block of values or members, if one of them has the shape of a secret."""
    cursor.run(_LINE_END)
    start = cursor.at
    while (line := _YAML_LINE.fullmatch(cursor.run(_LINE))) is not None:
        if value_shapes.has_secret_shape(line[1]):
            return Take(start, Block())
        if not cursor.run(_LINE_END):
            return None
    return None


def _value(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value that begins here."""
    char = cursor.peek()
    if char in ("&", "!") and ":" in place.link:
        cursor.run(_TAG)
        cursor.run(_BLANKS)
        char = cursor.peek()
    if char == "\\" or (char and char in _QUOTES):
        return _quoted(cursor, place, is_any=True)
    if char and char in "{[(":
        return _container(cursor, place)
    if char and char in "|>" and ":" in place.link:
        return _block(cursor)
    if char == "<":
        return _angle(cursor)
    if char == "/":
        return _after_comment(cursor, place)
    return _bare(cursor, place)


def _after_comment(cursor: Cursor, place: Place) -> Take | None:
    start = cursor.at
    if not cursor.sequence(_COMMENT):
        return _bare(cursor, place)
    end = cursor.text.find("*/", cursor.at)
    if end < 0:
        if not cursor.is_whole:
            raise More
        cursor.at = start
        return _bare(cursor, place)
    cursor.at = end + 2
    cursor.run(_BLANKS)
    return _quoted(cursor, place, is_any=True) if cursor.peek() in tuple(_QUOTES) else _bare(cursor, place)


_COMMENT: Final = ((re.compile(r"/?+"), 1, 1), (re.compile(r"\*?+"), 1, 1))


def _quoted(cursor: Cursor, place: Place, *, is_any: bool) -> Take | None:
    """Decide about a string in quotes; `is_any` if it need not have the shape of a secret."""
    slashes = cursor.run(_SLASHES)
    quote = cursor.peek()
    if not quote or quote not in _QUOTES:
        return _continued(cursor, place) if slashes and quote in ("\n", "\r") else None
    cursor.at += 1
    if not slashes and cursor.sequence(_triples(quote)):
        extent: Extent = Fenced(quote * 3)
    else:
        extent = Quoted(quote, len(slashes), many_lines=quote == "`")
    content = _content(cursor, extent)
    is_closed = cursor.peek() == quote or (slashes and cursor.peek() == "\\")
    if not _is_secret_string(
        content,
        place,
        is_any=is_any and bool(is_closed or len(content) >= _LONG_CHARS or cursor.at == len(cursor.text)),
    ):
        return None
    start = cursor.at - len(content)
    extent = Fenced(quote * 3) if isinstance(extent, Fenced) else Quoted(quote, len(slashes), many_lines=quote == "`")
    return Take(start, extent)


_LONG_CHARS: Final = 64


def _continued(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value on the next line, behind a backslash."""
    cursor.run(_SPACES)
    return _quoted(cursor, place, is_any=True) if cursor.peek() in tuple(_QUOTES) else _bare(cursor, place)


@cache
def _triples(quote: str) -> tuple[tuple[re.Pattern[str], int, int], ...]:
    return ((re.compile(f"{quote}{{0,2}}+"), 2, 2),)


def _content(cursor: Cursor, extent: Extent) -> str:
    """Return the content of a string, as far as it is decided by, and move behind it."""
    text = cursor.text[cursor.at :]
    count, is_end = extent.feed(text)
    if not is_end:
        if not cursor.is_whole:
            raise More
        count = len(text)
    cursor.at += count
    return text[:count]


def _is_secret_string(content: str, place: Place, *, is_any: bool) -> bool:
    scheme = _SCHEME.match(content)
    text = content[scheme.end() :] if scheme else content
    if value_shapes.is_empty(text) or value_shapes.is_template(text) or value_shapes.is_prose(text):
        return False
    if place.verdict is Verdict.SENSITIVE_UNLESS_NUMBER and text.strip().isdigit():
        return False
    text = text.strip()
    if not is_any:
        return value_shapes.is_random(text)
    if "\n" in text:
        return value_shapes.has_secret_word(text)
    return not value_shapes.is_short_word(text) and not _is_key_name(text, place.keys)


_SCHEME: Final = re.compile(
    r"\s*(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey|SSWS|Bot|JWT|AWS4-HMAC-SHA256)\s+", re.IGNORECASE
)


def _is_key_name(text: str, keys: KeyRules) -> bool:
    """Return whether a value is the name of a secret, as in `token = "csrf_token"` or `password=password`."""
    is_name = value_shapes.is_name(text) or ("_" in text and text.isidentifier())
    return is_name and keys.verdict(text) is not Verdict.PLAIN


_STRING: Final = re.compile(r"\\*[\"'`]")


def _container(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a container: it is withheld if a string in it is a secret."""
    start = cursor.at
    end, is_end = Balanced().feed(cursor.text[start:])
    end += start
    is_data = place.link[:1] in ("\\", *_QUOTES)
    at = start
    while (found := _STRING.search(cursor.text, at, end if is_end else len(cursor.text))) is not None:
        inner = Cursor(cursor.text, is_whole=cursor.is_whole or is_end)
        inner.at = found.start()
        if _quoted(inner, place, is_any=is_data) is not None:
            return Take(start, Balanced())
        at = max(inner.at, found.end()) + 1
    if not is_end and not cursor.is_whole:
        raise More
    words = _BARE_WORDS.findall(cursor.text[start:end])
    return Take(start, Balanced()) if is_data and any(map(value_shapes.has_secret_shape, words)) else None


_BARE_WORDS: Final = re.compile(r"(?<=[\s\[{(:,=])[^\s\"'`,;:<>()\[\]{}]+(?=[\s,\]})])")
_BLOCK_HEAD: Final = re.compile(r"[|>+0-9-]{0,4}+")


def _block(cursor: Cursor) -> Take | None:
    """Take a block scalar of YAML: `|` or `>`, and indented lines."""
    cursor.run(_BLOCK_HEAD)
    cursor.run(_BLANKS)
    if cursor.peek() not in ("\n", "\r"):
        return None
    cursor.run(_LINE_END)
    if not cursor.run(_BLANKS):
        return None
    start = cursor.at - _indent(cursor)
    return Take(start, Block())


def _indent(cursor: Cursor) -> int:
    line = max(cursor.text.rfind("\n", 0, cursor.at), cursor.text.rfind("\r", 0, cursor.at))
    return cursor.at - line - 1


_HEREDOC: Final = re.compile(r"[<~\-'\"A-Za-z0-9_]*+")


def _angle(cursor: Cursor) -> Take | None:
    """Decide about a heredoc, or a character section of XML; anything else in angle brackets is a placeholder."""
    head = cursor.run(_HEREDOC)
    if head.startswith("<<") and cursor.peek() in ("\n", "\r"):
        cursor.run(_LINE_END)
        return Take(cursor.at, Fenced("\n" + head.strip("<~-'\"")))
    if head == "<" and cursor.sequence(_SECTION):
        return Take(cursor.at, Fenced("]]>"))
    return None


_SECTION: Final = tuple((re.compile(f"{re.escape(char)}?+"), 1, 1) for char in "![CDATA[")


def _bare(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value without quotes."""
    start = cursor.at
    is_line = place.begins_line
    word = cursor.run(_BARE_LINE if is_line and place.is_variable else _BARE)
    after = cursor.peek()
    if after and after in _QUOTES and (word.lower() in _PREFIXES or _WRAPPERS.fullmatch(word)):
        return _quoted(cursor, place, is_any=True)
    if _is_secret_bare(word, place):
        return Take(start, _bare_extent(place))
    return _default(cursor, place, word)


def _default(cursor: Cursor, place: Place, word: str) -> Take | None:
    """Decide about a literal behind an annotation or a name: `token: str = ".."`, `env.TOKEN or ".."`."""
    if _TYPE.match(word) is None:
        return None
    cursor.run(_BLANKS)
    if cursor.peek() == "=" and ":" in place.link:
        cursor.at += 1
        if cursor.peek() == "=":
            return None
    elif cursor.run(_OPERATOR) not in _OPERATORS:
        return None
    cursor.run(_BLANKS)
    return _quoted(cursor, place, is_any=True) if cursor.peek() in tuple(_QUOTES) else None


def _is_secret_bare(word: str, place: Place) -> bool:
    plain = word.rstrip(".,;:)]}")
    if value_shapes.is_empty(plain) or value_shapes.is_template(plain) or value_shapes.is_short_number(plain):
        return False
    is_digits = plain.isdigit()
    if place.verdict is Verdict.SENSITIVE_UNLESS_NUMBER and is_digits:
        return False
    if place.is_variable or place.is_parameter or "-" in place.head[-1:]:
        return not _is_key_name(plain, place.keys) and not value_shapes.is_path(plain)
    if is_digits:
        return _MAY_BE_NUMBER.search(place.key) is not None
    if _is_code(word):
        return False
    return value_shapes.has_secret_shape(plain)


_MAY_BE_NUMBER: Final = re.compile(r"(?i)pass|pin|pwd|secret|otp|code")


def _is_code(word: str) -> bool:
    """Return whether a word is a call, an index or an attribute; `kX9(mQ2)vT7` is none."""
    if _DOTTED.fullmatch(word) is not None:
        return _MIXED.match(word) is None
    if _CALL.fullmatch(word) is None:
        return False
    return _MIXED.match(word) is None and _CLOSES_A_CALL.search(word) is None


def _bare_extent(place: Place) -> Extent:
    if place.begins_line and place.is_variable:
        return Line()
    return Word(is_parameter=place.is_parameter)


# further contexts


def _any(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value that stands where only a secret can: behind an option or a name with a value."""
    cursor.run(_BLANKS)
    char = cursor.peek()
    if char == "\\" or (char and char in _QUOTES):
        return _quoted(cursor, place, is_any=True)
    start = cursor.at
    word = cursor.run(_BARE)
    after = cursor.peek()
    if after and after in _QUOTES and word.lower() in _PREFIXES:
        return _quoted(cursor, place, is_any=True)
    plain = word.rstrip(".,;:)]}")
    if plain.startswith("-") or value_shapes.is_empty(plain) or value_shapes.is_template(plain):
        return None
    if value_shapes.is_short_number(plain) or (place.verdict is not Verdict.SENSITIVE and plain.isdigit()):
        return None
    return None if _is_key_name(plain, place.keys) else Take(start, Word())


def _shaped(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a word next to a key: it must have the shape of a secret."""
    char = cursor.peek()
    if char == "\\" or (char and char in _QUOTES):
        return _quoted(cursor, place, is_any=False)
    start = cursor.at
    word = cursor.run(_BARE)
    return Take(start, Word()) if value_shapes.has_secret_shape(word) and not _is_code(word) else None


def _neighbour(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the next word or column behind a key: it must look random."""
    char = cursor.peek()
    if char == "\\" or (char and char in _QUOTES):
        return _quoted(cursor, place, is_any=False)
    start = cursor.at
    word = cursor.run(_BARE)
    return Take(start, Word()) if value_shapes.is_random(word) else None


def _string(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a string in quotes."""
    char = cursor.peek()
    return _quoted(cursor, place, is_any=True) if char == "\\" or (char and char in _QUOTES) else None


def _markup(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the content of an element: everything up to its closing tag."""
    cursor.run(_SPACES)
    if cursor.peek() == "<":
        return _angle(cursor)
    start = cursor.at
    content = cursor.run(_CONTENT)
    cursor.at = min(cursor.at + 1, len(cursor.text))
    if cursor.peek() not in ("/", "") or value_shapes.is_empty(content) or value_shapes.is_prose(content):
        return None
    return None if _is_key_name(content.strip(), place.keys) else Take(start, Fenced("</"))


_CONTENT: Final = re.compile(r"[^<]*+")


def _header(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value of a header, to the end of its line or of the string that holds the header."""
    cursor.run(_BLANKS)
    start = cursor.at
    if cursor.peek() in ("\\", *_QUOTES):
        return _quoted(cursor, place, is_any=True)
    word = cursor.run(_HEADER_WORD)
    name, equals, value = word.partition("=")
    if "cookie" in place.key.lower():
        is_secret = bool(equals) and _COOKIE_NAME.fullmatch(name) is not None and not value_shapes.is_template(value)
        return Take(start, _header_extent(place)) if is_secret else None
    if _SCHEME.fullmatch(word + " ") is not None:
        cursor.run(_BLANKS)
        word = cursor.run(_HEADER_WORD)
        is_secret = not value_shapes.is_empty(word) and not value_shapes.is_name(word)
        is_secret = is_secret or (value_shapes.is_name(word) and len(word) >= _SCHEME_MIN_CHARS)
        is_secret = is_secret and not value_shapes.is_template(word) and not _is_key_name(word, place.keys)
    else:
        is_secret = value_shapes.has_secret_shape(word) and not _is_code(word)
    return Take(start, _header_extent(place)) if is_secret else None


_HEADER_WORD: Final = re.compile(r"[^\s\"'`]*+")
_COOKIE_NAME: Final = re.compile(r"[A-Za-z0-9_.$-]{1,64}")
_SCHEME_MIN_CHARS: Final = 2
_OPENING_QUOTE: Final = re.compile(r"(\\*)([\"'`])(?:-H)?[A-Za-z-]*\Z")


def _header_extent(place: Place) -> Extent:
    quote = _OPENING_QUOTE.search(place.head)
    return Header(quote[2], len(quote[1])) if quote else Line()


_VALUES: Final[Mapping[str, Callable[[Cursor, Place], Take | None]]] = {
    "assigned": _assigned,
    "any": _any,
    "shaped": _shaped,
    "neighbour": _neighbour,
    "string": _string,
    "markup": _markup,
    "header": _header,
}
"""Name of a kind of value in the rule files -> its decision."""

# values that no key announces

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]*+")
_TOKEN_CHARS: Final = 20


def _bearer(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about what follows `Bearer`."""
    word = cursor.run(_TOKEN).rstrip(".")
    is_long = len(word) >= _TOKEN_CHARS and not value_shapes.is_name(word)
    is_secret = (is_long or value_shapes.has_secret_shape(word)) and not _is_key_name(word, keys)
    return Take(0, Tail(_TOKEN)) if is_secret and not value_shapes.is_empty(word) else None


def _basic(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Decide about what follows `Basic`: the base64 of a name, a colon and a password."""
    word = cursor.run(_TOKEN).rstrip(".")
    try:
        decoded = base64.b64decode(word + "=" * (-len(word) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return Take(0, Tail(_TOKEN)) if b":" in decoded[1:] or value_shapes.is_random(word) else None


_PEM_HEAD: Final = re.compile(r"[- A-Za-z0-9]{0,96}+")
_PRIVATE: Final = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE +KEY", re.IGNORECASE)


def _pem(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Take a private key in PEM."""
    head = cursor.run(_PEM_HEAD)
    return Take(0, PrivateKey()) if _PRIVATE.match(head) is not None else None


_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]{0,88}+")


def _encoded_pem(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Take the base64 of a private key in PEM."""
    word = cursor.run(_BASE64).rstrip("=")
    head = base64.b64decode(word[: len(word) // 4 * 4])
    return Take(0, Tail(_TOKEN)) if b"PRIVATE" in head or len(word) < _ENCODED_HEAD_CHARS else None


_ENCODED_HEAD_CHARS: Final = 48


def _argument(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about the argument of a command's option."""
    return _any(cursor, Place(before, "password", keys))


_ENTRY: Final = re.compile(r"[\s\S]{0,512}+")
_ENTRY_KEY: Final = re.compile(r"\s*(-{0,2})([\w.-]{1,64})\s*([=:]?)\s*")


def announces(text: str, keys: KeyRules) -> bool:
    """Return whether a string of a list is a sensitive key or option, whose value may be the next string."""
    match = _ENTRY_KEY.fullmatch(text) if len(text) <= ANNOUNCE_CHARS else None
    return match is not None and keys.verdict(match[2]) is Verdict.SENSITIVE


ANNOUNCE_CHARS: Final = 80
"""Maximum length of a string that is a key."""


def _after_entry(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about a string of a list behind one that is a sensitive key."""
    content = cursor.run(_ENTRY)
    match = _ENTRY_KEY.fullmatch(before)
    if match is None:
        return None
    place = Place("", match[2], keys)
    is_any = bool(match[1] or match[3]) or _HEADERS.search(match[2]) is not None
    if content.startswith("-") and match[1]:
        return None
    is_secret = _is_secret_string(content, place, is_any=is_any) or (
        " " not in content and value_shapes.has_secret_shape(content) and not _is_key_name(content, keys)
    )
    return Take(0, Rest()) if is_secret else None


_NEVER_MORE: Final = 8


def _after_cut(cursor: Cursor, before: str, _keys: KeyRules) -> Take | None:
    """Decide whether a string continues a credential at the end of the string before it; `before` is its class."""
    tail = re.compile(before)
    found = cursor.run(tail)
    is_secret = value_shapes.has_secret_shape(found) and len(found) >= _NEVER_MORE
    return Take(0, Tail(tail)) if is_secret or "\n" in found else None


_HEADERS: Final = re.compile(r"(?i:authorization|cookie2?)$")

READERS: Final[Mapping[str, Decide]] = {
    "key": _after_key,
    "bearer": _bearer,
    "basic": _basic,
    "pem": _pem,
    "encoded-pem": _encoded_pem,
    "argument": _argument,
    "entry": _after_entry,
    "tail": _after_cut,
}
"""Name of a reader in the rule files -> its decision."""
