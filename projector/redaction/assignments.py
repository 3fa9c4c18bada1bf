r"""The value after a sensitive word, wherever text is not JSON from its first character.

The search finds a sensitive word; `after_key` reads what follows with a `Cursor` and decides whether it is a secret,
and where it ends (`value_ends`). Nothing is shown before the decision. The contexts, which text may stand between a key
and its value and which values count there, are entries of `redaction/formats/contexts.toml`, in order of precedence.
The first context that finds a value decides; one that finds none leaves it to the next, unless `_DECIDED` has its kind.

    key      separator   value
    password =           "hunter2"           quotes: everything but placeholders, templates and prose
    password :           {user: .., ..}      brackets: if a string in them is a secret
    password :           |                   a block of YAML: everything
    password =           hunter2             bare: what has the shape of a secret; in an environment and after options
                                             everything but placeholders

If the value is no secret (`value_shapes`), the text is searched as any other: a value may contain another key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.redaction import descriptions, patterns
from projector.redaction import value_shapes as shapes
from projector.redaction.rules import Context, KeyRules, Verdict, plain_letters, shipped
from projector.redaction.value_ends import (
    IN_LINE,
    LINE,
    SLASHES,
    Balanced,
    Block,
    Cursor,
    End,
    Fenced,
    Header,
    Lines,
    More,
    Quoted,
    Rest,
    Word,
    end_of,
)
from projector.redaction.value_shapes import BARE, BLANKS, PARAMETER, QUOTED, QUOTES, SPACES, Place

BEFORE_CHARS: Final = 96
"""Characters before a key that are read."""


class Take(NamedTuple):
    """The decision to withhold a value from `start` on."""

    start: int
    end: End


Decide: TypeAlias = Callable[[Cursor, str, KeyRules], "Take | None"]
"""A decision about the text after an anchor, given the text before its end and the key rules."""


# strings and containers


def _quoted(cursor: Cursor, place: Place, *, is_any: bool) -> Take | None:
    """Decide about a string in quotes; `is_any` if it need not have the shape of a secret."""
    slashes = cursor.run(SLASHES)
    quote = cursor.peek()
    if quote and place.head.endswith(slashes + quote) and _closes(place, slashes, quote):
        return None  # it closes the string that holds the key
    if not quote or quote not in QUOTES:
        return None
    cursor.at += 1
    extent: End = Quoted(quote, len(slashes), joins=True)
    if is_fenced := not slashes and cursor.sequence(_TRIPLES[quote]):
        extent = Fenced(quote * 3)
    content = _content(cursor, extent if is_fenced else Quoted(quote, len(slashes)))
    is_closed = cursor.peek() == quote or (slashes and cursor.peek() == "\\")
    is_cut_off = not is_closed and cursor.at == len(cursor.text)
    is_any = is_any and bool(is_closed or is_cut_off or len(content) >= _LONG_CHARS)
    if not _is_secret_string(content, place, is_any=is_any) and not (is_any and is_cut_off and content.isalpha()):
        return None
    return Take(cursor.at - len(content), extent)


_LONG_CHARS: Final = 64


def _closes(place: Place, slashes: str, quote: str) -> bool:
    """Return whether a quote closes the string that its key opens: it is escaped alike, and none is behind the key."""
    before = place.head[: len(place.head) - len(slashes + quote)]
    return not before.endswith("\\") and not place.link.lstrip("\\").startswith(quote)


_TRIPLES: Final = {quote: ((re.compile(f"{quote}{{0,2}}+"), 2, 2),) for quote in QUOTES}


def _content(cursor: Cursor, extent: End) -> str:
    """Return the content of a string, as far as it is decided by, and move behind it."""
    text = cursor.text[cursor.at :]
    count, is_end = extent.feed(text)
    if not is_end:
        if not cursor.is_whole:
            raise More
        count += extent.finish(text[count:])
    cursor.at += count
    return text[:count]


def _is_secret_string(content: str, place: Place, *, is_any: bool) -> bool:
    """Return whether the content of a string is a secret; `is_any` if it need not look random."""
    scheme = SCHEME.match(content)
    text = content[scheme.end() :] if scheme else content
    if shapes.begins_key_file(text) or shapes.is_public(text):
        return False
    if place.verdict is Verdict.SENSITIVE_UNLESS_NUMBER and text.strip().isdigit():
        return False
    text = text.strip()
    if not is_any:
        return shapes.is_random(text)
    if "\n" in text:
        return any(map(shapes.is_random, text.split()))
    is_terminal = len(text) <= _TERMINAL_MAX_CHARS and text.isalpha() and text.isupper()
    is_of_markup = len(text) == 1 and place.key.lower() == "accesskey"
    return not (is_terminal or is_of_markup or shapes.is_key_name(text, place.keys))


_TERMINAL_MAX_CHARS: Final = 3
"""Capitals of the name of a token in a parser. One character is that of a key in markup: `accesskey="n"`."""
SCHEME: Final = re.compile(
    r"\s*(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey|SSWS|Bot|JWT|AWS4-HMAC-SHA256)\s+", re.IGNORECASE
)


_STRING: Final = re.compile(r"\\*[\"'`]")


def container(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a container: it is withheld if a string in it is a secret."""
    start = cursor.at
    end, is_end = Balanced().feed(cursor.text[start:])
    end += start
    text = cursor.text[start:end]
    if text[0] == "{" and place.link[:1] == '"' and _is_described(cursor, place, text, is_end=is_end):
        return None
    is_data = place.link[:1] in QUOTED and text[0] != "("
    is_data = is_data and _CODE_IN_DATA.search(_STRINGS.sub('""', text)) is None
    is_data = is_data or ((is_end or cursor.is_whole) and _ONE_STRING.fullmatch(text) is not None)
    at = start
    while (found := _STRING.search(cursor.text, at, end if is_end else len(cursor.text))) is not None:
        inner = Cursor(cursor.text, is_whole=cursor.is_whole or is_end, at=found.start())
        if _quoted(inner, place, is_any=is_data) is not None:
            return Take(start, Balanced())
        at = max(inner.at, found.end()) + 1
    if not is_end and not cursor.is_whole:
        raise More
    words = _BARE_WORDS.findall(text)
    is_list = text[0] == "[" and (":" in place.link or text[1:2] == "[") and any(map(shapes.is_random, words))
    is_list = is_list or (is_data and any(map(shapes.has_secret_shape, words)))
    return Take(start, Balanced()) if is_list else None


def _is_described(cursor: Cursor, place: Place, text: str, *, is_end: bool) -> bool:
    """Return whether a JSON object is a description of a secret, with nothing in it that is withheld."""
    parent = _PARENT.search(place.head)
    key, parent_key = ("/" if place.head.endswith("/") else place.key), parent[1] if parent else ""
    head = descriptions.head_of(key, parent_key)
    found = head.opens.match(text)
    if found is None:
        return False
    if head.whole.match(text) is not None and descriptions.is_path(key):
        return True
    if not is_end:
        if not cursor.is_whole:
            raise More
        return False
    try:
        tree = codec.loads(text)
    except codec.CodecError:
        return False
    is_description = isinstance(tree, dict) and descriptions.is_description(key, parent_key, tree)
    return is_description and descriptions.has_keywords(tree, key)


_PARENT: Final = re.compile(r'"([A-Za-z$]{1,24})"\s{0,8}:\s{0,8}\{\s{0,32}"\Z')
_CODE_IN_DATA: Final = re.compile(r"[,\[(]\s*[A-Z][A-Za-z.]*\s*[,\])]|[A-Za-z_]\w*\(")
_STRINGS: Final = re.compile(r"\"(?:[^\"\\]++|\\.|)*+\"|'(?:[^'\\]++|\\.|)*+'", re.DOTALL)
_ONE_STRING: Final = re.compile(rf"\(\s*+[bBuUrR]?(?:{_STRINGS.pattern})\s*+\)?", re.DOTALL)
_BARE_WORDS: Final = re.compile(r"(?<=[\s\[{(:,=])[^\s\"'`,;:<>()\[\]{}]+(?=[\s,\]})])")


# kinds of values


_BARE_LINE: Final = re.compile(r"\S*+")
_TO_QUOTE: Final = re.compile(r"[^\s\"'`]*+")
_PREFIXES: Final = frozenset(
    {"b", "u", "r", "f", "br", "rb", "fr", "rf", "n", "l", "u8", "e", "x", "q", "@", "$@", "$", "@$", "3d"}
)
"""Letters before a quote, compared in lower case: Python, SQL, C, PostgreSQL, Objective-C, C#, shell; `=3D` is `=` in
quoted-printable."""
_WRAPPERS: Final = re.compile(
    r"(?:(?:[A-Za-z_]+(?:\.|::))*(?:Some|Ok|Just|Secret\w*|String|Str|bytes|str|from|Password|PASSWORD|Box|Rc|Arc|of|"
    r"to_string|Buffer|(?:ConvertTo-)?SecureString|Sensitive|Redacted|Literal|literal|unquote|text|quote|"
    r"(?i:md5|sha[0-9]{1,3}|b?crypt|hashpw|password_hash|(?:generate|make|hash|encrypt)_?password(?:_hash)?))\()+[bBuUN]?"
)
"""Calls around a literal that keep or hash it."""
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
    value = cursor.at
    word = cursor.run(BARE)
    if shapes.is_random(word) and (":" in place.link or "=" not in word.rstrip("=")):
        return Take(value, Word(place.closers))
    cursor.at = start
    return _indented(cursor) if ":" in place.link and place.begins_line else None


LINE_END: Final = re.compile(r"[\r\n]*+")
_YAML_LINE: Final = re.compile(r"(?:[ \t]+(?:- +)?(?:[\"']?[\w.-]+[\"']?: +)?|- +)[\"']?([^\s\"']+)[\"']?[ \t]*")


def _indented(cursor: Cursor) -> Take | None:
    """Withhold an indented block of values or members, or a list, if one of its first lines looks like a secret."""
    cursor.run(LINE_END)
    start = cursor.at
    is_list = cursor.peek() == "-"
    for _ in range(_BLOCK_MAX_LINES):
        line = _YAML_LINE.fullmatch(cursor.run(LINE))
        if line is None:
            break
        if shapes.is_random(line[1]) or (not is_list and shapes.has_secret_shape(line[1])):
            return Take(start, Block(is_list=is_list))
        if not cursor.run(LINE_END):
            break
    return None


_BLOCK_MAX_LINES: Final = 8


def _value(cursor: Cursor, place: Place) -> Take | None:
    char = cursor.peek()
    start = cursor.at
    take = _angle(cursor) if char == "<" else None
    cursor.at = start
    if take is None and char and char in _OPENING:
        take = _symbolic(cursor, place)
    return take or _of_char(cursor, place, char)


def _of_char(cursor: Cursor, place: Place, char: str) -> Take | None:
    if char in ("&", "!") and ":" in place.link:
        cursor.run(_TAG)
        cursor.run(BLANKS)
        char = cursor.peek()
    if char in QUOTED:
        return _quoted(cursor, place, is_any=True)
    if char and char in "{[(":
        return container(cursor, place)
    if char and char in "|>" and ":" in place.link:
        return _block(cursor)
    if char == "<":
        return None
    return _bare(cursor, place)


_OPENING: Final = "{[(<>|,&!"


def _symbolic(cursor: Cursor, place: Place) -> Take | None:
    """Withhold what has the symbols of a generated password, though it begins or is cut like code."""
    start = cursor.at
    is_secret = shapes.is_symbolic(cursor.run(_TO_QUOTE)) or _has_quotes(cursor, start, place)
    cursor.at = start
    return (
        Take(start, IN_LINE if place.begins_line and place.is_variable else Word(place.closers)) if is_secret else None
    )


def _has_quotes(cursor: Cursor, start: int, place: Place) -> bool:
    """Return whether a quote inside a word is one of the symbols of a generated password."""
    quote = cursor.peek()
    if cursor.at == start or not quote or quote in place.closers or quote not in QUOTES:
        return False
    cursor.at = start
    word = cursor.run(_WITH_QUOTES)
    is_code = len(word) == _WITH_QUOTES_MAX_CHARS or _OPENING_A_STRING.search(word) is not None
    return not is_code and (shapes.is_varied(word) or shapes.is_random(_QUOTES.sub("", word)))


_OPENING_A_STRING: Final = re.compile(r"[=:(,\[][\"'`]")
_WITH_QUOTES_MAX_CHARS: Final = 40
"""Code without blanks is longer."""
_WITH_QUOTES: Final = re.compile(rf"\S{{0,{_WITH_QUOTES_MAX_CHARS}}}+")
_QUOTES: Final = re.compile(r"(?<=\w)[\"'`](?=\w)")


_BLOCK_HEAD: Final = re.compile(r"[|>+0-9-]{0,4}+")


def _block(cursor: Cursor) -> Take | None:
    """Withhold a block scalar of YAML: `|` or `>`, and indented lines."""
    cursor.run(_BLOCK_HEAD)
    cursor.run(BLANKS)
    if cursor.peek() not in ("\n", "\r"):
        return None
    cursor.run(LINE_END)
    start = cursor.at
    return Take(start, Block()) if cursor.run(BLANKS) else None


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


def _bare(cursor: Cursor, place: Place, *, is_any: bool = False) -> Take | None:
    """Decide about a value without quotes; `is_any` if only a secret can stand here."""
    start = cursor.at
    is_line = place.begins_line and place.is_variable
    word = cursor.run(_BARE_LINE if is_line else PARAMETER if place.is_parameter else BARE)
    if SCHEME.fullmatch(word + " ") is not None and cursor.run(BLANKS):
        start = cursor.at
        word = cursor.run(BARE)
    end = cursor.at
    call = cursor.run(BARE) if word == "new" and cursor.run(BLANKS) else word
    after = cursor.peek()
    if after and after in QUOTES and (call.lower() in _PREFIXES or _WRAPPERS.fullmatch(call)):
        return _quoted(cursor, place, is_any=True)
    cursor.at = end
    after = cursor.peek()
    if is_any:
        # the name of an argument in the help of a command: `--token FILE   Read it from ..`
        is_name = word.isalpha() and word.isupper() and len(cursor.run(BLANKS)) > 1
        return Take(start, Word(place.closers)) if not is_name and shapes.is_argument(word, place) else None
    before = cursor.text[start - 1 : start]
    if shapes.is_bare_secret(word, place, before, after):
        return Take(start, IN_LINE if is_line else Word(place.closers))
    cursor.at = start
    return _symbolic(cursor, place)


# further contexts


def _any_value(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a value that stands where only a secret can: behind an option or a name with a value."""
    cursor.run(BLANKS)
    char = cursor.peek()
    if len(place.link) > 1 and place.head[-1:] == "-" and char not in QUOTED:
        return _neighbour(cursor, place)  # a column of the help of a command
    if char in QUOTED:
        return _quoted(cursor, place, is_any=True)
    return _symbolic(cursor, place) or _bare(cursor, place, is_any=True)


def argument(cursor: Cursor) -> Take | None:
    """Decide about an argument that is a password, whatever it looks like: no option, and not to be filled in."""
    cursor.run(BLANKS)
    quote = cursor.peek() if cursor.peek() in QUOTED else ""
    cursor.at += len(quote)
    first = cursor.peek()
    if not first or first.isspace() or first in ("<", "[", "$", "-", quote):
        return None
    return Take(cursor.at, Quoted(quote, joins=True) if quote else Word("`;|&"))


def _neighbour(cursor: Cursor, place: Place, *, is_near: bool = True) -> Take | None:
    """Decide about the next word or column behind a key: it must look random, or `is_near` and be hexadecimal."""
    char = cursor.peek()
    start = cursor.at
    if char in QUOTED:
        return _quoted(cursor, place, is_any=False) or _second(cursor, place, start)
    word = cursor.run(_TO_QUOTE)
    if shapes.is_varied(word.rstrip(".,;:")) or _has_quotes(cursor, start, place):
        return Take(start, Word(place.closers, soft="."))
    cursor.at = start
    word = cursor.run(BARE).strip(".,;:[]{}«»“”„")
    word = word.strip("()") if word.startswith("(") else word
    is_secret = shapes.is_random(word) or (is_near and shapes.is_hex_key(word))
    return Take(start, Word(place.closers, soft=".")) if is_secret else None


def _phrase(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the words of a phrase behind a key: `password for root: ..`, `has been set to ..`; one is random."""
    between = _PHRASE_WORD if place.verdict is Verdict.SENSITIVE and place.key.lower() != "pass" else _LINKING
    is_near = True
    for _ in range(_PHRASE_MAX_WORDS):
        begin = cursor.at
        if (take := _neighbour(cursor, place, is_near=is_near)) is not None:
            return take
        cursor.at = begin
        word = cursor.run(_BARE_LINE)
        is_near = is_near and _LINKING.fullmatch(word) is not None
        if between.fullmatch(word) is None or not cursor.run(SPACES if word.endswith(":") else BLANKS):
            return None
    return None


_PHRASE_MAX_WORDS: Final = 8
_PHRASE_WORD: Final = re.compile(
    r"(?!(?i:count|limit|usage|budget|window|embedding|type|endpoint|name)[:,]?\Z)"
    r"(?:[(]?[^\W\d_]+(?:['-][^\W\d_]+)*[)]?[:,]?|(?P<quote>['\"`])[^\s'\"`]+(?P=quote)[:,]?"
    r"|[^\w\s\"'`=:]{1,8}|[:0-9])"
)
"""A plain word, perhaps in brackets or quotes, or a sign; not one that makes the key that of something else."""
_LINKING: Final = re.compile(r"(?:is|was|equals|ist|est|es|lautet|set|to):?|[-.0-9]")
"""A word of a phrase behind a verb, and what is counted in prose: `tokens`."""


def _second(cursor: Cursor, place: Place, start: int) -> Take | None:
    """Decide about the second string of a list of two, of which the first is the key: it is no name, word or text."""
    if _OPENS_A_LIST.search(place.head) is None:
        return None
    cursor.at = start
    take = _quoted(cursor, place, is_any=True)
    if take is None:
        return None
    value = cursor.text[take.start : cursor.at]
    if not shapes.is_entry(value) and not is_field(place.key, value):
        return None
    cursor.run(SLASHES)
    cursor.at = min(cursor.at + 1, len(cursor.text))
    cursor.run(SPACES)
    return take if cursor.peek() in ("]", "") else None


def _column(cursor: Cursor, place: Place) -> Take | None:
    """Withhold the lines below a heading if a word in its column looks random: their other columns are not searched."""
    found = _SEPARATOR.search(place.link) or _SEPARATOR.search(place.line)
    if found is None or any(map(shapes.is_random, _SEPARATOR.split(place.link))):
        return None
    first = cursor.at
    behind = place.link.count(found[0])
    for _ in range(_BLOCK_MAX_LINES):
        line = cursor.run(LINE)
        cells = line.removesuffix("),").split(found[0])
        is_row = len(cells) > max(behind, 1)
        word = cells[-1 - behind].strip(" \"'`*();") if is_row else ""
        if shapes.is_varied(word) or shapes.is_random(word) or shapes.is_hex_key(word):
            return Take(first, Lines())
        if not (is_row or _RULE.fullmatch(line)) or cursor.run(LINE_END) not in ("\n", "\r\n"):
            break
    return None


_SEPARATOR: Final = re.compile(r"[,;|\t]")
_RULE: Final = re.compile(r"[ +-]+")


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
    return _quoted(cursor, place, is_any=True) if char in QUOTED else None


_OPTION: Final = re.compile(r"\\*[\"'`]--?[A-Za-z]")


def mixed_string(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a string in quotes where words and names stand too."""
    start = cursor.at
    content = cursor.run(_OPEN_STRING)
    cursor.at = start
    return _string(cursor, place) if shapes.is_mixed(content.strip(QUOTES)) else None


_OPEN_STRING: Final = re.compile(r"[\"'`]?[^\"'`\s]{0,96}+")


def _markup(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the content of an element: everything up to its closing tag."""
    cursor.run(SPACES)
    if cursor.peek() == "<":
        return _angle(cursor)
    start = cursor.at
    content = cursor.run(_CONTENT)
    cursor.at = min(cursor.at + 1, len(cursor.text))
    after = cursor.peek()
    if after not in ("/", "") or shapes.is_empty(content) or shapes.is_prose(content):
        return None
    if content[0] in place.closers and not content[1:2].isalnum():
        return None  # it closes the string that the tag ends
    if not after and (shapes.is_template(content) or _PLACEHOLDER.search(place.head) is not None):
        return None
    return None if shapes.is_key_name(content.strip(), place.keys) else Take(start, Fenced("</"))


_CONTENT: Final = re.compile(r"(?:[^<]++|<(?![/!A-Za-z])|)*+")
_PLACEHOLDER: Final = re.compile(r"(?:[=:][ ]?|\(\?P?)<\Z")
"""`password=<password> host=db` and `(?P<token>[a-z]+)` have no element unless a closing tag follows."""


def _header(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value of a header, to the end of its line or of the string that holds the header."""
    cursor.run(BLANKS)
    start = cursor.at
    if cursor.peek() in QUOTED:
        return _quoted(cursor, place, is_any=True)
    word = cursor.run(_TO_QUOTE)
    name, equals, value = word.partition("=")
    if "cookie" in place.key.lower():
        is_secret = bool(equals) and _COOKIE_NAME.fullmatch(name) is not None and not shapes.is_template(value)
        return Take(start, _header_extent(place)) if is_secret else None
    if SCHEME.fullmatch(word + " ") is not None:
        cursor.run(BLANKS)
        word = cursor.run(_TO_QUOTE)
        is_short = shapes.is_name(word) and len(word) < _SCHEME_MIN_CHARS and cursor.peek() != ""
        is_secret = not (is_short or shapes.is_empty(word) or shapes.is_template(word))
        is_secret = is_secret and not shapes.is_key_name(word, place.keys)
    else:
        is_secret = (shapes.has_secret_shape(word) and not _is_reference(word, place)) or word.isdigit()
        is_secret = is_secret or (len(word) >= _ALONE_MIN_CHARS and _is_alone(cursor, word, place))
    return Take(start, _header_extent(place)) if is_secret else None


def _encoded(cursor: Cursor, place: Place) -> Take | None:
    """Decide about a string in percent-encoded quotes; what follows it in its word is withheld with it."""
    start = cursor.at
    return Take(start, Word("&")) if _is_secret_string(cursor.run(_TO_PERCENT), place, is_any=True) else None


_TO_PERCENT: Final = re.compile(r"[^\s%]*+")
_COOKIE_NAME: Final = re.compile(r"[A-Za-z0-9_.$-]{1,64}")
_SCHEME_MIN_CHARS: Final = 2
_OPENING_QUOTE: Final = re.compile(r"(\\*)([\"'`])(?:-H)?[A-Za-z-]*\Z")


def _field(cursor: Cursor, place: Place) -> Take | None:
    """Decide about the value of a header that has its own name for a secret: one word with inner capitals is one."""
    start = cursor.at
    word = cursor.run(_TO_QUOTE)
    return Take(start, _header_extent(place)) if _is_alone(cursor, word, place) else None


def _is_alone(cursor: Cursor, word: str, place: Place) -> bool:
    """Return whether a word is the whole value of a header, and looks like no plain word: it has capitals inside."""
    if cursor.peek() not in ("", "\n", "\r", *QUOTES):
        return False
    if _INNER_CAPITAL.search(word) is None and not shapes.has_secret_shape(word):
        return False
    return not (_is_reference(word, place) or shapes.is_template(word))


def _is_reference(word: str, place: Place) -> bool:
    """Return whether a word is a call, or names a secret: `config.apiKey`. Any other dotted word is a value here."""
    return shapes.is_call(word) or any(shapes.is_key_name(part, place.keys) for part in (word, *word.split(".")))


_ALONE_MIN_CHARS: Final = 16
"""A shorter word behind `Authorization` may be the name of a scheme."""
_INNER_CAPITAL: Final = re.compile(r"[a-z0-9./+~-][A-Z]")


def _header_extent(place: Place) -> End:
    quote = _OPENING_QUOTE.search(place.head)
    return Header(quote[2], len(quote[1])) if quote else IN_LINE


VALUES: Final[Mapping[str, Callable[[Cursor, Place], Take | None]]] = {
    "assigned": _assigned,
    "any": _any_value,
    "neighbour": _neighbour,
    "phrase": _phrase,
    "column": _column,
    "string": _string,
    "mixed": mixed_string,
    "markup": _markup,
    "header": _header,
    "field": _field,
    "encoded": _encoded,
}
"""Name of a kind of value in the rule files -> its decision."""


# contexts


_MACROS: Final[Mapping[str, str]] = {
    "QUOTES": r"[\"'`\\\])}]{0,16}",
    "BLANKS": r"[^\S\r\n]{0,512}",
    "SPACES": r"[\s]{0,512}",
    "GAP": r"[^\S\r\n]{1,512}",
}
"""Names in the separators of contexts."""


class _Way(NamedTuple):
    """One way of a context to stand between a key and its value."""

    context: Context
    before: re.Pattern[str] | None
    key: re.Pattern[str]
    begins: re.Pattern[str]
    """Matches where `pieces` do, or where the text ends before that is certain."""
    pieces: tuple[tuple[re.Pattern[str], int, int], ...]


@cache
def _ways() -> tuple[_Way, ...]:
    return tuple(way for context in shipped().contexts for way in _ways_of(context))


def _ways_of(context: Context) -> Iterator[_Way]:
    before = re.compile(rf"(?:{context.before})\Z") if context.before else None
    key = re.compile(context.key, re.IGNORECASE)
    for link in patterns.alternatives(context.link):
        spelled = "".join(_MACROS.get(item, item) for item in link.split(" "))
        pieces = patterns.pieces(spelled, ignore_case=True)
        begins = re.compile(patterns.sequence(pieces, may_end=True))
        yield _Way(context, before, key, begins, tuple(map(_compiled, pieces)))


@lru_cache(maxsize=1_024)
def _ways_before(chars: str) -> tuple[_Way, ...]:
    """Return the ways that may begin with two characters, or fewer at the end of a text."""
    return tuple(way for way in _ways() if way.begins.match(chars) is not None)


def _compiled(piece: patterns.Piece) -> tuple[re.Pattern[str], int, int]:
    return re.compile(f"{piece.atom}{{0,{piece.most}}}+"), piece.least, piece.most


_KEY_REST: Final = re.compile(r"[\w.\-\u2010\u2011\u0300-\u036f\u0900-\u0eff\u200b-\u200d\u00ad\ufeff]{0,64}+")
"""Letters, hyphens, accents, signs of Indic and Thai letters, and what a reader does not see."""
_KEY_MAX_CHARS: Final = 64
_ESCAPED: Final = ("n", "r", "t")
_WORD_BEFORE: Final = r"(?<![^\W\d_])(?:[^\W\d_]{1,16} )"
_FIRST_WORDS: Final = tuple(map(re.compile, ("", _WORD_BEFORE + r"\Z", _WORD_BEFORE + r"{2}\Z")))
"""What may begin a key before its last word: nothing, or one or two words (`private key`, `mot de passe`)."""
_DECIDED: Final = frozenset({"header", "markup"})
"""Kinds of values after which no other context decides."""
_PROPERTIES: Final = frozenset({"value", "default", "key", "text", "raw", "current", "equals", "eq"})
"""Last parts of dotted keys that stand for the part before them."""


def after_key(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about the value behind a sensitive word."""
    rest = cursor.run(_KEY_REST)
    # of the reversed text, because its length is unknown
    begin = before[len(before) - end_of(_KEY_REST, before[: -_KEY_MAX_CHARS - 1 : -1], 0) :]
    if begin[:1] in _ESCAPED and before[: len(before) - len(begin)].endswith("\\"):
        begin = begin[1:]  # a literal `\\n` before the key
    firsts = (words.search(before, 0, len(before) - len(begin)) for words in _FIRST_WORDS)
    for first in filter(None, firsts):
        key = (first[0] + begin + rest).strip("-.")
        if (verdict := keys.verdict(key)) is not Verdict.PLAIN:
            begin = first[0] + begin
            break
    if "." in key and key.rpartition(".")[2].lower() not in _PROPERTIES:
        verdict = keys.verdict(key.rpartition(".")[2])  # `token.position = ..` sets no token
    start = cursor.at
    ways = _ways_before(cursor.text[start : start + 2])
    if verdict is Verdict.PLAIN or len(rest) == _KEY_MAX_CHARS or not ways:
        return None
    dashes = len(begin) - len(begin.lstrip("-"))
    head, name = before[: len(before) - len(begin) + dashes], plain_letters(key)
    for way in ways:
        is_here = way.begins.match(cursor.text, start) is not None and way.key.search(name) is not None
        if not is_here or (way.before is not None and way.before.search(head) is None):
            continue
        cursor.at = start
        if cursor.sequence(way.pieces):
            place = Place(head, name, keys, verdict, plain_letters(cursor.text[start : cursor.at]))
            take = VALUES[way.context.value](cursor, place)
            if take is not None or way.context.value in _DECIDED:
                return take
    return None


# strings of a list

_ENTRY: Final = re.compile(r"[\s\S]{0,512}+")
_ENTRY_KEY: Final = re.compile(
    r"(?:[\s\S]*\s(?=-)|(?P<login>[\s\S]*(?<![A-Za-z])(?:login|account)[ \t]+\S+\s))?"
    r"\s*(?P<dashes>-{0,2})(?P<key>[\w.-]{1,64})\s*(?P<link>[=:]?)\s*"
)
"""A key, the last option of a command, or the last key of a line of netrc."""


def announces(text: str, keys: KeyRules) -> bool:
    """Return whether a string of a list is a sensitive key or option, whose value may be the next string."""
    match = _ENTRY_KEY.fullmatch(plain_letters(text)) if len(text) <= shapes.ANNOUNCE_CHARS else None
    return match is not None and keys.verdict(match["key"]) is Verdict.SENSITIVE


def entry_end(cursor: Cursor, key: str, keys: KeyRules) -> End | None:
    """Return the end of a string of a list after one that is a sensitive key; None if it is no secret."""
    content = cursor.run(_ENTRY)
    match = _ENTRY_KEY.fullmatch(plain_letters(key))
    if match is None or (content.startswith("-") and match["dashes"]):
        return None
    place = Place("", match["key"], keys)
    is_any = bool(match["login"] or match["dashes"] or match["link"])
    is_any = is_any or _HEADERS.search(place.key) is not None or is_field(place.key, content)
    is_secret = _is_secret_string(content, place, is_any=is_any) or (
        shapes.is_entry(content) and not shapes.is_key_name(content, keys)
    )
    return Rest() if is_secret else None


_HEADERS: Final = re.compile(r"(?i:authorization|cookie2?)$")
