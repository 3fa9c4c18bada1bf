"""Names of accounts and infrastructure in the error messages of providers (CONTRACT D41).

Withheld are IDs of organizations and projects, host names, IP addresses, e-mail addresses, URLs, paths of files and of
cloud resources, names of deployments and other resources, and partly masked keys. Pages of public documentation are
shown. `redaction/internals.toml` has the lists; the shapes that its pattern language cannot express are here.

Every expression begins at the start of a word and takes possessively what belongs to the word, so a search takes linear
time.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction.format_search import FormatSearch
from projector.redaction.rules import Format

_ADDRESS: Final = re.compile(
    r"""
      (?P<url>    (?<![\w+.-]) [A-Za-z][A-Za-z0-9+.-]{1,15}+ : (?:\\{0,4}/){2} (?:[^\s"'`<>]++|<redacted>|)*+ )
    | (?P<quoted> (?<![\w+.-]) [A-Za-z]{2,10}+ %3A%2F%2F [^\s"'`<>]*+ )
    | (?P<lookup> (?<![\w-]) lookup[ ] \w[\w.-]*+ (?=:|[ ]on[ ]) )
    | (?P<email>  (?<![\w.+%@-]) [\w.+%-]++ @ [\w.-]++ )
    | (?P<v6>     (?<![\w:.]) \[?+ [0-9a-f]{0,4}+ : [0-9a-f:.]{1,44}+ (?:%\w{1,15}+|)?+ \]?+ (?::\d{1,5}+|)?+ (?!\w) )
    | (?P<v4>     (?<![\d.]) \d{1,3}+ (?:\.\d{1,3}+){3} (?::\d{1,5}+|)?+ (?!\w) )
    | (?P<host>   (?<![\w.-]) \w[\w-]*+ \.[\w-]++(?:\.[\w-]++|)*+ (?::\d{1,5}+|)?+ )
    | (?P<local>  (?<![\w.-]) localhost \b (?::\d{1,5}+|)?+ )
    | (?P<port>   (?<![\w.-]) [A-Za-z][A-Za-z0-9-]*+ :\d{4,5}+ (?![\w.-]) )
    | (?P<masked> (?<![\w*-]) [\w-]*+ \*{3,}+ [\w*-]*+ )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PATH: Final = re.compile(r"""\.?/[^\s"'`<>]*+""")
"""Path behind an address without a scheme."""
_V4: Final = re.compile(r"\d{1,3}+(?:\.\d{1,3}+){3}")
_QUERY: Final = re.compile(r"([?#]).++", re.DOTALL)
_WITHHELD_QUERY: Final = rf"\g<1>{REDACTED}"
_ENDING: Final = ".,;:!?)]}\\"
"""Characters that belong to the sentence if a URL ends with them."""
_LINE_CHARS: Final = frozenset("\t\n\r")
_WORD: Final = r"\w[\w-]*+(?:[.&][\w-]++|)*+"
_ID_CHARS: Final = re.compile(r"[\d_.-]")


class Internals(NamedTuple):
    """The lists of `redaction/internals.toml`."""

    identifiers: tuple[Format, ...] = ()
    resources: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    public_hosts: tuple[str, ...] = ()


def without_internals(text: str) -> str:
    """Return a text with names of accounts and infrastructure replaced."""
    return _shipped().clean(_plain(text))


def _plain(text: str) -> str:
    """Return a text without invisible characters, and with compatible letters and digits as plain ones."""
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFKC", text)
    return "".join(char for char in text if char in _LINE_CHARS or unicodedata.category(char)[0] != "C")


class InternalsFilter:
    """The compiled lists."""

    def __init__(self, internals: Internals) -> None:
        self._identifiers = FormatSearch(internals.identifiers, (), at_end=True)
        self._tails = {row.name: re.compile(f"{row.tail}*+") for row in internals.identifiers}
        self._domains = frozenset(internals.domains)
        self._public_hosts = frozenset(internals.public_hosts)
        self._owned = frozenset(internals.owned)
        self._named = _names_after(internals.resources)

    def clean(self, text: str) -> str:
        """Return a text with all names replaced."""
        return self._named.sub(self._name, self._without_addresses(self._without_identifiers(text)))

    def _without_identifiers(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        while (found := self._identifiers.first(text, at)) is not None and found.row is not None:
            parts += (text[at : found.withheld], REDACTED)
            tail = self._tails[found.row.name].match(text, found.end)
            at = tail.end() if tail else found.end
        return "".join((*parts, text[at:]))

    def _without_addresses(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        while (found := _ADDRESS.search(text, at)) is not None:
            kind, start, end = str(found.lastgroup), *found.span()
            shown = self._shown(kind, found[0])
            if shown == REDACTED and kind in _WITH_PATH and (path := _PATH.match(text, end)) is not None:
                end = path.end()
            parts += (text[at:start], shown)
            at = end
        return "".join((*parts, text[at:]))

    def _shown(self, kind: str, address: str) -> str:
        ending = address[len(address.rstrip(_ENDING)) :]
        address = address.removesuffix(ending)
        if kind == "url":
            return self._public_url(address) + ending
        if kind == "v6" and not _is_v6(address + ending):
            return address + ending
        if kind == "host":
            host = address.partition(":")[0].lower().rstrip(".-")
            is_name = host.rpartition(".")[2] in self._domains or _V4.search(host) is not None
            if host in self._public_hosts or not is_name:
                return address + ending
        return f"lookup {REDACTED}" if kind == "lookup" else REDACTED

    def _public_url(self, url: str) -> str:
        scheme, mark, rest = url.partition("://")
        host = rest.partition("/")[0].lower()
        if mark and scheme.lower() in {"http", "https"} and host in self._public_hosts:
            return f"{scheme}://{_QUERY.sub(_WITHHELD_QUERY, rest)}"
        return REDACTED

    def _name(self, match: re.Match[str]) -> str:
        """Return a resource with its name replaced, if what follows it is a name."""
        word, label, mark, quoted, bare = match.group("word", "label", "mark", "quoted", "bare")
        mark = mark.strip(" \t\"'`\\")
        is_sure = bool(label) or mark == "=" or (mark == ":" and " ".join(word.lower().split()) in self._owned)
        if not (quoted or (quoted is None and (is_sure or _ID_CHARS.search(bare) is not None))):
            return match[0]
        start, end = (at - match.start() for at in match.span("bare" if quoted is None else "quoted"))
        return match[0][:start] + REDACTED + match[0][end:]


_WITH_PATH: Final = frozenset({"v4", "v6", "host", "local", "port"})


def _is_v6(text: str) -> bool:
    """Return whether a text that looks like an IPv6 address is one; a time of day is not."""
    address = text.strip("[").partition("]")[0].rstrip(".:") if text.startswith("[") else text.rstrip(".")
    try:
        ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return False
    return True


def _names_after(words: tuple[str, ...]) -> re.Pattern[str]:
    r"""Return the expression for a resource and the name that follows it.

    Names are quoted, or words; further words belong to a name if they begin with a capital letter.
    """
    names = "|".join(re.escape(word).replace(r"\ ", r"[ _-]?") for word in sorted(words, key=len, reverse=True))
    return re.compile(
        rf"""
        (?<![\w-]) (?P<word>(?i:{names})) s?+ (?:(?P<label>[ _-]?(?i:ids?|names?|named|called)(?!\w))|)?+
        (?P<mark> \\{{0,4}}+ ["'`]?+ [ \t]{{0,4}}+ [:=]?+ [ \t]{{0,4}}+ ) (?<!\w)
        (?: \\{{0,4}}+ (?P<quote>["'`]) (?P<quoted>[^"'`\\<]{{0,256}}+)
          | (?P<bare>{_WORD}(?:[ ](?=[A-Z]){_WORD}|){{0,4}}+) )
        """,
        re.VERBOSE,
    )


@cache
def _shipped() -> InternalsFilter:
    tables: Any = codec.loads((Path(__file__).parent / "internals.json").read_bytes())
    rows = tuple(Format(**row) for row in tables.pop("identifiers"))
    return InternalsFilter(Internals(rows, **{name: tuple(words) for name, words in tables.items()}))
