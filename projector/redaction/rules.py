"""Which keys are sensitive (CONTRACT D25): one row for each word.

A key is compared after lower-casing and without `-`, `_`, `.` and blanks, so that `X-Api_Key` is `xapikey`. The rows
of `projector.redaction.formats` are the other half: what a secret looks like wherever it stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from typing import Final, Literal, NamedTuple


class KeyRule(NamedTuple):
    """A word that makes a key sensitive: wherever it stands in the key, or only where it is the whole key."""

    word: str
    where: Literal["contains", "is"]
    about: str
    example: str


KEY_RULES: Final = (
    KeyRule("apikey", "contains", "keys of an API", "X-Api-Key"),
    KeyRule("authorization", "contains", "the HTTP header and its copies", "Proxy-Authorization"),
    KeyRule("token", "contains", "bearer, refresh, session and other tokens", "refresh_token"),
    KeyRule("secret", "contains", "client secrets and signing secrets", "clientSecret"),
    KeyRule("password", "contains", "passwords", "db.password"),
    KeyRule("passwd", "contains", "passwords, as Unix spells them", "MYSQL_PASSWD"),
    KeyRule("passphrase", "contains", "what opens a private key", "key_passphrase"),
    KeyRule("credential", "contains", "credentials of any kind", "aws_credentials"),
    KeyRule("privatekey", "contains", "private halves of key pairs", "private_key"),
    KeyRule("accesskey", "contains", "keys of cloud accounts", "AWS_ACCESS_KEY_ID"),
    KeyRule("cookie", "contains", "cookies carry sessions", "Set-Cookie"),
    KeyRule("sessionid", "contains", "whoever has the id has the session", "PHP-SESSION-ID"),
    KeyRule("auth", "is", "the short name of credentials in clients", "auth"),
    KeyRule("pwd", "is", "the short name of a password", "pwd"),
)

COUNT_ENDINGS: Final = ("tokens", "tokencount")
"""A key that ends so and holds a number counts tokens: `max_tokens` (CONTRACT D25)."""

NO_SECRETS: Final = ("tokenizer",)
"""Words that contain a sensitive one and are none: they are taken out before a key is compared."""

_SEPARATORS: Final = re.compile(r"[-_.\s]+")


class Verdict(Enum):
    """What a key says about its value."""

    PLAIN = 0
    SENSITIVE = 1
    SENSITIVE_UNLESS_NUMBER = 2


def normal_form(key: str) -> str:
    """Give the key as rules compare it; full-width and other compatible letters count as the plain ones."""
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key).casefold()
    return _SEPARATORS.sub("", key.lower())


class KeyRules:
    """The rules of a policy, compiled: built-in words, plus what the host adds, minus what it removes."""

    def __init__(self, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        self._plain = frozenset(map(normal_form, remove))
        contains = [row.word for row in KEY_RULES if row.where == "contains"] + [normal_form(word) for word in add]
        self.words = tuple(word for word in dict.fromkeys(contains) if word and word not in self._plain)
        self._is = frozenset(row.word for row in KEY_RULES if row.where == "is") - self._plain
        self._contains = re.compile("|".join(map(re.escape, self.words)) or r"(?!)")
        self._seen: dict[str, Verdict] = {}

    def verdict(self, key: str) -> Verdict:
        """Say whether the value of a key is withheld. `key` is decoded: no escapes are left in it."""
        known = self._seen.get(key)
        if known is None:
            known = self._judge(normal_form(key))
            if len(key) <= _MEMO_KEY_CHARS and len(self._seen) < _MEMO_MAX_KEYS:
                self._seen[key] = known
        return known

    def _judge(self, form: str) -> Verdict:
        if form in self._is:
            return Verdict.SENSITIVE
        if form in self._plain:
            return Verdict.PLAIN
        rest = form
        for word in NO_SECRETS:
            rest = rest.replace(word, "")
        if self._contains.search(rest) is None:
            return Verdict.PLAIN
        return Verdict.SENSITIVE_UNLESS_NUMBER if form.endswith(COUNT_ENDINGS) else Verdict.SENSITIVE


_MEMO_MAX_KEYS: Final = 4_096
_MEMO_KEY_CHARS: Final = 64
"""Real schemas repeat a few short keys for ever; hostile ones must not fill the memory."""
