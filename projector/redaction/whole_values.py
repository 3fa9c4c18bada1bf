"""Clean complete values: texts, keys, web addresses, trees (CONTRACT D25, D27, D28, D31), and search them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from projector.contracts import codec
from projector.contracts.kinds import REDACTED, NoticeType
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.redaction import descriptions
from projector.redaction.clean import (
    MARK,
    REDACTED_HERE,
    TRUNCATED_HERE,
    Cleaned,
    CleanJson,
    CleanText,
    Notice,
    bounded,
    cut_text,
    notice,
    render,
)
from projector.redaction.internals import without_internals
from projector.redaction.json_filter import string_filter, strings_of
from projector.redaction.policy import CREDENTIALS, Limits, Policy
from projector.redaction.rules import Verdict, is_value_of_pair, merged, normal_form
from projector.redaction.search import Search
from projector.redaction.spellings import Queue, Step, StepWriter, merge
from projector.redaction.strings import OPENERS, Strings, clean_plain
from projector.redaction.text_filter import Filter, TextFilter, in_pieces

_MESSAGE_MAX_CHARS: Final = 4_096
"""Characters of an error message that are read: several times as many as are shown, as names are replaced."""
AT_ONCE_MAX_CHARS: Final = 32_768
"""Longer text is read in pieces, only as far as it is shown, because a search blocks all other threads."""

# texts


def clean_message(search: Search, text: str, max_chars: int) -> Cleaned[CleanText]:
    """Return an error message without what `clean_text` and `without_internals` withhold, cut to a limit."""
    read_chars = max(_MESSAGE_MAX_CHARS, 2 * max_chars)
    cleaned = clean_text(search, text, read_chars)
    safe = str(cleaned.value)
    if len(text) > read_chars:
        safe = safe.rpartition(" ")[0]  # the last word may be part of a name
    shown = bound(without_internals(safe), max_chars)
    redacted = REDACTED_HERE if MARK.search(shown.value) else ()
    truncated = TRUNCATED_HERE if shown.notices or len(text) > read_chars else ()
    return Cleaned(shown.value, bounded([*redacted, *truncated]))


def clean_text(search: Search, text: str, max_chars: int | None = None) -> Cleaned[CleanText]:
    """Return a text without credentials, registered values and sensitive values of JSON in it, cut to a limit."""
    text = codec.scrub(text)
    return bound(text, max_chars) if is_clean(search, text) else _clean(string_filter(search, 1), text, max_chars)


def _clean_entry(strings: Strings, text: str, max_chars: int | None) -> Cleaned[CleanText]:
    """Return the next string of an array, cleaned, cut to a limit."""
    text = codec.scrub(text)
    if len(text) <= AT_ONCE_MAX_CHARS and strings.passes(text):
        return bound(text, max_chars)
    string = strings.filter()
    cleaned = _clean(string, text, max_chars)
    strings.leave(string)
    return cleaned


def clean_continued(search: Search, texts: Iterable[str], max_chars: int | None) -> list[Cleaned[CleanText]]:
    """Return texts that follow each other, as the entries of a log do, each cleaned and cut to a limit.

    Each is read as the strings of an array are, and all of them as one text, which may be a document. All entries are
    there, so nothing of a secret is shown because its end was not known yet.
    """
    strings, joined = strings_of(search), string_filter(search, 1)
    each, whole = Queue(), Queue()
    read: list[tuple[str, bool]] = []  # what was read of each text, and whether that is all
    steps: list[Step] = []
    for text in map(codec.scrub, texts):
        string = strings.filter()
        count = shown = 0
        for piece in in_pieces(text):
            found = string.feed(piece)
            each.add(found)
            whole.add(joined.feed(piece))
            count += len(piece)
            shown += sum(length for length, mark in found if mark is None)
            if max_chars is not None and shown > max_chars:
                break
        each.add(string.end())
        read.append((text[:count], count == len(text)))
        if count == len(text):
            strings.leave(string)
        else:
            whole.add(joined.end())
            strings, joined = strings_of(search), string_filter(search, 1)
        steps += merge([[whole, each]])
    whole.add(joined.end())
    steps += merge([[whole, each]])
    cleaned: list[Cleaned[CleanText]] = []
    for text, is_whole in _applied(steps, read):
        cut = bound(text, max_chars)
        truncated = cut.notices or (() if is_whole else TRUNCATED_HERE)
        cleaned.append(Cleaned(cut.value, (REDACTED_HERE if MARK.search(cut.value) else ()) + truncated))
    return cleaned


def _applied(steps: list[Step], read: list[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Yield the texts with the steps over all of them applied; a text that begins withheld has a mark of its own."""
    queue = Queue(steps)
    last = REDACTED
    for text, is_whole in read:
        parts: list[str] = []
        at = 0
        while at < len(text):
            length, mark = queue.steps[0] if queue.steps else (len(text), "")
            count = min(length, len(text) - at)
            queue.take(count)
            if mark is None:
                parts.append(text[at : at + count])
            elif mark or not at:
                last = mark or last
                parts.append(last)
            at += count
        yield "".join(parts), is_whole


def _clean(string: Filter, text: str, max_chars: int | None) -> Cleaned[CleanText]:
    writer = StepWriter()
    parts: list[str] = []
    count = 0
    for piece in in_pieces(text):
        parts.append(writer.write(string.feed(piece), piece))
        count += len(parts[-1])
        if max_chars is not None and count > max_chars:
            break
    else:
        parts.append(writer.write(string.end(), ""))
    cleaned = bound("".join(parts), max_chars)
    shows_mark = writer.marked and MARK.search(cleaned.value) is not None
    return Cleaned(cleaned.value, REDACTED_HERE + cleaned.notices) if shows_mark else cleaned


def clean_key(search: Search, text: str, max_chars: int) -> Cleaned[CleanText]:
    """Return the key of an object, cleaned; it is searched like text but never parsed as JSON."""
    text = codec.scrub(text)
    clean = clean_plain(search, text)
    key = bound(clean, max_chars)
    return key if clean == text else Cleaned(key.value, REDACTED_HERE + key.notices)


def bound(text: str, max_chars: int | None) -> Cleaned[CleanText]:
    """Truncate clean text to a limit, with a notice if it was longer."""
    if max_chars is None or len(text) <= max_chars:
        return Cleaned(CleanText(text))
    return Cleaned(CleanText(cut_text(text, max_chars)), TRUNCATED_HERE)


def is_clean(search: Search, text: str) -> bool:
    """Return whether a search shows that nothing is withheld; False if a filter is needed."""
    first = text.lstrip(" \t\r\n")[:1]
    return len(text) <= AT_ONCE_MAX_CHARS and first not in OPENERS and search.is_clean(text)


# web addresses

# The host part ends where a browser ends it: at a backslash too.
_WEB: Final = re.compile(
    r"\s*(?P<scheme>https?://)(?P<user>[^/?#\\]*@)?(?P<host>[^/?#\\]*)(?P<path>[^?#]*)(?P<parameters>.*)",
    re.IGNORECASE | re.DOTALL,
)
_READ_TIMES: Final = 2
"""Read at most this multiple of the limit of an address; a mark is rarely longer than the text that it replaces."""
_PARAMETERS: Final = re.compile(r"([?&;#])([^?&;#]*)")
_MAX_ENCODINGS: Final = 4
"""Percent-encodings on top of each other that are decoded; redirects encode an address once more each."""
_SECRET_PARAMETERS: Final = frozenset(
    {"code", "signature", "sig", "key", "sid", "otp", "hmac", "jwt", "xamzsignature", "xgoogsignature", "qsignature"}
    | {"xosssignature", "xobssignature", "cloudfrontsignature", "ticket", "samlresponse", "hdnea"}
)
"""Names of parameters that are secrets in addresses only: RFC 6749 section 4.1.2, signed addresses of object stores."""
_VALUE_OF_SECRET: Final = re.compile(r"(?=.*[0-9A-Z%_.~+/=-]).{6,}", re.DOTALL)
"""A secret in an address has six characters or more, and is not one word in lower case: `?key=name`."""


def clean_url(search: Search, url: str, max_chars: int) -> Cleaned[CleanText]:
    """Return an address without user name and password, and without the values of sensitive parameters."""
    web = _WEB.fullmatch(codec.scrub(url[: _READ_TIMES * max_chars]))
    if web is None:
        return Cleaned(CleanText(REDACTED), REDACTED_HERE)
    user = f"{REDACTED}@" if web["user"] else ""
    path = _url_part(search, web["path"], unquote(web["path"]))
    parameters = _PARAMETERS.sub(lambda part: part[1] + _url_parameter(search, part[2]), web["parameters"])
    address = web["scheme"] + user + web["host"] + path + parameters
    cleaned = clean_text(search, address, max_chars)
    notices = cleaned.notices if address == web[0].lstrip() else REDACTED_HERE + cleaned.notices
    if len(url) > _READ_TIMES * max_chars:
        notices += TRUNCATED_HERE
    return Cleaned(cleaned.value, bounded(notices))


def _url_parameter(search: Search, text: str) -> str:
    """Return one parameter of a query or fragment; its name is checked like the key of an object."""
    name, equals, value = text.partition("=")
    if not equals:  # an encoded equals sign, as in an address inside a parameter
        return _url_part(search, text, unquote_plus(text))
    key = _decoded(unquote_plus(name))
    is_secret = normal_form(key) in _SECRET_PARAMETERS and _VALUE_OF_SECRET.fullmatch(value)
    if is_secret or search.keys.verdict(key).hides_text(unquote_plus(value)):
        return f"{name}={REDACTED}"
    return name + equals + _url_part(search, value, unquote_plus(value))


def _url_part(search: Search, text: str, decoded: str) -> str:
    """Return a part of an address, or a mark if its percent-encoding, which may be double, hides a secret."""
    if text == decoded:
        return text
    return text if not any(clean_text(search, way).notices for way in {decoded, _decoded(decoded)}) else REDACTED


def _decoded(text: str) -> str:
    """Return a text without its percent-encoding, however often it was encoded, within reason."""
    for _ in range(_MAX_ENCODINGS):
        decoded = unquote(text)
        if decoded == text:
            break
        text = decoded
    return text


# trees

_MAX_BITS: Final = 13_000  # about 3,900 digits; Python refuses to write integers of more than 4,300
_INT64: Final = range(-(2**63), 2**64)
"""The integers that JSON encoders write: signed or unsigned, of 64 bits."""
_MAX_PATHS: Final = 64  # more than an event has notices; the notices that follow are of the whole tree
_NUMBERS: Final = (int, float)
_ARRAYS: Final = (list, tuple)
_OBJECTS: Final = (dict, Mapping)  # in this order, because the check for `Mapping` is slow
_CONTAINERS: Final = (*_ARRAYS, *_OBJECTS)


def clean_tree(
    value: object, limits: Limits, string_max_chars: int | None, search: Search | None = None
) -> Cleaned[CleanJson]:
    """Return a tree of JSON's types, in bounded strings, containers and depth.

    Without a search the tree was parsed from clean text and only needs its bounds.
    """
    walk = _Walk(limits, string_max_chars, search)
    tree = walk.value(value)
    return Cleaned(CleanJson(tree), bounded(walk.notices))


class _Walk:
    def __init__(self, limits: Limits, string_max_chars: int | None, search: Search | None) -> None:
        self._limits = limits
        self._string_max_chars = string_max_chars
        self._search = search
        self._numbers = search.values if search is not None and search.values.has_numbers else None
        self._path: list[str | int] = []
        self._keys: dict[str, Cleaned[CleanText]] = {}  # the objects of an array have the same ones
        self._is_described = False  # whether the object is part of a description under a sensitive key
        self.notices: dict[Notice, None] = {}  # a set in order

    def value(self, value: object) -> object:
        if isinstance(value, str):
            return self._string(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, _NUMBERS):
            return self._number(value)
        if isinstance(value, _ARRAYS):
            return self._array(value)
        if isinstance(value, _OBJECTS):
            return self._object(value)
        self._notice("redacted")  # a type of the host, whose text might contain secrets
        return None

    def _notice(self, kind: NoticeType) -> None:
        self.notices[notice(kind, render(self._path) if len(self.notices) < _MAX_PATHS else "")] = None

    def _string(self, text: str, entries: Strings | None = None) -> str:
        most = self._string_max_chars
        if self._search is None:
            text = codec.scrub(text)
            return text if most is None or len(text) <= most else self._noticed(bound(text, most))
        return self._noticed(_clean_entry(entries, text, most) if entries else clean_text(self._search, text, most))

    def _key(self, text: str) -> Cleaned[CleanText]:
        key = self._keys.get(text)
        if key is None:
            most = self._limits.key_max_chars
            key = bound(codec.scrub(text), most) if self._search is None else clean_key(self._search, text, most)
            self._keys[text] = key
        return key

    def _noticed(self, cleaned: Cleaned[CleanText]) -> str:
        for each in cleaned.notices:
            self._notice(each.type)
        return cleaned.value

    def _number(self, value: float) -> object:
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            self._notice("truncated")
            return None
        if self._numbers is not None and (mark := self._numbers.mark_of_number(repr(value))) is not None:
            self._notice("redacted")
            return mark
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return value if value in _INT64 else str(value)

    def _array(self, entries: list[object] | tuple[object, ...]) -> list[object]:
        found: list[object] = []
        most = self._max_entries()
        self._path.append(0)
        following: Strings | None = None
        for at, entry in enumerate(entries[:most]):
            self._path[-1] = at
            if self._search is not None and isinstance(entry, str):
                following = following or strings_of(self._search)
                found.append(self._string(entry, following))
            else:
                following = None if following is None or isinstance(entry, _CONTAINERS) else following
                found.append(self.value(entry))
        self._path.pop()
        if len(entries) > most:
            self._notice("truncated")
        return found

    def _object(self, members: Mapping[object, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        most = self._max_entries()
        self._path.append("")
        verdict = Verdict.PLAIN if self._search is None else self._search.keys.verdict_of_pair(members)
        for name, member in list(members.items())[:most]:
            cleaned = self._key(str(name))
            self._path[-1] = cleaned.value
            shown = self.value(member) if self._search is None else self._member(str(name), member, verdict)
            found[self._noticed(cleaned)] = shown
        self._path.pop()
        if len(members) > most:
            self._notice("truncated")
        return found

    def _member(self, name: str, member: object, pair: Verdict) -> object:
        parent = str(self._path[-2]) if len(self._path) > 1 else ""
        is_hidden = self._search is not None and self._search.keys.hides(name, member)
        if not is_hidden and self._is_described and not descriptions.is_keyword(name, parent):
            is_hidden = Verdict.SENSITIVE.hides(member)
        if not is_hidden and not (is_value_of_pair(name) and pair.hides(member)):
            return self.value(member)
        if not isinstance(member, Mapping) or not descriptions.is_description(name, parent, member):
            self._notice("redacted")
            return REDACTED
        was_described = self._is_described
        self._is_described = was_described or not descriptions.is_path(name)
        shown = self.value(member)
        self._is_described = was_described
        return shown

    def _max_entries(self) -> int:
        """Return the maximum number of entries of a container at this depth; 0 below the deepest level."""
        return self._limits.container_max_entries if len(self._path) < self._limits.container_max_depth else 0


# searches of complete texts, for recordings: nothing is held back or truncated, and the result is a list of spans

_ADDRESS: Final = re.compile(r"https?://\S*", re.IGNORECASE)


class Span(NamedTuple):
    """A part of a text, and the mark that replaces it."""

    start: int
    end: int
    mark: str


class Finder:
    """Search of complete texts, keys and numbers for data that a policy withholds; immutable.

    `pause` is called between small pieces of work, so that the caller can yield to other tasks.
    """

    def __init__(self, policy: Policy, pause: Callable[[], None] = lambda: None, secrets: Iterable[str] = ()) -> None:
        self._search = Search(policy, secrets)
        actions = policy.text_actions.items()
        masked = {name: action for name, action in actions if name != CREDENTIALS and action != "report"}
        self._classes = self._search.of_prose(masked, merged(policy.own_rules).classes)
        self.pause = pause

    def spans(self, text: str) -> list[Span]:
        """Return the withheld parts of a text: what `tool_spans` finds, and values of classes that the policy names."""
        found = self.tool_spans(text)
        if not self._classes.rows:
            return found
        personal = (
            span
            for span in spans_of(self._classes, text)
            if not any(span.start < other.end and other.start < span.end for other in found)
        )
        return sorted([*found, *personal])

    def tool_spans(self, text: str) -> list[Span]:
        """Return the credentials, registered values and sensitive values of embedded JSON in a text.

        Two halves of a surrogate pair are searched as the character that they are. A text that is a web address is
        cleaned as one: then one span covers all of it, and its mark is the clean address.
        """
        if _ADDRESS.fullmatch(text):
            address = clean_url(self._search, text, EVENT_MAX_BYTES).value
            return [] if address == text else [Span(0, len(text), address)]
        if is_clean(self._search, text):
            return []
        scrubbed = codec.scrub(text)
        string = string_filter(self._search)
        steps: list[Step] = []
        for piece in in_pieces(scrubbed):
            self.pause()
            steps += string.feed(piece)
        return _spans(steps + string.end(), range(len(text) + 1) if scrubbed == text else _positions(text))

    def key(self, key: str) -> str:
        """Return the key of an object, cleaned; it is never read as JSON."""
        return clean_plain(self._search, key)

    def hides(self, key: str, value: object) -> bool:
        """Return whether the value of a key is withheld. Null and token counts are not (D25)."""
        return self._search.keys.hides(key, value)

    def mark_of(self, number: float) -> str | None:
        """Return the mark for a number that is registered."""
        values = self._search.values
        return values.mark_of_number(repr(number)) if values.has_numbers else None


def without(text: str, spans: Iterable[Span]) -> str:
    """Return a text with marks in place of its spans. Overlapping spans get the mark of the first."""
    parts: list[str] = []
    at = 0
    for start, end, mark in sorted(spans):
        if start >= at:
            parts += (text[at:start], mark)
        at = max(at, end)
    return "".join([*parts, text[at:]])


def spans_of(search: Search, text: str) -> list[Span]:
    """Return what is withheld from a complete plain text."""
    words = TextFilter(search)
    return _spans(words.feed(text) + words.end(), range(len(text) + 1))


def _spans(steps: list[Step], positions: range | list[int]) -> list[Span]:
    """Convert steps over a text into spans. An empty mark extends the previous span; uncovered text is withheld."""
    uncovered = len(positions) - 1 - sum(count for count, _ in steps)
    found: list[Span] = []
    at = 0
    announced = ""  # the mark of a value that is read after it
    for count, mark in (*steps, (uncovered, REDACTED)):
        start, at = at, at + count
        if mark is None:
            continue
        if not count:
            announced = announced or mark
        elif not mark and not announced and found and found[-1].end == positions[start]:
            found[-1] = found[-1]._replace(end=positions[at])
        else:
            found.append(Span(positions[start], positions[at], announced or mark))
            announced = ""
    return found


_PAIR: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")


def _positions(text: str) -> list[int]:
    """Return the position of each character in a text where surrogate pairs count as two, and the text's end."""
    positions = []
    at = 0
    while at < len(text):
        positions.append(at)
        at += 2 if _PAIR.match(text, at) else 1
    return [*positions, at]
