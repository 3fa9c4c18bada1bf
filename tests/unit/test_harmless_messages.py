"""Texts of many domains without personal data: at most five of them lose anything with all classes, none by default.

The texts are drawn from templates with a seed, so they are the same in each run.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.rule_samples import CLASSES

OFTEN: Final = Redactor(Policy())
EVERY: Final = Redactor(Policy.load({"text": {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}}))
VARIANTS: Final = 8
MOST: Final = 5

TEMPLATES: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("harmless_messages.toml").read_text(encoding="utf-8")
)
"""Name -> text; the fields are drawn by `_fields`."""


def _fields(random: Random) -> Mapping[str, Callable[[], str]]:
    def number(low: int, high: int) -> str:
        return str(random.randint(low, high))

    def hexadecimal(chars: int) -> str:
        return f"{random.getrandbits(4 * chars):0{chars}x}"

    def octets(count: int, separator: str) -> str:
        return separator.join(hexadecimal(2) for _ in range(count))

    return {
        "d": lambda: number(1, 9),
        "n": lambda: number(1, 99),
        "nn": lambda: number(10, 59),
        "nnn": lambda: number(100, 255),
        "n3": lambda: number(100, 999),
        "n4": lambda: number(1_000, 9_999),
        "nnnn": lambda: number(1_000, 9_999),
        "n5": lambda: number(10_000, 99_999),
        "nnnnn": lambda: number(10_000, 99_999),
        "f": lambda: f"{random.random():.6f}",
        "h2": lambda: hexadecimal(2),
        "hash8": lambda: hexadecimal(8),
        "hash16": lambda: hexadecimal(16),
        "hash32": lambda: hexadecimal(32),
        "hash": lambda: hexadecimal(40),
        "hash64": lambda: hexadecimal(64),
        "hex16": lambda: octets(16, " "),
        "mac": lambda: octets(6, ":"),
        "mac8": lambda: octets(8, ":"),
        "mac16": lambda: octets(16, ":"),
        "uuid": lambda: "-".join(map(hexadecimal, (8, 4, 4, 4, 12))),
        "date": lambda: f"20{number(10, 29)}-{number(10, 12)}-{number(10, 28)}",
        "time": lambda: f"{number(10, 23)}:{number(10, 59)}:{number(10, 59)}",
        "word": lambda: random.choice(("parser", "cache", "router", "widget", "lexer", "loader", "socket", "banner")),
        "owner": lambda: random.choice(("acme", "docker", "octo-org", "vendor", "tools")),
        "tag": lambda: random.choice(("latest", "next", "beta", "alpha", "canary", "rc")),
    }


class _Drawn(dict[str, str]):
    """A value for each field of a template, drawn anew each time."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._made = _fields(random)

    def __getitem__(self, name: str) -> str:
        return self._made[name]()


def harmless_texts() -> Iterator[tuple[str, str]]:
    """Yield the name of each template with a text of it, and with one at the end of a sentence."""
    drawn = _Drawn(Random(10))
    for variant in range(VARIANTS):
        for name, template in TEMPLATES.items():
            text = template.format_map(drawn)
            yield name, text if variant % 2 else f"Here it is:\n\n{text}\n"


def clean(redactor: Redactor, text: str, size: int) -> str:
    stream = redactor.message_stream()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return "".join([*(stream.feed(piece).value for piece in pieces), stream.close().value])


def test_harmless_texts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [*harmless_texts()]
    lost = [(name, said) for name, text in texts if (said := clean(EVERY, text, 7)) != text]
    with capsys.disabled():
        sys.stdout.write(f"\n{len(texts)} harmless texts: all classes withhold something from {len(lost)}\n")
    assert len(texts) >= 350
    assert len(lost) <= MOST, [*islice(lost, 20)]


def test_harmless_texts_are_shown_by_default() -> None:
    assert [name for name, text in harmless_texts() if clean(OFTEN, text, 7) != text] == []
