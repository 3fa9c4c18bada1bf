"""Drawn texts and cuts of `test_cuts.py`, and the reduction of a case that fails."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from tests.rule_samples import CLASSES, CONTEXTS, FORMATS

Deltas: TypeAlias = tuple[str, ...]

REGISTERED: Final = {
    "": "quiet-Heron-7741-vault",
    "vault": "four green\n\nmills 52",
    "json": '{"k": "zQ-88\\n1"}',
}
"""ID of a registered value -> the value; the first has none."""
SECRETS: Final = ("mopane-Zq8RtB1nVt5K0aWe", "quartz/lamp+Tq8RzV1nYt5K")
"""Keys of the configuration of a server."""

_VALUES: Final = ("hunter2hunter2", "kT9vQ2xW7pLmZ4", "aILY<8abM", "pa{Y}ss;9w", 'q"uo\\t3e', "two words 9")
_WORDS: Final = ("password", "DB_PASSWORD", "api_key", "X-Auth-Token", "client secret", "token", "пароль", "bearer")
_LINKS: Final = (
    *("=", ": ", " = '", '="', '": "', ":", " => ", " is ", " ", "\n", "** ", ": |\n  ", "=\\n", "%3D", "\\u003d"),
)
_FILLER: Final = (
    *(" the ", "word", ". ", ",", " a", "\n", "\n\n", "é", " “so” ", "😀", "12", "7.5 ", "/", "-", "_", "x", "e"),
    *("4", "@"),
    *(" e.g. ", "icon@2x.png ", "v4.2.0 ", "f00d::cafe:1 ", "```\n", "`", '"', "'", "{", "}", "[", "=", "&", "<"),
    *(">", "\\"),
    *("<b>", "\t", "  ", "(", ")", "**", "~~~\n", "https://example.org/a?b=c ", "deadbeef", "$X", "%", ";", "#"),
    "<<EOF\n",
)
_ESCAPES: Final = (
    *("\\n", "\\t", "\\u0020", "%20", "&#64;", "\x1b[0m", "\x1b[31m", "\u200b", "\u00ad", "\\_", "\\x20", "&nbsp;"),
    *("\\r\\n", "\\\\n", "\\u003a", "%3A", "%0A", "&#x20;", "&amp;", "\\/", "\\u2003", "\u00a0", "\\", "\\u00"),
    *("%2", "&#"),
)


def _inserted(text: str, random: Random, what: str) -> str:
    at = random.randint(0, len(text))
    return text[:at] + what + text[at:]


_DISGUISES: Final[tuple[Callable[[str, Random], str], ...]] = (
    *[lambda text, _random: text] * 7,
    lambda text, _random: json.dumps(text),
    lambda text, _random: json.dumps({"a": text}, ensure_ascii=False),
    lambda text, _random: json.dumps(json.dumps([text]))[1:-1],
    lambda text, _random: quote(text, safe=""),
    lambda text, _random: html.escape(text),
    lambda text, _random: text.replace("_", "\\_").replace("*", "\\*"),
    lambda text, _random: "".join(f"\\u{ord(char):04x}" for char in text),
    lambda text, random: _inserted(text, random, random.choice(_ESCAPES)),
    lambda text, random: _inserted(text, random, random.choice(("\u200b", "\u00ad", "\x1b[1m"))),
    lambda text, random: text[: random.randint(0, len(text))],
    lambda text, random: text[random.randint(0, len(text)) :],
)


def _assignment(random: Random) -> str:
    return random.choice(_WORDS) + random.choice(_LINKS) + random.choice(_VALUES)


_HARMLESS: Final = [
    *(text for row in FORMATS for text in row.harmless),
    *(text for row in CLASSES for text in row.harmless),
    *(text for row in CONTEXTS for text in row.harmless),
]
_SAMPLES: Final[tuple[Callable[[Random], str], ...]] = (
    lambda random: random.choice(random.choice(FORMATS).matches or ("",)),
    lambda random: random.choice(random.choice(CLASSES).matches),
    lambda random: random.choice(random.choice(CONTEXTS).matches),
    lambda random: random.choice(_HARMLESS),
    lambda random: random.choice((*REGISTERED.values(), *SECRETS)),
    _assignment,
)


def draw_text(random: Random) -> str:
    """Return a text with samples, escapes and harmless words."""
    parts = []
    for _ in range(random.randint(1, 4)):
        chance = random.random()
        if chance < _CHANCE_OF_A_SAMPLE:
            sample = random.choice(_SAMPLES)(random)[:_SAMPLE_MAX_CHARS]
            parts.append(random.choice(_DISGUISES)(sample, random))
        else:
            parts.append(random.choice(_ESCAPES if chance > _CHANCE_OF_FILLER else _FILLER))
    return "".join(parts)


_CHANCE_OF_A_SAMPLE: Final = 0.5
_CHANCE_OF_FILLER: Final = 0.75
_SAMPLE_MAX_CHARS: Final = 160


def pieces(text: str, edges: list[int] | range) -> Deltas:
    """Return the text cut at some places."""
    return tuple(text[start:end] for start, end in pairwise(sorted({0, *edges, len(text)})))


def random_cut(text: str, random: Random) -> Deltas:
    """Return the text in a few pieces, in single characters, or in words, as models write it."""
    chance = random.random()
    if chance < _CHANCE_OF_CHARACTERS:
        return tuple(text)
    if chance < _CHANCE_OF_WORDS:
        return tuple(_WORD.findall(text))
    return pieces(text, [random.randint(0, len(text)) for _ in range(random.randint(1, 5))])


_WORD: Final = re.compile(r" ?[^ ]+| ")
_CHANCE_OF_CHARACTERS: Final = 0.15
_CHANCE_OF_WORDS: Final = 0.4


class Case(NamedTuple):
    """Texts as lists of deltas, where they stand, and the policy."""

    policy: str
    place: str
    texts: tuple[Deltas, ...]


class Failure(NamedTuple):
    """What differs: a kind, and what the text is with and without cuts."""

    kind: str
    expected: object
    got: object


Check: TypeAlias = Callable[[Case], Failure | None]


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with less: without a text, with fewer cuts, with shorter deltas."""
    texts = case.texts
    for at in range(len(texts) if len(texts) > 1 else 0):
        yield case._replace(texts=texts[:at] + texts[at + 1 :])
    for at, deltas in enumerate(texts):
        for number in range(len(deltas) - 1):
            merged = (*deltas[:number], deltas[number] + deltas[number + 1], *deltas[number + 2 :])
            yield case._replace(texts=(*texts[:at], merged, *texts[at + 1 :]))
        for number, delta in enumerate(deltas):
            size = len(delta)
            while size:
                for start in range(0, len(delta), size):
                    shorter = delta[:start] + delta[start + size :]
                    less = (*deltas[:number], *([shorter] if shorter else []), *deltas[number + 1 :])
                    yield case._replace(texts=(*texts[:at], less, *texts[at + 1 :]))
                size //= 2


def reduced(case: Case, check: Check, most: int = 3_000) -> tuple[Case, Failure | None]:
    """Return the smallest case with a failure of the same kind that is found with some checks."""
    failure = check(case)
    kind = failure.kind if failure else ""
    left = most
    is_smaller = True
    while is_smaller and left:
        is_smaller = False
        for candidate in _smaller(case):
            left -= 1
            now = check(candidate)
            if now is not None and now.kind == kind:
                case, failure, is_smaller = candidate, now, True
                break
            if not left:
                break
    return case, failure
