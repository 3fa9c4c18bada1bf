"""The kinds of values in the rule files, and the decisions about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from projector.redaction import value_shapes
from projector.redaction.cursor import Cursor, More
from projector.redaction.rules import Verdict
from projector.redaction.value_bare import is_call, is_secret_place, is_secret_shape
from projector.redaction.value_extents import Block, Extent, Fenced, Header, Line, Word
from projector.redaction.value_places import BARE, BLANKS, PARAMETER, QUOTES, SLASHES, SPACES, Place, Take, is_key_name
from projector.redaction.value_strings import SCHEME, container, quoted

_BARE_LINE: Final = re.compile(r"\S*+")
_PREFIXES: Final = frozenset(
    {"b", "u", "r", "f", "br", "rb", "fr", "rf", "n", "l", "u8", "e", "x", "q", "@", "$@", "$", "@$"}
)
"""Letters before a quote, compared in lower case: Python, SQL, C, PostgreSQL, Objective-C, C#, shell."""
_WRAPPERS: Final = re.compile(
    r"(?:(?:new\s)?(?:[A-Za-z_]+(?:\.|::))*(?:Some|Ok|Just|Secret\w*|String|Str|bytes|str|from|Password|Box|Rc|Arc|of|"
    r"to_string|Buffer|SecureString|Sensitive|Redacted|Literal|literal|unquote|text|quote)\()+",
)
"""Calls around a literal that keep it."""
_OPERATORS: Final = frozenset({"or", "||", "??", "?:"})
_OPERATOR: Final = re.compile(r"[a-z|?:]{0,3}+")
_TYPE: Final = re.compile(r"[A-Za-z_][\w.\[\]|?]*")
_TAG: Final = re.compile(r"[&!][\w!./-]*+")


def _assigned(cursor: Cursor, place: Place) -> Take | None:
    """Decide about what follows `=` or `:`."""
    cursor.run(BLANKS)
    if cursor.peek() in ("\n", "\r"):
        return _next_line(cursor, place)
    return _value(cursor, place)


def _next_line(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value on the lines behind its key: in quotes if the key is in quotes, or a block of YAML."""
    start = cursor.at
    cursor.run(SPACES)
    if cursor.peek() in ("{", "[", "(") or (cursor.peek() in tuple(QUOTES) and place.link[:1] in tuple(QUOTES)):
        return _value(cursor, place)
    if ":" not in place.link:
        return None
    value = cursor.at
    if value_shapes.is_random(cursor.run(BARE)):
        return Take(value, Word())
    cursor.at = start
    return _indented(cursor) if place.begins_line else None


_LINE: Final = re.compile(r"[^\n\r]*+")
LINE_END: Final = re.compile(r"[\r\n]*+")
_YAML_LINE: Final = re.compile(r"[ \t]+(?:- +)?(?:[\"']?[\w.-]+[\"']?: +)?[\"']?([^\s\"']+)[\"']?[ \t]*")


def _indented(cursor: Cursor) -> Take | None:
    """Withhold an indented block of values or members, if one of its first lines has the shape of a secret."""
    cursor.run(LINE_END)
    start = cursor.at
    for _ in range(_BLOCK_MAX_LINES):
        line = _YAML_LINE.fullmatch(cursor.run(_LINE))
        if line is None:
            break
        if value_shapes.has_secret_shape(line[1]):
            return Take(start, Block())
        if not cursor.run(LINE_END):
            break
    return None


_BLOCK_MAX_LINES: Final = 8


def _value(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value that begins here."""
    char = cursor.peek()
    if char in ("&", "!") and ":" in place.link:
        cursor.run(_TAG)
        cursor.run(BLANKS)
        char = cursor.peek()
    if char == "\\" and (after := _continued(cursor)):
        char = after
    if char == "\\" or (char and char in QUOTES):
        return quoted(cursor, place, is_any=True)
    if char and char in "{[(":
        return container(cursor, place)
    if char and char in "|>" and ":" in place.link:
        return _block(cursor)
    if char == "<":
        return _angle(cursor)
    if char == "/":
        return _after_comment(cursor, place)
    return _bare(cursor, place)


def _continued(cursor: Cursor) -> str:
    """Move to the next line behind a backslash and return its first character; stay if no line ends there."""
    start = cursor.at
    cursor.run(SLASHES)
    if cursor.peek() not in ("\n", "\r"):
        cursor.at = start
        return ""
    cursor.run(SPACES)
    return cursor.peek()


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
    cursor.run(BLANKS)
    return quoted(cursor, place, is_any=True) if cursor.peek() in tuple(QUOTES) else _bare(cursor, place)


_COMMENT: Final = ((re.compile(r"/?+"), 1, 1), (re.compile(r"\*?+"), 1, 1))


_BLOCK_HEAD: Final = re.compile(r"[|>+0-9-]{0,4}+")


def _block(cursor: Cursor) -> Take | None:
    """Withhold a block scalar of YAML: `|` or `>`, and indented lines."""
    cursor.run(_BLOCK_HEAD)
    cursor.run(BLANKS)
    if cursor.peek() not in ("\n", "\r"):
        return None
    cursor.run(LINE_END)
    if not cursor.run(BLANKS):
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
        cursor.run(LINE_END)
        return Take(cursor.at, Fenced("\n" + head.strip("<~-'\"")))
    if head == "<" and cursor.sequence(_SECTION):
        return Take(cursor.at, Fenced("]]>"))
    return None


_SECTION: Final = tuple((re.compile(f"{re.escape(char)}?+"), 1, 1) for char in "![CDATA[")


def _bare(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value without quotes."""
    start = cursor.at
    is_line = place.begins_line
    word = cursor.run(_BARE_LINE if is_line and place.is_variable else PARAMETER if place.is_parameter else BARE)
    if SCHEME.fullmatch(word + " ") is not None and cursor.run(BLANKS):
        start = cursor.at
        word = cursor.run(BARE)
    after = cursor.peek()
    if after and after in QUOTES and (word.lower() in _PREFIXES or _WRAPPERS.fullmatch(word)):
        return quoted(cursor, place, is_any=True)
    before = cursor.text[start - 1 : start]
    if is_secret_shape(word, place) or is_secret_place(word, place, before, after):
        return Take(start, _bare_extent(place))
    return _default(cursor, place, word)


def _default(cursor: Cursor, place: Place, word: str) -> Take | None:
    """Decide about a literal behind an annotation or a name: `token: str = ".."`, `env.TOKEN or ".."`."""
    if _TYPE.match(word) is None:
        return None
    cursor.run(BLANKS)
    if cursor.peek() == "=" and ":" in place.link:
        cursor.at += 1
        if cursor.peek() == "=":
            return None
    elif cursor.run(_OPERATOR) not in _OPERATORS:
        return None
    cursor.run(BLANKS)
    return quoted(cursor, place, is_any=True) if cursor.peek() in tuple(QUOTES) else None


def _bare_extent(place: Place) -> Extent:
    if place.begins_line and place.is_variable:
        return Line()
    return Word(is_parameter=place.is_parameter)


# further contexts


def any_value(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value that stands where only a secret can: behind an option or a name with a value."""
    cursor.run(BLANKS)
    char = cursor.peek()
    if len(place.link) > 1 and place.head[-1:] == "-" and char not in ("\\", *QUOTES):
        return _neighbour(cursor, place)  # a column of the help of a command
    if char == "\\" or (char and char in QUOTES):
        return quoted(cursor, place, is_any=True)
    start = cursor.at
    word = cursor.run(BARE)
    after = cursor.peek()
    if after and after in QUOTES and word.lower() in _PREFIXES:
        return quoted(cursor, place, is_any=True)
    if value_shapes.begins_key_file(word):
        return None
    if SCHEME.fullmatch(word + " ") is not None and cursor.run(BLANKS):
        start = cursor.at
        word = cursor.run(BARE)
    plain = word.rstrip(".,;:)]}")
    is_harmless = (
        plain.startswith("-")
        or value_shapes.is_empty(plain)
        or value_shapes.is_template(plain)
        or value_shapes.is_short_number(plain)
        or (place.verdict is not Verdict.SENSITIVE and plain.isdigit())
        or is_key_name(plain, place.keys)
        or _names_an_argument(cursor, plain)
    )
    return None if is_harmless else Take(start, Word())


def _names_an_argument(cursor: Cursor, word: str) -> bool:
    """Return whether a word is the name of an argument in the help of a command: `--token FILE   Read it from ..`."""
    return word.isalpha() and word.isupper() and len(cursor.run(BLANKS)) > 1


def _neighbour(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the next word or column behind a key: it must look random."""
    char = cursor.peek()
    start = cursor.at
    if char == "\\" or (char and char in QUOTES):
        return quoted(cursor, place, is_any=False) or _second(cursor, place, start)
    word = cursor.run(BARE)
    return Take(start, Word()) if value_shapes.is_random(word) else None


def _second(cursor: Cursor, place: Place, start: int) -> Take | None:
    """Decide about the second string of a list of two, of which the first is the key: it is no name, word or text."""
    if _OPENS_A_LIST.search(place.head) is None:
        return None
    cursor.at = start
    take = quoted(cursor, place, is_any=True)
    if take is None:
        return None
    value = cursor.text[take.start : cursor.at]
    if not value_shapes.is_entry(value) and not is_field(place.key, value):
        return None
    cursor.run(SLASHES)
    cursor.at = min(cursor.at + 1, len(cursor.text))
    cursor.run(SPACES)
    return take if cursor.peek() in ("]", "") else None


def is_field(key: str, value: str) -> bool:
    """Return whether a string behind the name of a header is long enough to be its value."""
    return _FIELD.match(key) is not None and len(value) >= _FIELD_CHARS


_FIELD: Final = re.compile("(?i)x-")
_FIELD_CHARS: Final = 20
"""Length of the value of a header that is no name of another one: `["X-Api-Key", "Content-Type"]`."""
_OPENS_A_LIST: Final = re.compile(r"\[\s*\\*[\"'`]\Z")


def _string(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a string in quotes; behind an option another option is no value."""
    char = cursor.peek()
    if place.head[-1:] == "-" and _OPTION.match(cursor.text, cursor.at) is not None:
        return None
    return quoted(cursor, place, is_any=True) if char == "\\" or (char and char in QUOTES) else None


_OPTION: Final = re.compile(r"\\*[\"'`]--?[A-Za-z]")


def _markup(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the content of an element: everything up to its closing tag."""
    cursor.run(SPACES)
    if cursor.peek() == "<":
        return _angle(cursor)
    start = cursor.at
    content = cursor.run(_CONTENT)
    cursor.at = min(cursor.at + 1, len(cursor.text))
    after = cursor.peek()
    if after not in ("/", "") or value_shapes.is_empty(content) or value_shapes.is_prose(content):
        return None
    if not after and (value_shapes.is_template(content) or _PLACEHOLDER.search(place.head) is not None):
        return None
    return None if is_key_name(content.strip(), place.keys) else Take(start, Fenced("</"))


_CONTENT: Final = re.compile(r"[^<]*+")
_PLACEHOLDER: Final = re.compile(r"[=:][ ]?<\Z")
"""`password=<password> host=db` has no element unless a closing tag follows."""


def _header(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value of a header, to the end of its line or of the string that holds the header."""
    cursor.run(BLANKS)
    start = cursor.at
    if cursor.peek() in ("\\", *QUOTES):
        return quoted(cursor, place, is_any=True)
    word = cursor.run(_HEADER_WORD)
    name, equals, value = word.partition("=")
    if "cookie" in place.key.lower():
        is_secret = bool(equals) and _COOKIE_NAME.fullmatch(name) is not None and not value_shapes.is_template(value)
        return Take(start, _header_extent(place)) if is_secret else None
    if SCHEME.fullmatch(word + " ") is not None:
        cursor.run(BLANKS)
        word = cursor.run(_HEADER_WORD)
        is_short = value_shapes.is_name(word) and len(word) < _SCHEME_MIN_CHARS and cursor.peek() != ""
        is_secret = not (is_short or value_shapes.is_empty(word) or value_shapes.is_template(word))
        is_secret = is_secret and not is_key_name(word, place.keys)
    else:
        is_secret = (value_shapes.has_secret_shape(word) and not _is_reference(word, place)) or word.isdigit()
        is_secret = is_secret or (len(word) >= _ALONE_MIN_CHARS and _is_alone(cursor, word, place))
    return Take(start, _header_extent(place)) if is_secret else None


_HEADER_WORD: Final = re.compile(r"[^\s\"'`]*+")
_COOKIE_NAME: Final = re.compile(r"[A-Za-z0-9_.$-]{1,64}")
_SCHEME_MIN_CHARS: Final = 2
_OPENING_QUOTE: Final = re.compile(r"(\\*)([\"'`])(?:-H)?[A-Za-z-]*\Z")


def _field(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value of a header that has its own name for a secret: one word with inner capitals is one."""
    begin = cursor.at
    take = _assigned(cursor, place)
    if take is not None:
        return take
    cursor.at = begin
    cursor.run(BLANKS)
    start = cursor.at
    word = cursor.run(_HEADER_WORD)
    return Take(start, _header_extent(place)) if _is_alone(cursor, word, place) else None


def _is_alone(cursor: Cursor, word: str, place: Place) -> bool:
    """Return whether a word is the whole value of a header, and looks like no plain word: it has capitals inside."""
    if cursor.peek() not in ("", "\n", "\r", *QUOTES):
        return False
    if _INNER_CAPITAL.search(word) is None and not value_shapes.has_secret_shape(word):
        return False
    return not (_is_reference(word, place) or value_shapes.is_template(word))


def _is_reference(word: str, place: Place) -> bool:
    """Return whether a word is a call, or names a secret: `config.apiKey`. Any other dotted word is a value here."""
    return is_call(word) or any(is_key_name(part, place.keys) for part in (word, *word.split(".")))


_ALONE_MIN_CHARS: Final = 16
"""A shorter word behind `Authorization` may be the name of a scheme."""
_INNER_CAPITAL: Final = re.compile(r"[a-z0-9./+~-][A-Z]")


def _header_extent(place: Place) -> Extent:
    quote = _OPENING_QUOTE.search(place.head)
    return Header(quote[2], len(quote[1])) if quote else Line()


VALUES: Final[Mapping[str, Callable[[Cursor, Place], Take | None]]] = {
    "assigned": _assigned,
    "any": any_value,
    "neighbour": _neighbour,
    "string": _string,
    "markup": _markup,
    "header": _header,
    "field": _field,
}
"""Name of a kind of value in the rule files -> its decision."""
