"""Decisions about strings in quotes, and about containers, which are withheld if a string in them is a secret."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from projector.contracts import codec
from projector.redaction import descriptions, value_shapes
from projector.redaction.cursor import Cursor, More
from projector.redaction.rules import Verdict
from projector.redaction.value_extents import Balanced, Extent, Fenced, Quoted
from projector.redaction.value_places import QUOTES, SLASHES, Place, Take, is_key_name


def quoted(cursor: Cursor, place: Place, *, is_any: bool) -> Take | None:
    """Decide about a string in quotes; `is_any` if it need not have the shape of a secret."""
    slashes = cursor.run(SLASHES)
    quote = cursor.peek()
    if quote and place.head.endswith(slashes + quote) and _closes(place, slashes, quote):
        return None  # it closes the string that holds the key
    if not quote or quote not in QUOTES:
        return None
    cursor.at += 1
    if not slashes and cursor.sequence(_triples(quote)):
        extent: Extent = Fenced(quote * 3)
    else:
        extent = _string(quote, len(slashes))
    content = _content(cursor, extent)
    is_closed = cursor.peek() == quote or (slashes and cursor.peek() == "\\")
    is_cut_off = not is_closed and cursor.at == len(cursor.text)
    is_any = is_any and bool(is_closed or is_cut_off or len(content) >= _LONG_CHARS)
    if not is_secret_string(content, place, is_any=is_any) and not (is_any and is_cut_off and content.isalpha()):
        return None
    start = cursor.at - len(content)
    extent = Fenced(quote * 3) if isinstance(extent, Fenced) else _string(quote, len(slashes))
    return Take(start, extent)


def _string(quote: str, escapes: int) -> Quoted:
    return Quoted(quote, escapes, many_lines=quote == "`", doubles=quote == "'")


_LONG_CHARS: Final = 64


def _closes(place: Place, slashes: str, quote: str) -> bool:
    """Return whether a quote closes the string that its key opens: it is escaped alike, and none is behind the key."""
    before = place.head[: len(place.head) - len(slashes + quote)]
    return not before.endswith("\\") and not place.link.lstrip("\\").startswith(quote)


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
        count = count if isinstance(extent, Quoted) and extent.ends_with(text[count:]) else len(text)
    cursor.at += count
    return text[:count]


def is_secret_string(content: str, place: Place, *, is_any: bool) -> bool:
    """Return whether the content of a string is a secret; `is_any` if it need not look random."""
    scheme = SCHEME.match(content)
    text = content[scheme.end() :] if scheme else content
    if (
        value_shapes.is_address(text)
        or value_shapes.begins_key_file(text)
        or value_shapes.is_empty(text)
        or value_shapes.is_template(text)
        or value_shapes.is_prose(text)
    ):
        return False
    if place.verdict is Verdict.SENSITIVE_UNLESS_NUMBER and text.strip().isdigit():
        return False
    text = text.strip()
    if not is_any:
        return value_shapes.is_random(text)
    if "\n" in text:
        return any(map(value_shapes.is_random, text.split()))
    return not value_shapes.is_short_word(text) and not is_key_name(text, place.keys)


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
    is_data = place.link[:1] in ("\\", *QUOTES) and text[0] != "("
    is_data = is_data and _CODE_IN_DATA.search(_STRINGS.sub('""', text)) is None
    is_data = is_data or ((is_end or cursor.is_whole) and _ONE_STRING.fullmatch(text) is not None)
    at = start
    while (found := _STRING.search(cursor.text, at, end if is_end else len(cursor.text))) is not None:
        inner = Cursor(cursor.text, is_whole=cursor.is_whole or is_end)
        inner.at = found.start()
        if quoted(inner, place, is_any=is_data) is not None:
            return Take(start, Balanced())
        at = max(inner.at, found.end()) + 1
    if not is_end and not cursor.is_whole:
        raise More
    is_list = text.startswith("[[") and any(map(value_shapes.is_random, _BARE_WORDS.findall(text)))
    is_list = is_list or (is_data and any(map(value_shapes.has_secret_shape, _BARE_WORDS.findall(text))))
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
    return isinstance(tree, dict) and descriptions.is_shown(key, parent_key, tree)


_PARENT: Final = re.compile(r'"([A-Za-z$]{1,24})"\s{0,8}:\s{0,8}\{\s{0,32}"\Z')
_CODE_IN_DATA: Final = re.compile(r"[,\[(]\s*[A-Z][A-Za-z.]*\s*[,\])]|[A-Za-z_]\w*\(")
_STRINGS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'", re.DOTALL)
_ONE_STRING: Final = re.compile(rf"\(\s*+[bBuUrR]?(?:{_STRINGS.pattern})\s*+\)?", re.DOTALL)
_BARE_WORDS: Final = re.compile(r"(?<=[\s\[{(:,=])[^\s\"'`,;:<>()\[\]{}]+(?=[\s,\]})])")
