"""Secrets that `test_redaction_draws.py` draws: samples of every format, passwords, registered values, keys in PEM."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple

from projector._resources import resource
from projector.redaction.patterns import alternatives, pieces
from projector.redaction.rule_files import FILES, MATERIAL
from projector.redaction.rules import Format, shipped

WINDOW_CHARS: Final = 6
"""Consecutive characters of a secret that must not leave."""
_MATERIAL: Final = re.compile(r"\{([a-z]+)(?::(\d{1,3}))?\}")


class Secret(NamedTuple):
    """A secret as it stands in its context, and the parts of it that must not leave: it may have a public prefix."""

    kind: str
    text: str
    parts: tuple[str, ...]

    @property
    def windows(self) -> set[str]:
        """Return each piece of the secret that counts as a leak."""
        return {part[at : at + WINDOW_CHARS] for part in self.parts for at in range(len(part) - WINDOW_CHARS + 1)}


def _samples() -> dict[str, str]:
    """Return the samples of all formats that have made-up material, by `format:<name>`, or `format:<name>/<number>`."""
    found = {}
    for name in FILES:
        for row in tomllib.loads((resource("redaction") / name).read_text(encoding="utf-8")).get("format", ()):
            for number, sample in enumerate(row["matches"]):
                if secret_of_sample(sample, Random(0)).windows:
                    found[f"format:{row['name']}" + (f"/{number}" if number else "")] = sample
    return found


def secret_of_sample(sample: str, random: Random, kind: str = "") -> Secret:
    """Return a sample of a rule file with new material; only the material is secret."""
    parts: list[str] = []

    def material(match: re.Match[str]) -> str:
        name, count = match[1], int(match[2] or len(MATERIAL.get(match[1], "")))
        if name not in MATERIAL:
            return match[0]
        alphabet = sorted(set(MATERIAL[name][: count or None]) - {"-"})
        first = MATERIAL[name][:1]
        text = first + "".join(random.choices(alphabet, k=count - 1)) if count else ""
        if name == "uuid":
            text = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))
        parts.append(text)
        return text

    text = _MATERIAL.sub(material, sample)
    hidden = parts[1:] if kind in PUBLIC_FIRST else parts
    return Secret(kind, text, tuple(part for part in hidden if len(part) >= WINDOW_CHARS))


PUBLIC_FIRST: Final[Mapping[str, str]] = {
    "format:airtable-oauth-token": "the number of the token",
    "format:azure-issued-key": "its mark comes behind 52 characters, which have left by then",
    "format:cloudflare-origin-key": "its mark comes behind 24 characters, which have left by then",
    "format:discord-webhook": "the number of the webhook",
    "format:firebase-messaging-key": "the number of the sender",
    "format:terraform-token": "the number of the token",
}
"""Format -> why the first made-up part of its sample is shown."""


SAMPLES: Final = _samples()
_ROWS: Final = {row.name: row for row in shipped().formats}
_FORMATS: Final = {kind: _ROWS[kind.removeprefix("format:").partition("/")[0]] for kind in SAMPLES}
_LATE: Final = (
    "url-token infisical-token mailgun-private-key coveo-key close-key airtable-oauth-token entra-refresh-token"
)
MARKED_LATE: Final = tuple(f"format:{name}*" for name in _LATE.split())
"""Formats with characters of their own before what marks them, as `@` and a host."""
GENERATED_FIRST: Final = frozenset(kind for kind, row in _FORMATS.items() if row.is_run)
"""Formats that are found in runs of generated characters. The first ones are shown until they look generated."""
_NEVER: Final = 1_000


def _opening(row: Format) -> re.Pattern[str]:
    """Return the expression for the anchor of a format, and what may be shown behind it.

    Of characters that may be missing, as in `[a-z]{0,6}`, none counts as one of `open_chars`.
    """
    anchors = sorted(alternatives(row.anchor), key=len, reverse=True)
    extra = max(sum(piece.most - piece.least for piece in pieces(way)) for way in alternatives(row.pattern))
    never = f"(?:{row.pattern_at_end or row.pattern})"
    some = f".{{0,{row.open_chars + extra}}}"
    return re.compile(f"(?:{'|'.join(anchors)}){never if row.open_chars > _NEVER else some}")


OPENINGS: Final = {
    kind: _opening(row)
    for kind, row in _FORMATS.items()
    if ("]{" in row.anchor or row.open_chars > WINDOW_CHARS) and "WORD" not in row.anchor
} | {"format:jetbrains-token": re.compile(r"perm:[^.]+\.[^.]+\.")}  # a user, and the name of the token
"""Formats that begin like words, or with characters of their own -> what may be shown (`open_chars`), also in several
strings of an array."""

REGISTERED: Final[Mapping[str, str]] = {
    "registered:plain": "quiet-Heron-7741-vault",
    "registered:accents": "Žluťoučký-kůň-31",
    "registered:quotes": "ba\"ck'tick\\slash-90",
    "registered:blanks": "four green mills 52",
    "registered:digits": "5829137466",
    "registered:emoji": "key😀of🔑glass",
}
"""Values that the host registers. A value may stand anywhere."""

_LETTERS: Final = string.ascii_letters
_ALPHANUMERIC: Final = _LETTERS + string.digits
_SYMBOLS: Final = _ALPHANUMERIC + "!#%*@^_+?~-"


def _word(random: Random, alphabet: str, count: int) -> str:
    return "".join(random.choices(alphabet, k=count))


def _password(alphabet: str, fewest: int, most: int) -> Callable[[Random], str]:
    def draw(random: Random) -> str:
        ends = [_word(random, _ALPHANUMERIC, 1) for _ in range(2)]
        return ends[0] + _word(random, alphabet, random.randint(fewest, most) - 2) + ends[1]

    return draw


def _letters(random: Random) -> str:
    """Return letters that change their case more often than those of a name in code, which has longer words."""
    while True:
        drawn = _password(_LETTERS, 25, 40)(random)
        if len(drawn) < _LETTERS_OF_WORD * len(_WORDS.findall(drawn)):
            return drawn


_WORDS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTERS_OF_WORD: Final = 3.5

PASSWORDS: Final[Mapping[str, Callable[[Random], str]]] = {
    "password:plain": lambda random: _word(random, _ALPHANUMERIC, 6) + "7" + _word(random, _ALPHANUMERIC, 6) + "q2",
    "password:letters": _letters,
    "password:digits": _password(string.digits, 8, 12),
    "password:safe": lambda random: (
        _word(random, _ALPHANUMERIC, 4) + "k7R" + _password(_ALPHANUMERIC + "-_.+/~", 8, 20)(random)  # no `abcde7.fgh`
    ),
    "password:symbols": lambda random: _word(random, _ALPHANUMERIC, 6) + "7" + _word(random, _SYMBOLS, 8) + "q2",
    "password:marks": lambda random: (
        _word(random, _LETTERS, 3) + "kR7" + _password(_SYMBOLS + "()=.:|", 9, 20)(random)  # `name(` would be code
    ),
    "password:dollar": lambda random: _word(random, _ALPHANUMERIC, 6) + "$" + _word(random, _ALPHANUMERIC, 8),
    "password:base64": lambda random: _word(random, _ALPHANUMERIC + "+/", 41) + "7==",
    "password:accents": lambda random: (
        _word(random, "äößéçñøłž", 4) + _word(random, _ALPHANUMERIC + "äößéç", 12) + "q7"
    ),
    "password:blanks": lambda random: " ".join(_word(random, _ALPHANUMERIC, 5) + "7" for _ in range(4)),
    "password:quotes": lambda random: "\"'\\".join(_word(random, _ALPHANUMERIC, 7) for _ in range(3)),
}
"""Passwords, known as such only by what stands before them."""


def _pem(random: Random) -> Secret:
    lines = tuple(_word(random, _ALPHANUMERIC + "+/", 64) for _ in range(3))
    return Secret("pem", "\n".join(lines), lines)


KINDS: Final = (*SAMPLES, *PASSWORDS, *REGISTERED, "pem")
"""Every kind of secret."""


def draw_secret(random: Random, kind: str) -> Secret:
    """Return a new secret of a kind; a registered value is always the same."""
    if kind in SAMPLES:
        return secret_of_sample(SAMPLES[kind], random, kind)
    if kind in PASSWORDS:
        text = PASSWORDS[kind](random)
        return Secret(kind, text, (text,))
    return _pem(random) if kind == "pem" else Secret(kind, REGISTERED[kind], (REGISTERED[kind],))
