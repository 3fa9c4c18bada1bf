"""The shipped rules: formats of credentials, and words of sensitive keys (CONTRACT D25).

The entries are data in the top-level folder `redaction/`; its README.md explains their format. The engine reads them
from `rules.json` in this folder, which `make schemas` compiles (`projector.redaction.rule_files`), because parsing TOML
would make every start a hundred times as expensive.

A key is compared in lower case and without `-`, `_`, `.` and blanks: `X-Api_Key` is `xapikey`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from projector.contracts import codec


class Format(NamedTuple):
    """One kind of credential.

    `anchor` and `pattern` are in the language of `projector.redaction.patterns`; `redaction/README.md` describes all
    fields.
    """

    name: str
    about: str
    anchor: str
    pattern: str
    source: str
    tail: str = ""
    open_chars: int = 1
    pattern_at_end: str = ""
    keep_anchor: bool = False
    ignore_case: bool = False
    inside_words: bool = False
    matches: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


class Word(NamedTuple):
    """A word that makes a key sensitive: anywhere in the key, or only as the whole key."""

    name: str
    about: str
    source: str
    where: Literal["contains", "is"] = "contains"
    matches: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


class Rules(NamedTuple):
    """The entries of rule files, in order of precedence of their formats."""

    formats: tuple[Format, ...] = ()
    words: tuple[Word, ...] = ()
    exceptions: tuple[Word, ...] = ()
    """Words that contain a sensitive one and are harmless: they are removed from a key before it is compared."""
    counts: tuple[Word, ...] = ()
    """Endings of keys that count tokens if their value is a number: `max_tokens`."""


@cache
def shipped() -> Rules:
    """Return the entries of `rules.json`, without their samples."""
    tables: Any = codec.loads((Path(__file__).parent / "rules.json").read_bytes())
    formats = tuple(Format(**row) for row in tables["formats"])
    return Rules(formats, *(tuple(Word(**row) for row in tables[name]) for name in Rules._fields[1:]))


_SEPARATORS: Final = re.compile(r"[-_.\s]+")
_MEMO_MAX_KEYS: Final = 4_096
_MEMO_KEY_CHARS: Final = 64
"""Limits of the cache of verdicts: real schemas repeat a few short keys, hostile ones must not fill the memory."""


class Verdict(Enum):
    """Effect of a key on its value."""

    PLAIN = 0
    SENSITIVE = 1
    SENSITIVE_UNLESS_NUMBER = 2


def normal_form(key: str) -> str:
    """Return the key in the form that is compared; full-width and other compatible letters become plain ones."""
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key).casefold()
    return _SEPARATORS.sub("", key.lower())


class KeyRules:
    """The key rules of a policy: the shipped words, plus what the host adds, minus those it removes."""

    def __init__(self, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        _, words, exceptions, counts = shipped()
        self._plain = frozenset(map(normal_form, remove))
        contains = [row.name for row in words if row.where == "contains"] + [normal_form(word) for word in add]
        self.words = tuple(word for word in dict.fromkeys(contains) if word and word not in self._plain)
        self._is = frozenset(row.name for row in words if row.where == "is") - self._plain
        self._exceptions = tuple(row.name for row in exceptions)
        self._count_endings = tuple(row.name for row in counts)
        self._contains = re.compile("|".join(map(re.escape, self.words)) or r"(?!)")
        self._known: dict[str, Verdict] = {}

    def verdict(self, key: str) -> Verdict:
        """Return whether the value of a key is withheld. `key` is decoded: no escapes are left in it."""
        known = self._known.get(key)
        if known is None:
            known = self._judge(normal_form(key))
            if len(key) <= _MEMO_KEY_CHARS and len(self._known) < _MEMO_MAX_KEYS:
                self._known[key] = known
        return known

    def hides(self, key: str, value: object) -> bool:
        """Return whether the value of a key is withheld: a count is shown if it is a number."""
        verdict = self.verdict(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return verdict is Verdict.SENSITIVE or (verdict is Verdict.SENSITIVE_UNLESS_NUMBER and not is_number)

    def _judge(self, form: str) -> Verdict:
        if form in self._is:
            return Verdict.SENSITIVE
        if form in self._plain:
            return Verdict.PLAIN
        rest = form
        for word in self._exceptions:
            rest = rest.replace(word, "")
        if self._contains.search(rest) is None:
            return Verdict.PLAIN
        return Verdict.SENSITIVE_UNLESS_NUMBER if form.endswith(self._count_endings) else Verdict.SENSITIVE
